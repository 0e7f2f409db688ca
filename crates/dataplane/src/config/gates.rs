//! Parameters of saturation detectors and admitters.

use super::document::Value;
use super::options::BuildOptions;
use super::reading::{Reading, Roles, only};
use super::role::{Role, Sees};
use crate::admission::{LatencySloAdmitter, ProbabilisticAdmitter};
use crate::saturation::{ConcurrencyDetector, ConcurrencyMode, UtilizationDetector};

/// Detector, and filter where a profile lists it.
pub(super) fn utilization(reading: &mut Reading<'_>) -> Roles {
    let default = UtilizationDetector::default();
    let staleness = "metricsStalenessThreshold";
    let detector = UtilizationDetector {
        queue_depth: reading.positive("queueDepthThreshold", default.queue_depth)?,
        kv_usage: reading.positive("kvCacheUtilThreshold", default.kv_usage)?,
        staleness: reading
            .fields
            .or(staleness, default.staleness, Value::duration)?,
        headroom: reading.non_negative("headroom", 0.0)?,
        ..default
    };
    let make = move |options: &BuildOptions| UtilizationDetector {
        unseen: options.unseen,
        ..detector
    };
    Ok(vec![
        Role::filter(detector),
        Role::detector(Sees::Scrapes, make),
    ])
}

/// Detector, and filter where a profile lists it.
pub(super) fn concurrency(reading: &mut Reading<'_>) -> Roles {
    let default = ConcurrencyDetector::default();
    let modes = [
        ("requests", ConcurrencyMode::Requests),
        ("tokens", ConcurrencyMode::Tokens),
        ("hybrid", ConcurrencyMode::Hybrid),
    ];
    let detector = ConcurrencyDetector {
        mode: reading.choice("concurrencyMode", default.mode, &modes)?,
        max_requests: reading.capacity("maxConcurrency", default.max_requests)?,
        max_tokens: reading.capacity("maxTokenConcurrency", default.max_tokens)?,
        headroom: reading.non_negative("headroom", 0.0)?,
        producer: reading.in_flight_producer()?,
        ..default
    };
    Ok(vec![
        Role::filter(detector.clone()),
        Role::detector(Sees::LiveCounters, move |_| detector.clone()),
    ])
}

pub(super) fn probabilistic(reading: &mut Reading<'_>) -> Roles {
    let default = ProbabilisticAdmitter::default();
    only(Role::admitter(ProbabilisticAdmitter {
        queue_depth: reading.positive("queueDepthThreshold", default.queue_depth)?,
        kv_usage: reading.positive("kvCacheUtilThreshold", default.kv_usage)?,
        power: reading.positive("power", default.power)?,
        k: reading.positive("k", default.k)?,
    }))
}

pub(super) fn latency_slo(reading: &mut Reading<'_>) -> Roles {
    reading.need_predictions();
    only(Role::admitter(LatencySloAdmitter::default()))
}

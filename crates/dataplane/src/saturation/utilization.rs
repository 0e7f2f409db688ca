//! [`UtilizationDetector`]: saturation by what the engines report.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{Positive, RequestView};

use super::{Aggregate, SaturationDetector};
use crate::pipeline::Filter;
use crate::pipeline::filters::retain_or_all;
use crate::view::{EndpointView, GatewayContext};

/// Goes by the queues and the KV usage that engines report (llm-d's `utilization-detector`).
///
/// The load of an endpoint is max(waiting / [`queue_depth`](Self::queue_depth), KV usage /
/// [`kv_usage`](Self::kv_usage)); one whose metrics are stale, or were never read, counts exactly 1.
/// The saturation is the [`aggregate`](Self::aggregate) of the loads, and 1 without endpoints.
/// [`headroom`](Self::headroom) plays no part in it.
///
/// As a filter it keeps the endpoints with fresh metrics whose queue and KV usage both lie below
/// threshold · (1 + headroom). With none of those it **fails open**: all candidates stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UtilizationDetector {
    /// Waiting requests that make an endpoint full (`queueDepthThreshold`); 5 by default.
    pub queue_depth: Positive,
    /// Share of KV blocks in use that makes an endpoint full (`kvCacheUtilThreshold`); 0.8 by
    /// default.
    pub kv_usage: Positive,
    /// Metrics older than this are stale (`metricsStalenessThreshold`); 200 ms by default.
    pub staleness: SimDuration,
    /// By how much the filter is more generous than the thresholds (`headroom`); 0 by default.
    pub headroom: f64,
    /// From loads to saturation; the mean by default, and nothing else in llm-d.
    pub aggregate: Aggregate,
    /// What it makes of requests that the metrics cannot show yet.
    pub unseen: Unseen,
}

/// What a detector makes of requests that the gateway sent since an endpoint's metrics last came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unseen {
    /// Nothing (llm-d v0.10).
    #[default]
    Ignored,
    /// They count as waiting (proposed for llm-d's flow control in its pull request 2066).
    Waiting,
}

impl Default for UtilizationDetector {
    fn default() -> Self {
        Self {
            queue_depth: Positive::new(5.0).expect("5 is above 0"),
            kv_usage: Positive::new(0.8).expect("0.8 is above 0"),
            staleness: SimDuration::from_millis(200),
            headroom: 0.0,
            aggregate: Aggregate::Mean,
            unseen: Unseen::Ignored,
        }
    }
}

impl UtilizationDetector {
    fn load(&self, endpoint: &EndpointView, now: SimTime) -> f64 {
        if !self.is_fresh(endpoint, now) {
            return 1.0;
        }
        let load = utilization(endpoint, self.queue_depth, self.kv_usage);
        let unseen = match self.unseen {
            Unseen::Ignored => 0,
            Unseen::Waiting => endpoint.sent_since_observed,
        };
        let waiting = f64::from(endpoint.queued) + f64::from(unseen);
        load.max(waiting / self.queue_depth.get())
    }

    fn is_fresh(&self, endpoint: &EndpointView, now: SimTime) -> bool {
        endpoint
            .observed_at
            .is_some_and(|at| now.saturating_since(at) <= self.staleness)
    }

    fn has_room(&self, endpoint: &EndpointView, now: SimTime) -> bool {
        let generosity = 1.0 + self.headroom;
        self.is_fresh(endpoint, now)
            && f64::from(endpoint.queued) < self.queue_depth.get() * generosity
            && endpoint.kv_usage < self.kv_usage.get() * generosity
    }
}

/// What an endpoint reports, against the thresholds; the larger of the two counts.
pub(crate) fn utilization(
    endpoint: &EndpointView,
    queue_depth: Positive,
    kv_usage: Positive,
) -> f64 {
    let queue = f64::from(endpoint.queued) / queue_depth.get();
    queue.max(endpoint.kv_usage / kv_usage.get())
}

impl SaturationDetector for UtilizationDetector {
    fn saturation(&mut self, pool: &[usize], cx: &mut GatewayContext<'_>) -> f64 {
        let loads = pool
            .iter()
            .map(|&position| self.load(&cx.endpoints[position], cx.now));
        self.aggregate.of(loads)
    }
}

impl Filter for UtilizationDetector {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        retain_or_all(candidates, |position| {
            self.has_room(&cx.endpoints[position], cx.now)
        });
    }
}

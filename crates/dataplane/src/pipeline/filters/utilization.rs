//! [`UtilizationFilter`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::retain_or_all;
use crate::pipeline::Filter;
use crate::signals::{IN_FLIGHT_LOAD, attribute};
use crate::view::GatewayContext;

/// llm-d's `utilization-filter`: endpoints of which no metric is above its limit. A missing value counts
/// 0. Nobody may be left, unless `fallback_on_empty` is set.
#[derive(Debug, Clone, PartialEq)]
pub struct UtilizationFilter {
    /// What must hold, all of it.
    pub conditions: Vec<Condition>,
    /// Whether it fails open; not by default.
    pub fallback_on_empty: bool,
    /// The producer that counts active requests.
    pub producer: Arc<str>,
}

/// A limit of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// The metric.
    pub metric: UtilizationMetric,
    /// The largest value that is kept.
    pub max_value: f64,
}

/// What a [`UtilizationFilter`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UtilizationMetric {
    /// `active-requests`: requests in flight, counted by the gateway.
    ActiveRequests,
    /// `running-requests`: as the engine reports.
    RunningRequests,
    /// `waiting-queue`: requests that wait in the engine, as it reports.
    WaitingQueue,
    /// `kv-cache-utilization`: share of the KV cache in use, 0 to 1.
    KvCacheUtilization,
}

impl UtilizationFilter {
    /// Keeps endpoints that satisfy all conditions.
    pub fn new(conditions: impl IntoIterator<Item = Condition>) -> Self {
        Self {
            conditions: conditions.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl Default for UtilizationFilter {
    fn default() -> Self {
        Self {
            conditions: Vec::new(),
            fallback_on_empty: false,
            producer: IN_FLIGHT_LOAD.into(),
        }
    }
}

impl Filter for UtilizationFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        let in_flight = cx.signals.in_flight.column(&self.producer);
        let value = |metric, position: usize| {
            let endpoint = &cx.endpoints[position];
            match metric {
                UtilizationMetric::ActiveRequests => {
                    attribute(in_flight, position).map_or(0.0, |load| load.requests as f64)
                }
                UtilizationMetric::RunningRequests => f64::from(endpoint.running),
                UtilizationMetric::WaitingQueue => f64::from(endpoint.queued),
                UtilizationMetric::KvCacheUtilization => endpoint.kv_usage,
            }
        };
        let satisfied = |position: usize| {
            let mut conditions = self.conditions.iter();
            conditions.all(|condition| value(condition.metric, position) <= condition.max_value)
        };
        if self.fallback_on_empty {
            retain_or_all(candidates, satisfied);
        } else {
            candidates.retain(|&position| satisfied(position));
        }
    }
}

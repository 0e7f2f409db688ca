//! [`ProbabilisticAdmitter`]: sheds the more, the fuller the pool.

use foretoken_workload::{Positive, RequestView};

use super::{Admitter, Verdict};
use crate::saturation::{Aggregate, utilization};
use crate::view::GatewayContext;

/// Sheds requests of negative priority with a probability that rises steeply with the load (llm-d's
/// `probabilistic-admitter`).
///
/// p = min(k · s^power, 1), where s is the mean over the endpoints of max(waiting /
/// [`queue_depth`](Self::queue_depth), KV usage / [`kv_usage`](Self::kv_usage)). Metrics count
/// whatever their age; an endpoint that was never scraped reports zeros, unlike at the
/// [`UtilizationDetector`](crate::saturation::UtilizationDetector). Other requests, and those that
/// meet no endpoint, pass without a draw.
///
/// With the defaults nothing that may be shed passes from s = 0.32 on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbabilisticAdmitter {
    /// Waiting requests that count as load 1 (`queueDepthThreshold`); 5 by default.
    pub queue_depth: Positive,
    /// KV usage that counts as load 1 (`kvCacheUtilThreshold`); 0.8 by default.
    pub kv_usage: Positive,
    /// Steepness (`power`); 5 by default.
    pub power: Positive,
    /// Coefficient (`k`); 300 by default.
    pub k: Positive,
}

impl Default for ProbabilisticAdmitter {
    fn default() -> Self {
        Self {
            queue_depth: Positive::new(5.0).expect("5 is above 0"),
            kv_usage: Positive::new(0.8).expect("0.8 is above 0"),
            power: Positive::new(5.0).expect("5 is above 0"),
            k: Positive::new(300.0).expect("300 is above 0"),
        }
    }
}

impl ProbabilisticAdmitter {
    /// The probability with which `request` is shed; `None` if it passes anyway.
    pub fn probability(&self, request: &RequestView<'_>, cx: &GatewayContext<'_>) -> Option<f64> {
        if !request.objective.is_sheddable() || cx.endpoints.is_empty() {
            return None;
        }
        let loads = cx
            .endpoints
            .iter()
            .map(|endpoint| utilization(endpoint, self.queue_depth, self.kv_usage));
        let load = Aggregate::Mean.of(loads);
        Some((self.k.get() * libm::pow(load, self.power.get())).min(1.0))
    }
}

impl Admitter for ProbabilisticAdmitter {
    fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict {
        match self.probability(request, cx) {
            Some(probability) if cx.rng.unit() < probability => Verdict::Shed,
            _ => Verdict::Admit,
        }
    }
}

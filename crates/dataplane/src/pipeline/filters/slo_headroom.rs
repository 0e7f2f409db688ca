//! [`SloHeadroomTierFilter`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use crate::pipeline::Filter;
use crate::signals::{PREDICTED_LATENCY, attribute};
use crate::view::GatewayContext;

/// llm-d's `slo-headroom-tier-filter`: keeps the endpoints that are predicted to meet both latency
/// targets (no headroom below 0); the others now and then instead, so that their predictions improve.
///
/// An endpoint without a prediction belongs to the others. Everybody is kept if nothing is predicted of
/// anybody, and if all are of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct SloHeadroomTierFilter {
    /// Probability to keep the others instead (`epsilonExploreNeg`); 0.01 by default.
    pub epsilon_explore_neg: f64,
    /// The producer that predicts.
    pub producer: Arc<str>,
}

impl Default for SloHeadroomTierFilter {
    fn default() -> Self {
        Self {
            epsilon_explore_neg: 0.01,
            producer: PREDICTED_LATENCY.into(),
        }
    }
}

impl Filter for SloHeadroomTierFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        let column = cx.signals.latency.column(&self.producer);
        let meets_targets = |position: usize| {
            attribute(column, position).is_some_and(|estimate| {
                estimate.ttft_headroom_ms >= 0.0 && estimate.tpot_headroom_ms >= 0.0
            })
        };
        let meeting = candidates.iter().filter(|&&p| meets_targets(p)).count();
        if meeting == 0 || meeting == candidates.len() {
            return;
        }
        let explore = self.epsilon_explore_neg > 0.0 && cx.rng.unit() < self.epsilon_explore_neg;
        candidates.retain(|&position| meets_targets(position) != explore);
    }
}

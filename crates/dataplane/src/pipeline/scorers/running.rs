//! [`RunningRequestsScorer`].

use foretoken_workload::RequestView;

use super::score_relative;
use crate::pipeline::Scorer;
use crate::view::GatewayContext;

/// llm-d's `running-requests-size-scorer`: `(max - r) / (max - min)`, where `r` is the number of
/// requests that the engine reports to be running.
///
/// With equal batches, or one candidate, all get 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunningRequestsScorer;

impl Scorer for RunningRequestsScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        score_relative(cx.endpoints, candidates, scores, |endpoint| {
            endpoint.running
        });
    }
}

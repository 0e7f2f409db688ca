//! [`QueueScorer`].

use foretoken_workload::RequestView;

use super::score_relative;
use crate::pipeline::Scorer;
use crate::view::GatewayContext;

/// llm-d's `queue-scorer`: `(max - q) / (max - min)`, where `q` is the number of requests that the
/// engine reports to be waiting.
///
/// Purely relative: one waiting request more makes the difference between 1 and 0 if there is no other.
/// With equal queues, or one candidate, all get 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueScorer;

impl Scorer for QueueScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        score_relative(cx.endpoints, candidates, scores, |endpoint| endpoint.queued);
    }
}

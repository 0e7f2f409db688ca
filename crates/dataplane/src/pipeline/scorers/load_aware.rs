//! [`LoadAwareScorer`].

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::view::GatewayContext;

/// llm-d's `load-aware-scorer`: 0.5 with an empty queue, falling linearly to 0 at `threshold` waiting
/// requests. Never above 0.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadAwareScorer {
    /// Waiting requests from which on the score is 0; 128 by default, and where it is 0 or less.
    pub threshold: i64,
}

impl LoadAwareScorer {
    /// The default threshold, in requests.
    pub const DEFAULT_THRESHOLD: i64 = 128;
}

impl Default for LoadAwareScorer {
    fn default() -> Self {
        Self {
            threshold: Self::DEFAULT_THRESHOLD,
        }
    }
}

impl Scorer for LoadAwareScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let threshold = match self.threshold {
            ..=0 => Self::DEFAULT_THRESHOLD,
            threshold => threshold,
        } as f64;
        score_each(candidates, scores, |position| {
            let queued = f64::from(cx.endpoints[position].queued);
            0.5 * (1.0 - queued.min(threshold) / threshold)
        });
    }
}

//! [`TokenLoadScorer`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::signals::{IN_FLIGHT_LOAD, attribute};
use crate::view::GatewayContext;

/// llm-d's `token-load-scorer`: 1 without load, falling linearly to 0 at `queue_threshold_tokens`.
///
/// The load is the tokens in flight plus those that this request would add, both live; either counts
/// 0 where it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenLoadScorer {
    /// Tokens from which on the score is 0; 4,194,304 by default, and where it is 0 or less.
    pub queue_threshold_tokens: i64,
    /// The producer that counts (`inFlightLoadProducerName`).
    pub producer: Arc<str>,
}

impl TokenLoadScorer {
    /// The default threshold, in tokens.
    pub const DEFAULT_THRESHOLD: i64 = 4_194_304;
}

impl Default for TokenLoadScorer {
    fn default() -> Self {
        Self {
            queue_threshold_tokens: Self::DEFAULT_THRESHOLD,
            producer: IN_FLIGHT_LOAD.into(),
        }
    }
}

impl Scorer for TokenLoadScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let threshold = match self.queue_threshold_tokens {
            ..=0 => Self::DEFAULT_THRESHOLD,
            threshold => threshold,
        } as f64;
        let in_flight = cx.signals.in_flight.column(&self.producer);
        let uncached = cx.signals.uncached.column(&self.producer);
        score_each(candidates, scores, |position| {
            let waiting = attribute(in_flight, position).map_or(0, |load| load.tokens);
            let added = attribute(uncached, position).unwrap_or(0);
            let load = waiting.saturating_add(added) as f64;
            1.0 - load.min(threshold) / threshold
        });
    }
}

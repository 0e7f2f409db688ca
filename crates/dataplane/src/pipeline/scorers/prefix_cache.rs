//! [`PrefixCacheScorer`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::signals::{APPROXIMATE_PREFIX, PrefixMatch, attribute};
use crate::view::GatewayContext;

/// llm-d's `prefix-cache-scorer`: how much of the prompt an endpoint holds.
///
/// `w * min(1, m * b / scale)² + (1 - w) * m / t`, with `m` of `t` blocks of `b` tokens matched, the
/// weight `w` of the match's length and its `scale`. 0 where the attribute is missing or the prompt has
/// no blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixCacheScorer {
    /// Weight of the length of the match against its share, 0 to 1; 0 by default.
    pub match_length_weight: f64,
    /// Length of a match that counts in full, in tokens; 8192 by default, and where it is 0 or less.
    pub match_length_scale_tokens: i64,
    /// The producer that matches (`prefixMatchInfoProducerName`).
    pub producer: Arc<str>,
}

impl PrefixCacheScorer {
    /// The default length of a match that counts in full, in tokens.
    pub const DEFAULT_SCALE: i64 = 8192;

    /// The share of the prompt that `producer` finds.
    pub fn of(producer: impl Into<Arc<str>>) -> Self {
        Self {
            producer: producer.into(),
            ..Self::default()
        }
    }

    fn value(&self, found: PrefixMatch, scale: f64) -> f64 {
        let weight = self.match_length_weight;
        if found.total == 0 {
            return 0.0;
        }
        let share = (1.0 - weight) * found.share();
        if weight <= 0.0 {
            return share;
        }
        let tokens = f64::from(found.matched) * f64::from(found.block_size);
        let length = (tokens / scale).min(1.0);
        weight * length * length + share
    }
}

impl Default for PrefixCacheScorer {
    fn default() -> Self {
        Self {
            match_length_weight: 0.0,
            match_length_scale_tokens: Self::DEFAULT_SCALE,
            producer: APPROXIMATE_PREFIX.into(),
        }
    }
}

impl Scorer for PrefixCacheScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let scale = match self.match_length_scale_tokens {
            ..=0 => Self::DEFAULT_SCALE,
            scale => scale,
        } as f64;
        let column = cx.signals.prefix.column(&self.producer);
        // Most endpoints hold nothing of a prompt, which is worth nothing by any weight that makes sense.
        let is_sensible = (0.0..=1.0).contains(&self.match_length_weight);
        let score = |found: Option<PrefixMatch>| match found {
            Some(found) if found.matched > 0 || !is_sensible => self.value(found, scale),
            _ => 0.0,
        };
        match cx.signals.prefix.uniform(&self.producer) {
            // All hold as much: most often nothing.
            Some(found) => scores.fill(score(Some(found))),
            None => score_each(candidates, scores, |position| {
                score(attribute(column, position))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::{RngStreams, SimTime};
    use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

    use super::*;
    use crate::signals::Signals;
    use crate::view::{EndpointId, EndpointView};

    fn scores(scorer: &mut PrefixCacheScorer, signals: &Signals) -> [f64; 3] {
        let endpoints = [0, 1, 2].map(|id| EndpointView::new(EndpointId::new(id)));
        let mut rng = RngStreams::new(1, 0).stream("scorer", 0);
        let mut cx = GatewayContext::with_signals(SimTime::ZERO, &endpoints, signals, &mut rng);
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 256)]).expect("a short prompt");
        let request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1);
        let mut row = [7.0; 3];
        scorer.score(&request.view(), &[0, 1, 2], &mut cx, &mut row);
        row
    }

    #[test]
    fn what_all_hold_alike_is_scored_as_if_it_were_written_one_by_one() {
        for match_length_weight in [-1.0, 0.0, 0.4, 2.0] {
            let mut scorer = PrefixCacheScorer {
                match_length_weight,
                ..PrefixCacheScorer::default()
            };
            for (matched, total) in [(0, 4), (3, 4), (0, 0)] {
                let found = PrefixMatch::new(matched, total, 64);
                let (mut uniform, mut written) = (Signals::new(), Signals::new());
                uniform.prefix.begin_with(APPROXIMATE_PREFIX, 3, found);
                written
                    .prefix
                    .begin(APPROXIMATE_PREFIX, 3)
                    .fill(Some(found));
                let pair = [&uniform, &written].map(|signals| scores(&mut scorer, signals));
                assert_eq!(pair[0].map(f64::to_bits), pair[1].map(f64::to_bits));
            }
        }
    }
}

//! [`LatencyScorer`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use crate::pipeline::Scorer;
use crate::signals::{APPROXIMATE_PREFIX, LatencyEstimate, PREDICTED_LATENCY, attribute};
use crate::view::GatewayContext;

/// llm-d's `latency-scorer`: by predicted headroom, that is target minus predicted latency.
///
/// Candidates that are predicted to meet both targets (or of which nothing is predicted: headrooms 0)
/// are scored, all others get 0. If there is none, of those that miss a target the ones without a
/// request of this gateway are scored, else the first group that is not empty of: misses only the time
/// per output token, misses only the time to first token, misses both.
///
/// Within the group each size of headroom is scaled to 0..=1 (0.5 where all are equal within 1e-9) and
/// both are added with their weights; if only one of the two differs at all, it has all the weight.
/// The sum `c` becomes `(int(c * 100) + 1) / 100` with [`HeadroomSelection::Most`], and the same of
/// `1 - c` with [`HeadroomSelection::Least`], which also ranks those that miss a target. The profile
/// clamps the 1.01 at the top.
///
/// If nothing is predicted of any candidate, the score is composed of KV usage, queue and prefix match,
/// see [`CompositeWeights`].
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyScorer {
    /// Weight of the time to first token; 0.8 by default.
    pub ttft_weight: f64,
    /// Weight of the time per output token; 0.2 by default.
    pub tpot_weight: f64,
    /// Which headroom is good.
    pub headroom_selection: HeadroomSelection,
    /// Weights of the score without predictions.
    pub composite: CompositeWeights,
    /// The producer that predicts.
    pub producer: Arc<str>,
    /// The producer that matches prefixes.
    pub prefix_producer: Arc<str>,
    /// Positions and headrooms of the group that is scored.
    group: Vec<Headroom>,
}

/// Which headroom is good (`headroomSelectionStrategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadroomSelection {
    /// The least: packs requests where they just meet their targets.
    #[default]
    Least,
    /// The most: spreads them.
    Most,
}

/// Weights of the score without predictions,
/// `round(100 * (kv * (1 - usage) + queue * (max - q) / max + prefix * m / t)) / 100` with the weights
/// scaled to a sum of 1; the queue's part is 1 where nobody waits anywhere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompositeWeights {
    /// Of the free share of the KV cache; 1 by default.
    pub kv: f64,
    /// Of the queue; 1 by default.
    pub queue: f64,
    /// Of the prefix match; 1 by default.
    pub prefix: f64,
}

impl Default for CompositeWeights {
    fn default() -> Self {
        Self {
            kv: 1.0,
            queue: 1.0,
            prefix: 1.0,
        }
    }
}

/// A candidate's place among the scores and the sizes of its headrooms.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Headroom {
    slot: usize,
    ttft: f64,
    tpot: f64,
}

/// Groups of candidates, the one that is scored first first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    MeetsBoth,
    MissesIdle,
    MissesTpot,
    MissesTtft,
    MissesBoth,
}

impl Default for LatencyScorer {
    fn default() -> Self {
        Self {
            ttft_weight: 0.8,
            tpot_weight: 0.2,
            headroom_selection: HeadroomSelection::default(),
            composite: CompositeWeights::default(),
            producer: PREDICTED_LATENCY.into(),
            prefix_producer: APPROXIMATE_PREFIX.into(),
            group: Vec::new(),
        }
    }
}

impl LatencyScorer {
    /// With the given choice of headroom and defaults for everything else.
    pub fn new(headroom_selection: HeadroomSelection) -> Self {
        Self {
            headroom_selection,
            ..Self::default()
        }
    }

    fn score_composite(&self, candidates: &[usize], cx: &GatewayContext<'_>, scores: &mut [f64]) {
        let weights = self.composite;
        let sum = weights.kv + weights.queue + weights.prefix;
        if sum <= 0.0 {
            return;
        }
        let queued = |position: usize| f64::from(cx.endpoints[position].queued);
        let longest = candidates.iter().map(|&p| queued(p)).fold(0.0, f64::max);
        let prefixes = cx.signals.prefix.column(&self.prefix_producer);
        super::score_each(candidates, scores, |position| {
            let free = 1.0 - cx.endpoints[position].kv_usage;
            let queue = if longest > 0.0 {
                (longest - queued(position)) / longest
            } else {
                1.0
            };
            let prefix = attribute(prefixes, position).map_or(0.0, |found| found.share());
            let score = weights.kv / sum * free
                + weights.queue / sum * queue
                + weights.prefix / sum * prefix;
            (100.0 * score).round() / 100.0
        });
    }

    fn score_group(&self, selection: HeadroomSelection, scores: &mut [f64]) {
        let ttft = Scale::of(self.group.iter().map(|headroom| headroom.ttft));
        let tpot = Scale::of(self.group.iter().map(|headroom| headroom.tpot));
        let (ttft_weight, tpot_weight) = match (ttft.is_flat(), tpot.is_flat()) {
            (false, true) => (1.0, 0.0),
            (true, false) => (0.0, 1.0),
            _ => self.weights(),
        };
        for headroom in &self.group {
            let size =
                ttft_weight * ttft.height(headroom.ttft) + tpot_weight * tpot.height(headroom.tpot);
            let good = match selection {
                HeadroomSelection::Least => 1.0 - size,
                HeadroomSelection::Most => size,
            };
            scores[headroom.slot] = ((good * 100.0).trunc() + 1.0) / 100.0;
        }
    }

    /// Both weights, scaled to a sum of 1; the defaults where they have no positive sum.
    fn weights(&self) -> (f64, f64) {
        let sum = self.ttft_weight + self.tpot_weight;
        if sum > 0.0 {
            (self.ttft_weight / sum, self.tpot_weight / sum)
        } else {
            (0.8, 0.2)
        }
    }
}

impl Scorer for LatencyScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let column = cx.signals.latency.column(&self.producer);
        let predicted = |position: usize| attribute(column, position);
        if candidates
            .iter()
            .all(|&position| predicted(position).is_none())
        {
            self.score_composite(candidates, cx, scores);
            return;
        }
        let estimates = || {
            let known = candidates.iter().map(|&position| predicted(position));
            known.map(Option::unwrap_or_default)
        };
        let Some(first) = estimates().map(|estimate| group(&estimate)).min() else {
            return;
        };
        let members = estimates().enumerate();
        let members = members.filter(|(_, estimate)| group(estimate) == first);
        self.group.clear();
        self.group.extend(members.map(|(slot, estimate)| Headroom {
            slot,
            ttft: estimate.ttft_headroom_ms.abs(),
            tpot: estimate.tpot_headroom_ms.abs(),
        }));
        let selection = match first {
            Group::MeetsBoth => self.headroom_selection,
            _ => HeadroomSelection::Least,
        };
        self.score_group(selection, scores);
    }
}

fn group(estimate: &LatencyEstimate) -> Group {
    let meets_ttft = estimate.ttft_headroom_ms >= 0.0;
    let meets_tpot = estimate.tpot_headroom_ms >= 0.0;
    match (meets_ttft, meets_tpot) {
        (true, true) => Group::MeetsBoth,
        _ if estimate.dispatched == 0 => Group::MissesIdle,
        (true, false) => Group::MissesTpot,
        (false, true) => Group::MissesTtft,
        (false, false) => Group::MissesBoth,
    }
}

/// The range of one kind of headroom within a group.
#[derive(Debug, Clone, Copy)]
struct Scale {
    min: f64,
    max: f64,
}

impl Scale {
    fn of(sizes: impl Iterator<Item = f64>) -> Self {
        let widest = (f64::INFINITY, f64::NEG_INFINITY);
        let (min, max) = sizes.fold(widest, |(min, max), size| (min.min(size), max.max(size)));
        Self { min, max }
    }

    /// Whether all sizes are equal; infinite ones are.
    fn is_flat(self) -> bool {
        let range = self.max - self.min;
        range.is_nan() || range <= 1e-9
    }

    /// Where a size lies between the ends, from 0 to 1.
    fn height(self, size: f64) -> f64 {
        if self.is_flat() {
            return 0.5;
        }
        // An infinite size in an infinite range is at its top.
        ((size - self.min) / (self.max - self.min)).min(1.0)
    }
}

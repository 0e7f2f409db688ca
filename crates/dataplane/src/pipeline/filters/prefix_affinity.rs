//! [`PrefixCacheAffinityFilter`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use crate::pipeline::Filter;
use crate::signals::{
    APPROXIMATE_PREFIX, IN_FLIGHT_LOAD, InFlight, LatencyEstimate, PREDICTED_LATENCY, attribute,
};
use crate::view::GatewayContext;

/// llm-d's `prefix-cache-affinity-filter`: keeps the endpoints that hold most of the prompt (the sticky
/// ones), unless waiting there costs too much.
///
/// An endpoint is sticky if the matched share of the prompt is at least `affinity_threshold`. Everybody
/// is kept if nobody is sticky, and if the smallest time to first token expected among the sticky is more
/// than `max_ttft_penalty_ms` above the smallest among the others. The request's own tokens are not part
/// of the expectation.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixCacheAffinityFilter {
    /// Share of the prompt from which on an endpoint is sticky; 0.8 by default, and 0 or less disables the
    /// filter.
    pub affinity_threshold: f64,
    /// Probability to keep everybody; 0 by default.
    pub exploration_probability: f64,
    /// What affinity may cost, in milliseconds; 18000 by default, and with 0 or less any cost is right.
    pub max_ttft_penalty_ms: f64,
    /// Where the expected time to first token comes from.
    pub ttft_source: TtftSource,
    /// The producer that matches prefixes.
    pub prefix_producer: Arc<str>,
}

/// Where an expected time to first token comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum TtftSource {
    /// `prefillThroughput`: the tokens in flight divided by a throughput; missing counters are 0.
    PrefillThroughput {
        /// Prompt tokens per second (`peakPrefillThroughput`); 15928 by default.
        peak: f64,
        /// The producer that counts.
        producer: Arc<str>,
    },
    /// `latencyPredictor`: the prediction; a missing one is the largest number.
    LatencyPredictor {
        /// The producer that predicts.
        producer: Arc<str>,
    },
}

impl TtftSource {
    /// The tokens in flight, by the default producer, divided by `peak` tokens per second.
    pub fn prefill_throughput(peak: f64) -> Self {
        Self::PrefillThroughput {
            peak,
            producer: IN_FLIGHT_LOAD.into(),
        }
    }

    /// The prediction of the default producer.
    pub fn latency_predictor() -> Self {
        Self::LatencyPredictor {
            producer: PREDICTED_LATENCY.into(),
        }
    }

    fn column<'a>(&self, cx: &GatewayContext<'a>) -> TtftColumn<'a> {
        match self {
            Self::PrefillThroughput { peak, producer } => {
                TtftColumn::Load(cx.signals.in_flight.column(producer), *peak)
            }
            Self::LatencyPredictor { producer } => {
                TtftColumn::Prediction(cx.signals.latency.column(producer))
            }
        }
    }
}

/// What a source says of all endpoints.
enum TtftColumn<'a> {
    Load(&'a [Option<InFlight>], f64),
    Prediction(&'a [Option<LatencyEstimate>]),
}

impl TtftColumn<'_> {
    /// The time to first token that is expected of an endpoint, in milliseconds.
    fn millis(&self, position: usize) -> f64 {
        match self {
            Self::Load(column, peak) => {
                let tokens = attribute(column, position).map_or(0, |load| load.tokens);
                tokens as f64 / peak * 1000.0
            }
            Self::Prediction(column) => {
                attribute(column, position).map_or(f64::MAX, |estimate| estimate.ttft_ms)
            }
        }
    }
}

impl Default for PrefixCacheAffinityFilter {
    fn default() -> Self {
        Self {
            affinity_threshold: 0.8,
            exploration_probability: 0.0,
            max_ttft_penalty_ms: 18_000.0,
            ttft_source: TtftSource::prefill_throughput(15_928.0),
            prefix_producer: APPROXIMATE_PREFIX.into(),
        }
    }
}

impl Filter for PrefixCacheAffinityFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        if candidates.len() <= 1 || self.affinity_threshold <= 0.0 {
            return;
        }
        if self.exploration_probability > 0.0 && cx.rng.unit() < self.exploration_probability {
            return;
        }
        let prefixes = cx.signals.prefix.column(&self.prefix_producer);
        let sticky = |position: usize| {
            // The threshold is above 0: who holds nothing needs no division.
            attribute(prefixes, position).is_some_and(|found| {
                found.matched > 0 && found.total > 0 && found.share() >= self.affinity_threshold
            })
        };
        // A prompt that nobody holds is the common case, and needs no more.
        if !candidates.iter().any(|&position| sticky(position)) {
            return;
        }
        let ttft = self.ttft_source.column(cx);
        let (mut best_sticky, mut best_other) = (None, None);
        for &position in candidates.iter() {
            let best = if sticky(position) {
                &mut best_sticky
            } else {
                &mut best_other
            };
            let millis = ttft.millis(position);
            *best = Some(best.map_or(millis, |least: f64| least.min(millis)));
        }
        // All are: everybody stays.
        let (Some(best_sticky), Some(best_other)) = (best_sticky, best_other) else {
            return;
        };
        let penalty = self.max_ttft_penalty_ms;
        if penalty > 0.0 && best_sticky - best_other > penalty {
            return;
        }
        candidates.retain(|&position| sticky(position));
    }
}

//! [`ConcurrencyDetector`]: saturation by what the gateway has in flight.

use foretoken_workload::{Positive, RequestView};

use super::{Aggregate, SaturationDetector};
use crate::pipeline::Filter;
use crate::signals::{IN_FLIGHT_LOAD, InFlight, attribute};
use crate::view::GatewayContext;

/// What a [`ConcurrencyDetector`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ConcurrencyMode {
    /// Requests (`requests`).
    #[default]
    Requests,
    /// Tokens (`tokens`).
    Tokens,
    /// Both; the larger load of the two counts (`hybrid`).
    Hybrid,
}

/// Goes by the gateway's live counters of what it sent and has not seen answered (llm-d's
/// `concurrency-detector`). There is no staleness; a missing counter is 0.
///
/// - `requests`, `tokens`: what is in flight on all endpoints / the capacity of all.
/// - `hybrid`: mean over the endpoints of max(requests / their capacity, tokens / theirs).
///
/// Another [`aggregate`](Self::aggregate) than the mean takes the loads of single endpoints in every
/// mode. Without endpoints the saturation is 1. [`headroom`](Self::headroom) plays no part in it.
///
/// As a filter it keeps endpoints with load < ⌊capacity · (1 + headroom)⌋, in hybrid mode by both
/// counts. It **fails closed**: if nobody qualifies, nobody stays.
#[derive(Debug, Clone, PartialEq)]
pub struct ConcurrencyDetector {
    /// What is counted (`concurrencyMode`); requests by default.
    pub mode: ConcurrencyMode,
    /// Requests that make an endpoint full (`maxConcurrency`); 100 by default.
    pub max_requests: Positive,
    /// Tokens that make an endpoint full (`maxTokenConcurrency`); 1 000 000 by default.
    pub max_tokens: Positive,
    /// By how much the filter is more generous than the capacities (`headroom`); 0 by default.
    pub headroom: f64,
    /// Whose counters are read (`inFlightLoadProducerName`).
    pub producer: String,
    /// From loads to saturation; the mean by default, and nothing else in llm-d.
    pub aggregate: Aggregate,
}

impl Default for ConcurrencyDetector {
    fn default() -> Self {
        Self {
            mode: ConcurrencyMode::Requests,
            max_requests: Positive::new(100.0).expect("100 is above 0"),
            max_tokens: Positive::new(1e6).expect("a million is above 0"),
            headroom: 0.0,
            producer: IN_FLIGHT_LOAD.to_owned(),
            aggregate: Aggregate::Mean,
        }
    }
}

impl ConcurrencyDetector {
    /// What is in flight on the endpoint at a position.
    fn counters<'a>(&self, cx: &GatewayContext<'a>) -> impl Fn(usize) -> InFlight + use<'a> {
        let counters = cx.signals.in_flight.column(&self.producer);
        move |position| attribute(counters, position).unwrap_or_default()
    }

    fn load(&self, load: InFlight) -> f64 {
        let requests = load.requests as f64 / self.max_requests.get();
        let tokens = load.tokens as f64 / self.max_tokens.get();
        match self.mode {
            ConcurrencyMode::Requests => requests,
            ConcurrencyMode::Tokens => tokens,
            ConcurrencyMode::Hybrid => requests.max(tokens),
        }
    }

    fn has_room(&self, load: InFlight) -> bool {
        let limit = |capacity: Positive| (capacity.get() * (1.0 + self.headroom)).trunc();
        let requests = (load.requests as f64) < limit(self.max_requests);
        let tokens = (load.tokens as f64) < limit(self.max_tokens);
        match self.mode {
            ConcurrencyMode::Requests => requests,
            ConcurrencyMode::Tokens => tokens,
            ConcurrencyMode::Hybrid => requests && tokens,
        }
    }
}

/// All that is in flight, against the capacity of the whole pool: one division, as llm-d has it.
fn pooled(pool: &[usize], capacity: Positive, count: impl Fn(usize) -> u64) -> f64 {
    let total: u64 = pool.iter().map(|&position| count(position)).sum();
    total as f64 / (capacity.get() * pool.len() as f64)
}

impl SaturationDetector for ConcurrencyDetector {
    fn saturation(&mut self, pool: &[usize], cx: &mut GatewayContext<'_>) -> f64 {
        if pool.is_empty() {
            return 1.0;
        }
        let at = self.counters(cx);
        match (self.aggregate, self.mode) {
            (Aggregate::Mean, ConcurrencyMode::Requests) => {
                pooled(pool, self.max_requests, |p| at(p).requests)
            }
            (Aggregate::Mean, ConcurrencyMode::Tokens) => {
                pooled(pool, self.max_tokens, |p| at(p).tokens)
            }
            (aggregate, _) => aggregate.of(pool.iter().map(|&p| self.load(at(p)))),
        }
    }
}

impl Filter for ConcurrencyDetector {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        let at = self.counters(cx);
        candidates.retain(|&position| self.has_room(at(position)));
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::{RngStreams, SimTime};

    use super::*;
    use crate::signals::Signals;
    use crate::view::{EndpointId, EndpointView};

    fn saturation(mut detector: ConcurrencyDetector, loads: &[InFlight]) -> f64 {
        let ids = 0..u32::try_from(loads.len()).expect("a few endpoints");
        let endpoints: Vec<_> = ids
            .map(|id| EndpointView::new(EndpointId::new(id)))
            .collect();
        let mut signals = Signals::new();
        for (position, &load) in loads.iter().enumerate() {
            signals.in_flight.set(IN_FLIGHT_LOAD, position, load);
        }
        let mut rng = RngStreams::new(1, 0).stream("detector", 0);
        let mut cx = GatewayContext::with_signals(SimTime::ZERO, &endpoints, &signals, &mut rng);
        detector.saturation(&cx.everyone(), &mut cx)
    }

    #[test]
    fn hybrid_takes_the_larger_load_of_each_endpoint() {
        let detector = ConcurrencyDetector {
            mode: ConcurrencyMode::Hybrid,
            ..ConcurrencyDetector::default()
        };
        let loads = [InFlight::new(50, 100_000), InFlight::new(10, 700_000)];
        assert!((saturation(detector, &loads) - 0.6).abs() < 1e-12);
    }

    #[test]
    fn counters_of_another_producer_are_not_seen() {
        let detector = ConcurrencyDetector {
            producer: "another".to_owned(),
            ..ConcurrencyDetector::default()
        };
        assert!(saturation(detector, &[InFlight::new(500, 0)]).abs() < 1e-12);
    }

    #[test]
    fn the_fullest_endpoint_may_speak_for_all() {
        let detector = ConcurrencyDetector {
            aggregate: Aggregate::Max,
            ..ConcurrencyDetector::default()
        };
        let loads = [InFlight::new(150, 0), InFlight::new(0, 0)];
        assert!((saturation(detector, &loads) - 1.5).abs() < 1e-12);
    }
}

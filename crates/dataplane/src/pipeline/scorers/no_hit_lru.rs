//! [`NoHitLruScorer`].

use std::sync::Arc;

use foretoken_workload::{RequestId, RequestView};

use super::score_each;
use crate::pipeline::Scorer;
use crate::router::Placement;
use crate::signals::{APPROXIMATE_PREFIX, attribute};
use crate::view::{EndpointId, GatewayContext};

/// llm-d's `no-hit-lru-scorer`: spreads cold requests, those of which no candidate holds any block, by
/// preferring the endpoint whose last cold request is longest ago.
///
/// A request that is not cold scores 0.5 everywhere; a lone candidate scores 1. Otherwise the candidate
/// of rank `r` of `n` scores `max(0, 1 - r / (n - 1))`. Endpoints without a cold request so far come
/// first, in candidate order; behind them the others, each by its place in the list of all, the oldest
/// first, endpoints that are no candidates included.
///
/// Once a cold request is placed, its endpoint and then that of the profile `prefill` become the most
/// recent.
#[derive(Debug, Clone)]
pub struct NoHitLruScorer {
    /// Endpoints that are remembered (`lruSize`); 1024 by default, and where it is 0.
    pub lru_size: usize,
    /// The producer that matches prefixes (`prefixMatchInfoProducerName`).
    pub producer: Arc<str>,
    /// Who got a cold request, the oldest first.
    used: Vec<EndpointId>,
    /// Where each endpoint stands in that list, by its number; made anew for each score.
    ages: Vec<Option<usize>>,
    /// The request that was scored last, and whether it was cold.
    last: Option<(RequestId, Warmth)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warmth {
    Cold,
    Warm,
}

impl NoHitLruScorer {
    /// How many endpoints are remembered by default.
    pub const DEFAULT_SIZE: usize = 1024;

    /// Remembers `lru_size` endpoints and goes by the matches of `producer`.
    pub fn new(lru_size: usize, producer: impl Into<Arc<str>>) -> Self {
        Self {
            lru_size,
            producer: producer.into(),
            used: Vec::new(),
            ages: Vec::new(),
            last: None,
        }
    }

    fn warmth(
        &self,
        mut candidates: impl Iterator<Item = usize>,
        cx: &GatewayContext<'_>,
    ) -> Warmth {
        let column = cx.signals.prefix.column(&self.producer);
        let hit = |position| attribute(column, position).is_some_and(|found| found.matched > 0);
        if candidates.any(hit) {
            Warmth::Warm
        } else {
            Warmth::Cold
        }
    }

    fn touch(&mut self, endpoint: EndpointId) {
        self.used.retain(|&other| other != endpoint);
        self.used.push(endpoint);
        let size = match self.lru_size {
            0 => Self::DEFAULT_SIZE,
            size => size,
        };
        if self.used.len() > size {
            self.used.remove(0);
        }
    }
}

impl Default for NoHitLruScorer {
    fn default() -> Self {
        Self::new(Self::DEFAULT_SIZE, APPROXIMATE_PREFIX)
    }
}

impl Scorer for NoHitLruScorer {
    fn score(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let warmth = self.warmth(candidates.iter().copied(), cx);
        self.last = Some((request.id, warmth));
        if warmth == Warmth::Warm {
            scores.fill(0.5);
            return;
        }
        if candidates.len() == 1 {
            scores.fill(1.0);
            return;
        }
        self.ages.clear();
        for (age, endpoint) in self.used.iter().enumerate() {
            let number = endpoint.index();
            self.ages.resize(self.ages.len().max(number + 1), None);
            self.ages[number] = Some(age);
        }
        let age = |position: usize| attribute(&self.ages, cx.endpoints[position].id.index());
        let unused = candidates
            .iter()
            .filter(|&&position| age(position).is_none())
            .count();
        let last_rank = candidates.len().saturating_sub(1) as f64;
        let mut next_unused = 0;
        score_each(candidates, scores, |position| {
            let rank = age(position).map_or_else(
                || {
                    next_unused += 1;
                    next_unused - 1
                },
                |age| unused + age,
            );
            (1.0 - rank as f64 / last_rank).max(0.0)
        });
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        // Another request may have been scored in between; then all endpoints stand for the candidates.
        let warmth = match self.last {
            Some((scored, warmth)) if scored == request.id => warmth,
            _ => self.warmth(0..cx.endpoints.len(), cx),
        };
        if warmth == Warmth::Cold {
            for endpoint in placement.known_endpoints() {
                self.touch(endpoint);
            }
        }
    }
}

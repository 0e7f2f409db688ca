//! [`ActiveRequestScorer`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::signals::{IN_FLIGHT_LOAD, attribute};
use crate::view::GatewayContext;

/// llm-d's `active-request-scorer`: 1 for a candidate with at most `idle_threshold` requests in flight,
/// else `(max - a) / max * max_busy_score`, where `a` is its number and `max` the largest among the
/// candidates.
///
/// The counter is the gateway's own and live; where it is missing it counts 0.
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveRequestScorer {
    /// Requests up to which an endpoint counts as idle; 0 by default, and where it is negative.
    pub idle_threshold: i64,
    /// The score that a busy endpoint comes close to; 1 by default, and where it is outside 0..=1.
    pub max_busy_score: f64,
    /// The producer that counts (`inFlightLoadProducerName`).
    pub producer: Arc<str>,
}

impl Default for ActiveRequestScorer {
    fn default() -> Self {
        Self {
            idle_threshold: 0,
            max_busy_score: 1.0,
            producer: IN_FLIGHT_LOAD.into(),
        }
    }
}

impl Scorer for ActiveRequestScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let column = cx.signals.in_flight.column(&self.producer);
        let active = |position| attribute(column, position).map_or(0, |load| load.requests);
        let max = candidates.iter().map(|&position| active(position)).max();
        let max = max.unwrap_or(0);
        let idle = u64::try_from(self.idle_threshold).unwrap_or(0);
        let busy = if (0.0..=1.0).contains(&self.max_busy_score) {
            self.max_busy_score
        } else {
            1.0
        };
        score_each(candidates, scores, |position| {
            let active = active(position);
            if active <= idle {
                return 1.0;
            }
            (max - active) as f64 / max as f64 * busy
        });
    }
}

//! What data producers know about a request and the endpoints: the attributes of llm-d's endpoints.
//!
//! An attribute is looked up by the name of the producer that wrote it: a scorer configured for one
//! producer does not see what another wrote. What is missing means something else to each reader.

use std::sync::Arc;

/// Default name of the producer that guesses prefix matches from the gateway's own decisions.
pub const APPROXIMATE_PREFIX: &str = "approx-prefix-cache-producer";
/// Default name of the producer that learns prefix matches from KV events.
pub const PRECISE_PREFIX: &str = "precise-prefix-cache-producer";
/// Default name of the producer that counts what is in flight.
pub const IN_FLIGHT_LOAD: &str = "inflight-load-producer";
/// Default name of the producer that predicts latencies.
pub const PREDICTED_LATENCY: &str = "predicted-latency-producer";

/// How much of a prompt an endpoint holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PrefixMatch {
    /// Blocks of the prompt that it holds; weighted by tier and rounded down where there are tiers.
    pub matched: u32,
    /// Blocks of the prompt.
    pub total: u32,
    /// Tokens in a block.
    pub block_size: u32,
    /// Blocks that it holds, whatever their tier.
    pub unweighted: u32,
}

impl PrefixMatch {
    /// `matched` of `total` blocks of `block_size` tokens.
    pub const fn new(matched: u32, total: u32, block_size: u32) -> Self {
        Self {
            matched,
            total,
            block_size,
            unweighted: matched,
        }
    }

    /// Tokens of the blocks held, whatever their tier; more than the prompt's if its last is padded.
    pub fn cached_tokens(&self) -> u64 {
        u64::from(self.unweighted) * u64::from(self.block_size)
    }

    /// The same with so many blocks held, whatever their tier.
    #[must_use]
    pub const fn with_unweighted(self, unweighted: u32) -> Self {
        Self { unweighted, ..self }
    }

    /// Share of the prompt that it holds; 0 for a prompt without blocks.
    pub fn share(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        f64::from(self.matched) / f64::from(self.total)
    }
}

/// What a gateway has sent to an endpoint and not seen answered: live, never stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InFlight {
    /// Requests.
    pub requests: u64,
    /// Tokens that they have still to compute, by the producer's estimate.
    pub tokens: u64,
}

impl InFlight {
    /// `requests` with `tokens` to compute.
    pub const fn new(requests: u64, tokens: u64) -> Self {
        Self { requests, tokens }
    }
}

/// What a predictor expects of a request on an endpoint, against the request's targets.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct LatencyEstimate {
    /// Predicted time to first token, in milliseconds.
    pub ttft_ms: f64,
    /// Predicted time per output token, in milliseconds.
    pub tpot_ms: f64,
    /// Target minus prediction of the time to first token, in milliseconds.
    pub ttft_headroom_ms: f64,
    /// Target minus prediction of the time per output token, in milliseconds.
    pub tpot_headroom_ms: f64,
    /// Whether the time to first token is predicted to be below its target.
    pub ttft_valid: bool,
    /// Whether the time per output token is.
    pub tpot_valid: bool,
    /// Requests that this gateway has running there.
    pub dispatched: u64,
}

impl LatencyEstimate {
    /// An estimate with these headrooms, valid where they are positive.
    pub fn with_headroom(ttft_ms: f64, tpot_ms: f64) -> Self {
        Self {
            ttft_headroom_ms: ttft_ms,
            tpot_headroom_ms: tpot_ms,
            ttft_valid: ttft_ms > 0.0,
            tpot_valid: tpot_ms > 0.0,
            ..Self::default()
        }
    }
}

/// Attributes of the endpoints for one decision, by producer.
///
/// ```
/// use foretoken_dataplane::signals::{APPROXIMATE_PREFIX, PrefixMatch, Signals};
///
/// let mut signals = Signals::new();
/// signals.prefix.set(APPROXIMATE_PREFIX, 0, PrefixMatch::new(5, 10, 64));
/// assert_eq!(signals.prefix.get(APPROXIMATE_PREFIX, 0).map(|m| m.matched), Some(5));
/// assert_eq!(signals.prefix.get(APPROXIMATE_PREFIX, 1), None);
/// assert_eq!(signals.prefix.get("another", 0), None);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Signals {
    /// How much of the request's prompt each endpoint holds.
    pub prefix: Columns<PrefixMatch>,
    /// What is in flight on each endpoint.
    pub in_flight: Columns<InFlight>,
    /// Tokens that each endpoint would have to compute for this request.
    pub uncached: Columns<u64>,
    /// Predicted latencies of this request.
    pub latency: Columns<LatencyEstimate>,
    /// Numbers of any other kind, by `attribute/producer`.
    pub numbers: Columns<f64>,
}

impl Signals {
    /// No attributes.
    pub const fn new() -> Self {
        Self {
            prefix: Columns::new(),
            in_flight: Columns::new(),
            uncached: Columns::new(),
            latency: Columns::new(),
            numbers: Columns::new(),
        }
    }
}

/// One kind of attribute: for each producer a value per endpoint, by its position among the endpoints
/// of the decision.
#[derive(Debug, Clone)]
pub struct Columns<T>(Vec<Column<T>>);

#[derive(Debug, Clone)]
struct Column<T> {
    producer: Arc<str>,
    values: Vec<Option<T>>,
    /// The value of all endpoints, where it is known that they have the same.
    uniform: Option<T>,
}

impl<T> Default for Columns<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Columns<T> {
    /// No values.
    pub const fn new() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> Columns<T> {
    /// The value of the endpoint at `position`, if `producer` wrote one.
    pub fn get(&self, producer: &str, position: usize) -> Option<T> {
        *self.column(producer).get(position)?
    }

    /// All values that `producer` wrote; shorter than the list of endpoints where the last ones have
    /// none.
    pub fn column(&self, producer: &str) -> &[Option<T>] {
        // There are one or two producers of a kind.
        self.0
            .iter()
            .find(|column| &*column.producer == producer)
            .map_or(&[], |column| &column.values)
    }

    /// The value that all endpoints have by the producer's word, if nothing was written
    /// [since](Self::begin_with).
    pub fn uniform(&self, producer: &str) -> Option<T> {
        let mut columns = self.0.iter();
        columns
            .find(|column| &*column.producer == producer)
            .and_then(|column| column.uniform)
    }

    /// Writes one value.
    pub fn set(&mut self, producer: &str, position: usize, value: T) {
        let values = &mut self.written(producer).values;
        if values.len() <= position {
            values.resize(position + 1, None);
        }
        values[position] = Some(value);
    }

    /// The producer's column, emptied and `endpoints` long, to be filled.
    pub fn begin(&mut self, producer: &str, endpoints: usize) -> &mut [Option<T>] {
        let values = &mut self.written(producer).values;
        values.clear();
        values.resize(endpoints, None);
        values
    }

    /// The same, with `value` for each endpoint, of which there are as many as in the decision: for those who
    /// [write](Self::values) but a few others.
    pub fn begin_with(&mut self, producer: &str, endpoints: usize, value: T) {
        let column = self.own(producer);
        column.values.clear();
        column.values.resize(endpoints, Some(value));
        column.uniform = Some(value);
    }

    /// All values of the producer, to be changed.
    pub fn values(&mut self, producer: &str) -> &mut [Option<T>] {
        &mut self.written(producer).values
    }

    /// A column that will be written.
    fn written(&mut self, producer: &str) -> &mut Column<T> {
        let column = self.own(producer);
        column.uniform = None;
        column
    }

    fn own(&mut self, producer: &str) -> &mut Column<T> {
        let place = self
            .0
            .iter()
            .position(|column| &*column.producer == producer)
            .unwrap_or_else(|| {
                self.0.push(Column {
                    producer: producer.into(),
                    values: Vec::new(),
                    uniform: None,
                });
                self.0.len() - 1
            });
        &mut self.0[place]
    }
}

/// What a producer's column says of the endpoint at `position`.
pub(crate) fn attribute<T: Copy>(column: &[Option<T>], position: usize) -> Option<T> {
    *column.get(position)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_begins_empty() {
        let mut columns = Columns::new();
        columns.set("a", 1, 7);
        assert_eq!(columns.column("a"), [None, Some(7)]);
        columns.begin("a", 3)[2] = Some(9);
        assert_eq!(columns.column("a"), [None, None, Some(9)]);
        assert_eq!(columns.column("b"), []);
    }

    #[test]
    fn a_column_is_uniform_until_it_is_written() {
        let mut columns = Columns::new();
        assert_eq!(columns.uniform("a"), None);
        columns.begin_with("a", 2, 7);
        assert_eq!(
            (columns.uniform("a"), columns.column("a")),
            (Some(7), &[Some(7); 2][..])
        );
        columns.values("a")[1] = Some(9);
        assert_eq!((columns.uniform("a"), columns.get("a", 1)), (None, Some(9)));
        columns.begin_with("a", 1, 8);
        columns.begin("a", 1);
        assert_eq!((columns.uniform("a"), columns.get("a", 0)), (None, None));
    }
}

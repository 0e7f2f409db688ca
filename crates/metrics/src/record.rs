//! What is kept of one request.

use core::fmt;

use foretoken_des_kernel::{Fingerprint, SimDuration, SimTime};
use foretoken_workload::{FinishReason, RejectReason, Request, RequestId, StageId};
use serde::Serialize;

/// How it stands with a request when a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It ended, by itself, by its limit or because the client went away.
    Finished(FinishReason),
    /// It was refused.
    Rejected(RejectReason),
    /// It had neither ended nor been refused.
    InFlight,
}

impl Outcome {
    /// `true` if the client got all of its answer: finished, and not aborted.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Finished(reason) if !matches!(reason, FinishReason::Abort))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished(FinishReason::Stop) => f.write_str("stop"),
            Self::Finished(FinishReason::Length) => f.write_str("length"),
            Self::Finished(FinishReason::Abort) => f.write_str("abort"),
            Self::Finished(_) => f.write_str("finished"),
            Self::Rejected(reason) => write!(f, "rejected: {reason}"),
            Self::InFlight => f.write_str("in flight"),
        }
    }
}

/// One request as its client saw it.
///
/// Invariant *identity of latencies*: for a complete request `ttft + gaps.total = e2e`, in integer
/// nanoseconds.
///
/// Written with serde it is a row of columns: `id`, `stage`, `arrival_s`, `queue_ms`, `ttft_ms`,
/// `tpot_ms`, `e2e_ms`, `longest_gap_ms`, `prompt_tokens`, `output_tokens`, `cached_tokens`,
/// `preemptions`, `outcome`, and `itl_ms`, the list of gaps, where that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "Row")]
#[non_exhaustive]
pub struct RequestRecord {
    /// Its number.
    pub id: RequestId,
    /// The part of the load it belongs to.
    pub stage: StageId,
    /// When the client sent it.
    pub arrival: SimTime,
    /// From arrival until it first entered a running batch, if it did.
    pub queue: Option<SimDuration>,
    /// Time to first token (TTFT): from arrival until the first token reached the client, if one did.
    pub ttft: Option<SimDuration>,
    /// End-to-end latency: from arrival to the end, if it ended and was not rejected. Until the last
    /// token, for a complete request.
    pub e2e: Option<SimDuration>,
    /// Length of its prompt.
    pub prompt_tokens: u32,
    /// Tokens that reached the client.
    pub output_tokens: u32,
    /// Prompt tokens found in the prefix cache when it was first scheduled.
    pub cached_tokens: u32,
    /// How often it lost its KV blocks.
    pub preemptions: u32,
    /// How it ended, or not.
    pub outcome: Outcome,
    /// Times between its tokens.
    pub gaps: Gaps,
    /// Fingerprint of the times of all its tokens.
    timeline: Fingerprint,
}

impl RequestRecord {
    /// The record of a request that has just arrived.
    pub(crate) fn of(request: &Request) -> Self {
        Self {
            id: request.id,
            stage: request.stage,
            arrival: request.arrival,
            queue: None,
            ttft: None,
            e2e: None,
            prompt_tokens: request.prompt.tokens(),
            output_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
            outcome: Outcome::InFlight,
            gaps: Gaps::default(),
            timeline: Fingerprint::new(),
        }
    }

    /// Takes down `count` tokens that come together, `gap` after the token before, or, if they are
    /// the first, `gap` after the arrival.
    pub(crate) fn add_tokens(&mut self, gap: SimDuration, count: u32) {
        if self.ttft.is_none() {
            self.ttft = Some(gap);
        } else {
            self.gaps.add(gap);
        }
        self.timeline = self.timeline.with(gap.as_nanos());
        // The others of a group come at once.
        for _ in 1..count {
            self.gaps.add(SimDuration::ZERO);
            self.timeline = self.timeline.with(0);
        }
        self.output_tokens += count;
    }

    /// Time per output token (TPOT): the time from the first to the last token, divided by the
    /// number of tokens after the first, to the nearest nanosecond. `None` with fewer than two
    /// tokens. This is the definition of vLLM's `bench serve` and of inference-perf.
    pub fn tpot(&self) -> Option<SimDuration> {
        let count = u64::from(
            self.output_tokens
                .checked_sub(1)
                .filter(|&count| count > 0)?,
        );
        let total = self.gaps.total.as_nanos();
        // The sum of total and half of a count cannot overflow below 292 years.
        Some(SimDuration::from_nanos((total + count / 2) / count))
    }

    /// When it ended, if it ended and was not rejected.
    pub fn end(&self) -> Option<SimTime> {
        self.e2e.map(|e2e| self.arrival + e2e)
    }

    /// A fingerprint of everything in this record and of the times of all its tokens. Equal on all
    /// platforms; whether the list of gaps was kept makes no difference.
    pub fn fingerprint(&self) -> Fingerprint {
        let nanos = |span: Option<SimDuration>| span.map_or(u64::MAX, SimDuration::as_nanos);
        [
            u64::from(self.id.get()),
            u64::from(self.stage.get()),
            self.arrival.as_nanos(),
            nanos(self.queue),
            nanos(self.ttft),
            nanos(self.e2e),
            u64::from(self.prompt_tokens),
            u64::from(self.output_tokens),
            u64::from(self.cached_tokens),
            u64::from(self.preemptions),
            self.timeline.value(),
        ]
        .into_iter()
        .fold(Fingerprint::new(), Fingerprint::with)
        .with_str(&self.outcome.to_string())
    }
}

/// The written form of a record.
#[derive(Serialize)]
struct Row {
    id: u32,
    stage: u32,
    arrival_s: f64,
    queue_ms: Option<f64>,
    ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    e2e_ms: Option<f64>,
    longest_gap_ms: f64,
    prompt_tokens: u32,
    output_tokens: u32,
    cached_tokens: u32,
    preemptions: u32,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    itl_ms: Option<Vec<f64>>,
}

impl From<RequestRecord> for Row {
    fn from(record: RequestRecord) -> Self {
        let ms = |span: Option<SimDuration>| span.map(SimDuration::as_millis_f64);
        let gaps = record.gaps.list.as_ref();
        Self {
            id: record.id.get(),
            stage: record.stage.get(),
            arrival_s: record.arrival.as_secs_f64(),
            queue_ms: ms(record.queue),
            ttft_ms: ms(record.ttft),
            tpot_ms: ms(record.tpot()),
            e2e_ms: ms(record.e2e),
            longest_gap_ms: record.gaps.longest.as_millis_f64(),
            prompt_tokens: record.prompt_tokens,
            output_tokens: record.output_tokens,
            cached_tokens: record.cached_tokens,
            preemptions: record.preemptions,
            outcome: record.outcome.to_string(),
            itl_ms: gaps.map(|gaps| gaps.iter().map(|gap| gap.as_millis_f64()).collect()),
        }
    }
}

/// The time over which rates are taken: from the first arrival of any of `records` to the end of the
/// last complete one; nothing if none is complete.
pub(crate) fn window<'a>(records: impl IntoIterator<Item = &'a RequestRecord>) -> SimDuration {
    let (mut first, mut last) = (SimTime::MAX, SimTime::ZERO);
    for record in records {
        first = first.min(record.arrival);
        if record.outcome.is_complete() {
            last = last.max(record.end().unwrap_or_default());
        }
    }
    last.saturating_since(first)
}

/// The times between the tokens of one request: its inter-token latencies (ITL).
///
/// There is one gap for each token after the first. Of tokens that come together the first carries
/// the gap, the others come after 0 ns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Gaps {
    /// The sum of all gaps: from the first to the last token.
    pub total: SimDuration,
    /// The longest gap.
    pub longest: SimDuration,
    /// All gaps in their order, if the recorder was asked to keep them.
    pub list: Option<Vec<SimDuration>>,
}

impl Gaps {
    fn add(&mut self, gap: SimDuration) {
        self.total += gap;
        self.longest = self.longest.max(gap);
        if let Some(list) = &mut self.list {
            list.push(gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_workload::{ContentId, Prompt, Segment};

    use super::*;

    const fn ns(nanos: u64) -> SimDuration {
        SimDuration::from_nanos(nanos)
    }

    fn record() -> RequestRecord {
        let prompt = Prompt::new([Segment::new(ContentId::new(1), 3)]).expect("it has tokens");
        RequestRecord::of(&Request::new(RequestId::new(0), SimTime::ZERO, prompt, 9))
    }

    #[test]
    fn time_per_output_token_is_the_mean_gap_to_the_nearest_nanosecond() {
        let mut record = record();
        assert_eq!(record.tpot(), None);
        record.add_tokens(ns(50), 1);
        assert_eq!(record.tpot(), None);
        record.add_tokens(ns(10), 1);
        assert_eq!(record.tpot(), Some(ns(10)));
        record.add_tokens(ns(11), 1);
        assert_eq!(record.tpot(), Some(ns(11)));
        record.add_tokens(ns(10), 1);
        assert_eq!(record.tpot(), Some(ns(10)));
    }

    #[test]
    fn of_tokens_that_come_together_the_first_carries_the_gap() {
        let mut record = record();
        record.gaps.list = Some(Vec::new());
        record.add_tokens(ns(50), 2);
        record.add_tokens(ns(12), 3);
        assert_eq!(record.ttft, Some(ns(50)));
        assert_eq!(record.output_tokens, 5);
        assert_eq!(record.gaps.list, Some([0, 12, 0, 0].map(ns).to_vec()));
        assert_eq!((record.gaps.total, record.gaps.longest), (ns(12), ns(12)));
    }

    #[test]
    fn a_group_of_tokens_equals_single_tokens_at_the_same_instant() {
        let (mut together, mut apart) = (record(), record());
        together.add_tokens(ns(5), 3);
        apart.add_tokens(ns(5), 1);
        apart.add_tokens(ns(0), 1);
        apart.add_tokens(ns(0), 1);
        assert_eq!(together, apart);
    }

    #[test]
    fn a_fingerprint_notices_one_moved_token() {
        let (mut early, mut late) = (record(), record());
        for (record, gaps) in [(&mut early, [7, 10, 12]), (&mut late, [7, 11, 11])] {
            for gap in gaps {
                record.add_tokens(ns(gap), 1);
            }
        }
        assert_eq!(early.gaps.total, late.gaps.total);
        assert_ne!(early.fingerprint(), late.fingerprint());
    }

    #[test]
    fn only_a_full_answer_is_complete() {
        assert!(Outcome::Finished(FinishReason::Stop).is_complete());
        assert!(Outcome::Finished(FinishReason::Length).is_complete());
        assert!(!Outcome::Finished(FinishReason::Abort).is_complete());
        assert!(!Outcome::Rejected(RejectReason::Shed).is_complete());
        assert!(!Outcome::InFlight.is_complete());
    }
}

//! What is kept of one request.

use foretoken_des_kernel::{Fingerprint, SimDuration, SimTime};
use foretoken_workload::{Delivery, FlowId, Request, RequestId, SessionId, SloClass, StageId};
use serde::Serialize;

use crate::timeline::{Extension, Timeline};

use crate::outcome::Outcome;

/// One request as its client saw it.
///
/// Invariant *identity of latencies*: for a complete request `ttft + gaps.total = e2e`, in integer
/// nanoseconds.
///
/// Written with serde it is a row of columns: `id`, `stage`, `class`, `tenant`, `arrival_s`,
/// `endpoint`, `gateway_ms`, `queue_ms`, `ttft_ms`, `tpot_ms`, `e2e_ms`, `longest_gap_ms`,
/// `prompt_tokens`, `output_tokens`, `cached_tokens`, `preemptions`, `outcome`; where there are any,
/// `session`, `attempt`, `stream` (if it is not), `prefill_endpoint`, `kv_transfer_ms` and `kv_transfer_bytes`; and `itl_ms`, the list of gaps, where
/// that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "Row")]
#[non_exhaustive]
pub struct RequestRecord {
    /// Its number.
    pub id: RequestId,
    /// The part of the load it belongs to.
    pub stage: StageId,
    /// What its client was promised.
    pub class: SloClass,
    /// Whom it belongs to: its tenant.
    pub flow: FlowId,
    /// The conversation it belongs to, if any.
    pub session: Option<SessionId>,
    /// How often it was asked before, and failed: 0 unless it is a retry.
    pub attempt: u32,
    /// How its answer reaches its client.
    pub delivery: Delivery,
    /// When the client sent it.
    pub arrival: SimTime,
    /// Number of the endpoint that answers, once it was sent to one.
    pub endpoint: Option<u32>,
    /// Number of the endpoint that computes the prompt, if that is another one.
    pub prefill_endpoint: Option<u32>,
    /// Time in the gateway: from arrival until it was first sent to an endpoint, if it was.
    pub gateway: Option<SimDuration>,
    /// How its KV blocks came from the endpoint that computed the prompt, if they did.
    pub transfer: Option<KvTransfer>,
    /// From arrival until it first entered a running batch, if it did; time in the gateway included.
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
    timeline: Timeline,
}

impl RequestRecord {
    /// The record of a request that has just arrived.
    pub(crate) fn of(request: &Request) -> Self {
        Self {
            id: request.id,
            stage: request.stage,
            class: request.class,
            flow: request.flow,
            session: request.session,
            attempt: request.attempt,
            delivery: request.delivery,
            arrival: request.arrival,
            endpoint: None,
            prefill_endpoint: None,
            gateway: None,
            transfer: None,
            queue: None,
            ttft: None,
            e2e: None,
            prompt_tokens: request.prompt.tokens(),
            output_tokens: 0,
            cached_tokens: 0,
            preemptions: 0,
            outcome: Outcome::InFlight,
            gaps: Gaps::default(),
            timeline: Timeline::default(),
        }
    }

    /// Takes down that it was sent to an endpoint at `at`. One that is sent again, since an endpoint
    /// went away, belongs to the last one.
    pub(crate) fn dispatch(&mut self, at: SimTime, endpoint: u32, prefill: Option<u32>) {
        self.gateway.get_or_insert(at - self.arrival);
        self.endpoint = Some(endpoint);
        self.prefill_endpoint = prefill;
    }

    /// Takes down that a running batch took it in at `at`. With prefill and decode apart that
    /// happens twice; the prompt is computed in the first batch.
    pub(crate) fn schedule(&mut self, at: SimTime, cached_tokens: u32) {
        if self.queue.is_none() {
            self.queue = Some(at - self.arrival);
            self.cached_tokens = cached_tokens;
        }
    }

    /// Takes down that KV blocks came; what comes in several parts adds up.
    pub(crate) fn receive(&mut self, bytes: u64, took: SimDuration) {
        let transfer = self.transfer.get_or_insert_default();
        transfer.bytes += bytes;
        transfer.took += took;
    }

    /// Takes down `count` tokens that come together, `gap` after the token before, or, if they are
    /// the first, `gap` after the arrival.
    pub(crate) fn add_tokens(&mut self, gap: SimDuration, count: u32) {
        if self.ttft.is_none() {
            self.ttft = Some(gap);
        } else {
            self.gaps.add(gap);
        }
        self.timeline.push(gap);
        // The others of a group come at once.
        for _ in 1..count {
            self.gaps.add(SimDuration::ZERO);
            self.timeline.push(SimDuration::ZERO);
        }
        self.output_tokens += count;
    }

    /// Takes down tokens after the first that come one by one.
    pub(crate) fn add_later(&mut self, later: &LaterGaps<'_>) {
        self.gaps.total += later.total;
        self.gaps.longest = self.gaps.longest.max(later.longest);
        if let Some(list) = &mut self.gaps.list {
            list.extend_from_slice(later.list);
        }
        self.timeline.extend(&later.extension);
        self.output_tokens += later.count;
    }

    /// Takes down that it ended, after `e2e`. Of an answer that comes whole, the client gets the first token with the
    /// last, or nothing.
    pub(crate) fn finish(&mut self, e2e: SimDuration) {
        self.e2e = Some(e2e);
        if self.delivery == Delivery::Whole && self.outcome.is_complete() {
            self.ttft = Some(e2e);
            self.gaps = Gaps::default();
        } else {
            self.withhold();
        }
    }

    /// An answer that comes whole and is not complete has not come.
    pub(crate) fn withhold(&mut self) {
        if self.delivery == Delivery::Whole {
            self.ttft = None;
            self.output_tokens = 0;
            self.gaps = Gaps::default();
        }
    }

    /// Time per output token (TPOT): the time from the first to the last token, divided by the
    /// number of tokens after the first, to the nearest nanosecond. `None` with fewer than two
    /// tokens, or if they came all at once. This is the definition of vLLM's `bench serve` and of inference-perf.
    pub fn tpot(&self) -> Option<SimDuration> {
        if self.delivery == Delivery::Whole {
            return None;
        }
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
        let number = |endpoint: Option<u32>| endpoint.map_or(u64::MAX, u64::from);
        [
            u64::from(self.id.get()),
            u64::from(self.stage.get()),
            u64::from(self.flow.get()),
            self.arrival.as_nanos(),
            number(self.endpoint),
            number(self.prefill_endpoint),
            nanos(self.gateway),
            nanos(self.transfer.map(|transfer| transfer.took)),
            self.transfer.map_or(u64::MAX, |transfer| transfer.bytes),
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
        .with_str(self.class.name())
        .with_str(&self.outcome.name())
    }
}

/// The written form of a record.
#[derive(Serialize)]
struct Row {
    id: u32,
    stage: u32,
    class: SloClass,
    tenant: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    arrival_s: f64,
    endpoint: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_endpoint: Option<u32>,
    gateway_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_transfer_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_transfer_bytes: Option<u64>,
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
            class: record.class,
            tenant: record.flow.get(),
            session: record.session.map(SessionId::get),
            attempt: Some(record.attempt).filter(|&attempt| attempt > 0),
            stream: (record.delivery == Delivery::Whole).then_some(false),
            arrival_s: record.arrival.as_secs_f64(),
            endpoint: record.endpoint,
            prefill_endpoint: record.prefill_endpoint,
            gateway_ms: ms(record.gateway),
            kv_transfer_ms: ms(record.transfer.map(|transfer| transfer.took)),
            kv_transfer_bytes: record.transfer.map(|transfer| transfer.bytes),
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

/// How the KV blocks of a prompt came from the endpoint that computed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct KvTransfer {
    /// What was read over the link.
    pub bytes: u64,
    /// From the first wish to read until all was there, waiting for the link included.
    pub took: SimDuration,
}

/// Consecutive gaps, summed up: what they do to the record of any request that has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaterGaps<'a> {
    pub(crate) count: u32,
    pub(crate) total: SimDuration,
    pub(crate) longest: SimDuration,
    pub(crate) extension: Extension,
    /// All of them, if gaps are kept.
    pub(crate) list: &'a [SimDuration],
}

impl<'a> LaterGaps<'a> {
    pub(crate) fn of(list: &'a [SimDuration]) -> Self {
        let mut extension = Extension::default();
        for &gap in list {
            extension.push(gap);
        }
        Self {
            count: u32::try_from(list.len()).expect("a request has fewer than 2^32 tokens"),
            total: list.iter().copied().sum(),
            longest: list.iter().copied().max().unwrap_or_default(),
            extension,
            list,
        }
    }
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
    fn the_first_batch_counts_where_prefill_and_decode_are_apart() {
        let mut record = record();
        let at = SimTime::from_nanos;
        record.dispatch(at(20), 4, Some(1));
        record.schedule(at(30), 2);
        record.receive(600, ns(50));
        record.receive(400, ns(5));
        record.schedule(at(90), 3);
        assert_eq!((record.queue, record.cached_tokens), (Some(ns(30)), 2));
        assert_eq!(record.gateway, Some(ns(20)));
        assert_eq!(
            (record.endpoint, record.prefill_endpoint),
            (Some(4), Some(1))
        );
        let transfer = KvTransfer {
            bytes: 1_000,
            took: ns(55),
        };
        assert_eq!(record.transfer, Some(transfer));
    }

    #[test]
    fn a_request_that_is_sent_again_belongs_to_the_last_endpoint() {
        let mut record = record();
        record.dispatch(SimTime::from_nanos(20), 4, Some(1));
        record.dispatch(SimTime::from_nanos(70), 2, None);
        assert_eq!((record.endpoint, record.prefill_endpoint), (Some(2), None));
        assert_eq!(record.gateway, Some(ns(20)));
    }

    #[test]
    fn a_fingerprint_notices_who_asked_and_who_served() {
        let plain = record();
        let changes: [fn(&mut RequestRecord); 5] = [
            |record| record.class = SloClass::Batch,
            |record| record.flow = FlowId::new(1),
            |record| record.dispatch(SimTime::ZERO, 0, None),
            |record| record.dispatch(SimTime::ZERO, 0, Some(0)),
            |record| record.receive(1, SimDuration::ZERO),
        ];
        let prints = changes.map(|change| {
            let mut other = plain.clone();
            change(&mut other);
            other.fingerprint()
        });
        for (index, print) in prints.iter().enumerate() {
            assert_ne!(*print, plain.fingerprint());
            assert!(!prints[..index].contains(print));
        }
    }

    #[test]
    fn columns_of_a_transfer_are_there_only_if_there_was_one() {
        let mut record = record();
        let row = |record: &RequestRecord| serde_json::to_value(record).expect("plain data");
        let plain = row(&record);
        assert_eq!(
            (&plain["class"], &plain["tenant"]),
            (&"standard".into(), &0.into())
        );
        assert!(plain["gateway_ms"].is_null() && plain.get("kv_transfer_ms").is_none());
        record.dispatch(SimTime::from_nanos(500_000), 1, Some(0));
        record.receive(4_096, ns(2_000_000));
        let split = row(&record);
        assert_eq!(
            (&split["endpoint"], &split["prefill_endpoint"]),
            (&1.into(), &0.into())
        );
        assert_eq!(split["gateway_ms"], 0.5);
        assert_eq!(
            (&split["kv_transfer_ms"], &split["kv_transfer_bytes"]),
            (&2.0.into(), &4_096.into())
        );
    }
}

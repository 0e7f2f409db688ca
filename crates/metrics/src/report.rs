//! A run in numbers: [`Report`].

use std::collections::BTreeMap;

use foretoken_des_kernel::SimDuration;
use foretoken_des_kernel::stats::Quantiles;
use foretoken_workload::{FinishReason, RejectReason, RequestId};
use serde::{Deserialize, Serialize};

use crate::digest::RunDigest;
use crate::record::{Outcome, RequestRecord, window};
use crate::recorder::Recording;
use crate::round::{per_second, share, significant};

/// Version of the form of [`Report`]: grows when a column changes its name or meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A run in numbers, ready to be printed or written as JSON.
///
/// The same run gives the same bytes. All numbers are rounded to 12 significant digits (curves to 5),
/// so that what is read back from JSON equals what was written.
///
/// `Display` prints tables for people; serde gives columns for programs. The example of the
/// [crate] shows both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of this form: [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The seed: names the experiment.
    pub seed: u64,
    /// The repetition of the experiment.
    pub replication: u64,
    /// Fingerprint of everything that happened to every request.
    pub digest: RunDigest,
    /// Length of the run in simulated time, from 0 to its end.
    pub duration_s: f64,
    /// All requests.
    pub overall: Summary,
    /// The requests of each stage, by stage.
    pub stages: Vec<StageReport>,
    /// The engines.
    pub load: LoadReport,
}

/// The requests of one stage of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageReport {
    /// The stage.
    pub stage: u32,
    /// Its requests.
    pub summary: Summary,
}

/// What a set of requests experienced.
///
/// Latencies other than ITL are those of complete requests (finished and not aborted), as
/// inference-perf and vLLM's `bench serve` have it; ITL is over every gap between two tokens of any
/// request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// How many, and what became of them.
    pub counts: Counts,
    /// From arrival to first being scheduled.
    pub queue_ms: Option<Latency>,
    /// Time to first token.
    pub ttft_ms: Option<Latency>,
    /// Inter-token latency: every gap counts once.
    pub itl_ms: Option<Latency>,
    /// Time per output token: every request with at least two tokens counts once.
    pub tpot_ms: Option<Latency>,
    /// End-to-end latency.
    pub e2e_ms: Option<Latency>,
    /// Work done per second.
    pub throughput: Throughput,
    /// Share of prompt tokens found in the prefix cache, over all requests that were scheduled;
    /// `None` if none was.
    pub prefix_hit_rate: Option<f64>,
    /// Prompt tokens of complete requests.
    pub prompt_tokens: u64,
    /// Output tokens of complete requests.
    pub output_tokens: u64,
    /// How often requests lost their KV blocks.
    pub preemptions: u64,
    /// The longest gap between two tokens.
    pub longest_stall: Option<Stall>,
}

/// What became of requests.
///
/// Invariant *conservation of requests*: `arrived = finished + rejected + aborted + in_flight`, with
/// all reasons of rejection added up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Sent by clients.
    pub arrived: u64,
    /// Answered in full.
    pub finished: u64,
    /// Left by their clients.
    pub aborted: u64,
    /// Neither ended nor refused when the run ended.
    pub in_flight: u64,
    /// Refused, by the kind of reason: `prompt too long`, `exceeds KV pool`, `shed`, `no endpoint`.
    pub rejected: BTreeMap<String, u64>,
}

impl Counts {
    /// Refused for any reason.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }

    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Finished(FinishReason::Abort) => self.aborted += 1,
            Outcome::Finished(_) => self.finished += 1,
            Outcome::Rejected(reason) => {
                *self.rejected.entry(kind(reason).to_owned()).or_default() += 1;
            }
            Outcome::InFlight => self.in_flight += 1,
        }
    }

    fn assert_conserved(&self) {
        let Self {
            arrived,
            finished,
            aborted,
            in_flight,
            ..
        } = *self;
        let rejected = self.rejected_total();
        assert!(
            arrived == finished + rejected + aborted + in_flight,
            "conservation of requests: {arrived} arrived, but {finished} finished, {rejected} were \
             rejected, {aborted} aborted and {in_flight} are in flight"
        );
    }
}

/// The kind of a reason, without the numbers of the single case.
const fn kind(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::PromptTooLong { .. } => "prompt too long",
        RejectReason::ExceedsKvPool { .. } => "exceeds KV pool",
        RejectReason::Shed => "shed",
        RejectReason::NoEndpoint => "no endpoint",
        _ => "other",
    }
}

/// A distribution of times, in milliseconds.
///
/// Percentiles interpolate linearly between the closest ranks, as `NumPy` does by default and
/// inference-perf and vLLM's `bench serve` with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// The mean: an exact sum of nanoseconds, divided once.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The highest value.
    pub max: f64,
}

impl Latency {
    /// The distribution of `nanos`; `None` without values.
    pub fn of(nanos: &mut Quantiles) -> Option<Self> {
        let ms = |nanos: f64| significant(nanos / 1e6);
        Some(Self {
            count: nanos.count(),
            mean: ms(nanos.mean()?),
            p50: ms(nanos.quantile(0.5)?),
            p90: ms(nanos.quantile(0.9)?),
            p95: ms(nanos.quantile(0.95)?),
            p99: ms(nanos.quantile(0.99)?),
            max: ms(nanos.quantile(1.0)?),
        })
    }
}

/// Complete requests and their tokens per second, over the time from the first arrival of any
/// request to the end of the last complete one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Throughput {
    /// Length of that time; 0 if no request is complete, and then all rates are 0.
    pub window_s: f64,
    /// Requests.
    pub requests_per_s: f64,
    /// Output tokens.
    pub output_tokens_per_s: f64,
    /// Prompt and output tokens.
    pub total_tokens_per_s: f64,
}

/// A gap between two tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stall {
    /// Its length.
    pub ms: f64,
    /// Whose gap it was; the first request of several with equally long ones.
    pub request: u32,
}

/// How full and how busy the engines were: sums over all of them, from time 0 to the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadReport {
    /// Number of engines that were heard of.
    pub engines: u64,
    /// Sequences in running batches.
    pub running: GaugeReport,
    /// Requests in waiting queues.
    pub waiting: GaugeReport,
    /// Share of KV blocks held by sequences.
    pub kv_occupancy: GaugeReport,
    /// Share of time for which accelerators worked.
    pub busy_share: f64,
    /// Steps done.
    pub steps: u64,
    /// Tokens computed per step; `None` without steps.
    pub tokens_per_step: Option<f64>,
    /// Sequences per step; `None` without steps.
    pub sequences_per_step: Option<f64>,
    /// The same over time.
    pub series: TimeSeries,
}

/// A gauge over a run; what stood for no time at all does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GaugeReport {
    /// The mean over time.
    pub mean: f64,
    /// The highest value.
    pub max: f64,
}

/// Gauges over time: their means over consecutive intervals of equal length from time 0 on, the last
/// of which the end of the run may cut short. At most 200 intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimeSeries {
    /// Length of an interval.
    pub interval_s: f64,
    /// Sequences in running batches.
    pub running: Vec<f64>,
    /// Requests in waiting queues.
    pub waiting: Vec<f64>,
    /// Share of KV blocks held by sequences.
    pub kv_occupancy: Vec<f64>,
    /// Share of time for which accelerators worked.
    pub busy_share: Vec<f64>,
}

impl Report {
    /// The report of a recorded run.
    ///
    /// # Panics
    /// If the *conservation of requests* is broken.
    pub fn new(recording: &Recording, seed: u64, replication: u64) -> Self {
        let records = recording.records();
        let arrived = recording.stages().iter().map(|stage| stage.arrived).sum();
        let of_stage = |id| {
            records
                .iter()
                .filter(move |record: &&RequestRecord| record.stage == id)
        };
        Self {
            schema: SCHEMA_VERSION,
            seed,
            replication,
            digest: recording.fingerprint().into(),
            duration_s: significant(recording.end().as_secs_f64()),
            overall: Summary::new(arrived, records.iter(), recording.gaps()),
            stages: recording
                .stages()
                .iter()
                .map(|stage| StageReport {
                    stage: stage.id.get(),
                    summary: Summary::new(stage.arrived, of_stage(stage.id), stage.gaps().clone()),
                })
                .collect(),
            load: recording.load().report(recording.end()),
        }
    }
}

/// Sums and values of some requests, on the way to a [`Summary`].
#[derive(Default)]
struct Samples {
    counts: Counts,
    queue: Quantiles,
    ttft: Quantiles,
    tpot: Quantiles,
    e2e: Quantiles,
    prompt_tokens: u64,
    output_tokens: u64,
    scheduled_tokens: u64,
    cached_tokens: u64,
    preemptions: u64,
    longest: Option<(u64, RequestId)>,
}

impl Samples {
    fn add(&mut self, record: &RequestRecord) {
        self.counts.add(record.outcome);
        self.preemptions += u64::from(record.preemptions);
        if record.queue.is_some() {
            self.scheduled_tokens += u64::from(record.prompt_tokens);
            self.cached_tokens += u64::from(record.cached_tokens);
        }
        if record.output_tokens > 1 {
            let longest = record.gaps.longest.as_nanos();
            if self.longest.is_none_or(|(nanos, _)| nanos < longest) {
                self.longest = Some((longest, record.id));
            }
        }
        if record.outcome.is_complete() {
            self.prompt_tokens += u64::from(record.prompt_tokens);
            self.output_tokens += u64::from(record.output_tokens);
            let latencies = [
                (&mut self.queue, record.queue),
                (&mut self.ttft, record.ttft),
                (&mut self.tpot, record.tpot()),
                (&mut self.e2e, record.e2e),
            ];
            for (values, latency) in latencies {
                values.extend(latency.map(SimDuration::as_nanos));
            }
        }
    }

    fn throughput(&self, window: SimDuration) -> Throughput {
        Throughput {
            window_s: significant(window.as_secs_f64()),
            requests_per_s: per_second(self.counts.finished, window),
            output_tokens_per_s: per_second(self.output_tokens, window),
            total_tokens_per_s: per_second(self.prompt_tokens + self.output_tokens, window),
        }
    }
}

impl Summary {
    /// Sums up `records`, of which there should be `arrived`, and the `gaps` between their tokens.
    fn new<'a>(
        arrived: u64,
        records: impl Iterator<Item = &'a RequestRecord> + Clone,
        mut gaps: Quantiles,
    ) -> Self {
        let mut samples = Samples::default();
        samples.counts.arrived = arrived;
        records.clone().for_each(|record| samples.add(record));
        samples.counts.assert_conserved();
        let hit_rate = share(
            samples.cached_tokens.into(),
            samples.scheduled_tokens.into(),
        );
        Self {
            throughput: samples.throughput(window(records)),
            counts: samples.counts,
            queue_ms: Latency::of(&mut samples.queue),
            ttft_ms: Latency::of(&mut samples.ttft),
            itl_ms: Latency::of(&mut gaps),
            tpot_ms: Latency::of(&mut samples.tpot),
            e2e_ms: Latency::of(&mut samples.e2e),
            prefix_hit_rate: (samples.scheduled_tokens > 0).then(|| significant(hit_rate)),
            prompt_tokens: samples.prompt_tokens,
            output_tokens: samples.output_tokens,
            preemptions: samples.preemptions,
            longest_stall: samples.longest.map(|(nanos, request)| Stall {
                ms: significant(nanos as f64 / 1e6),
                request: request.get(),
            }),
        }
    }
}

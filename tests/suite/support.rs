//! What several modules need: small loads, small engines, a sink that takes down everything.

use foretoken::des_kernel::Fingerprint;
use foretoken::engine::Scheduling;
use foretoken::metrics::{LevelRecord, Recording, RequestRecord, StepRecord};
use foretoken::prelude::*;
use foretoken::workload::{ContentId, Replay, Segment};

/// Poisson arrivals of requests with a few hundred tokens in, a few dozen out.
pub(crate) fn load(rate: f64, requests: u32) -> SyntheticSpec {
    let (prompts, outputs) = (LengthSpec::uniform(50, 600), LengthSpec::uniform(1, 80));
    Synthetic::poisson(rate, requests, prompts, outputs).expect("a positive rate")
}

/// Two engines with default settings under [`load`].
pub(crate) fn simulation(rate: f64, requests: u32) -> Simulation {
    Simulation::new()
        .engines(2, EngineConfig::default())
        .latency(Affine::example())
        .workload(load(rate, requests))
}

/// Requests as (arrival in ns, prompt tokens, output tokens), each with a text of its own.
pub(crate) fn replay(requests: impl IntoIterator<Item = (u64, u32, u32)>) -> Replay {
    let requests = (0..).zip(requests).map(|(id, (at, prompt, output))| {
        let text = Segment::new(ContentId::new(u64::from(id)), prompt);
        let prompt = Prompt::new([text]).expect("it has tokens");
        Request::new(RequestId::new(id), SimTime::from_nanos(at), prompt, output)
    });
    Replay::new(requests.collect()).expect("in order of arrival")
}

/// Plans each step after the one before has ended, and does nothing else by itself.
pub(crate) fn synchronous() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.scheduler.scheduling = Scheduling::Synchronous;
    config
}

/// Costs of a host that differ from each other, in whole nanoseconds times `scale`.
pub(crate) fn host(scale: u64) -> HostCosts {
    let span = |nanos: u64| SimDuration::from_nanos(nanos * scale);
    HostCosts {
        ingest: span(300_001),
        ingest_per_token: span(701),
        schedule: span(150_003),
        schedule_per_sequence: span(2_003),
        update: span(90_007),
        update_per_sequence: span(1_009),
        deliver: span(400_009),
        deliver_per_sequence: span(3_001),
    }
}

/// The example's step times, `scale` times as long.
pub(crate) fn affine(scale: u64) -> Affine {
    Affine::new(SimDuration::from_micros(5_000 * scale))
        .per_token(SimDuration::from_micros(20 * scale))
        .per_sequence(SimDuration::from_micros(10 * scale))
        .per_context(SimDuration::from_nanos(50 * scale))
}

/// Every occurrence, step and level of a run.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) occurrences: Vec<Occurrence>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) levels: Vec<(SimTime, LevelRecord)>,
}

impl MetricSink for Log {
    fn on_occurrence(&mut self, occurrence: &Occurrence) {
        self.occurrences.push(*occurrence);
    }

    fn on_step(&mut self, step: &StepRecord) {
        self.steps.push(*step);
    }

    fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        self.levels.push((at, *level));
    }
}

impl Log {
    /// A fingerprint of all of it, in the order in which it was told.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let text = format!("{:?}{:?}{:?}", self.occurrences, self.steps, self.levels);
        text.bytes()
            .fold(Fingerprint::new(), |print, byte| print.with(byte.into()))
    }
}

/// Runs with all that can be taken down.
pub(crate) fn run_logged(simulation: Simulation) -> (Log, Recording) {
    let sinks = (Log::default(), Recorder::new().keeping_gaps());
    let ((log, recorder), end) = simulation.run_with(sinks).expect("a valid simulation");
    (log, recorder.finish(end.at))
}

/// Invariant *identity of latencies*: TTFT plus all gaps is the end-to-end latency.
pub(crate) fn assert_latencies_add_up(records: &[RequestRecord]) {
    for record in records.iter().filter(|r| r.outcome.is_complete()) {
        let gaps = record.gaps.list.as_deref().expect("gaps were kept");
        assert_eq!(gaps.len() + 1, record.output_tokens as usize);
        let ttft = record.ttft.expect("a complete request has a first token");
        let sum = gaps.iter().fold(ttft, |sum, &gap| sum + gap);
        assert_eq!(Some(sum), record.e2e, "request {}", record.id);
    }
}

/// Invariant *no KV block leaked*: the last word of every engine is that it holds none.
pub(crate) fn assert_no_block_is_held(log: &Log) {
    let engines = log.levels.iter().map(|(_, level)| level.instance).max();
    for engine in 0..=engines.expect("engines report their first level") {
        let of_engine = |(_, level): &&(SimTime, LevelRecord)| level.instance == engine;
        let (_, last) = log.levels.iter().rev().find(of_engine).expect("it reports");
        assert_eq!(
            (last.running, last.waiting, last.kv_blocks_used),
            (0, 0, 0),
            "engine {engine}"
        );
    }
}

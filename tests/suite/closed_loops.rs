//! Clients that react to answers, and clients that lose patience.

#[path = "../../examples/open_vs_closed/loops.rs"]
mod experiment;

use std::collections::BTreeSet;

use foretoken::metrics::{Outcome, Recorder, RequestRecord};
use foretoken::prelude::*;
use foretoken::workload::{
    ArrivalSpec, BlockHash, BlockHasher, ClientSpec, ClosedLoopSpec, CountSpec, DelaySpec,
    FinishReason, RetrySpec, Seconds, SessionsSpec, StartSpec, WorkloadSpec,
};

use crate::support::load;

fn records(simulation: Simulation) -> Vec<RequestRecord> {
    let (recorder, end) = simulation.run_with(Recorder::new()).expect("it runs");
    recorder.finish(end.at).records().to_vec()
}

fn engines(count: u32, workload: impl Into<WorkloadSpec>) -> Simulation {
    Simulation::new()
        .engines(count as usize, EngineConfig::default())
        .latency(Affine::example())
        .workload(workload.into())
}

#[test]
fn users_of_a_closed_loop_obey_littles_law() {
    let (users, think) = (32, 1.5);
    let spec = ClosedLoopSpec {
        think: DelaySpec::Exponential { mean_s: think },
        ..ClosedLoopSpec::new(
            users,
            20_000,
            LengthSpec::uniform(50, 600),
            LengthSpec::uniform(1, 200),
        )
    };
    let records = records(engines(1, spec));
    assert_eq!(records.len(), 20_000);
    let last = records.iter().map(|it| it.arrival).max().expect("some");
    let within: Vec<_> = records
        .iter()
        .filter(|it| it.end().is_some_and(|end| end <= last))
        .collect();
    let count = within.len() as f64;
    let latency = within.iter().filter_map(|it| it.e2e);
    let mean = latency.map(SimDuration::as_secs_f64).sum::<f64>() / count;
    let throughput = count / last.as_secs_f64();
    let users_found = throughput * (mean + think);
    let error = (users_found / f64::from(users) - 1.0).abs();
    assert!(error < 0.01, "N = {users}, X (R + Z) = {users_found}");
}

/// One engine that is soon full.
fn small(workload: impl Into<WorkloadSpec>) -> Simulation {
    let mut config = EngineConfig::default();
    config.scheduler.max_num_seqs = 12;
    Simulation::new()
        .engines(1, config)
        .latency(Affine::example())
        .workload(workload.into())
}

/// Prompt tokens that a cache of unlimited size would find: full blocks, of which the last token of a prompt is
/// computed anew; of an answer the last token is never computed.
fn found_in_an_endless_cache(requests: &[Request], block_size: u32) -> u64 {
    let mut known = BTreeSet::new();
    let mut found = 0;
    for request in requests {
        let hasher = BlockHasher::new(&request.prompt, request.output_content, block_size);
        let prompt = request.prompt.tokens();
        let computed = prompt + request.output_tokens() - 1;
        let mut chain = Vec::new();
        hasher.extend(BlockHash::root(0), computed, &mut chain);
        let usable = (prompt - 1) / block_size;
        let hits = chain.iter().take(usable as usize);
        let hits = hits.take_while(|hash| known.contains(*hash)).count();
        found += hits as u64 * u64::from(block_size);
        known.extend(chain);
    }
    found
}

/// Takes down the requests as they arrive.
#[derive(Default)]
struct Arrivals(Vec<Request>);

impl MetricSink for Arrivals {
    fn on_arrival(&mut self, request: &Request) {
        self.0.push(request.clone());
    }
}

#[test]
fn sessions_hit_what_an_endless_cache_would() {
    let arrivals = ArrivalSpec::Poisson {
        rate: 0.5.try_into().expect("positive"),
    };
    let chats = SessionsSpec {
        system_prompt_tokens: 200,
        think: DelaySpec::Exponential { mean_s: 2.0 },
        ..SessionsSpec::new(
            StartSpec::arrivals(arrivals, 300),
            CountSpec::Geometric { mean: 4.0, max: 10 },
            LengthSpec::uniform(5, 90),
            LengthSpec::uniform(1, 120),
        )
    };
    let mut config = EngineConfig::default();
    config.scheduler.num_gpu_blocks = 1_000_000;
    let block_size = config.scheduler.block_size;
    let simulation = Simulation::new()
        .engines(1, config)
        .latency(Affine::example())
        .workload(WorkloadSpec::from(chats))
        .seed(3);
    let sink = (Arrivals::default(), Recorder::new());
    let ((arrivals, recorder), end) = simulation.run_with(sink).expect("it runs");
    let recording = recorder.finish(end.at);
    let found: u64 = recording
        .records()
        .iter()
        .map(|record| u64::from(record.cached_tokens))
        .sum();
    let expected = found_in_an_endless_cache(&arrivals.0, block_size);
    assert!(arrivals.0.len() > 1000 && expected > 100_000);
    assert_eq!(found, expected);
}

fn impatient(rate: f64, client: ClientSpec) -> SyntheticSpec {
    SyntheticSpec {
        client,
        ..load(rate, 2_000)
    }
}

fn waiting(seconds: f64) -> Seconds {
    Seconds::new(seconds).expect("positive")
}

fn aborted(records: &[RequestRecord]) -> usize {
    let gone = |it: &&RequestRecord| it.outcome == Outcome::Finished(FinishReason::Abort);
    records.iter().filter(gone).count()
}

#[test]
fn clients_go_away_when_they_have_waited_long_enough() {
    let patient = records(small(impatient(60.0, ClientSpec::default())));
    let late = |limit: f64, of: fn(&RequestRecord) -> Option<SimDuration>| {
        let over = |it: &&RequestRecord| of(it).is_some_and(|it| it.as_secs_f64() > limit);
        patient.iter().filter(over).count()
    };
    assert!(late(1.0, |it| it.ttft) > 200, "an overload");

    let whole = ClientSpec {
        timeout_s: Some(waiting(1.5)),
        ..ClientSpec::default()
    };
    let whole = records(small(impatient(60.0, whole)));
    assert!((1..late(1.5, |it| it.e2e)).contains(&aborted(&whole)));
    for record in &whole {
        let e2e = record.e2e.expect("it ended").as_secs_f64();
        assert!(e2e < 1.6, "{e2e}");
    }

    let first = ClientSpec {
        first_token_timeout_s: Some(waiting(1.0)),
        ..ClientSpec::default()
    };
    let first = records(small(impatient(60.0, first)));
    assert!(aborted(&first) > 10);
    for record in &first {
        match record.ttft {
            Some(ttft) => assert!(ttft.as_secs_f64() < 1.1, "{ttft}"),
            None => assert_eq!(record.outcome, Outcome::Finished(FinishReason::Abort)),
        }
    }
    assert!(
        first
            .iter()
            .any(|it| it.e2e.is_some_and(|it| it.as_secs_f64() > 1.5))
    );
}

#[test]
fn retries_add_to_an_overload() {
    let client = |retry| ClientSpec {
        timeout_s: Some(waiting(1.5)),
        retry,
        ..ClientSpec::default()
    };
    let once = records(small(impatient(60.0, client(None))));
    let again = records(small(impatient(60.0, client(Some(RetrySpec::new(3))))));
    let retries = again.iter().filter(|it| it.attempt > 0).count();
    assert_eq!(again.len(), 2_000 + retries);
    assert!(retries > aborted(&once), "{retries}");
    // Nobody is asked again who was answered, and nobody more than three times.
    assert!(again.iter().all(|it| it.attempt <= 3));
    assert!(aborted(&again) >= retries);
}

#[test]
fn an_answer_that_comes_whole_is_seen_at_its_end() {
    let mix = |stream| {
        let part = |stream, flow| SyntheticSpec {
            client: ClientSpec {
                stream,
                flow,
                timeout_s: Some(waiting(2.0)),
                ..ClientSpec::default()
            },
            ..load(25.0, 500)
        };
        WorkloadSpec::Mix(vec![part(true, 1).into(), part(stream, 2).into()])
    };
    let (streamed, whole) = (records(small(mix(true))), records(small(mix(false))));
    assert!(aborted(&whole) > 0 && aborted(&whole) < 500);
    for (before, after) in streamed.iter().zip(&whole) {
        if after.flow.get() == 1 {
            assert_eq!(before, after);
            continue;
        }
        assert_eq!((before.e2e, before.outcome), (after.e2e, after.outcome));
        assert_eq!(after.tpot(), None);
        let complete = after.outcome.is_complete();
        assert_eq!(after.ttft, after.e2e.filter(|_| complete));
        assert_eq!(after.output_tokens > 0, complete);
    }
    let gaps = |stream| {
        let report = small(mix(stream)).run().expect("it runs");
        let of = |tenant| {
            let mut tenants = report.tenants.iter();
            let tenant = tenants.find(|it| it.tenant == tenant).expect("it asks");
            tenant.summary.itl_ms
        };
        (of(1), of(2))
    };
    assert_eq!(gaps(true).0, gaps(false).0);
    assert_eq!(gaps(false).1, None);
}

#[test]
fn closed_loops_are_the_same_step_by_step_and_again() {
    let chats = SessionsSpec {
        client: ClientSpec {
            timeout_s: Some(waiting(4.0)),
            retry: Some(RetrySpec::new(2)),
            ..ClientSpec::default()
        },
        think: DelaySpec::Exponential { mean_s: 0.2 },
        ..SessionsSpec::new(
            StartSpec {
                users: Some(150),
                duration_s: Some(waiting(120.0)),
                ..StartSpec::default()
            },
            CountSpec::Uniform { min: 1, max: 5 },
            LengthSpec::uniform(5, 300),
            LengthSpec::uniform(1, 150),
        )
    };
    let simulation = || small(chats.clone());
    let digest = |simulation: Simulation| simulation.run().expect("it runs").digest;
    let first = digest(simulation());
    assert_eq!(first, digest(simulation()));
    assert_eq!(first, digest(simulation().step_by_step()));
    assert!(aborted(&records(simulation())) > 0);
}

#[test]
fn a_closed_loop_hides_stalls_that_an_open_one_shows() {
    let closed = experiment::closed(32).expect("valid");
    let open = experiment::open(closed.throughput).expect("valid");
    assert!((open.throughput / closed.throughput - 1.0).abs() < 0.02);
    // Users who ask nothing while they wait hardly count the stall; medians differ little.
    assert!(open.ttft_ms[1] > 20.0 * closed.ttft_ms[1]);
    assert!(open.over_a_second > 10.0 * closed.over_a_second);
    assert!(open.ttft_ms[0] < 1.5 * closed.ttft_ms[0]);
}

#[test]
fn a_run_ends_with_its_last_request_and_not_with_what_would_have_been() {
    let patient = ClientSpec {
        timeout_s: Some(waiting(5_000.0)),
        ..ClientSpec::default()
    };
    let end = |simulation: Simulation| {
        let (recorder, end) = simulation.run_with(Recorder::new()).expect("it runs");
        let recording = recorder.finish(end.at);
        let last = recording.records().iter().filter_map(RequestRecord::end);
        (end.at, last.max().expect("some ended"))
    };
    let horizon = SimTime::ZERO + SimDuration::from_secs(1_000);
    let simulation = || engines(1, impatient(60.0, patient.clone())).horizon(horizon);
    let (at, last) = end(simulation());
    assert!(
        at <= last + SimDuration::from_millis(1),
        "{at} after {last}"
    );
    assert_eq!((at, last), end(simulation().step_by_step()));

    // A user who thinks for long is overtaken by the other one, who makes the last request.
    for seed in 0..20 {
        let users = ClosedLoopSpec {
            think: DelaySpec::Lognormal {
                mean_s: 1_000.0,
                std_s: 20_000.0,
            },
            ..ClosedLoopSpec::new(2, 3, LengthSpec::constant(9), LengthSpec::constant(5))
        };
        let (at, last) = end(engines(1, users).seed(seed));
        assert!(
            at <= last + SimDuration::from_millis(1),
            "{at} after {last}"
        );
    }
}

//! Invariants of any run, over random small simulations.

use foretoken::engine::{Batching, KvAllocation, LastAdmitted, LeastUrgent, Scheduling, Semantics};
use foretoken::metrics::{Outcome, RequestRecord, StepRecord};
use foretoken::prelude::*;
use foretoken::workload::{
    ByPriority, ContentId, Fcfs, LongestPrefixMatch, Occurrence, Priority, Replay, Segment,
    ShortestJobFirst,
};
use proptest::prelude::*;

use crate::support::{Log, assert_latencies_add_up, assert_no_block_is_held, host, run_logged};

/// A request as (gap before it in us, shared prefix, own tokens, output, stops early, priority).
type Asked = (u64, u32, u32, u32, bool, i32);

#[derive(Debug, Clone)]
struct Case {
    engines: usize,
    config: EngineConfig,
    order: u8,
    requests: Vec<Asked>,
}

impl Case {
    fn requests(&self) -> Replay {
        let mut at = 0;
        let requests = (0..).zip(&self.requests).map(|(id, asked)| {
            let &(gap, shared, own, output, stops, priority) = asked;
            at += gap * 1_000;
            let prompt = Prompt::new([
                Segment::new(ContentId::new(0), shared),
                Segment::new(ContentId::new(u64::from(id) + 1), own),
            ]);
            let prompt = prompt.expect("it has tokens");
            let mut request =
                Request::new(RequestId::new(id), SimTime::from_nanos(at), prompt, output);
            // Their own tokens are nobody else's; some say so.
            if id % 2 == 0 {
                request = request.repeatable_up_to(shared);
            }
            if stops {
                request = request.stopping(output, output + 50);
            }
            request.priority = Priority::new(priority);
            request
        });
        Replay::new(requests.collect()).expect("in order of arrival")
    }

    fn policies(&self) -> Policies {
        let order: Box<dyn QueueOrder> = match self.order {
            0 => Box::new(Fcfs),
            1 => Box::new(ByPriority),
            2 => Box::new(ShortestJobFirst),
            _ => Box::new(LongestPrefixMatch),
        };
        let preemption: Box<dyn PreemptionPolicy> = match self.order {
            1 => Box::new(LeastUrgent),
            _ => Box::new(LastAdmitted),
        };
        Policies { order, preemption }
    }

    fn simulation(&self) -> Simulation {
        let mut simulation = Simulation::new().requests(self.requests());
        for _ in 0..self.engines {
            let latency = std::sync::Arc::new(Affine::example());
            simulation = simulation.engine(self.config.clone(), self.policies(), latency);
        }
        simulation
    }

    /// The tokens that a request ends with.
    fn outputs(&self, record: &RequestRecord) -> u32 {
        let room = self.config.scheduler.max_model_len - record.prompt_tokens;
        self.requests[record.id.index()].3.min(room)
    }
}

fn config() -> impl Strategy<Value = EngineConfig> {
    let switches = proptest::array::uniform4(any::<bool>());
    // As before vLLM, now and then.
    let old = proptest::array::uniform2(proptest::bool::weighted(0.25));
    let limits = (1_u32..10, 17_u32..300, 34_u32..90, 0_u32..40);
    let ways = (switches, old);
    (ways, limits, 0_u64..3, 15_u32..34).prop_map(|(ways, limits, costs, version)| {
        let (switches, [batches, reserves]) = ways;
        let [asynchronous, caching, chunked, threshold] = switches;
        let (seqs, tokens, blocks, chunk) = limits;
        let mut config = EngineConfig {
            host: host(costs),
            ..EngineConfig::default()
        };
        let scheduler = &mut config.scheduler;
        scheduler.max_num_seqs = seqs;
        scheduler.max_model_len = 512;
        scheduler.max_num_batched_tokens = if chunked { tokens } else { 512 };
        scheduler.num_gpu_blocks = blocks;
        scheduler.prefix_caching = caching;
        scheduler.chunked_prefill = chunked;
        scheduler.long_prefill_token_threshold = if threshold && chunked { chunk } else { 0 };
        scheduler.semantics = Semantics::of_minor_version(version);
        if batches {
            scheduler.batching = Batching::Static;
        }
        if reserves {
            scheduler.kv_allocation = KvAllocation::Reserved;
        }
        scheduler.scheduling = if asynchronous {
            Scheduling::Asynchronous
        } else {
            Scheduling::Synchronous
        };
        config
    })
}

fn case() -> impl Strategy<Value = Case> {
    let asked = (
        0_u64..40_000,
        0_u32..100,
        1_u32..420,
        1_u32..120,
        any::<bool>(),
        -2..3,
    );
    let requests = proptest::collection::vec(asked, 1..25);
    (1_usize..4, config(), 0_u8..4, requests).prop_map(|(engines, config, order, requests)| Case {
        engines,
        config,
        order,
        requests,
    })
}

/// Time for which something is in one of the intervals, in nanoseconds.
fn union(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut covered, mut until) = (0, 0);
    for (start, end) in intervals {
        covered += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    covered
}

/// Invariant *causality*: nothing happens before its cause. What the client sees and what the engine
/// does are in order each by itself: a token that is on its way to the client may reach it after the
/// engine has preempted its request.
fn assert_causal(log: &Log, records: &[RequestRecord]) {
    for record in records {
        let (mut engine, mut client) = (record.arrival, record.arrival);
        let mut scheduled = false;
        for occurrence in log.occurrences.iter().filter(|o| o.request == record.id) {
            let last = match occurrence.what {
                Lifecycle::Tokens { .. } | Lifecycle::Finished { .. } => &mut client,
                _ => &mut engine,
            };
            assert!(occurrence.at >= *last, "{occurrence:?} comes before {last}");
            *last = occurrence.at;
            match occurrence.what {
                Lifecycle::Scheduled { cached_tokens } => {
                    assert!(cached_tokens < record.prompt_tokens);
                    scheduled = true;
                }
                Lifecycle::Rejected { .. } | Lifecycle::Dispatched { .. } => {}
                _ => assert!(scheduled, "{occurrence:?} comes before it is scheduled"),
            }
        }
        if let (Some(queue), Some(ttft)) = (record.queue, record.ttft) {
            assert!(ttft > queue, "request {}: a step takes time", record.id);
        }
    }
    for pair in log.levels.windows(2) {
        assert!(pair[0].0 <= pair[1].0, "levels come in order of time");
    }
    for (_, level) in &log.levels {
        assert!(level.kv_blocks_used <= level.kv_blocks_total);
    }
}

/// The steps of one engine: in which order engines are heard of is nobody's business.
fn steps_of(log: &Log, engine: usize) -> Vec<StepRecord> {
    let mine = log
        .steps
        .iter()
        .filter(|step| step.instance as usize == engine);
    mine.copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_ends_with_all_its_tokens_and_every_block_comes_back(case in case()) {
        let (log, recording) = run_logged(case.simulation());
        prop_assert_eq!(recording.records().len(), case.requests.len());
        for record in recording.records() {
            match record.outcome {
                Outcome::Finished(_) => {
                    prop_assert_eq!(record.output_tokens, case.outputs(record));
                }
                Outcome::Rejected(_) => prop_assert_eq!(record.output_tokens, 0),
                other => prop_assert!(false, "request {} is left: {}", record.id, other),
            }
        }
        assert_latencies_add_up(recording.records());
        assert_no_block_is_held(&log);
        assert_causal(&log, recording.records());
    }

    /// Counting decodes, and running ahead of the kernel, changes nothing that anybody is told.
    #[test]
    fn step_by_step_everything_is_the_same(case in case()) {
        let (counted, recording) = run_logged(case.simulation());
        let (stepped, expected) = run_logged(case.simulation().step_by_step());
        prop_assert_eq!(recording.records(), expected.records());
        prop_assert_eq!(Report::new(&recording, 0, 0), Report::new(&expected, 0, 0));
        for engine in 0..case.engines {
            prop_assert_eq!(steps_of(&counted, engine), steps_of(&stepped, engine));
        }
    }

    #[test]
    fn a_cut_anywhere_conserves_requests_and_moves_nothing_before_it(
        case in case(),
        cut in 0_u64..2_000_000_000,
    ) {
        let (whole, _) = run_logged(case.simulation());
        let at = SimTime::from_nanos(cut);
        let (log, recording) = run_logged(case.simulation().horizon(at));
        let counts = Report::new(&recording, 0, 0).overall.counts;
        let ended = counts.finished + counts.rejected_total() + counts.aborted;
        prop_assert_eq!(counts.arrived, ended + counts.in_flight);
        // What a client would have seen later has not happened. The order is told of each request alone.
        let before = |log: &Log| -> Vec<_> {
            let seen = log.occurrences.iter().filter(|occurrence| occurrence.at <= at);
            let mut seen: Vec<Occurrence> = seen.copied().collect();
            seen.sort_by_key(|occurrence| occurrence.request);
            seen
        };
        prop_assert_eq!(before(&log).len(), log.occurrences.len());
        prop_assert_eq!(before(&log), before(&whole));
        for engine in 0..case.engines {
            let (steps, all) = (steps_of(&log, engine), steps_of(&whole, engine));
            prop_assert_eq!(&steps[..], &all[..steps.len()]);
        }
    }

    #[test]
    fn steps_stay_within_the_limits_and_never_overlap_on_an_accelerator(case in case()) {
        let (log, _) = run_logged(case.simulation());
        let limits = &case.config.scheduler;
        let mut free = vec![SimTime::ZERO; case.engines];
        for step in &log.steps {
            prop_assert!(step.tokens <= limits.max_num_batched_tokens);
            prop_assert!(step.sequences <= limits.max_num_seqs);
            prop_assert!(step.sequences <= step.tokens);
            let free = &mut free[step.instance as usize];
            prop_assert!(step.start >= *free && step.end > step.start);
            *free = step.end;
        }
    }

    /// Invariant *work conservation*: without a host in the way, the accelerator works whenever a
    /// request is inside, and never otherwise, but for the pause of a millisecond after a step that
    /// preempts all it could have computed. It computes each token once, but for what preemption
    /// throws away and prefix hits save.
    #[test]
    fn the_accelerator_works_whenever_there_is_work(case in case()) {
        let mut case = case;
        case.engines = 1;
        case.config.host = HostCosts::default();
        case.config.scheduler.scheduling = Scheduling::Synchronous;
        let (log, recording) = run_logged(case.simulation());
        let served = recording.records().iter().filter(|r| r.outcome.is_complete());
        let inside = served.clone().map(|r| (r.arrival, r.end().expect("it ended")));
        let inside = inside.map(|(start, end)| (start.as_nanos(), end.as_nanos())).collect();
        let steps = log.steps.iter().map(|s| (s.start.as_nanos(), s.end.as_nanos())).collect();
        let idle = union(inside) - union(steps);
        let preemptions: u64 = served.clone().map(|r| u64::from(r.preemptions)).sum();
        prop_assert!(idle.is_multiple_of(1_000_000) && idle / 1_000_000 <= preemptions, "{}", idle);

        let computed: u64 = log.steps.iter().map(|s| u64::from(s.tokens)).sum();
        let asked = |r: &RequestRecord| r.prompt_tokens - r.cached_tokens + r.output_tokens - 1;
        let asked: u64 = served.clone().map(|r| u64::from(asked(r))).sum();
        if preemptions == 0 {
            prop_assert_eq!(computed, asked);
        } else if !case.config.scheduler.prefix_caching {
            prop_assert!(computed > asked);
        }
    }
}

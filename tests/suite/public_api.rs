//! Programs as an outsider writes them: every part replaced by one's own.

use std::sync::{Arc, Mutex};

use foretoken::dataplane::{Picker, Pipeline, Scorer};
use foretoken::des_kernel::SimRng;
use foretoken::engine::RunningView;
use foretoken::latency_model::{DecodeLaw, Term};
use foretoken::prelude::*;
use foretoken::workload::{
    ArrivalProcess, ContentId, LengthDistribution, OrderKey, QueueSignals, Segment,
};

use crate::support::{Log, load, replay, run_logged, simulation, synchronous};

/// The endpoint with the fewest requests of one's own counting, ended ones taken off.
struct Counting {
    places: Vec<(RequestId, usize)>,
    inside: Vec<u32>,
    ends_seen: Arc<Mutex<u32>>,
}

impl Router for Counting {
    fn route(
        &mut self,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<Placement> {
        self.inside.resize(cx.endpoints.len(), 0);
        let endpoint = cx
            .endpoints
            .iter()
            .min_by_key(|e| self.inside[e.id.index()])?;
        self.inside[endpoint.id.index()] += 1;
        self.places.push((request.id, endpoint.id.index()));
        Some(endpoint.id.into())
    }

    fn observe(&mut self, occurrence: &Occurrence) {
        if let Lifecycle::Finished { .. } = occurrence.what {
            let place = self
                .places
                .iter()
                .position(|(id, _)| *id == occurrence.request);
            let (_, endpoint) = self.places.swap_remove(place.expect("it was routed"));
            self.inside[endpoint] -= 1;
            *self.ends_seen.lock().expect("nobody panicked") += 1;
        }
    }
}

#[test]
fn a_router_keeps_count_by_what_it_observes() {
    let ends_seen = Arc::new(Mutex::new(0));
    let router = Counting {
        places: Vec::new(),
        inside: Vec::new(),
        ends_seen: ends_seen.clone(),
    };
    let report = simulation(20.0, 200).router(router).run().expect("valid");
    assert_eq!(report.overall.counts.finished, 200);
    assert_eq!(*ends_seen.lock().expect("nobody panicked"), 200);
}

#[test]
fn a_router_sees_how_full_the_endpoints_are_when_a_request_arrives() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let watch = move |request: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
        let [endpoint] = cx.endpoints else {
            return None;
        };
        assert_eq!(
            (cx.now, endpoint.observed_at),
            (request.arrival, Some(cx.now))
        );
        let kv_used = (endpoint.kv_usage * f64::from(endpoint.kv_blocks)).round();
        let state = (endpoint.running, endpoint.queued, kv_used);
        log.lock().expect("nobody panicked").push(state);
        Some(endpoint.id.into())
    };
    let mut config = synchronous();
    config.scheduler.max_num_seqs = 1;
    Simulation::new()
        .engines(1, config)
        .latency(Affine::new(SimDuration::from_millis(10)))
        .requests(replay([
            (0, 32, 3),
            (5_000_000, 16, 1),
            (15_000_000, 16, 1),
            (90_000_000, 16, 1),
        ]))
        .router(watch)
        .run()
        .expect("valid");
    // Empty; one prefills 32 tokens; one decodes its 33rd and one waits; empty again.
    let expected = [(0, 0, 0.0), (1, 0, 2.0), (1, 1, 3.0), (0, 0, 0.0)];
    assert_eq!(*seen.lock().expect("nobody panicked"), expected);
}

#[test]
fn a_router_that_names_no_endpoint_of_the_pool_ends_the_run_with_an_error() {
    let wrong = |_: &RequestView<'_>, _: &mut GatewayContext<'_>| Some(EndpointId::new(9).into());
    let error = simulation(1.0, 5)
        .router(wrong)
        .run()
        .expect_err("no such endpoint");
    let message = "the Router answered endpoint 9: allowed is endpoint 0 to 1";
    assert_eq!(error.to_string(), message);
}

/// Admits `left` requests, then none.
struct Quota {
    left: u32,
}

impl Admitter for Quota {
    fn admit(&mut self, _: &RequestView<'_>, _: &mut GatewayContext<'_>) -> Verdict {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Verdict::Admit
            }
            None => Verdict::Shed,
        }
    }
}

#[test]
fn an_admitter_with_a_quota_lets_that_many_in() {
    let report = simulation(20.0, 50)
        .admitter(Quota { left: 30 })
        .run()
        .expect("valid");
    assert_eq!(report.overall.counts.finished, 30);
    assert_eq!(report.overall.counts.rejected["shed"], 20);
}

/// Any model, three times as slow once the decodes of a step read `limit` tokens of context.
#[derive(Debug)]
struct Knee<M> {
    inner: M,
    limit: u64,
}

impl<M: LatencyModel> LatencyModel for Knee<M> {
    fn step(&self, shape: &StepShape) -> Fine {
        let beyond = shape.decode_context >= self.limit;
        self.inner.step(shape) * if beyond { 3 } else { 1 }
    }

    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        let law = self.inner.decode_law(shape)?;
        let room = self.limit.checked_sub(shape.decode_context)?;
        Some(law.limited(room.div_ceil(shape.decodes.into())))
    }
}

#[test]
fn a_latency_model_around_another_is_obeyed() {
    let knee = Knee {
        inner: Affine::new(SimDuration::from_millis(2)),
        limit: 103,
    };
    let config = synchronous();
    let (_, recording) = run_logged(
        Simulation::new()
            .engines(1, config)
            .latency(knee)
            .requests(replay([(0, 100, 5)])),
    );
    let record = &recording.records()[0];
    // A prefill, then contexts of 101, 102, 103 and 104.
    let gaps = [2, 2, 6, 6].map(SimDuration::from_millis);
    assert_eq!(record.gaps.list.as_deref(), Some(&gaps[..]));
}

#[test]
fn a_law_of_a_wrapped_model_is_its_steps_up_to_the_knee() {
    let knee = Knee {
        inner: Affine::example(),
        limit: 1_000,
    };
    let shape = |k| StepShape::decode(7, 900 + 7 * k);
    let law = knee.decode_law(&shape(0)).expect("below the knee");
    assert_eq!(law.steps(), 15);
    for k in 0..law.steps() {
        assert_eq!(law.step(k), knee.step(&shape(k)));
    }
    assert_ne!(law.step(law.steps()), knee.step(&shape(law.steps())));
    let explanation = knee.explain(&shape(0));
    let total: Fine = explanation
        .terms()
        .iter()
        .map(|term: &Term| term.time)
        .sum();
    assert_eq!(total, knee.step(&shape(0)));
}

/// A request every `gap`, of which every other one asks the same.
struct Metronome {
    made: u32,
    total: u32,
    gap: SimDuration,
}

impl Workload for Metronome {
    fn next(&mut self) -> Option<Request> {
        if self.made == self.total {
            return None;
        }
        let id = RequestId::new(self.made);
        let text = if self.made.is_multiple_of(2) {
            0
        } else {
            u64::from(self.made)
        };
        self.made += 1;
        let arrival = SimTime::ZERO + self.gap * u64::from(id.get());
        let prompt = Prompt::new([Segment::new(ContentId::new(text), 160)]).ok()?;
        Some(Request::new(id, arrival, prompt, 5))
    }
}

#[test]
fn a_workload_of_ones_own_is_served() {
    let metronome = Metronome {
        made: 0,
        total: 40,
        gap: SimDuration::from_millis(100),
    };
    let (_, recording) = run_logged(
        Simulation::new()
            .engines(1, EngineConfig::default())
            .latency(Affine::example())
            .requests(metronome),
    );
    // All but the last block (the last token is always computed) is found by every second one.
    let cached: Vec<_> = recording
        .records()
        .iter()
        .map(|r| r.cached_tokens)
        .collect();
    assert_eq!(cached[..5], [0, 0, 144, 0, 144]);
    assert_eq!(cached.iter().sum::<u32>(), 19 * 144);
}

/// Gaps and lengths that follow no distribution.
#[derive(Debug)]
struct Alternating;

impl ArrivalProcess for Alternating {
    fn next_after(&mut self, now: SimTime, rng: &mut SimRng) -> Option<SimTime> {
        now.checked_add(SimDuration::from_millis(1 + 500 * rng.below(2)))
            .filter(|&at| at < SimTime::from_nanos(20_000_000_000))
    }
}

impl LengthDistribution for Alternating {
    fn sample(&self, rng: &mut SimRng) -> u32 {
        [16, 64][usize::try_from(rng.below(2)).expect("0 or 1")]
    }
}

#[test]
fn arrivals_and_lengths_of_ones_own_make_a_workload() {
    let own = Synthetic::new(
        Box::new(Alternating),
        Box::new(Alternating),
        Box::new(Alternating),
        0,
        &RngStreams::new(5, 0),
    );
    let (_, recording) = run_logged(simulation(1.0, 1).requests(own));
    assert!(recording.records().len() > 50);
    for record in recording.records() {
        assert!([16, 64].contains(&record.prompt_tokens));
        assert!([16, 64].contains(&record.output_tokens));
    }
}

/// The latest first.
#[derive(Debug)]
struct LastComeFirst;

impl QueueOrder for LastComeFirst {
    fn key(&self, request: &RequestView<'_>, _: &QueueSignals) -> OrderKey {
        OrderKey::new(u64::MAX - request.arrival.as_nanos(), 0)
    }
}

/// Always takes from the first, and tells how often.
#[derive(Debug)]
struct TakeTheFirst(Arc<Mutex<u64>>);

impl PreemptionPolicy for TakeTheFirst {
    fn victim(&mut self, running: &[RunningView], needy: usize) -> usize {
        assert!(needy < running.len());
        *self.0.lock().expect("nobody panicked") += 1;
        0
    }
}

#[test]
fn a_queue_order_and_a_preemption_policy_decide() {
    let taken = Arc::new(Mutex::new(0));
    let policies = Policies {
        order: Box::new(LastComeFirst),
        preemption: Box::new(TakeTheFirst(taken.clone())),
    };
    let mut config = synchronous();
    config.scheduler.max_num_seqs = 3;
    config.scheduler.max_model_len = 256;
    config.scheduler.num_gpu_blocks = 20;
    let requests = (0..9).map(|i| (i * 1_000, 64, 100));
    let (log, recording) = run_logged(
        Simulation::new()
            .engine(config, policies, Arc::new(Affine::example()))
            .requests(replay(requests)),
    );
    // The first is alone when it comes; of those that wait, the latest go in first.
    let first_scheduled: Vec<_> = log
        .occurrences
        .iter()
        .filter(|o| matches!(o.what, Lifecycle::Scheduled { .. }))
        .map(|o| o.request.get())
        .collect();
    assert_eq!(first_scheduled[..3], [0, 8, 7]);
    let report = Report::new(&recording, 0, 0);
    let taken = *taken.lock().expect("nobody panicked");
    assert!(taken > 0, "the pool is tight");
    assert_eq!(report.overall.preemptions, taken);
    assert_eq!(report.overall.counts.finished, 9);
}

/// Counts the tokens that clients see.
#[derive(Default)]
struct Tokens(u64);

impl MetricSink for Tokens {
    fn on_occurrence(&mut self, occurrence: &Occurrence) {
        if let Lifecycle::Tokens { count } = occurrence.what {
            self.0 += u64::from(count);
        }
    }
}

#[test]
fn a_sink_comes_back_with_what_it_saw() {
    let report = simulation(10.0, 50).run().expect("valid");
    let (tokens, end) = simulation(10.0, 50)
        .run_with(Tokens::default())
        .expect("valid");
    assert_eq!(tokens.0, report.overall.output_tokens);
    assert!(end.events > 50 && end.at > SimTime::ZERO);

    let mut chosen: Vec<Box<dyn MetricSink>> = vec![Box::new(Tokens::default())];
    chosen.push(Box::new(()));
    let (chosen, same_end) = simulation(10.0, 50).run_with(chosen).expect("valid");
    assert_eq!((chosen.len(), same_end), (2, end));
}

#[test]
fn listening_changes_nothing() {
    let ((), silent) = simulation(10.0, 50).run_with(()).expect("valid");
    let (_, logged) = simulation(10.0, 50)
        .run_with(Log::default())
        .expect("valid");
    assert_eq!(silent, logged);
}

#[test]
fn what_is_missing_is_named_with_the_method_that_gives_it() {
    let error =
        |simulation: Simulation| simulation.run().expect_err("it is incomplete").to_string();
    let nothing = Simulation::new();
    assert_eq!(
        error(nothing),
        "a simulation needs an engine: call Simulation::engines"
    );
    let no_load = Simulation::new().engines(1, EngineConfig::default());
    assert_eq!(
        error(no_load),
        "a simulation needs a workload: call Simulation::workload"
    );
    let untimed = Simulation::new()
        .engines(1, EngineConfig::default())
        .workload(load(1.0, 1));
    assert_eq!(
        error(untimed),
        "a simulation needs a latency model: call Simulation::latency"
    );
}

#[test]
fn an_engine_that_vllm_would_refuse_is_refused() {
    let mut config = EngineConfig::default();
    config.scheduler.num_gpu_blocks = 3;
    let error = Simulation::new()
        .engines(1, config)
        .latency(Affine::example())
        .workload(load(1.0, 1))
        .run()
        .expect_err("the pool is too small");
    assert!(
        error.to_string().starts_with("num_gpu_blocks is 3"),
        "{error}"
    );
}

#[test]
fn simulations_and_results_move_between_threads() {
    fn assert_send<T: Send + 'static>() {}
    fn assert_shared<T: Send + Sync + 'static>() {}
    assert_send::<Simulation>();
    assert_send::<Recorder>();
    assert_shared::<Report>();
    assert_shared::<Scenario>();
    assert_shared::<Physics>();
    assert_shared::<Catalog>();
    assert_shared::<Error>();

    let here = simulation(5.0, 20).run().expect("valid");
    let elsewhere = simulation(5.0, 20);
    let there = std::thread::spawn(move || elsewhere.run().expect("valid")).join();
    assert_eq!(there.expect("it did not panic"), here);
}

#[test]
fn every_policy_trait_is_object_safe() {
    let _: Box<dyn Router> = Box::new(RoundRobin::default());
    let _: Box<dyn Admitter> = Box::new(AdmitAll);
    let _: Box<dyn QueueOrder> = Box::new(LastComeFirst);
    let _: Box<dyn PreemptionPolicy> = Box::new(TakeTheFirst(Arc::default()));
    let _: Box<dyn Workload> = Box::new(replay([]));
    let _: Box<dyn ArrivalProcess> = Box::new(Alternating);
    let _: Box<dyn LengthDistribution> = Box::new(Alternating);
    let _: Arc<dyn LatencyModel> = Arc::new(Affine::example());
    let _: Box<dyn MetricSink> = Box::new(Tokens::default());
}

/// Picks somebody who does not exist.
struct Nobody;

impl Picker for Nobody {
    fn pick(&mut self, totals: &[f64], _: &mut SimRng, picks: &mut Vec<usize>) {
        picks.push(totals.len());
    }
}

/// Scores what cannot be scored.
struct Undefined;

impl Scorer for Undefined {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        _: &[usize],
        _: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        scores.fill(f64::NAN);
    }
}

#[test]
fn a_plugin_whose_answer_means_nothing_ends_the_run_with_an_error_that_names_it() {
    let error = |router: Pipeline| {
        let run = simulation(1.0, 5).router(router).run();
        run.expect_err("it makes no sense").to_string()
    };
    assert_eq!(
        error(Pipeline::new().picker(Nobody)),
        "the picker of profile default answered candidate 2: allowed is candidates below 2"
    );
    assert_eq!(
        error(Pipeline::new().scorer(1.0, Undefined)),
        "a scorer of profile default answered NaN: allowed is scores that are numbers"
    );
    let beyond = |_: &RequestView<'_>, _: &EndpointView| false;
    let nobody_left = simulation(1.0, 5).router(Pipeline::new().filter(beyond));
    let report = nobody_left.run().expect("an empty answer is an answer");
    assert_eq!(report.overall.counts.rejected["no candidate"], 5);
}

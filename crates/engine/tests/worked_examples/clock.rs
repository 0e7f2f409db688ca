//! The step clock, to the nanosecond.

use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{Engine, EngineConfig, EngineEvent, Policies, Scheduling, StepReport};
use foretoken_latency_model::{Fine, HostCosts, LatencyModel, StepShape};
use foretoken_workload::{ContentId, Lifecycle, Prompt, Request, RequestId, Segment};

/// Steps with a prefill take one time, all others another.
#[derive(Debug)]
pub(crate) struct Constant {
    prefill: SimDuration,
    decode: SimDuration,
}

impl Constant {
    pub(crate) const fn millis(prefill: u64, decode: u64) -> Self {
        Self {
            prefill: SimDuration::from_millis(prefill),
            decode: SimDuration::from_millis(decode),
        }
    }
}

impl LatencyModel for Constant {
    fn step(&self, shape: &StepShape) -> Fine {
        Fine::from(if shape.prefills > 0 {
            self.prefill
        } else {
            self.decode
        })
    }
}

pub(crate) fn ms(millis: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(millis)
}

/// A request of its own content that arrives at `at` milliseconds.
pub(crate) fn request(id: u32, at: u64, prompt: u32, output: u32) -> Request {
    let content = ContentId::new(u64::from(id));
    let prompt = Prompt::new([Segment::new(content, prompt)]).expect("prompts are not empty");
    Request::new(RequestId::new(id), ms(at), prompt, output)
}

/// An engine, and all that it reported.
pub(crate) struct Run {
    pub(crate) engine: Engine,
    events: Vec<EngineEvent<'static>>,
    aborts: Vec<(SimTime, RequestId)>,
}

impl Run {
    pub(crate) fn new(config: EngineConfig, model: impl LatencyModel + 'static) -> Self {
        let engine = Engine::new(config, Arc::new(model), Policies::fcfs());
        let engine = engine.expect("the settings are in range");
        Self {
            engine,
            events: Vec::new(),
            aborts: Vec::new(),
        }
    }

    pub(crate) fn abort_at(&mut self, at: u64, id: u32) {
        self.aborts.push((ms(at), RequestId::new(id)));
    }

    /// Serves requests, given by arrival, to the end.
    pub(crate) fn play(&mut self, requests: Vec<Request>) {
        let mut arrivals = requests.into_iter().peekable();
        let mut aborts = self.aborts.clone().into_iter().peekable();
        loop {
            let arrival = arrivals.peek().map(|request| request.arrival);
            let abort = aborts.peek().map(|&(at, _)| at);
            let wake = self.engine.next_wake();
            let Some(now) = [arrival, abort, wake].into_iter().flatten().min() else {
                break;
            };
            while let Some(request) = arrivals.next_if(|request| request.arrival == now) {
                self.engine.submit(now, request);
            }
            while let Some((_, id)) = aborts.next_if(|&(at, _)| at == now) {
                self.engine.abort(now, id);
            }
            if self.engine.next_wake() == Some(now) {
                let events = &mut self.events;
                self.engine.advance(now, &mut |event| {
                    event.one_by_one(|event| events.push(event));
                });
            }
        }
    }

    /// What happened to a request, and when.
    pub(crate) fn of(&self, id: u32) -> Vec<(SimTime, Lifecycle)> {
        let mine = self.events.iter().filter_map(|event| match event {
            EngineEvent::Request(happened) if happened.request.get() == id => {
                Some((happened.at, happened.what))
            }
            _ => None,
        });
        mine.collect()
    }

    /// When the client got the tokens of a request.
    pub(crate) fn tokens(&self, id: u32) -> Vec<SimTime> {
        let tokens = |(at, what)| matches!(what, Lifecycle::Tokens { .. }).then_some(at);
        self.of(id).into_iter().filter_map(tokens).collect()
    }

    /// The steps, in order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = StepReport> {
        self.events.iter().filter_map(|event| match event {
            EngineEvent::Step(step) => Some(*step),
            _ => None,
        })
    }
}

fn config(scheduling: Scheduling, host: HostCosts) -> EngineConfig {
    let mut config = EngineConfig {
        host,
        ..EngineConfig::default()
    };
    config.scheduler.scheduling = scheduling;
    config
}

fn host(schedule: u64, update: u64) -> HostCosts {
    HostCosts {
        schedule: SimDuration::from_millis(schedule),
        update: SimDuration::from_millis(update),
        ..HostCosts::default()
    }
}

/// When the accelerator starts and ends its steps, in milliseconds.
fn spans(run: &Run) -> Vec<(SimTime, SimTime)> {
    run.steps().map(|step| (step.start, step.end)).collect()
}

#[test]
fn asynchronously_the_accelerator_never_waits_for_the_host() {
    let mut run = Run::new(
        config(Scheduling::Asynchronous, host(1, 1)),
        Constant::millis(20, 10),
    );
    run.play(vec![request(0, 0, 100, 3)]);
    assert_eq!(
        spans(&run),
        [(ms(1), ms(21)), (ms(21), ms(31)), (ms(31), ms(41))]
    );
    assert_eq!(run.tokens(0), [22, 32, 42].map(ms));
}

#[test]
fn synchronously_the_host_adds_to_every_step() {
    let mut run = Run::new(
        config(Scheduling::Synchronous, host(1, 1)),
        Constant::millis(20, 10),
    );
    run.play(vec![request(0, 0, 100, 3)]);
    assert_eq!(
        spans(&run),
        [(ms(1), ms(21)), (ms(23), ms(33)), (ms(35), ms(45))]
    );
    assert_eq!(run.tokens(0), [22, 34, 46].map(ms));
}

/// With a host slower than the accelerator, a step takes what the host takes.
#[test]
fn a_slow_host_sets_the_pace() {
    let mut run = Run::new(
        config(Scheduling::Asynchronous, host(5, 4)),
        Constant::millis(3, 2),
    );
    run.play(vec![request(0, 0, 100, 4)]);
    assert_eq!(run.tokens(0), [14, 23, 32, 41].map(ms));
}

/// An empty step costs the host its time, and an arrival behind the last end waits for it.
#[test]
fn a_flush_step_follows_the_last_end() {
    for scheduling in [Scheduling::Synchronous, Scheduling::Asynchronous] {
        let mut run = Run::new(config(scheduling, host(1, 1)), Constant::millis(10, 10));
        let mut late = request(1, 0, 100, 1);
        late.arrival = SimTime::ZERO + SimDuration::from_micros(12_500);
        run.play(vec![request(0, 0, 100, 1), late]);
        assert_eq!(run.tokens(0), [ms(12)], "{scheduling:?}");
        // The flush step takes the host from 12 to 14, then the step runs from 15 to 25.
        assert_eq!(run.tokens(1), [ms(26)], "{scheduling:?}");
    }
}

/// All terms of a lone request, each of another size so that none can stand for another.
fn lone_host() -> HostCosts {
    let nanos = SimDuration::from_nanos;
    HostCosts {
        ingest: nanos(1_000_003),
        ingest_per_token: nanos(17),
        schedule: nanos(300_007),
        schedule_per_sequence: nanos(211),
        update: nanos(200_003),
        update_per_sequence: nanos(1_013),
        deliver: nanos(50_021),
        deliver_per_sequence: nanos(7_001),
    }
}

/// Prompt of 5000 tokens in chunks of 2048, 40 output tokens.
fn lone(scheduling: Scheduling) -> (Run, HostCosts, SimDuration, SimDuration) {
    let host = lone_host();
    let mut config = config(scheduling, host);
    config.scheduler.max_model_len = 8192;
    let model = Constant {
        prefill: SimDuration::from_nanos(20_000_033),
        decode: SimDuration::from_nanos(9_000_011),
    };
    let (prefill, decode) = (model.prefill, model.decode);
    let mut run = Run::new(config, model);
    run.play(vec![request(0, 0, 5000, 40)]);
    (run, host, prefill, decode)
}

#[test]
fn synchronously_a_lone_request_takes_the_sum_of_its_terms() {
    let (run, host, prefill, decode) = lone(Scheduling::Synchronous);
    let around =
        host.schedule + host.schedule_per_sequence + host.update + host.update_per_sequence;
    let front = host.ingest + host.ingest_per_token * 5000;
    let back = host.deliver_per_sequence + host.deliver;
    let first = SimTime::ZERO + front + (around + prefill) * 3 + back;
    let tokens: Vec<_> = (0..40)
        .map(|token| first + (around + decode) * token)
        .collect();
    assert_eq!(run.tokens(0), tokens);
}

#[test]
fn asynchronously_a_lone_request_pays_the_host_once() {
    let (run, host, prefill, decode) = lone(Scheduling::Asynchronous);
    let front = host.ingest + host.ingest_per_token * 5000;
    let submit = host.schedule + host.schedule_per_sequence;
    let back = host.update + host.update_per_sequence + host.deliver_per_sequence + host.deliver;
    let first = SimTime::ZERO + front + submit + prefill * 3 + back;
    let tokens: Vec<_> = (0..40).map(|token| first + decode * token).collect();
    assert_eq!(run.tokens(0), tokens);
}

/// Outputs go through one process: a batch is delivered behind the one before.
#[test]
fn slow_delivery_queues_up() {
    let mut costs = host(0, 0);
    costs.deliver_per_sequence = SimDuration::from_millis(15);
    costs.deliver = SimDuration::from_millis(2);
    let mut run = Run::new(
        config(Scheduling::Synchronous, costs),
        Constant::millis(20, 10),
    );
    run.play(vec![request(0, 0, 100, 3)]);
    // Outputs leave the core at 20, 30, 40 and take 15 each, then 2 more on their way.
    assert_eq!(run.tokens(0), [37, 52, 67].map(ms));
}

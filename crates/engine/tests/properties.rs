//! What holds for every engine under every load.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{
    Engine, EngineConfig, EngineEvent, LastAdmitted, LeastUrgent, Policies, PreemptionPolicy,
    RunningView, Scheduler, SchedulerConfig, Scheduling, Semantics, StepPlan,
};
use foretoken_latency_model::{Fine, HostCosts, LatencyModel, StepShape};
use foretoken_workload::order::{ByPriority, LongestPrefixMatch, ShortestJobFirst};
use foretoken_workload::{
    ContentId, Fcfs, FinishReason, Lifecycle, Priority, Prompt, QueueOrder, Request, RequestId,
    Segment,
};
use proptest::prelude::*;

const BLOCK_SIZE: u32 = 4;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Fcfs,
    Priority,
    ShortestJob,
    LongestPrefix,
}

/// Takes from the sequence that holds most blocks, wherever it stands, but from the first only if it
/// is alone: somebody has to get on.
#[derive(Debug)]
struct Largest;

impl PreemptionPolicy for Largest {
    fn victim(&mut self, running: &[RunningView], _needy: usize) -> usize {
        (1..running.len())
            .max_by_key(|&index| running[index].blocks)
            .unwrap_or(0)
    }
}

/// vLLM pairs the orders with their victims; other victims may make two requests preempt each other
/// for ever.
#[derive(Debug, Clone, Copy)]
enum Victim {
    AsOrdered,
    Largest,
}

#[derive(Debug, Clone)]
struct Setup {
    config: SchedulerConfig,
    order: Order,
    victim: Victim,
}

impl Setup {
    fn policies(&self) -> Policies {
        let order: Box<dyn QueueOrder> = match self.order {
            Order::Fcfs => Box::new(Fcfs),
            Order::Priority => Box::new(ByPriority),
            Order::ShortestJob => Box::new(ShortestJobFirst),
            Order::LongestPrefix => Box::new(LongestPrefixMatch),
        };
        let preemption: Box<dyn PreemptionPolicy> = match self.victim {
            Victim::Largest => Box::new(Largest),
            Victim::AsOrdered if self.order == Order::Priority => Box::new(LeastUrgent),
            Victim::AsOrdered => Box::new(LastAdmitted),
        };
        Policies { order, preemption }
    }
}

/// A request with the step (or millisecond) of its arrival, and of its abort if there is one.
#[derive(Debug, Clone)]
struct Client {
    arrives: u64,
    aborts: Option<u64>,
    request: Request,
}

impl Client {
    /// Output tokens that it gets unless it is aborted.
    fn expected(&self, max_model_len: u32) -> u32 {
        self.request
            .output_tokens()
            .min(max_model_len - self.request.prompt.tokens())
    }

    fn reason(&self, max_model_len: u32) -> FinishReason {
        let stopped = self.request.stop_after() == Some(self.expected(max_model_len));
        if stopped {
            FinishReason::Stop
        } else {
            FinishReason::Length
        }
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    let order = prop_oneof![
        4 => Just(Order::Fcfs),
        4 => Just(Order::Priority),
        1 => Just(Order::ShortestJob),
        1 => Just(Order::LongestPrefix),
    ];
    let victim = prop_oneof![3 => Just(Victim::AsOrdered), 1 => Just(Victim::Largest)];
    let limits = (1_u32..6, 1_u32..24, 8_u32..40, 0_u32..8, 0_u32..12);
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (order, victim, limits, switches).prop_map(|(order, victim, limits, switches)| {
        let (seqs, budget, longest, spare, threshold) = limits;
        let (prefix_caching, asynchronous, later, chunked) = switches;
        let config = SchedulerConfig {
            max_num_seqs: seqs,
            max_num_batched_tokens: if chunked { budget } else { budget.max(longest) },
            max_model_len: longest,
            block_size: BLOCK_SIZE,
            // One request of the longest length fits, and little more.
            num_gpu_blocks: longest.div_ceil(BLOCK_SIZE) + 1 + spare,
            prefix_caching,
            chunked_prefill: chunked,
            long_prefill_token_threshold: threshold,
            scheduling: if asynchronous {
                Scheduling::Asynchronous
            } else {
                Scheduling::Synchronous
            },
            semantics: if later {
                Semantics::V0_33
            } else {
                Semantics::V0_15
            },
        };
        Setup {
            config,
            order,
            victim,
        }
    })
}

/// Up to a dozen requests whose prompts share few texts, in the order of their arrival.
fn loads() -> impl Strategy<Value = Vec<Client>> {
    let client = (
        (0_u64..4, prop::option::weighted(0.15, 0_u64..30)),
        (0_u64..3, 0_u32..20, 1_u32..12),
        (
            1_u32..14,
            prop::option::of(1_u32..14),
            0_i32..3,
            prop::option::weighted(0.2, 0_u64..2),
        ),
    );
    prop::collection::vec(client, 1..12).prop_map(|clients| {
        let mut now = 0;
        let numbered = clients.into_iter().zip(0_u32..);
        let numbered = numbered.map(|((times, prompt, rest), number)| {
            let ((gap, patience), (text, shared, own)) = (times, prompt);
            let (output, stop, priority, salt) = rest;
            now += gap;
            let id = RequestId::new(number);
            let segments = [
                Segment::new(ContentId::new(text), shared),
                Segment::new(ContentId::new(100 + u64::from(number)), own),
            ];
            let prompt = Prompt::new(segments).expect("the own part is not empty");
            // Distinct: two requests that tie for the least urgent can preempt each other for ever.
            let later = SimDuration::from_nanos(u64::from(number));
            let arrival = SimTime::ZERO + SimDuration::from_millis(now) + later;
            let mut request = Request::new(id, arrival, prompt, output);
            if let Some(stop) = stop {
                request = request.stopping(stop, output);
            }
            request.priority = Priority::new(priority);
            request.cache_salt = salt;
            Client {
                arrives: now,
                aborts: patience.map(|steps| now + steps),
                request,
            }
        });
        numbered.collect()
    })
}

/// The same load without aborts.
fn patient(mut load: Vec<Client>) -> Vec<Client> {
    for client in &mut load {
        client.aborts = None;
    }
    load
}

/// What became of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Fate {
    admitted: u32,
    resumed: u32,
    preempted: u32,
    tokens: u32,
    ends: Vec<FinishReason>,
}

/// One iteration of the lockstep loop, as far as properties speak of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    scheduled: Vec<(RequestId, u32, u32, bool)>,
    admitted: Vec<RequestId>,
    preempted: Vec<RequestId>,
    delivered: Vec<RequestId>,
}

/// Drives the scheduler as the engine loop does, checking what must hold in every step.
struct Lockstep<'a> {
    setup: &'a Setup,
    scheduler: Scheduler,
    in_flight: VecDeque<StepPlan>,
    fates: BTreeMap<RequestId, Fate>,
    rows: Vec<Row>,
}

impl<'a> Lockstep<'a> {
    fn run(setup: &'a Setup, load: &[Client]) -> Result<Self, TestCaseError> {
        let scheduler = Scheduler::new(setup.config.clone(), setup.policies());
        let scheduler = scheduler.expect("the settings are in range");
        let fates = load
            .iter()
            .map(|client| (client.request.id, Fate::default()))
            .collect();
        let (in_flight, rows) = (VecDeque::new(), Vec::new());
        let mut this = Self {
            setup,
            scheduler,
            in_flight,
            fates,
            rows,
        };
        // Every step with work makes progress, so that this is far beyond the end.
        for step in 0..5_000 {
            let over = load.iter().all(|client| client.arrives < step);
            // A batch that is still in flight is empty, or its requests are gone.
            if over && !this.scheduler.has_work() {
                return Ok(this);
            }
            this.arrive(load, step);
            this.step(SimTime::from_nanos(step))?;
        }
        Err(TestCaseError::fail(
            "requests are left over: the engine makes no progress",
        ))
    }

    fn arrive(&mut self, load: &[Client], step: u64) {
        let now = SimTime::from_nanos(step);
        for client in load.iter().filter(|client| client.arrives == step) {
            if client.request.prompt.tokens() < self.setup.config.max_model_len {
                self.scheduler.add(now, client.request.clone());
            }
        }
        for client in load.iter().filter(|client| client.aborts == Some(step)) {
            if self.scheduler.abort(client.request.id) {
                self.fate(client.request.id).ends.push(FinishReason::Abort);
            }
        }
    }

    fn fate(&mut self, id: RequestId) -> &mut Fate {
        self.fates.get_mut(&id).expect("every request has a fate")
    }

    fn step(&mut self, now: SimTime) -> Result<(), TestCaseError> {
        let config = &self.setup.config;
        let (waiting, running) = (self.scheduler.waiting_len(), self.scheduler.running_len());
        let plan = self.scheduler.schedule(now);
        prop_assert!(plan.tokens() <= config.max_num_batched_tokens, "budget");
        prop_assert!(
            self.scheduler.running_len() <= config.max_num_seqs as usize,
            "seats"
        );
        prop_assert!(
            plan.entries.len() <= config.max_num_seqs as usize,
            "seats of the step"
        );
        prop_assert!(
            plan.entries.iter().all(|entry| entry.tokens > 0),
            "empty entries"
        );
        prop_assert!(
            plan.preempted.is_empty() || plan.admitted.is_empty(),
            "admission"
        );
        let longest = config.max_model_len;
        for entry in &plan.entries {
            prop_assert!(entry.computed_before + entry.tokens <= longest, "positions");
        }
        // Work conservation: with nothing running or in flight, whoever waits is served.
        if waiting > 0 && running == 0 && self.in_flight.is_empty() {
            prop_assert!(
                !plan.is_empty(),
                "an idle engine serves the head of the queue"
            );
        }
        self.check_blocks()?;

        let mut row = Row::default();
        let describe = |entry: &foretoken_engine::Planned| {
            (
                entry.request,
                entry.tokens,
                entry.computed_before,
                entry.samples,
            )
        };
        row.scheduled.extend(plan.entries.iter().map(describe));
        for admission in &plan.admitted {
            let fate = self.fate(admission.request);
            *(if admission.resumed {
                &mut fate.resumed
            } else {
                &mut fate.admitted
            }) += 1;
            row.admitted.push(admission.request);
        }
        for &id in &plan.preempted {
            self.fate(id).preempted += 1;
            row.preempted.push(id);
        }
        let executed = !plan.is_empty();
        self.in_flight.push_back(plan);
        let asynchronous = config.scheduling == Scheduling::Asynchronous;
        if !(asynchronous && executed && self.in_flight.len() == 1) {
            let plan = self
                .in_flight
                .pop_front()
                .expect("a batch was planned just now");
            let fates = &mut self.fates;
            self.scheduler.apply(plan, |output| {
                let fate = fates
                    .get_mut(&output.request)
                    .expect("every request has a fate");
                fate.tokens += 1;
                fate.ends.extend(output.finish);
                row.delivered.push(output.request);
            });
            self.check_blocks()?;
        }
        self.rows.push(row);
        Ok(())
    }

    fn check_blocks(&self) -> Result<(), TestCaseError> {
        let kv = self.scheduler.kv();
        prop_assert_eq!(
            kv.used() + kv.free(),
            self.setup.config.usable_blocks(),
            "blocks"
        );
        if self.scheduler.running_len() == 0 {
            prop_assert_eq!(kv.used(), 0, "only running requests hold blocks");
        }
        Ok(())
    }

    fn delivered(&self) -> BTreeMap<RequestId, (u32, Vec<FinishReason>)> {
        let fates = self.fates.iter();
        fates
            .map(|(&id, fate)| (id, (fate.tokens, fate.ends.clone())))
            .collect()
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn every_request_ends_once_with_exactly_its_tokens(setup in setups(), load in loads()) {
        let run = Lockstep::run(&setup, &load)?;
        prop_assert_eq!(run.scheduler.kv().used(), 0);
        let longest = setup.config.max_model_len;
        for client in &load {
            let fate = &run.fates[&client.request.id];
            if client.request.prompt.tokens() >= longest {
                prop_assert_eq!(fate, &Fate::default());
                continue;
            }
            prop_assert_eq!(fate.ends.len(), 1, "{:?}", fate);
            let expected = client.expected(longest);
            if fate.ends[0] == FinishReason::Abort {
                prop_assert!(client.aborts.is_some() && fate.tokens < expected);
                prop_assert!(fate.resumed <= fate.preempted);
            } else {
                prop_assert_eq!(fate.tokens, expected);
                prop_assert_eq!(fate.ends[0], client.reason(longest));
                prop_assert_eq!(fate.admitted, 1);
                // Asynchronously a victim may end while it waits.
                let waited = fate.preempted - fate.resumed;
                let asynchronous = setup.config.scheduling == Scheduling::Asynchronous;
                prop_assert!(waited == 0 || (asynchronous && waited == 1), "{:?}", fate);
            }
        }
    }

    #[test]
    fn tokens_are_computed_in_order_and_only_a_preemption_starts_again(
        setup in setups(),
        load in loads(),
    ) {
        let run = Lockstep::run(&setup, &load)?;
        let mut computed: BTreeMap<RequestId, u32> = BTreeMap::new();
        for row in &run.rows {
            for id in &row.preempted {
                computed.remove(id);
            }
            for &(id, tokens, before, _) in &row.scheduled {
                if row.admitted.contains(&id) {
                    // A prefix hit is made of whole blocks.
                    prop_assert_eq!(before % BLOCK_SIZE, 0);
                    prop_assert!(setup.config.prefix_caching || before == 0);
                } else {
                    prop_assert_eq!(computed.get(&id), Some(&before));
                }
                computed.insert(id, before + tokens);
            }
        }
    }

    #[test]
    fn fcfs_admits_first_comers_first(setup in setups(), load in loads()) {
        let setup = Setup { order: Order::Fcfs, ..setup };
        let run = Lockstep::run(&setup, &load)?;
        let mut seen = Vec::new();
        for id in run.rows.iter().flat_map(|row| &row.admitted) {
            if !seen.contains(id) {
                seen.push(*id);
            }
        }
        prop_assert!(seen.is_sorted(), "{:?}", seen);
    }

    #[test]
    fn the_prefix_cache_changes_no_output(setup in setups(), load in loads()) {
        let patient = patient(load);
        let mut other = setup.clone();
        other.config.prefix_caching = !setup.config.prefix_caching;
        let delivered = Lockstep::run(&setup, &patient)?.delivered();
        prop_assert_eq!(delivered, Lockstep::run(&other, &patient)?.delivered());
    }

    #[test]
    fn the_same_scenario_gives_the_same_steps(setup in setups(), load in loads()) {
        let first = Lockstep::run(&setup, &load)?;
        prop_assert_eq!(first.rows, Lockstep::run(&setup, &load)?.rows);
    }

    /// In a large pool nobody is preempted, and nothing is computed twice.
    #[test]
    fn without_scarcity_every_token_is_computed_once(setup in setups(), load in loads()) {
        let mut setup = setup;
        setup.config.num_gpu_blocks = 1000;
        setup.config.scheduling = Scheduling::Synchronous;
        setup.config.prefix_caching = false;
        let patient = patient(load);
        let run = Lockstep::run(&setup, &patient)?;
        let longest = setup.config.max_model_len;
        for client in patient.iter().filter(|client| client.request.prompt.tokens() < longest) {
            let mine = run.rows.iter().flat_map(|row| &row.scheduled);
            let mine = mine.filter(|entry| entry.0 == client.request.id);
            let computed: u32 = mine.map(|entry| entry.1).sum();
            let wanted = client.request.prompt.tokens() + client.expected(longest) - 1;
            prop_assert_eq!(computed, wanted);
        }
    }
}

/// Time in proportion to the tokens, in thirds of a nanosecond so that fractions occur.
#[derive(Debug)]
struct Proportional;

impl LatencyModel for Proportional {
    fn step(&self, shape: &StepShape) -> Fine {
        let thirds = 1_000_000 + 100_000 * shape.padded_tokens + 37 * shape.decode_context;
        Fine::from_bits((u128::from(thirds) << 32) / 3)
    }
}

fn hosts() -> impl Strategy<Value = HostCosts> {
    prop::collection::vec(prop_oneof![Just(0_u64), 0_u64..400_000], 8).prop_map(|nanos| {
        let cost = |index: usize| SimDuration::from_nanos(nanos[index]);
        HostCosts {
            ingest: cost(0),
            ingest_per_token: cost(1),
            schedule: cost(2),
            schedule_per_sequence: cost(3),
            update: cost(4),
            update_per_sequence: cost(5),
            deliver: cost(6),
            deliver_per_sequence: cost(7),
        }
    })
}

/// Serves a load with an engine; everything that it reported, with the time of the report.
fn serve(setup: &Setup, host: HostCosts, load: &[Client]) -> Vec<(SimTime, EngineEvent)> {
    let config = EngineConfig {
        scheduler: setup.config.clone(),
        host,
        ..EngineConfig::default()
    };
    let engine = Engine::new(config, Arc::new(Proportional), setup.policies());
    let mut engine = engine.expect("the settings are in range");
    let mut inputs: Vec<(SimTime, Option<Request>, RequestId)> = Vec::new();
    for client in load {
        inputs.push((
            client.request.arrival,
            Some(client.request.clone()),
            client.request.id,
        ));
        if let Some(at) = client.aborts {
            let at = SimTime::ZERO + SimDuration::from_millis(at);
            inputs.push((at, None, client.request.id));
        }
    }
    inputs.sort_by_key(|input| input.0);
    let mut inputs = inputs.into_iter().peekable();
    let mut events = Vec::new();
    loop {
        let input = inputs.peek().map(|input| input.0);
        let Some(now) = input.into_iter().chain(engine.next_wake()).min() else {
            break;
        };
        while let Some((_, request, id)) = inputs.next_if(|input| input.0 == now) {
            match request {
                Some(request) => engine.submit(now, request),
                None => engine.abort(now, id),
            }
        }
        if engine.next_wake() == Some(now) {
            engine.advance(now, &mut |event| events.push((now, event)));
            let stats = engine.stats();
            assert!(stats.kv_used <= stats.kv_total && stats.running <= setup.config.max_num_seqs);
            assert!(
                engine.next_wake().is_none_or(|wake| wake > now),
                "advance does all that is due"
            );
        }
    }
    assert!(engine.is_drained(), "an idle engine has no request inside");
    events
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn steps_never_overlap_and_every_step_is_reported_after_its_end(
        setup in setups(),
        host in hosts(),
        load in loads(),
    ) {
        let mut free = SimTime::ZERO;
        for (now, event) in serve(&setup, host, &load) {
            if let EngineEvent::Step(step) = event {
                prop_assert!(free <= step.start && step.start < step.end && step.end <= now);
                prop_assert!(step.shape.tokens() <= step.shape.padded_tokens);
                let budget = u64::from(setup.config.max_num_batched_tokens);
                prop_assert!(step.shape.tokens() <= budget);
                free = step.end;
            }
        }
    }

    #[test]
    fn a_client_sees_scheduling_tokens_and_one_end_in_this_order(
        setup in setups(),
        host in hosts(),
        load in loads(),
    ) {
        let events = serve(&setup, host, &load);
        let longest = setup.config.max_model_len;
        for client in &load {
            let mine = events.iter().filter_map(|(_, event)| match event {
                EngineEvent::Request(it) if it.request == client.request.id => Some((it.at, it.what)),
                _ => None,
            });
            let mine: Vec<_> = mine.collect();
            let tokens: u32 = mine
                .iter()
                .map(|(_, what)| if let Lifecycle::Tokens { count } = what { *count } else { 0 })
                .sum();
            match mine.last().map(|last| last.1) {
                Some(Lifecycle::Rejected { .. }) => {
                    prop_assert!(mine.len() == 1 && client.request.prompt.tokens() >= longest);
                }
                Some(Lifecycle::Finished { reason: FinishReason::Abort }) => {
                    prop_assert!(client.aborts.is_some() && tokens < client.expected(longest));
                }
                Some(Lifecycle::Finished { reason }) => {
                    prop_assert_eq!(reason, client.reason(longest));
                    prop_assert_eq!(tokens, client.expected(longest));
                }
                other => prop_assert!(false, "the last of a request is {:?}", other),
            }
            let ends = mine.iter().filter(|it| {
                matches!(it.1, Lifecycle::Finished { .. } | Lifecycle::Rejected { .. })
            });
            prop_assert_eq!(ends.count(), 1);
            // What the client sees is in order, and follows the arrival and the front end.
            let seen = mine.iter().filter(|it| {
                matches!(it.1, Lifecycle::Tokens { .. } | Lifecycle::Finished { .. })
            });
            prop_assert!(seen.clone().is_sorted_by_key(|it| it.0), "{:?}", mine);
            let front = host.ingest
                + host.ingest_per_token * u64::from(client.request.prompt.tokens());
            let core = client.request.arrival + front;
            let scheduled = mine.iter().find(|it| matches!(it.1, Lifecycle::Scheduled { .. }));
            prop_assert!(scheduled.is_none_or(|it| it.0 >= core));
            let first = mine.iter().find(|it| matches!(it.1, Lifecycle::Tokens { .. }));
            prop_assert!(first.is_none_or(|it| it.0 > core));
        }
    }

    #[test]
    fn the_same_load_gives_the_same_events(
        setup in setups(),
        host in hosts(),
        load in loads(),
    ) {
        prop_assert_eq!(serve(&setup, host, &load), serve(&setup, host, &load));
    }
}

//! Everything that engines report under random loads, against digests recorded before the engine
//! was made fast: whatever else changes inside, not one event may.
//!
//! Within the output of a step the order of the tokens does not matter; that of the ends does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{
    AtEnd, Batching, Engine, EngineConfig, EngineEvent, EngineStats, KvAllocation, KvOffer,
    KvTransfer, LastAdmitted, LeastUrgent, Policies, PreemptionPolicy, RunningView,
    SchedulerConfig, Scheduling, Semantics, StepReport,
};
use foretoken_latency_model::{Affine, Fine, HostCosts, LatencyModel, StepShape};
use foretoken_workload::order::{ByPriority, LongestPrefixMatch, ShortestJobFirst};
use foretoken_workload::{
    ContentId, Fcfs, Lifecycle, Occurrence, Priority, Prompt, QueueOrder, Request, RequestId,
    Segment,
};

/// Loads for each digest.
const LOADS: u64 = 40;

/// Loads that are done in each way, for each order and kind of scheduling.
const COMPARED: u64 = 200;

/// Wakes after which a load is left alone: some never end.
const WAKES: u32 = 3_000;

#[derive(Debug)]
struct Proportional;

impl LatencyModel for Proportional {
    fn step(&self, shape: &StepShape) -> Fine {
        let thirds = 1_000_000
            + 100_000 * shape.padded_tokens
            + 37 * shape.decode_context
            + 11 * shape.prefill_pairs
            + 5 * shape.shared_context;
        Fine::from_bits((u128::from(thirds) << 32) / 3)
    }
}

/// Numbers that are the same for ever (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(limit)).expect("below a number of 32 bits")
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    fn nanos(&mut self, limit: u32) -> SimDuration {
        SimDuration::from_nanos(u64::from(self.below(limit)))
    }
}

/// FNV-1a over what is written.
struct Digest(u64);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

/// Looks at all that a policy is told. The first may be taken from only if it is alone: somebody has to
/// get on.
#[derive(Debug)]
struct Cheapest;

impl PreemptionPolicy for Cheapest {
    fn victim(&mut self, running: &[RunningView], needy: usize) -> usize {
        let cost = |&index: &usize| {
            let view = &running[index];
            let work = view.computed_tokens + view.output_tokens + 7 * view.preemptions;
            (work % 5, view.blocks, view.id, index.abs_diff(needy))
        };
        (1..running.len()).min_by_key(cost).unwrap_or(0)
    }
}

#[derive(Debug, Clone, Copy)]
enum Order {
    Fcfs,
    Priority,
    ShortestJob,
    LongestPrefix,
    /// First come, first served, and the cheapest is preempted.
    FcfsCheapest,
}

fn policies(order: Order) -> Policies {
    let by: Box<dyn QueueOrder> = match order {
        Order::Fcfs | Order::FcfsCheapest => Box::new(Fcfs),
        Order::Priority => Box::new(ByPriority),
        Order::ShortestJob => Box::new(ShortestJobFirst),
        Order::LongestPrefix => Box::new(LongestPrefixMatch),
    };
    Policies {
        order: by,
        preemption: match order {
            Order::Priority => Box::new(LeastUrgent),
            Order::FcfsCheapest => Box::new(Cheapest),
            _ => Box::new(LastAdmitted),
        },
    }
}

fn config(numbers: &mut Numbers, scheduling: Scheduling, prefix_caching: bool) -> EngineConfig {
    let chunked_prefill = !numbers.one_in(4);
    let longest = 16 + numbers.below(120);
    let budget = 1 + numbers.below(48);
    let block_size = [1, 4, 4, 16][numbers.below(4) as usize];
    let mut semantics = [
        Semantics::V0_15,
        Semantics::of_minor_version(25),
        Semantics::V0_33,
    ][numbers.below(3) as usize];
    semantics.watermark_blocks = numbers.below(2);
    let mut cost = || match numbers.below(2) {
        0 => SimDuration::ZERO,
        _ => numbers.nanos(300_000),
    };
    let host = HostCosts {
        ingest: cost(),
        ingest_per_token: cost(),
        schedule: cost(),
        schedule_per_sequence: cost(),
        update: cost(),
        update_per_sequence: cost(),
        deliver: cost(),
        deliver_per_sequence: cost(),
    };
    let scheduler = SchedulerConfig {
        max_num_seqs: 1 + numbers.below(12),
        max_num_batched_tokens: if chunked_prefill {
            budget
        } else {
            budget.max(longest)
        },
        max_model_len: longest,
        block_size,
        num_gpu_blocks: longest.div_ceil(block_size) + 1 + numbers.below(24),
        prefix_caching,
        chunked_prefill,
        long_prefill_token_threshold: [0, 0, 9][numbers.below(3) as usize],
        scheduling,
        semantics,
        ..SchedulerConfig::default()
    };
    EngineConfig {
        scheduler,
        host,
        ..EngineConfig::default()
    }
}

/// Half of the loads are for engines as they were before vLLM, in one respect or in both.
fn old_ways(scheduler: &mut SchedulerConfig, seed: u64) {
    if matches!(seed % 10, 0 | 2 | 3) {
        scheduler.batching = Batching::Static;
    }
    if matches!(seed % 10, 0 | 5 | 6) {
        scheduler.kv_allocation = KvAllocation::Reserved;
        scheduler.num_gpu_blocks *= 4;
    }
}

enum Input {
    Submit(Request, KvTransfer),
    Offer(RequestId, KvOffer),
    Abort(RequestId),
    Loaded(RequestId),
    Release(RequestId),
}

struct Host {
    engine: Engine,
    numbers: Numbers,
    inputs: BTreeMap<(SimTime, u32), Input>,
    /// Who has got tokens.
    begun: BTreeSet<RequestId>,
    /// Whose tokens are told together.
    members: BTreeSet<RequestId>,
    /// Whether requests say what nobody repeats.
    marks: bool,
    mode: Mode,
    books: Books,
    /// How often it was known how the engine would be before it had done its steps.
    foreseen: u32,
    digest: Digest,
}

/// What happened, whenever it was told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Books {
    steps: Vec<StepReport>,
    requests: BTreeMap<RequestId, Vec<(SimTime, Lifecycle)>>,
    /// How full the engine was from when on.
    levels: BTreeMap<SimTime, EngineStats>,
    level: EngineStats,
    unended: bool,
}

impl Books {
    fn look(&mut self, at: SimTime, stats: EngineStats) {
        if self.level != stats {
            self.level = stats;
            self.levels.insert(at, stats);
        }
    }

    /// How much has happened to requests, but for tokens.
    fn but_tokens(&self) -> usize {
        let all = self.requests.values().flatten();
        all.filter(|(_, what)| !matches!(what, Lifecycle::Tokens { .. }))
            .count()
    }

    /// Without levels that lasted for no time.
    fn settled(mut self) -> Self {
        let mut before = EngineStats::default();
        self.levels
            .retain(|_, level| core::mem::replace(&mut before, *level) != *level);
        self
    }
}

impl Host {
    fn input(&mut self, at: SimTime, input: Input) {
        let number = u32::try_from(self.inputs.len()).expect("few");
        let taken = |number| self.inputs.contains_key(&(at, number));
        let free = (number..u32::MAX)
            .find(|&number| !taken(number))
            .expect("few");
        self.inputs.insert((at, free), input);
    }

    fn load(&mut self) {
        let exchanges = self.engine.scheduler().config().exchanges_kv();
        let connected = self.numbers.one_in(3) && exchanges;
        let mut now = SimTime::ZERO;
        for number in 0..5 + self.numbers.below(40) {
            let numbers = &mut self.numbers;
            now = now + SimDuration::from_nanos(1) + numbers.nanos(8_000_000);
            let id = RequestId::new(number);
            let shared = Segment::new(
                ContentId::new(u64::from(numbers.below(3))),
                numbers.below(50),
            );
            let own = Segment::new(
                ContentId::new(100 + u64::from(number)),
                1 + numbers.below(20),
            );
            let mut segments = vec![shared, own];
            if numbers.one_in(4) {
                // A later turn: what an earlier request said is part of the prompt.
                let earlier = RequestId::new(numbers.below(number + 1));
                let said = Segment::new(ContentId::output_of(earlier), numbers.below(30));
                segments.insert(1, said);
            }
            let repeatable = segments[..segments.len() - 1].iter().map(|it| it.len).sum();
            let prompt = Prompt::new(segments).expect("the own part is not empty");
            let limit = 1 + numbers.below(60);
            let mut request = Request::new(id, now, prompt, limit);
            if self.marks && numbers.one_in(2) {
                request = request.repeatable_up_to(repeatable);
            }
            if numbers.one_in(2) {
                request = request.stopping(1 + numbers.below(40), limit);
            }
            request.priority = Priority::new(numbers.below(3).cast_signed());
            request.cache_salt = numbers.one_in(8).then_some(7);
            let mut transfer = KvTransfer::local();
            if connected {
                let tokens = numbers.below(80);
                transfer.offer = match numbers.below(6) {
                    0 => KvOffer::Load { tokens: u32::MAX },
                    1 => KvOffer::Load { tokens },
                    2 => KvOffer::InStep { tokens },
                    3 => KvOffer::Later,
                    _ => KvOffer::Nothing,
                };
                if numbers.one_in(4) {
                    transfer.at_end = AtEnd::Hold;
                }
            }
            let later = now + numbers.nanos(60_000_000);
            let aborts = numbers.one_in(9);
            if transfer.offer == KvOffer::Later {
                let offers = [KvOffer::Nothing, KvOffer::Load { tokens: u32::MAX }];
                let offer = offers[numbers.below(2) as usize];
                self.input(later, Input::Offer(id, offer));
            } else if aborts {
                self.input(later, Input::Abort(id));
            }
            self.input(now, Input::Submit(request, transfer));
        }
    }

    fn run(&mut self) {
        self.books.unended = true;
        for _ in 0..WAKES {
            let input = self.inputs.first_key_value().map(|(key, _)| key.0);
            let wake = match self.mode {
                Mode::Late => self.engine.quiet_until(),
                _ => self.engine.next_wake(),
            };
            let Some(now) = input.into_iter().chain(wake).min() else {
                self.books.unended = false;
                break;
            };
            let foreseen = self.engine.stats_before(now);
            let due = self.engine.next_wake().filter(|&due| due < now);
            while let Some(due) = self.engine.next_wake().filter(|&due| due < now) {
                let before = self.books.but_tokens();
                self.advance(due, now);
                assert_eq!(self.books.but_tokens(), before, "it only decodes");
            }
            if let Some(foreseen) = foreseen {
                assert_eq!(foreseen, self.engine.stats());
                self.foreseen += u32::from(due.is_some());
            }
            while let Some(entry) = self.inputs.first_entry()
                && entry.key().0 == now
            {
                match entry.remove() {
                    Input::Submit(request, transfer) => {
                        self.engine.submit_remote(now, request, transfer);
                    }
                    Input::Offer(id, offer) => self.engine.offer(now, id, offer),
                    Input::Abort(id) => self.engine.abort(now, id),
                    Input::Loaded(id) => self.engine.kv_loaded(now, id),
                    Input::Release(id) => self.engine.release_kv(now, id),
                }
            }
            self.books.look(now, self.engine.stats());
            if self.engine.next_wake() == Some(now) {
                let next = self.inputs.first_key_value().map(|(key, _)| key.0);
                let until = next.filter(|_| self.mode == Mode::Ahead).unwrap_or(now);
                self.advance(now, until);
            }
        }
        let drained = !self.engine.is_stalled() && self.engine.is_drained();
        self.note(format_args!("{drained}"));
    }

    fn advance(&mut self, now: SimTime, until: SimTime) {
        let mut events = Vec::new();
        let (begun, members) = (&mut self.begun, &mut self.members);
        let books = &mut self.books;
        self.engine.advance_until(now, until, &mut |event| {
            match event {
                EngineEvent::FirstTokens(run) => {
                    assert!(run.requests.iter().all(|&request| begun.insert(request)));
                }
                EngineEvent::Tokens(run) => {
                    assert!(run.requests.iter().all(|request| begun.contains(request)));
                    assert!(!run.requests.iter().any(|request| members.contains(request)));
                }
                EngineEvent::Decodes(run) => {
                    assert!(run.left.iter().all(|request| members.remove(request)));
                    assert!(run.joined.iter().all(|request| begun.contains(request)));
                    assert!(run.joined.iter().all(|&request| members.insert(request)));
                    let told: BTreeSet<RequestId> = run.tokens.requests.iter().copied().collect();
                    assert_eq!(*members, told);
                    assert_eq!(run.tokens.requests.len(), told.len());
                }
                EngineEvent::Request(Occurrence {
                    request,
                    what: Lifecycle::Finished { .. },
                    ..
                }) => {
                    members.remove(&request);
                }
                _ => {}
            }
            if let EngineEvent::Levels { kv_used, mut stats } = event {
                for &(at, used) in kv_used {
                    stats.kv_used = used;
                    books.look(at, stats);
                }
                return;
            }
            event.one_by_one(|event| events.push(event));
        });
        for event in &events {
            match *event {
                EngineEvent::Step(step) => self.books.steps.push(step),
                EngineEvent::Request(it) => {
                    let book = self.books.requests.entry(it.request).or_default();
                    book.push((it.at, it.what));
                }
                _ => {}
            }
        }
        self.books.look(now, self.engine.stats());
        let mut output = Vec::new();
        for event in events {
            match event {
                EngineEvent::Request(occurrence) if is_output(&occurrence) => {
                    output.push(occurrence);
                    continue;
                }
                EngineEvent::KvLoad { at, load } if !load.is_confirmation() => {
                    let at = at + self.numbers.nanos(9_000_000);
                    self.input(at, Input::Loaded(load.request));
                }
                _ => {}
            }
            self.output(&mut output);
            self.note(format_args!("{event:?}"));
        }
        self.output(&mut output);
        let scheduler = self.engine.scheduler();
        let queues: Vec<u32> = scheduler
            .running()
            .chain(scheduler.waiting())
            .map(RequestId::get)
            .collect();
        let stats = self.engine.stats();
        self.note(format_args!("{now:?} {queues:?} {stats:?}"));
    }

    /// The output of a step: all tokens, then the ends.
    fn output(&mut self, output: &mut Vec<Occurrence>) {
        let is_token = |it: &Occurrence| matches!(it.what, Lifecycle::Tokens { .. });
        output.sort_by_key(|it| (!is_token(it), is_token(it).then_some(it.request)));
        for occurrence in output.drain(..) {
            if !is_token(&occurrence) {
                let at = occurrence.at + self.numbers.nanos(30_000_000);
                self.input(at, Input::Release(occurrence.request));
            }
            self.note(format_args!("{occurrence:?}"));
        }
    }

    fn note(&mut self, what: fmt::Arguments<'_>) {
        writeln!(self.digest, "{what}").expect("a digest takes everything");
    }
}

fn is_output(occurrence: &Occurrence) -> bool {
    matches!(
        occurrence.what,
        Lifecycle::Tokens { .. } | Lifecycle::Finished { .. }
    )
}

/// How engines do their steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    StepByStep,
    /// Decodes are counted.
    Counted,
    /// And the engine runs ahead as far as it may.
    Ahead,
    /// And nobody looks at it as long as it only decodes.
    Late,
}

/// What happens under a load in which requests say what nobody repeats; nobody listens to the cache.
fn books(
    latency: Arc<dyn LatencyModel>,
    order: Order,
    scheduling: Scheduling,
    seed: u64,
    mode: Mode,
) -> (Books, u32) {
    let mut numbers = Numbers(seed << 32 | 1 << 16 | order as u64);
    let prefix_caching = !numbers.one_in(4);
    let mut config = config(&mut numbers, scheduling, prefix_caching);
    old_ways(&mut config.scheduler, seed);
    let engine = Engine::new(config, latency, policies(order));
    let mut engine = engine.expect("the settings are in range");
    if mode == Mode::StepByStep {
        engine = engine.step_by_step();
    }
    let mut host = Host {
        engine,
        numbers,
        inputs: BTreeMap::new(),
        begun: BTreeSet::new(),
        members: BTreeSet::new(),
        marks: true,
        mode,
        books: Books::default(),
        foreseen: 0,
        digest: Digest(0),
    };
    host.load();
    host.run();
    (host.books.settled(), host.foreseen)
}

/// Whether so many loads give the same in these modes as step by step. How often it was known how an engine
/// would be before it had done its steps.
fn compare(latency: &Arc<dyn LatencyModel>, modes: &[Mode], loads: u64) -> u32 {
    let mut known = 0;
    let orders = [
        Order::Fcfs,
        Order::Priority,
        Order::ShortestJob,
        Order::LongestPrefix,
        Order::FcfsCheapest,
    ];
    for order in orders {
        for scheduling in [Scheduling::Synchronous, Scheduling::Asynchronous] {
            for seed in 0..loads {
                let books = |mode| books(latency.clone(), order, scheduling, seed, mode);
                let (expected, _) = books(Mode::StepByStep);
                // Some loads never end, and are left at different times.
                if expected.unended {
                    continue;
                }
                for &mode in modes {
                    let (books, foreseen) = books(mode);
                    known += foreseen;
                    assert!(
                        books == expected,
                        "{order:?}, {scheduling:?}, load {seed}, {mode:?}"
                    );
                }
            }
        }
    }
    known
}

#[test]
fn counting_and_running_ahead_change_nothing() {
    let latency: Arc<dyn LatencyModel> = Arc::new(Proportional);
    compare(&latency, &[Mode::Counted, Mode::Ahead], COMPARED);
}

#[test]
fn an_engine_that_nobody_looks_at_while_it_decodes_does_the_same() {
    for context in [0, 40_000] {
        let affine = Affine::new(SimDuration::from_micros(300))
            .per_token(SimDuration::from_micros(30))
            .per_context(SimDuration::from_nanos(context));
        let latency: Arc<dyn LatencyModel> = Arc::new(affine);
        let known = compare(&latency, &[Mode::Late], COMPARED / 4);
        assert!(known > 100, "{known} times");
    }
}

#[test]
fn steps_of_seconds_and_of_hours_are_counted_like_others() {
    // Two of them last longer than 64 bits of the clock can tell, and one more than any step may.
    for seconds in [1, 2_500, 10_000] {
        let affine = Affine::new(SimDuration::from_secs(seconds))
            .per_context(SimDuration::from_millis(seconds));
        let latency: Arc<dyn LatencyModel> = Arc::new(affine);
        compare(
            &latency,
            &[Mode::Counted, Mode::Ahead, Mode::Late],
            COMPARED / 10,
        );
    }
}

/// The digest of many loads.
fn digest(order: Order, scheduling: Scheduling, prefix_caching: bool, step_by_step: bool) -> u64 {
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    for seed in 0..LOADS {
        let mut numbers = Numbers(seed << 32 | u64::from(prefix_caching) << 8 | order as u64);
        let config = config(&mut numbers, scheduling, prefix_caching);
        let engine = Engine::new(config, Arc::new(Proportional), policies(order));
        let mut engine = engine.expect("the settings are in range").with_kv_events();
        if step_by_step {
            engine = engine.step_by_step();
        }
        let inputs = BTreeMap::new();
        let mut host = Host {
            engine,
            numbers,
            inputs,
            begun: BTreeSet::new(),
            members: BTreeSet::new(),
            marks: false,
            mode: Mode::Counted,
            books: Books::default(),
            foreseen: 0,
            digest,
        };
        host.load();
        host.run();
        digest = host.digest;
    }
    digest.0
}

/// Digests of synchronous and asynchronous scheduling, each without and with prefix caching.
fn check(order: Order, expected: [[u64; 2]; 2]) {
    for step_by_step in [true, false] {
        let digests = [Scheduling::Synchronous, Scheduling::Asynchronous].map(|scheduling| {
            [false, true].map(|caching| digest(order, scheduling, caching, step_by_step))
        });
        assert_eq!(digests, expected, "{order:?}, step by step: {step_by_step}");
    }
}

#[test]
fn first_come_first_served() {
    check(
        Order::Fcfs,
        [
            [18_334_942_454_652_558_746, 4_926_285_320_106_736_878],
            [4_438_675_633_650_575_474, 6_479_779_678_793_281_377],
        ],
    );
}

#[test]
fn by_priority() {
    check(
        Order::Priority,
        [
            [14_385_275_183_725_473_517, 16_616_824_629_108_406_924],
            [8_916_331_529_009_333_062, 10_982_475_584_708_382_858],
        ],
    );
}

#[test]
fn the_shortest_job_first() {
    check(
        Order::ShortestJob,
        [
            [14_746_109_640_687_884_051, 2_875_364_727_420_087_154],
            [15_096_231_679_042_791_439, 14_662_204_108_537_234_428],
        ],
    );
}

#[test]
fn the_longest_prefix_first() {
    check(
        Order::LongestPrefix,
        [
            [5_659_544_593_974_299_282, 17_186_171_680_950_312_555],
            [1_613_442_039_252_150_713, 8_644_900_859_591_295_469],
        ],
    );
}

#[test]
fn the_cheapest_is_preempted() {
    check(
        Order::FcfsCheapest,
        [
            [12_399_963_725_753_255_030, 16_258_542_883_719_094_270],
            [9_189_391_642_723_416_623, 17_923_820_594_113_808_494],
        ],
    );
}

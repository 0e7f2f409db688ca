//! KV from outside, and blocks that others are to read.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{
    Engine, EngineConfig, EngineEvent, KvOffer, KvTransfer, Policies, Scheduling,
};
use foretoken_latency_model::HostCosts;
use foretoken_workload::{FinishReason, Lifecycle, RequestId};

use crate::clock::{Constant, ms, request};
use crate::table::{Play, check};

/// S33.
#[test]
fn a_load_holds_blocks_without_a_seat_and_then_one_token_is_computed() {
    check(
        "usable 40, budget 64, seqs 4
        a: step 0, A[4], 6 out
        b: step 1, B[12], 2 out, loads all in 2
        c: step 1, C[5], 2 out
        --
        0 | a:4     | 1 | a / -   | +a       | a                 | 1
        1 | a:1 c:5 | 7 | a c / b | +c >b:3  | a c               | 7
        2 | a:1 c:1 | 7 | a c / b | -        | a c=length        | 5
        3 | a:1     | 5 | a / b   | -        | a                 | 5
        4 | a:1 b:1 | 5 | a b / - | +b@11    | a b               | 5
        5 | a:1 b:1 | 7 | a b / - | -        | a=length b=length | 0
        ",
    );
}

/// S34.
#[test]
fn the_last_block_of_a_load_need_not_be_full() {
    check(
        "usable 40, budget 64, seqs 4
        a: step 0, A[10], 2 out, loads all in 1
        --
        0 | -   | 3 | - / a | >a:3 | -        | 3
        2 | a:1 | 3 | a / - | +a@9 | a        | 3
        3 | a:1 | 3 | a / - | -    | a=length | 0
        ",
    );
}

/// S35.
#[test]
fn what_is_read_inside_the_step_counts_as_computed_at_once() {
    check(
        "usable 40, budget 64, seqs 4
        a: step 0, A[18], 2 out, reads 8
        --
        0 | a:10 | 5 | a / - | +a@8 | a        | 5
        1 | a:1  | 5 | a / - | -    | a=length | 0
        ",
    );
}

/// S36.
#[test]
fn blocks_stay_until_they_have_been_read() {
    check(
        "usable 10, budget 64, seqs 4
        a: step 0, A[12], 1 out, sent in 3
        b: step 1, B[29], 1 out
        --
        0 | a:12 | 3 | a / - | +a | a=length | 3
        1 | -    | 3 | - / b | -  | -        | 3
        3 | -    | 3 | - / b | -  | -        | 0
        4 | b:29 | 8 | b / - | +b | b=length | 0
        ",
    );
}

/// S37.
#[test]
fn a_load_takes_memory_from_the_head_behind_it() {
    check(
        "usable 8, budget 64, seqs 4
        a: step 0, A[16], 2 out, loads all in 3
        b: step 0, B[20], 1 out
        c: step 0, C[4], 1 out
        --
        0 | -        | 4 | - / a b c | >a:4  | -                 | 4
        4 | a:1      | 4 | a / b c   | +a@15 | a                 | 4
        5 | a:1      | 5 | a / b c   | -     | a=length          | 0
        6 | b:20 c:4 | 6 | b c / -   | +b +c | b=length c=length | 0
        ",
    );
}

const STALL: &str = "usable 8, budget 64, seqs 4
    x: step 0, A[14], 6 out
    y: step 1, B[15], 2 out, loads all in 2
    --
    0 | x:14 | 4 | x / -   | +x   | x | 4
    1 | x:1  | 8 | x / y   | >y:4 | x | 8
    2 | x:1  | 8 | x / y   | -    | x | 8
    3 | -    | 4 | - / x y | !x   | - | 4
    ";

/// S45.
#[test]
fn a_loaded_request_is_stuck_behind_a_head_that_needs_its_blocks() {
    check(STALL);
}

#[test]
fn later_versions_admit_holders_of_blocks_first() {
    let text = STALL.replace("seqs 4", "seqs 4, semantics 0.33");
    check(&format!(
        "{text}
        4 | y:1 | 4 | y / x | +y@14 | y        | 4
        5 | y:1 | 4 | y / x | -     | y=length | 0
        6 | x:1 | 5 | x / - | ~x@16 | x        | 5
        7 | x:1 | 5 | x / - | -     | x        | 5
        8 | x:1 | 5 | x / - | -     | x=length | 0
        "
    ));
}

/// O2, with the answers of the offloading connector scripted: the second reader of a prefix that is
/// being loaded is passed over, and then finds it in the cache.
#[test]
fn who_is_told_to_ask_later_is_passed_over() {
    check(
        "usable 16, budget 64, seqs 4
        c: step 0, A[12]+C[3], 2 out, loads 12 in 2
        d: step 0, A[12]+D[2], 2 out, later 3
        e: step 0, E[4], 1 out
        --
        0 | e:4     | 4 | e / c d | +e >c:3     | e=length          | 3
        3 | c:3 d:2 | 5 | c d / - | +c@12 +d@12 | c d               | 5
        4 | c:1 d:1 | 5 | c d / - | -           | c=length d=length | 0
        ",
    );
}

/// O3: the last block of an aligned prompt gets its key only with the token that is computed.
#[test]
fn an_aligned_prompt_that_comes_from_outside_costs_one_token() {
    check(
        "usable 16, budget 64, seqs 4
        a: step 0, A[12], 2 out, loads all in 1
        b: step 2, A[12]+B[1], 1 out
        --
        0 | -       | 3 | - / a | >a:3        | -                 | 3
        2 | a:1 b:1 | 4 | a b / - | +a@11 +b@12 | a b=length      | 3
        3 | a:1     | 4 | a / - | -           | a=length          | 0
        ",
    );
}

#[test]
fn only_blocks_that_the_cache_lacks_are_loaded_and_nothing_but_a_confirmation_if_it_lacks_none() {
    check(
        "usable 16, budget 64, seqs 4
        a: step 0, A[12], 1 out
        b: step 2, A[8]+B[5], 1 out, loads all in 1
        c: step 5, A[8]+C[5], 1 out, loads 8 in 1
        --
        0 | a:12 | 3 | a / - | +a       | a=length | 0
        2 | -    | 4 | - / b | >b:2     | -        | 4
        4 | b:1  | 4 | b / - | +b@12    | b=length | 0
        5 | c:5  | 4 | c / - | +c@8 >c  | c=length | 0
        ",
    );
}

/// A victim is computed here: KV is offered once.
#[test]
fn after_a_preemption_nothing_is_loaded_again() {
    check(
        "usable 5, budget 64, seqs 4, caching off
        a: step 0, A[7], 6 out
        b: step 0, B[8], 4 out, loads all in 1
        --
        0 | a:7     | 4 | a / b   | +a >b:2 | a        | 4
        1 | a:1     | 4 | a / b   | -       | a        | 4
        2 | a:1 b:1 | 5 | a b / - | +b@7    | a b      | 5
        3 | a:1     | 3 | a / b   | !b      | a        | 3
        4 | a:1     | 3 | a / b   | -       | a        | 3
        5 | a:1     | 3 | a / b   | -       | a=length | 0
        6 | b:9     | 3 | b / -   | ~b      | b        | 3
        7 | b:1     | 3 | b / -   | -       | b        | 3
        8 | b:1     | 3 | b / -   | -       | b=length | 0
        ",
    );
}

#[test]
fn an_abort_gives_the_blocks_back_in_every_state() {
    // Before its load (the other side is told), while it loads, and when it has been loaded.
    check(
        "usable 8, budget 64, seqs 1
        a: step 0, A[20], 9 out, abort 4
        b: step 0, B[9], 1 out, loads all in 1, abort 2
        c: step 5, C[9], 1 out, loads all in 3, abort 6
        d: step 7, D[9], 1 out, loads all in 1, abort 9
        e: step 10, E[9], 2 out, sent in 2, abort 11
        --
        0 | a:20 | 5 | a / b | +a   | a | 5
        1 | a:1  | 6 | a / b | -    | a | 6
        2 | a:1  | 6 | a / - | >b   | a | 6
        3 | a:1  | 6 | a / - | -    | a | 6
        4 | -    | 0 | - / - | -    | - | 0
        5 | -    | 3 | - / c | >c:3 | - | 3
        6 | -    | 0 | - / - | -    | - | 0
        7 | -    | 3 | - / d | >d:3 | - | 3
        9 | -    | 0 | - / - | -    | - | 0
        10 | e:9 | 3 | e / - | +e   | e | 3
        11 | -   | 0 | - / - | -    | - | 0
        ",
    );
}

#[test]
fn a_reset_of_the_cache_is_refused_while_blocks_are_filled_or_held() {
    use foretoken_engine::scheduler::ResetRunning;
    for text in [
        "usable 8, budget 64, seqs 4\n a: step 0, A[9], 1 out, loads all in 9",
        "usable 8, budget 64, seqs 4\n a: step 0, A[9], 1 out, sent in 9",
    ] {
        let mut play = Play::new(text);
        play.run(2);
        let reset = play
            .scheduler
            .reset_prefix_cache(SimTime::ZERO, ResetRunning::Preempt);
        assert!(!reset, "{text}");
    }
}

/// An engine with blocks of 16, steps of 10 ms, and all that it reported.
struct Side {
    engine: Engine,
    events: Vec<EngineEvent<'static>>,
}

impl Side {
    fn new(scheduling: Scheduling, host: HostCosts) -> Self {
        let mut config = EngineConfig {
            host,
            ..EngineConfig::default()
        };
        config.scheduler.scheduling = scheduling;
        config.scheduler.num_gpu_blocks = 257;
        let model = std::sync::Arc::new(Constant::millis(10, 10));
        let engine = Engine::new(config, model, Policies::fcfs());
        Self {
            engine: engine.expect("the settings are in range"),
            events: Vec::new(),
        }
    }

    fn until(&mut self, now: SimTime) {
        let events = &mut self.events;
        self.engine.advance(now, &mut |event| {
            event.one_by_one(|event| events.push(event));
        });
    }

    fn used(&self) -> u32 {
        self.engine.stats().kv_used
    }

    /// Loads: when they start, and how many tokens and blocks they have.
    fn loads(&self) -> Vec<(SimTime, u32, u32)> {
        let loads = self.events.iter().filter_map(|event| match event {
            EngineEvent::KvLoad { at, load } => Some((*at, load.tokens, load.blocks)),
            _ => None,
        });
        loads.collect()
    }

    fn of(&self, id: u32) -> Vec<(SimTime, Lifecycle)> {
        let mine = self.events.iter().filter_map(|event| match event {
            EngineEvent::Request(it) if it.request == RequestId::new(id) => Some((it.at, it.what)),
            _ => None,
        });
        mine.collect()
    }
}

/// D3, in time: the hand-over of a prompt of 35 tokens.
#[test]
fn a_prompt_is_handed_over() {
    let mut prefill = Side::new(Scheduling::Asynchronous, HostCosts::default());
    let mut decode = Side::new(Scheduling::Asynchronous, HostCosts::default());
    prefill
        .engine
        .submit_remote(ms(0), request(0, 0, 35, 1), KvTransfer::produce());
    prefill.until(ms(10));
    let ended = Lifecycle::Finished {
        reason: FinishReason::Length,
    };
    assert_eq!(prefill.of(0).last(), Some(&(ms(10), ended)));
    assert_eq!(prefill.used(), 3);
    assert!(prefill.engine.is_drained(), "held blocks are no leak");
    let held: Vec<_> = prefill.engine.scheduler().held().collect();
    assert_eq!(held, [(RequestId::new(0), 3)]);

    decode
        .engine
        .submit_remote(ms(10), request(0, 0, 35, 3), KvTransfer::consume());
    decode.until(ms(12));
    assert_eq!(decode.loads(), [(ms(10), 35, 3)]);
    assert_eq!((decode.used(), decode.of(0)), (3, vec![]));

    // The load ends between two empty steps; the next one reports it, the one after uses it.
    let end = ms(14) + SimDuration::from_micros(500);
    decode.engine.kv_loaded(end, RequestId::new(0));
    prefill.engine.release_kv(end, RequestId::new(0));
    decode.until(ms(40));
    let scheduled = Lifecycle::Scheduled { cached_tokens: 34 };
    let token = Lifecycle::Tokens { count: 1 };
    let expected = [
        (ms(16), scheduled),
        (ms(26), token),
        (ms(36), token),
        (ms(46), token),
    ];
    decode.until(ms(100));
    assert_eq!(decode.of(0)[..4], expected);
    assert!(decode.engine.is_drained() && decode.used() == 0);

    // The prefill engine has nothing to do, so it does not notice before its next step ends.
    prefill.until(ms(60));
    assert_eq!(prefill.used(), 3);
    prefill.engine.submit(ms(60), request(1, 60, 5, 1));
    prefill.until(ms(60));
    assert_eq!(prefill.used(), 4);
    prefill.until(ms(100));
    assert_eq!(prefill.used(), 0);
}

/// The workers get the message of the step when it has been planned, before the batch in flight ends.
#[test]
fn a_load_starts_when_the_step_has_been_planned() {
    let host = HostCosts {
        schedule: SimDuration::from_millis(2),
        ..HostCosts::default()
    };
    let mut side = Side::new(Scheduling::Asynchronous, host);
    side.engine.submit(ms(0), request(0, 0, 5, 9));
    side.until(ms(1));
    side.engine
        .submit_remote(ms(1), request(1, 1, 35, 1), KvTransfer::consume());
    side.until(ms(30));
    // The first batch runs from 2 to 12. The second is planned from 2 to 4.
    assert_eq!(side.loads(), [(ms(4), 35, 3)]);
}

/// What ends while a step runs is reported with that step.
#[test]
fn a_load_is_noticed_with_the_step_that_ends_next() {
    for (loaded, scheduled) in [(30, 30), (31, 40)] {
        let mut side = Side::new(Scheduling::Synchronous, HostCosts::default());
        side.engine.submit(ms(0), request(0, 0, 5, 9));
        side.until(ms(5));
        side.engine
            .submit_remote(ms(5), request(1, 5, 35, 1), KvTransfer::consume());
        side.until(ms(loaded - 1));
        side.engine.kv_loaded(ms(loaded), RequestId::new(1));
        side.until(ms(200));
        assert_eq!(side.of(1)[0].0, ms(scheduled));
    }
}

#[test]
fn an_end_of_another_kind_leaves_nothing() {
    let mut side = Side::new(Scheduling::Synchronous, HostCosts::default());
    let stops = request(0, 0, 35, 1).stopping(1, 1);
    side.engine
        .submit_remote(ms(0), stops, KvTransfer::produce());
    side.engine
        .submit_remote(ms(0), request(1, 0, 35, 1), KvTransfer::produce());
    side.until(ms(5));
    side.engine.abort(ms(5), RequestId::new(1));
    side.until(ms(50));
    assert_eq!(side.used(), 0);
    assert_eq!(side.engine.scheduler().held().count(), 0);
}

/// A request that is aborted in the front end was offered KV all the same.
#[test]
fn an_abort_before_the_load_is_confirmed() {
    let host = HostCosts {
        ingest: SimDuration::from_millis(3),
        ..HostCosts::default()
    };
    let mut side = Side::new(Scheduling::Asynchronous, host);
    side.engine
        .submit_remote(ms(0), request(0, 0, 35, 1), KvTransfer::consume());
    side.engine.abort(ms(1), RequestId::new(0));
    side.until(ms(9));
    assert_eq!(side.loads(), [(ms(1), 0, 0)]);
    assert!(side.engine.is_drained() && side.engine.next_wake().is_none());
    // A late report of a load that nobody waits for is ignored.
    side.engine.kv_loaded(ms(9), RequestId::new(0));
    side.engine.release_kv(ms(9), RequestId::new(0));
    side.engine.submit(ms(9), request(1, 9, 5, 1));
    side.until(ms(50));
    assert!(side.engine.is_drained());
}

/// The step that shows the engine to be stuck is planned at 35 and applied at 36: an abort between the
/// two counts.
#[test]
fn a_stalled_engine_sleeps_until_an_abort() {
    let micros = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
    for (aborted, scheduled) in [
        (micros(35_500), ms(37)),
        (micros(36_500), micros(36_500)),
        (ms(20_000), ms(20_000)),
    ] {
        let host = HostCosts {
            update: SimDuration::from_millis(1),
            ..HostCosts::default()
        };
        let mut side = Side::new(Scheduling::Synchronous, host);
        // 251 of 256 blocks, and one more from 33 on. The load takes the other five.
        side.engine.submit(ms(0), request(0, 0, 251 * 16 - 1, 9));
        side.engine
            .submit_remote(ms(0), request(1, 0, 80, 1), KvTransfer::consume());
        side.until(ms(30));
        assert_eq!(side.used(), 256);
        side.engine.kv_loaded(ms(30), RequestId::new(1));
        side.until(aborted);
        let asleep = side.engine.next_wake().is_none();
        assert_eq!((side.engine.is_stalled(), side.used()), (asleep, 5));
        side.engine.abort(aborted, RequestId::new(0));
        side.until(ms(21_000));
        let what = Lifecycle::Scheduled { cached_tokens: 79 };
        assert_eq!(side.of(1)[0], (scheduled, what));
        assert!(side.engine.is_drained() && !side.engine.is_stalled());
    }
}

#[test]
fn an_answer_of_later_is_asked_for_again_and_again() {
    let host = HostCosts {
        ingest: SimDuration::from_millis(3),
        ..HostCosts::default()
    };
    let mut side = Side::new(Scheduling::Synchronous, host);
    for id in [0, 1] {
        let transfer = KvTransfer::offering(KvOffer::Later);
        side.engine
            .submit_remote(ms(0), request(id, 0, 35, 1), transfer);
    }
    // One still in the front end, one in the queue.
    let offer = KvOffer::InStep { tokens: 32 };
    side.engine.offer(ms(1), RequestId::new(0), offer);
    side.until(ms(20));
    assert_eq!(
        side.of(0)[0],
        (ms(3), Lifecycle::Scheduled { cached_tokens: 32 })
    );
    assert_eq!((side.of(1), side.engine.is_stalled()), (vec![], false));
    side.engine.offer(ms(20), RequestId::new(1), offer);
    side.until(ms(50));
    assert_eq!(
        side.of(1)[0],
        (ms(21), Lifecycle::Scheduled { cached_tokens: 32 })
    );
}

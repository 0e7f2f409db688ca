//! Systems before vLLM, by hand: static batches, and memory reserved for the longest sequence.

use foretoken_des_kernel::SimTime;
use foretoken_engine::{
    Batching, EngineConfig, EngineError, KvAllocation, KvTransfer, Policies, Scheduler,
    SchedulerConfig,
};

use crate::clock::request;
use crate::table::check;

#[test]
fn nobody_joins_a_static_batch_until_all_of_it_has_ended() {
    check(
        "
        usable 40, budget 64, seqs 2, static
        a: step 0, A[4], 2 out
        b: step 0, B[4], 4 out
        c: step 0, C[4], 2 out
        d: step 1, D[4], 1 out
        --
        0 | a:4 b:4 | 2 | a b / c   | +a +b | a b          | 2
        1 | a:1 b:1 | 4 | a b / c d | -     | a=length b   | 2
        2 | b:1     | 2 | b / c d   | -     | b            | 2
        3 | b:1     | 2 | b / c d   | -     | b=length     | 0
        4 | c:4 d:4 | 2 | c d / -   | +c +d | c d=length   | 1
        5 | c:1     | 2 | c / -     | -     | c=length     | 0
        ",
    );
}

/// Asynchronously the end of a batch is known one step late, as all ends are.
#[test]
fn the_next_static_batch_begins_when_the_last_end_is_known() {
    check(
        "
        usable 40, budget 64, seqs 2, static, asynchronous
        a: step 0, A[4], 2 out
        b: step 0, B[4], 1 out
        c: step 1, C[4], 1 out
        --
        0 | a:4 b:4 | 2 | a b / - | +a +b | - (-)          | 2
        1 | a:1     | 3 | a b / c | -     | a b=length (0) | 2
        2 | -       | 2 | a / c   | -     | a=length (1)   | 0
        3 | c:4     | 1 | c / -   | +c    | - (2)          | 1
        4 | -       | 1 | c / -   | -     | c=length (3)   | 0
        ",
    );
}

#[test]
fn a_static_batch_is_computed_over_several_steps_and_stays_as_it_was_formed() {
    check(
        "
        usable 40, budget 8, seqs 3, static
        a: step 0, A[8], 3 out
        b: step 0, B[6], 1 out
        c: step 1, C[1], 1 out
        --
        0 | a:8     | 2 | a / b   | +a | a          | 2
        1 | a:1 b:6 | 5 | a b / c | +b | a b=length | 3
        2 | a:1     | 3 | a / c   | -  | a=length   | 0
        3 | c:1     | 1 | c / -   | +c | c=length   | 0
        ",
    );
}

/// There would be a block for c, and it is more urgent.
#[test]
fn a_preempted_member_comes_back_into_its_static_batch() {
    check(
        "
        usable 4, budget 64, seqs 4, static, priority, caching off
        a: step 0, A[8], 3 out, priority 1, time 0
        b: step 0, B[7], 2 out, priority 1, time 1
        c: step 1, C[1], 1 out, priority 0, time 2
        --
        0 | a:8 b:7 | 4 | a b / - | +a +b | a b      | 4
        1 | a:1     | 3 | a / c b | !b    | a        | 3
        2 | a:1     | 3 | a / c b | -     | a=length | 0
        3 | b:8     | 2 | b / c   | ~b    | b=length | 0
        4 | c:1     | 1 | c / -   | +c    | c=length | 0
        ",
    );
}

#[test]
fn an_abort_gives_nobody_its_seat_in_a_static_batch() {
    check(
        "
        usable 40, budget 64, seqs 2, static
        a: step 0, A[4], 9 out, abort 2
        b: step 0, B[4], 4 out
        c: step 0, C[4], 1 out
        --
        0 | a:4 b:4 | 2 | a b / c | +a +b | a b      | 2
        1 | a:1 b:1 | 4 | a b / c | -     | a b      | 4
        2 | b:1     | 2 | b / c   | -     | b        | 2
        3 | b:1     | 2 | b / c   | -     | b=length | 0
        4 | c:4     | 1 | c / -   | +c    | c=length | 0
        ",
    );
    // A member that has not begun is awaited no more.
    check(
        "
        usable 40, budget 4, seqs 2, static
        a: step 0, A[4], 1 out
        b: step 0, B[4], 1 out, abort 1
        c: step 0, C[4], 1 out
        --
        0 | a:4 | 1 | a / b c | +a | a=length | 0
        1 | c:4 | 1 | c / -   | +c | c=length | 0
        ",
    );
}

/// Ten blocks are memory for two sequences of sixteen tokens, and each computes the prefix of a; with
/// paged memory, below, there is room for all.
#[test]
fn reserved_memory_limits_the_seats_and_is_not_shared() {
    check(
        "
        usable 10, budget 64, seqs 4, longest 16, reserved
        a: step 0, A[4], 2 out
        b: step 0, A[4]+B[4], 3 out
        c: step 0, A[4]+C[1], 1 out
        --
        0 | a:4 b:8 | 8 | a b / c | +a +b | a b               | 8
        1 | a:1 b:1 | 8 | a b / c | -     | a=length b        | 4
        2 | b:1 c:5 | 8 | b c / - | +c    | b=length c=length | 0
        ",
    );
    check(
        "
        usable 10, budget 64, seqs 4, longest 16
        a: step 0, A[4], 2 out
        b: step 0, A[4]+B[4], 3 out
        c: step 1, A[4]+C[1], 1 out
        --
        0 | a:4 b:4     | 2 | a b / -   | +a +b@4 | a b                 | 2
        1 | a:1 b:1 c:1 | 5 | a b c / - | +c@4    | a=length b c=length | 3
        2 | b:1         | 3 | b / -     | -       | b=length            | 0
        ",
    );
}

#[test]
fn reserved_memory_has_to_hold_one_sequence_of_the_longest_length() {
    let mut config = EngineConfig::default();
    config.scheduler.max_model_len = 160;
    config.scheduler.num_gpu_blocks = 10;
    config.check().expect("vLLM counts the null block");
    config.scheduler.kv_allocation = KvAllocation::Reserved;
    let error = config.check().expect_err("nine blocks can be used");
    assert!(
        matches!(
            error,
            EngineError::PoolTooSmall {
                needed: 10,
                longest: 144,
                ..
            }
        ),
        "{error}"
    );
    config.scheduler.num_gpu_blocks = 11;
    assert_eq!(config.check(), Ok(()));
    assert_eq!(config.scheduler.seats(), 1);
}

#[test]
#[should_panic(expected = "KV crosses the border only of engines with continuous batching")]
fn old_systems_exchange_no_kv() {
    let config = SchedulerConfig {
        batching: Batching::Static,
        ..SchedulerConfig::default()
    };
    let scheduler = Scheduler::new(config, Policies::fcfs());
    let mut scheduler = scheduler.expect("the settings are in range");
    scheduler.add_remote(SimTime::ZERO, request(0, 0, 4, 1), KvTransfer::consume());
}

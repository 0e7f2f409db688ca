//! A reset of the prefix cache while requests run.

use foretoken_des_kernel::SimTime;
use foretoken_engine::scheduler::ResetRunning;

use crate::table::Play;

const SETUP: &str = "
    usable 10, budget 64, seqs 4
    a: step 0, A[8], 6 out
    b: step 0, B[8], 6 out
";

#[test]
fn a_reset_is_refused_while_blocks_are_in_use() {
    let mut play = Play::new(SETUP);
    play.run(2);
    assert_eq!(play.scheduler.kv().used(), 6);
    assert!(
        !play
            .scheduler
            .reset_prefix_cache(SimTime::ZERO, ResetRunning::Refuse)
    );
    let row = "2 | a:1 b:1 | 6 | a b / - | - | a b | 6";
    assert_eq!(play.step().as_deref(), Some(row));
}

#[test]
fn a_reset_with_preemption_keeps_the_order_and_leaves_no_hit() {
    let mut play = Play::new(SETUP);
    play.run(2);
    assert!(
        play.scheduler
            .reset_prefix_cache(SimTime::ZERO, ResetRunning::Preempt)
    );
    assert_eq!(
        (play.scheduler.kv().free(), play.scheduler.running_len()),
        (10, 0)
    );
    let row = "2 | a:10 b:10 | 6 | a b / - | ~a ~b | a b | 6";
    assert_eq!(play.step().as_deref(), Some(row));
}

/// The tokens in flight are thrown away and computed again; the requests still end with their
/// lengths.
#[test]
fn asynchronously_a_reset_throws_the_tokens_in_flight_away() {
    let mut play = Play::new(&SETUP.replace("seqs 4", "seqs 4, asynchronous"));
    play.run(2);
    assert!(
        play.scheduler
            .reset_prefix_cache(SimTime::ZERO, ResetRunning::Preempt)
    );
    let expected = [
        // One output of each is known; the second is in flight and is lost.
        "2 | a:9 b:9 | 6 | a b / - | ~a ~b | - (1) | 6",
        "3 | a:1 b:1 | 6 | a b / - | - | a b (2) | 6",
        "4 | a:1 b:1 | 6 | a b / - | - | a b (3) | 6",
        "5 | a:1 b:1 | 6 | a b / - | - | a b (4) | 6",
        "6 | a:1 b:1 | 8 | a b / - | - | a b (5) | 8",
        "7 | - | 8 | a b / - | - | a=length b=length (6) | 0",
    ];
    assert_eq!(play.run(20), expected);
}

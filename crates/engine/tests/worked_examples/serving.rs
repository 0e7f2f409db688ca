//! The engine around its scheduler: what it refuses, what it reports, and when it pauses.

use std::sync::Arc;

use foretoken_des_kernel::SimDuration;
use foretoken_engine::{Engine, EngineConfig, EngineError, EngineEvent, Policies, Scheduling};
use foretoken_latency_model::Affine;
use foretoken_workload::{FinishReason, Lifecycle, RejectReason, RequestId};

use crate::clock::{Constant, Run, ms, request};

fn small(scheduling: Scheduling) -> EngineConfig {
    let mut config = EngineConfig::default();
    config.scheduler.block_size = 4;
    config.scheduler.num_gpu_blocks = 9;
    config.scheduler.max_model_len = 32;
    config.scheduler.scheduling = scheduling;
    config
}

#[test]
fn a_prompt_as_long_as_the_longest_sequence_is_refused() {
    let mut run = Run::new(small(Scheduling::Synchronous), Constant::millis(20, 10));
    run.play(vec![
        request(0, 0, 32, 1),
        request(1, 0, 31, 5),
        request(2, 0, 40, 1),
    ]);
    let rejected = |prompt_tokens| Lifecycle::Rejected {
        reason: RejectReason::PromptTooLong {
            prompt_tokens,
            max_model_len: 32,
        },
    };
    assert_eq!(run.of(0), [(ms(0), rejected(32))]);
    assert_eq!(run.of(2), [(ms(0), rejected(40))]);
    // The other prompt leaves room for one token.
    assert_eq!(run.tokens(1), [ms(20)]);
}

#[test]
fn an_engine_runs_ahead_through_decodes_but_not_behind_a_refusal() {
    for scheduling in [Scheduling::Synchronous, Scheduling::Asynchronous] {
        for refuses in [false, true] {
            let mut config = small(scheduling);
            config.scheduler.num_gpu_blocks = 100;
            config.scheduler.max_model_len = 200;
            let mut engine = Run::new(config, Constant::millis(20, 10)).engine;
            engine.submit(ms(0), request(0, 0, 8, 100));
            let mut now = ms(0);
            for _ in 0..10 {
                now = engine.next_wake().expect("it decodes");
                engine.advance(now, &mut |_| {});
            }
            let now = engine
                .next_wake()
                .filter(|&wake| wake > now)
                .expect("it decodes");
            if refuses {
                engine.submit(now, request(1, 0, 300, 1));
            }
            engine.advance_until(now, ms(500), &mut |_| {});
            let next = engine.next_wake().expect("it goes on decoding");
            let ahead = next.saturating_since(now) > SimDuration::from_millis(10);
            assert_eq!(ahead, !refuses, "{scheduling:?}: from {now} to {next}");
        }
    }
}

#[test]
fn an_engine_that_only_decodes_says_until_when() {
    for scheduling in [Scheduling::Synchronous, Scheduling::Asynchronous] {
        let mut config = small(scheduling);
        config.scheduler.num_gpu_blocks = 100;
        config.scheduler.max_model_len = 200;
        let latency = Arc::new(Affine::new(SimDuration::from_millis(10)));
        let engine = Engine::new(config, latency, Policies::fcfs());
        let mut engine = engine.expect("the settings are in range");
        assert_eq!(engine.quiet_until(), None);
        engine.submit(ms(0), request(0, 0, 8, 100).repeatable_up_to(0));
        for _ in 0..10 {
            assert!(engine.quiet_until() >= engine.next_wake());
            let now = engine.next_wake().expect("it decodes");
            engine.advance(now, &mut |_| {});
        }
        let quiet = engine.quiet_until().expect("it decodes");
        let (mut steps, mut seen) = (0, None);
        // How it will be in its 20th step from now is known before.
        let ahead = engine.next_wake().expect("it decodes") + SimDuration::from_millis(195);
        let foreseen = engine.stats_before(ahead);
        assert!(foreseen.is_some_and(|stats| stats.kv_used > engine.stats().kv_used));
        assert_eq!(
            engine.stats_before(quiet + SimDuration::from_millis(500)),
            None
        );
        while let Some(now) = engine.next_wake().filter(|&now| now < quiet) {
            if seen.is_none() && now >= ahead {
                seen = Some(engine.stats());
            }
            steps += 1;
            engine.advance(now, &mut |event| {
                let quiet = match event {
                    EngineEvent::Step(step) => step.shape.prefills == 0,
                    EngineEvent::Steps(_)
                    | EngineEvent::Levels { .. }
                    | EngineEvent::Decodes(_) => true,
                    _ => false,
                };
                assert!(quiet, "{scheduling:?}: {event:?}");
            });
        }
        assert!(steps > 80, "{scheduling:?}: {steps} steps");
        assert_eq!(foreseen, seen, "{scheduling:?}");
        // Another request is planned as soon as it may be.
        let next = engine.next_wake().expect("it decodes");
        engine.submit(next, request(1, 0, 8, 1));
        assert_eq!(engine.quiet_until(), engine.next_wake());
    }
}

#[test]
fn the_step_before_a_prefill_is_foreseen() {
    let mut config = EngineConfig::default();
    config.scheduler.max_model_len = 200;
    let latency = Arc::new(Affine::new(SimDuration::from_millis(10)));
    let engine = Engine::new(config, latency, Policies::fcfs());
    let mut engine = engine.expect("the settings are in range");
    engine.submit(ms(0), request(0, 0, 8, 100).repeatable_up_to(0));
    for _ in 0..10 {
        let now = engine.next_wake().expect("it decodes");
        engine.advance(now, &mut |_| {});
    }
    let now = engine.next_wake().expect("it decodes");
    engine.submit(now, request(1, 0, 8, 100).repeatable_up_to(0));
    engine.advance(now, &mut |_| {});
    // Now a step of decodes runs, and one with the prefill waits behind it.
    let next = engine.next_wake().expect("it decodes");
    let after = next + SimDuration::from_millis(10);
    assert_eq!(engine.quiet_until(), Some(after));
    engine.advance(next, &mut |event| {
        let quiet = !matches!(event, EngineEvent::Request(_) | EngineEvent::FirstTokens(_));
        assert!(quiet, "{event:?}");
    });
    assert_eq!(engine.next_wake(), Some(after));
    let mut first = false;
    engine.advance(after, &mut |event| {
        first |= matches!(event, EngineEvent::FirstTokens(_));
    });
    assert!(first, "the prefill is over");
}

#[test]
#[should_panic(expected = "how decodes are planned is chosen before the first request")]
fn how_decodes_are_planned_is_chosen_in_time() {
    let mut engine = Run::new(small(Scheduling::Synchronous), Constant::millis(20, 10)).engine;
    engine.submit(ms(0), request(0, 0, 8, 10));
    engine.advance(ms(0), &mut |_| {});
    let _ = engine.step_by_step();
}

#[test]
fn a_sequence_that_the_pool_never_holds_cannot_come_up() {
    let mut config = small(Scheduling::Synchronous);
    config.scheduler.num_gpu_blocks = 7;
    let error = Engine::new(config, Arc::new(Constant::millis(1, 1)), Policies::fcfs())
        .expect_err("six usable blocks hold 24 tokens");
    assert!(
        matches!(
            error,
            EngineError::PoolTooSmall {
                needed: 8,
                longest: 24,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn without_chunking_the_budget_must_hold_the_longest_sequence() {
    let mut config = small(Scheduling::Synchronous);
    config.scheduler.chunked_prefill = false;
    config.scheduler.max_num_batched_tokens = 31;
    let error = config
        .check()
        .expect_err("a prompt of 31 and an output could never be resumed");
    assert_eq!(
        error.to_string(),
        "max_num_batched_tokens is 31: allowed is max_model_len or more while chunked prefill is off"
    );
}

/// A batch goes out of the pipe empty while memory is held by a request that has reached its limit;
/// the core then sleeps for a millisecond, since somebody still waits.
#[test]
fn an_empty_step_with_requests_left_is_followed_by_a_pause() {
    let mut run = Run::new(small(Scheduling::Asynchronous), Constant::millis(20, 10));
    run.play(vec![request(0, 0, 20, 2), request(1, 0, 20, 1)]);
    // The first: prefill to 20, decode to 30. The second needs five of eight blocks: it is planned
    // when the output of the decode is applied at 30, and a pause later.
    assert_eq!(run.tokens(0), [ms(20), ms(30)]);
    assert_eq!(
        run.of(1)[0],
        (ms(31), Lifecycle::Scheduled { cached_tokens: 0 })
    );
    assert_eq!(run.tokens(1), [ms(51)]);
}

/// In the synchronous loop the same requests follow each other without a gap.
#[test]
fn synchronously_a_freed_block_is_used_by_the_next_step() {
    let mut run = Run::new(small(Scheduling::Synchronous), Constant::millis(20, 10));
    run.play(vec![request(0, 0, 20, 2), request(1, 0, 20, 1)]);
    assert_eq!(
        run.of(1)[0],
        (ms(30), Lifecycle::Scheduled { cached_tokens: 0 })
    );
}

/// While batch k-1 runs, batch k is planned already: an arrival goes into batch k+1.
#[test]
fn an_arrival_waits_for_the_running_and_the_queued_batch() {
    let mut run = Run::new(small(Scheduling::Asynchronous), Constant::millis(20, 10));
    run.play(vec![request(0, 0, 4, 9), request(1, 45, 4, 1)]);
    // Steps end at 20, 30, 40, 50, 60. At 45 the step to 50 runs and the one to 60 is queued; the
    // next one is planned at 50 and starts at 60.
    assert_eq!(
        run.of(1)[0],
        (ms(50), Lifecycle::Scheduled { cached_tokens: 0 })
    );
    assert_eq!(run.tokens(1), [ms(80)]);

    let mut run = Run::new(small(Scheduling::Synchronous), Constant::millis(20, 10));
    run.play(vec![request(0, 0, 4, 9), request(1, 45, 4, 1)]);
    assert_eq!(run.tokens(1), [ms(70)]);
}

#[test]
fn an_idle_engine_plans_an_arrival_at_once() {
    let mut run = Run::new(small(Scheduling::Asynchronous), Constant::millis(20, 10));
    run.play(vec![request(0, 0, 4, 2), request(1, 1000, 4, 1)]);
    assert_eq!(run.tokens(1), [ms(1020)]);
    assert_eq!(run.engine.next_wake(), None);
    assert!(run.engine.is_drained());
}

#[test]
fn an_abort_is_noticed_before_the_output_of_the_running_step_is_applied() {
    for scheduling in [Scheduling::Synchronous, Scheduling::Asynchronous] {
        let mut run = Run::new(small(scheduling), Constant::millis(20, 10));
        run.abort_at(25, 0);
        run.play(vec![request(0, 0, 4, 9)]);
        let aborted = Lifecycle::Finished {
            reason: FinishReason::Abort,
        };
        // The token at 20 was delivered; the one at 30 is not.
        assert_eq!(run.tokens(0), [ms(20)]);
        assert_eq!(run.of(0).last(), Some(&(ms(30), aborted)));
        assert!(run.engine.is_drained());
        assert_eq!(run.engine.next_wake(), None);
    }
}

#[test]
fn an_abort_of_a_request_in_the_front_end_is_reported_and_it_never_runs() {
    let mut config = small(Scheduling::Asynchronous);
    config.host.ingest = SimDuration::from_millis(5);
    let mut run = Run::new(config, Constant::millis(20, 10));
    run.abort_at(1, 0);
    run.abort_at(2, 7);
    run.play(vec![request(0, 0, 4, 9)]);
    let aborted = Lifecycle::Finished {
        reason: FinishReason::Abort,
    };
    assert_eq!(run.of(0), [(ms(1), aborted)]);
    assert_eq!(run.steps().count(), 0);
}

#[test]
fn stats_count_the_front_end_as_waiting() {
    let mut config = small(Scheduling::Synchronous);
    config.host.ingest = SimDuration::from_millis(5);
    let mut run = Run::new(config, Constant::millis(20, 10));
    run.engine.submit(ms(0), request(0, 0, 5, 3));
    let stats = run.engine.stats();
    assert_eq!(
        (stats.running, stats.waiting, stats.kv_used, stats.kv_total),
        (0, 1, 0, 8)
    );
    run.engine.advance(ms(5), &mut |_| {});
    let stats = run.engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.kv_used), (1, 0, 2));
    let running: Vec<_> = run.engine.scheduler().running().collect();
    assert_eq!(running, [RequestId::new(0)]);
}

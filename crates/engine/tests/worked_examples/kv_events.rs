//! What the prefix cache publishes, in which order and when.

use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::scheduler::ResetRunning;
use foretoken_engine::{Engine, EngineConfig, EngineEvent, KvEvent, Policies, Scheduling};
use foretoken_latency_model::HostCosts;
use foretoken_workload::{BlockHash, BlockHasher, ContentId, Request};

use crate::clock::{Constant, ms, request};
use crate::table::Play;

/// Keys of the full blocks of a request's prompt.
fn chain(request: &Request, block_size: u32) -> Vec<BlockHash> {
    let hasher = BlockHasher::new(&request.prompt, request.output_content, block_size);
    let mut chain = Vec::new();
    hasher.extend(BlockHash::root(0), request.prompt.tokens(), &mut chain);
    chain
}

fn stored(chain: &[BlockHash]) -> impl Iterator<Item = KvEvent> {
    chain.iter().map(|&hash| KvEvent::Stored { hash })
}

#[test]
fn a_block_is_stored_when_it_is_full_and_removed_when_it_is_taken() {
    let mut play = Play::new(
        "usable 4, budget 64, seqs 4
        a: step 0, A[14], 1 out
        b: step 1, B[9], 1 out
        c: step 2, C[4], 1 out",
    );
    play.scheduler.record_kv_events();
    let prompts = [('A', 14), ('B', 9), ('C', 4)].map(|(text, tokens)| {
        let mut request = request(0, 0, tokens, 1);
        let segment = foretoken_workload::Segment::new(ContentId::new(text as u64), tokens);
        request.prompt = foretoken_workload::Prompt::new([segment]).expect("not empty");
        chain(&request, 4)
    });
    let [a, b, c] = &prompts;
    let mut step = || {
        play.step();
        play.scheduler.drain_kv_events().collect::<Vec<_>>()
    };
    assert_eq!(step(), stored(a).collect::<Vec<_>>());
    // The block that a did not fill goes first, then those of a from its tail; all are taken before
    // any is stored.
    let removed = |hash| KvEvent::Removed { hash };
    let mut expected = vec![removed(a[2]), removed(a[1])];
    expected.extend(stored(b));
    assert_eq!(step(), expected);
    let mut expected = vec![removed(a[0])];
    expected.extend(stored(c));
    assert_eq!(step(), expected);
    assert_eq!(step(), []);
    assert!(
        play.scheduler
            .reset_prefix_cache(SimTime::ZERO, ResetRunning::Refuse)
    );
    assert_eq!(
        play.scheduler.drain_kv_events().collect::<Vec<_>>(),
        [KvEvent::Cleared]
    );
}

#[test]
fn what_comes_from_outside_is_stored_when_its_request_goes_on() {
    let mut play = Play::new(
        "usable 9, budget 64, seqs 4
        a: step 0, A[8], 2 out, loads all in 1",
    );
    play.scheduler.record_kv_events();
    let mut step = || {
        play.step();
        play.scheduler.drain_kv_events().count()
    };
    // Both in one plan: the first block when the load is noticed, the second with its last token.
    assert_eq!([step(), step(), step(), step()], [0, 0, 2, 0]);
}

/// The load of b is noticed in step 2, though b lacks memory for the rest of its prompt until a ends.
#[test]
fn what_comes_from_outside_is_stored_even_if_its_request_has_to_wait() {
    let mut play = Play::new(
        "usable 6, budget 64, seqs 4
        a: step 0, A[13], 3 out
        b: step 0, B[20], 1 out, loads 8 in 1",
    );
    play.scheduler.record_kv_events();
    let mut step = || {
        play.step();
        play.scheduler.drain_kv_events().count()
    };
    // Step 3 stores the three other blocks of b, and takes two of a for them.
    assert_eq!([step(), step(), step(), step()], [3, 0, 2, 5]);
}

/// Without a wish for them there are none.
#[test]
fn an_engine_publishes_nothing_unless_it_is_told_to() {
    let mut play = Play::new("usable 9, budget 64, seqs 4\n a: step 0, A[8], 2 out");
    play.run(3);
    assert_eq!(play.scheduler.drain_kv_events().count(), 0);
}

/// When blocks became known to be stored, and how many together: a prompt of 2560 tokens in two
/// chunks, 2048 of them in the first, and a decode that fills another block.
fn published(scheduling: Scheduling) -> Vec<(SimTime, usize)> {
    let mut config = EngineConfig {
        host: HostCosts {
            update: SimDuration::from_millis(1),
            ..HostCosts::default()
        },
        ..EngineConfig::default()
    };
    config.scheduler.scheduling = scheduling;
    let model = Arc::new(Constant::millis(20, 10));
    let engine = Engine::new(config, model, Policies::fcfs());
    let mut engine = engine.expect("the settings are in range").with_kv_events();
    engine.submit(ms(0), request(0, 0, 2560 + 15, 3));
    let mut times: Vec<(SimTime, usize)> = Vec::new();
    while let Some(now) = engine.next_wake() {
        engine.advance(now, &mut |event| {
            let EngineEvent::Kv { at, event } = event else {
                return;
            };
            assert!(matches!(event, KvEvent::Stored { .. }) && at == now);
            match times.last_mut().filter(|last| last.0 == at) {
                Some(last) => last.1 += 1,
                None => times.push((at, 1)),
            }
        });
    }
    times
}

#[test]
fn synchronously_events_leave_when_the_output_of_their_step_is_applied() {
    let expected = [(ms(21), 128), (ms(42), 32), (ms(53), 1)];
    assert_eq!(published(Scheduling::Synchronous), expected);
}

/// The second chunk is planned before the output of the first is applied. The token that fills the
/// last block has to be known, so that block is not early.
#[test]
fn asynchronously_events_leave_with_the_output_of_the_step_before() {
    let expected = [(ms(21), 160), (ms(51), 1)];
    assert_eq!(published(Scheduling::Asynchronous), expected);
}

//! An engine in its stride does not allocate: its buffers have grown to what a step needs.
//!
//! A binary of its own, because the counter is the allocator of the whole program.

use std::hint::black_box;
use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{Engine, EngineConfig, Policies, SchedulerConfig};
use foretoken_latency_model::Affine;
use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

const SEQUENCES: u32 = 64;
const WARM_UP: u32 = 200;
const STEPS: u32 = 600;

fn engine(scheduler: SchedulerConfig) -> Engine {
    let latency = Affine::new(SimDuration::from_micros(6_000))
        .per_token(SimDuration::from_micros(40))
        .per_context(SimDuration::from_nanos(60));
    let config = EngineConfig {
        scheduler,
        ..EngineConfig::default()
    };
    Engine::new(config, Arc::new(latency), Policies::fcfs()).expect("the settings are in range")
}

/// Room for all sequences from the first to the last token.
fn roomy() -> SchedulerConfig {
    SchedulerConfig {
        max_num_seqs: 128,
        max_num_batched_tokens: 8_192,
        max_model_len: 16_384,
        num_gpu_blocks: 6_000,
        ..SchedulerConfig::default()
    }
}

/// A request with a text of its own.
fn request(number: u32, now: SimTime, prompt: u32, output: u32) -> Request {
    let text = Segment::new(ContentId::new(u64::from(number)), prompt);
    let prompt = Prompt::new([text]).expect("not empty");
    Request::new(RequestId::new(number), now, prompt, output)
}

/// Lets the engine make up to `steps` wake-ups, and returns when the last one was.
fn advance(engine: &mut Engine, steps: u32) -> SimTime {
    let mut now = SimTime::ZERO;
    for _ in 0..steps {
        let Some(wake) = engine.next_wake() else {
            break;
        };
        now = wake;
        engine.advance(now, &mut |event| {
            black_box(event);
        });
    }
    now
}

/// An engine whose sequences all decode, and have for some time; its pool is full of what others left.
fn decoding(scheduler: SchedulerConfig) -> Engine {
    let mut engine = engine(scheduler);
    let mut now = SimTime::ZERO;
    for (wave, output, steps) in [(0, 1_000, u32::MAX), (1, 4_000, WARM_UP)] {
        for number in 0..SEQUENCES {
            // Lengths differ, so that blocks fill at different steps.
            let id = wave * SEQUENCES + number;
            engine.submit(now, request(id, now, 200 + number, output));
        }
        now = advance(&mut engine, steps);
    }
    engine
}

/// The allocations of a stretch of decode steps.
fn while_decoding(scheduler: SchedulerConfig) -> AllocationInfo {
    let mut engine = decoding(scheduler);
    measure(|| {
        advance(&mut engine, STEPS);
    })
}

#[test]
fn decode_steps_do_not_allocate_without_a_prefix_cache() {
    let mut scheduler = roomy();
    scheduler.prefix_caching = false;
    let counted = while_decoding(scheduler);
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[test]
fn decode_steps_do_not_allocate_with_a_prefix_cache() {
    let counted = while_decoding(roomy());
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

/// Requests that come and go may allocate what they bring with them, but not for each of their steps.
#[test]
fn a_request_allocates_a_bounded_number_of_times() {
    const REQUESTS: u32 = 200;
    const OUTPUT: u32 = 300;
    let mut engine = engine(roomy());
    let mut serve = |from: u32| {
        let mut now = engine.next_wake().unwrap_or(SimTime::ZERO);
        for number in from..from + REQUESTS {
            engine.submit(now, request(number, now, 100, OUTPUT));
            now = advance(&mut engine, 10).max(now);
        }
    };
    serve(0);
    let counted = measure(|| serve(REQUESTS));
    let each = counted.count_total / u64::from(REQUESTS);
    assert!(
        each <= 16,
        "{each} allocations for each request: {counted:?}"
    );
}

//! What a step of an engine costs the host that simulates it.
//!
//! The time of a step comes from an affine model of an 8B model's size, so that the engine is all
//! that is measured. Each element is a token.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{Engine, EngineConfig, Policies, SchedulerConfig};
use foretoken_latency_model::Affine;
use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

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

/// Room for all that the benchmarks do.
fn roomy() -> SchedulerConfig {
    SchedulerConfig {
        max_num_seqs: 1024,
        max_num_batched_tokens: 8192,
        max_model_len: 16_384,
        num_gpu_blocks: 30_000,
        ..SchedulerConfig::default()
    }
}

/// Requests at equal distances; every prompt is new, and nobody repeats it.
fn requests(count: u32, gap: SimDuration, prompt: u32, output: u32) -> VecDeque<Request> {
    let requests = (0..count).map(|number| {
        let text = Segment::new(ContentId::new(u64::from(number)), prompt);
        let prompt = Prompt::new([text]).expect("not empty");
        let arrival = SimTime::ZERO + gap * u64::from(number);
        Request::new(RequestId::new(number), arrival, prompt, output).repeatable_up_to(0)
    });
    requests.collect()
}

/// Serves all of `load`.
fn serve(engine: &mut Engine, mut load: VecDeque<Request>) {
    loop {
        let arrival = load.front().map(|request| request.arrival);
        let Some(now) = arrival.into_iter().chain(engine.next_wake()).min() else {
            return;
        };
        if arrival == Some(now)
            && let Some(request) = load.pop_front()
        {
            engine.submit(now, request);
        }
        step(engine, now);
    }
}

fn step(engine: &mut Engine, now: SimTime) {
    engine.advance(now, &mut |event| {
        black_box(event);
    });
}

/// Sequences that decode, and nothing else. 512 steps, so that blocks fill and are taken.
fn decode(criterion: &mut Criterion) {
    const STEPS: u64 = 512;
    let mut group = criterion.benchmark_group("decode");
    for batch in [20, 100, 400] {
        group.throughput(Throughput::Elements(STEPS * u64::from(batch)));
        let ready = || {
            let mut engine = engine(roomy());
            for request in requests(batch, SimDuration::ZERO, 200, 800) {
                engine.submit(SimTime::ZERO, request);
            }
            for _ in 0..100 {
                let now = engine.next_wake().expect("it has requests");
                step(&mut engine, now);
            }
            engine
        };
        group.bench_function(batch.to_string(), |bencher| {
            bencher.iter_batched(
                ready,
                |mut engine| {
                    for _ in 0..STEPS {
                        let now = engine.next_wake().expect("it has requests");
                        step(&mut engine, now);
                    }
                    engine
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Requests that come and go, ten a second, with prompts of 512 tokens and answers of 256.
fn arrivals(criterion: &mut Criterion) {
    const REQUESTS: u32 = 600;
    let mut group = criterion.benchmark_group("arrivals");
    group.throughput(Throughput::Elements(u64::from(REQUESTS) * 256));
    let gap = SimDuration::from_millis(100);
    group.bench_function("10 a second", |bencher| {
        bencher.iter_batched(
            || (engine(roomy()), requests(REQUESTS, gap, 512, 256)),
            |(mut engine, load)| {
                serve(&mut engine, load);
                engine
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// More requests than the pool holds: blocks are taken from those that run, and computed again.
fn pressure(criterion: &mut Criterion) {
    const REQUESTS: u32 = 300;
    let mut group = criterion.benchmark_group("pressure");
    group.throughput(Throughput::Elements(u64::from(REQUESTS) * 256));
    let gap = SimDuration::from_millis(25);
    let tight = SchedulerConfig {
        num_gpu_blocks: 1_500,
        ..roomy()
    };
    group.bench_function("40 a second", |bencher| {
        bencher.iter_batched(
            || (engine(tight.clone()), requests(REQUESTS, gap, 512, 256)),
            |(mut engine, load)| {
                serve(&mut engine, load);
                engine
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, decode, arrivals, pressure);
criterion_main!(benches);

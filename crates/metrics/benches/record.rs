//! What it costs to take down a run.
//!
//! Each element is a step of an engine. Times are those of a batch whose steps all differ.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_metrics::{DecodeSteps, LevelRecord, MetricSink, Recorder, StepRecord};
use foretoken_workload::{
    ContentId, DecodeRun, Lifecycle, Occurrence, Prompt, Request, RequestId, Segment, TokenRun,
};

const STEPS: u32 = 100_000;

/// Gaps that grow with the context and vary with the batch.
fn times() -> Vec<SimTime> {
    let mut at = SimTime::from_nanos(1_000_000);
    (0..u64::from(STEPS))
        .map(|step| {
            let varied = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
            at += SimDuration::from_nanos(6_000_000 + step * 7 + varied);
            at
        })
        .collect()
}

/// Requests that have had their first token.
fn recorder(members: &[RequestId]) -> Recorder {
    let mut recorder = Recorder::new();
    let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has tokens");
    for &id in members {
        recorder.on_arrival(&Request::new(id, SimTime::ZERO, prompt.clone(), STEPS));
        let token = Lifecycle::Tokens { count: 1 };
        recorder.on_occurrence(&Occurrence::new(SimTime::ZERO, id, token));
    }
    recorder
}

fn decodes(c: &mut Criterion) {
    let mut group = c.benchmark_group("on_decodes");
    let times = times();
    for count in [1, 256] {
        let members: Vec<_> = (0..count).map(RequestId::new).collect();
        group.throughput(Throughput::Elements(STEPS.into()));
        group.bench_function(format!("{count}_members"), |b| {
            let decode = |mut recorder: Recorder| {
                let mut joined = &members[..];
                for at in &times {
                    let tokens = TokenRun::new(&members, core::slice::from_ref(at));
                    let mut run = DecodeRun::new(tokens);
                    run.joined = core::mem::take(&mut joined);
                    recorder.on_decodes(0, black_box(&run));
                }
                recorder
            };
            b.iter_batched(|| recorder(&members), decode, BatchSize::LargeInput);
        });
    }
    group.finish();
}

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("on_step");
    let times = times();
    group.throughput(Throughput::Elements(STEPS.into()));
    group.bench_function("one_engine", |b| {
        let step = |mut recorder: Recorder| {
            for pair in times.windows(2) {
                let step = StepRecord {
                    instance: 0,
                    start: pair[0],
                    end: pair[1],
                    tokens: 200,
                    sequences: 200,
                };
                recorder.on_step(black_box(&step));
            }
            recorder
        };
        b.iter_batched(Recorder::new, step, BatchSize::LargeInput);
    });
    group.bench_function("one_engine_four_together", |b| {
        let step = |mut recorder: Recorder| {
            for ends in times.windows(5).step_by(4) {
                let steps = DecodeSteps {
                    instance: 0,
                    sequences: 200,
                    starts: &ends[..4],
                    ends: &ends[1..],
                };
                recorder.on_decode_steps(black_box(&steps));
            }
            recorder
        };
        b.iter_batched(Recorder::new, step, BatchSize::LargeInput);
    });
    group.finish();
}

fn levels(c: &mut Criterion) {
    let mut group = c.benchmark_group("on_level");
    let times = times();
    for engines in [1_u32, 100] {
        group.throughput(Throughput::Elements(STEPS.into()));
        group.bench_function(format!("{engines}_engines"), |b| {
            let level = |mut recorder: Recorder| {
                for (step, &at) in (0_u32..).zip(&times) {
                    let level = LevelRecord {
                        instance: step % engines,
                        running: 200 + step / 1_000 % 7,
                        waiting: step / 300 % 2,
                        kv_blocks_used: 20_000 + step % 1_000,
                        kv_blocks_total: 30_000,
                    };
                    recorder.on_level(at, black_box(&level));
                }
                recorder
            };
            b.iter_batched(Recorder::new, level, BatchSize::LargeInput);
        });
    }
    group.bench_function("1_engines_four_together", |b| {
        let used: Vec<_> = (20_000..)
            .zip(&times)
            .map(|(used, &at)| (at, used))
            .collect();
        let level = |mut recorder: Recorder| {
            for some in used.chunks(4) {
                let level = LevelRecord {
                    instance: 0,
                    running: 200,
                    waiting: 0,
                    kv_blocks_used: some[some.len() - 1].1,
                    kv_blocks_total: 300_000,
                };
                recorder.on_kv_levels(black_box(&level), some);
            }
            recorder
        };
        b.iter_batched(Recorder::new, level, BatchSize::LargeInput);
    });
    group.finish();
}

criterion_group!(benches, decodes, steps, levels);
criterion_main!(benches);

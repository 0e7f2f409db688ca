//! What asking for the time of a step costs: it is asked for every step of every simulation.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foretoken_hwspec::{KvFormat, TensorParallel, catalog};
use foretoken_latency_model::{KernelPhysics, LatencyModel, StepShape};

/// A dense model, one with routed experts, one with windows in some layers and one with latent
/// attention.
const MODELS: [(&str, u32); 4] = [
    ("meta-llama/Llama-3.1-8B-Instruct", 1),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", 2),
    ("openai/gpt-oss-120b", 2),
    ("deepseek-ai/DeepSeek-V3", 8),
];

fn physics(model: &str, degree: u32) -> KernelPhysics {
    let (model, gpu) = (
        catalog::model(model).expect("listed"),
        catalog::gpu("H200-SXM-141GB").expect("listed"),
    );
    let tp = TensorParallel::new(degree).expect("not zero");
    KernelPhysics::new(&model, &gpu, tp, KvFormat::Auto).expect("it can be split so")
}

/// Decode batches as an engine asks for them: padded to a captured size, contexts that grow.
fn decodes() -> Vec<StepShape> {
    let batches = (0..64).map(|at: u32| {
        let batch = 1 + at * 37 % 200;
        let mut shape = StepShape::decode(batch, u64::from(batch * (500 + at)));
        shape.padded_tokens = u64::from(batch).next_multiple_of(8);
        shape
    });
    batches.collect()
}

/// Chunks of prompts beside decodes, each a different batch: one arrives or ends with nearly every
/// step.
fn mixes() -> Vec<StepShape> {
    let mixes = (0..64).map(|at: u32| {
        let mut shape = StepShape::prefill(100 + at * 311 % 1_900, 16 * (at % 20));
        (0..20 + at % 30).for_each(|number| shape.add(1, 500 + at + number, true));
        shape.settle(0);
        shape
    });
    mixes.collect()
}

fn step(criterion: &mut Criterion) {
    let (decodes, mixes) = (decodes(), mixes());
    for (name, degree) in MODELS {
        let model = physics(name, degree);
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(decodes.len() as u64));
        for (name, shapes) in [("decode", &decodes), ("mixed", &mixes)] {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    for shape in shapes {
                        black_box(model.step(black_box(shape)));
                    }
                });
            });
        }
        group.bench_function("law", |bencher| {
            bencher.iter(|| {
                for shape in &decodes {
                    black_box(model.decode_law(black_box(shape)));
                }
            });
        });
        group.finish();
    }
    criterion.bench_function("construction", |bencher| {
        bencher.iter(|| physics(MODELS[0].0, 1));
    });
}

criterion_group!(benches, step);
criterion_main!(benches);

//! What asking for the time of a step costs: it is asked for every step of every simulation.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
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

fn step(criterion: &mut Criterion) {
    let decodes = decodes();
    let mut prefill = StepShape::prefill(1_777, 300);
    (0..30).for_each(|_| prefill.add(1, 900, true));
    prefill.settle(0);
    for (name, degree) in MODELS {
        let model = physics(name, degree);
        let mut group = criterion.benchmark_group(name);
        group.throughput(criterion::Throughput::Elements(decodes.len() as u64));
        group.bench_function("decode", |bencher| {
            bencher.iter(|| {
                for shape in &decodes {
                    black_box(model.step(black_box(shape)));
                }
            });
        });
        group.throughput(criterion::Throughput::Elements(1));
        group.bench_function("mixed", |bencher| {
            bencher.iter(|| model.step(black_box(&prefill)));
        });
        group.bench_function("law", |bencher| {
            bencher.iter(|| model.decode_law(black_box(&decodes[7])));
        });
        group.finish();
    }
    criterion.bench_function("construction", |bencher| {
        bencher.iter(|| physics(MODELS[0].0, 1));
    });
}

criterion_group!(benches, step);
criterion_main!(benches);

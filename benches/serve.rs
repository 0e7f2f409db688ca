//! How fast one simulation runs: requests end to end, kernel events, calls of latency models.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foretoken::prelude::*;

const REQUESTS: u32 = 1_000;

fn load() -> SyntheticSpec {
    let (prompts, outputs) = (LengthSpec::uniform(200, 800), LengthSpec::uniform(50, 400));
    Synthetic::poisson(20.0, REQUESTS, prompts, outputs).expect("a positive rate")
}

fn simulation() -> Simulation {
    Simulation::new()
        .engines(4, EngineConfig::default())
        .latency(Affine::example())
        .workload(load())
}

/// A thousand requests through four engines, with and without the recorder.
fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("requests");
    group.throughput(Throughput::Elements(REQUESTS.into()));
    group.bench_function("reported", |bencher| {
        bencher.iter(|| simulation().run().expect("valid"));
    });
    group.bench_function("unheard", |bencher| {
        bencher.iter(|| simulation().run_with(()).expect("valid"));
    });
    group.bench_function("kernel physics", |bencher| {
        let deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100", 1);
        let scenario = Scenario::new(deployment, load());
        let (catalog, physics) = (Catalog::builtin(), Physics::default());
        bencher.iter(|| scenario.run(&catalog, &physics).expect("valid"));
    });
    group.finish();
}

/// The same run, counted in events of the kernel.
fn events(criterion: &mut Criterion) {
    let ((), end) = simulation().run_with(()).expect("valid");
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(end.events));
    group.bench_function("four engines", |bencher| {
        bencher.iter(|| simulation().run_with(()).expect("valid"));
    });
    group.finish();
}

/// One call of a latency model.
fn latency(criterion: &mut Criterion) {
    let resolved = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100", 1)
        .resolve(&Catalog::builtin(), &Physics::default())
        .expect("it fits");
    let decode = resolved.engine.launched(StepShape::decode(64, 64 * 1_000));
    let prefill = resolved.engine.launched(StepShape::prefill(2_048, 512));
    let mut group = criterion.benchmark_group("latency");
    group.bench_function("affine decode", |bencher| {
        bencher.iter(|| Affine::example().step(black_box(&decode)));
    });
    group.bench_function("kernel physics decode", |bencher| {
        bencher.iter(|| resolved.latency.step(black_box(&decode)));
    });
    group.bench_function("kernel physics prefill", |bencher| {
        bencher.iter(|| resolved.latency.step(black_box(&prefill)));
    });
    group.finish();
}

criterion_group!(benches, requests, events, latency);
criterion_main!(benches);

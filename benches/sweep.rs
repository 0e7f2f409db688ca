//! How fast many simulations run: a grid of rates and replications, on one thread and on all.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foretoken::prelude::*;

fn run(&(rate, replication): &(f64, u64)) -> Report {
    let (prompts, outputs) = (LengthSpec::uniform(200, 800), LengthSpec::uniform(50, 400));
    let load = Synthetic::poisson(rate, 200, prompts, outputs).expect("a positive rate");
    Simulation::new()
        .engines(4, EngineConfig::default())
        .latency(Affine::example())
        .workload(load)
        .replication(replication)
        .run()
        .expect("valid")
}

/// Sixteen points of two hundred requests each.
fn grid(criterion: &mut Criterion) {
    let rates = [5.0, 10.0, 20.0, 40.0];
    let points: Vec<_> = rates
        .iter()
        .flat_map(|&rate| (0..4).map(move |replication| (rate, replication)))
        .collect();
    let mut group = criterion.benchmark_group("sweep");
    group.throughput(Throughput::Elements(points.len() as u64));
    let mut threads = vec![1, rayon::current_num_threads()];
    threads.dedup();
    for threads in threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().expect("threads can be had");
        group.bench_function(format!("{threads} threads"), |bencher| {
            bencher.iter(|| pool.install(|| sweep(&points, run)));
        });
    }
    group.finish();
}

criterion_group!(benches, grid);
criterion_main!(benches);

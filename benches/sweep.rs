//! How fast many simulations run: a grid of rates and replications, and a search of deployments, on
//! one thread and on all.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use foretoken::prelude::*;

/// Runs `body` on one thread, and on all if there are more.
fn on_threads<R>(group: &mut BenchmarkGroup<'_, WallTime>, body: impl Fn() -> R + Sync)
where
    R: Send,
{
    let mut threads = vec![1, rayon::current_num_threads()];
    threads.dedup();
    for threads in threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().expect("threads can be had");
        group.bench_function(format!("{threads} threads"), |bencher| {
            bencher.iter(|| pool.install(&body));
        });
    }
}

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
    on_threads(&mut group, || sweep(&points, run));
    group.finish();
}

/// Accelerators x tensor parallelism x replicas x batch sizes: 420 deployments.
fn deployments() -> Vec<Deployment> {
    let gpus = [
        "A100-SXM-80GB",
        "H100-SXM-80GB",
        "H200-SXM-141GB",
        "B200-SXM-180GB",
        "L40S-48GB",
    ];
    let mut deployments = Vec::new();
    for gpu in gpus {
        for tensor_parallel in [1, 2, 4] {
            for replicas in 1..=4 {
                for max_num_seqs in [16, 32, 64, 96, 128, 192, 256] {
                    let mut deployment =
                        Deployment::new("meta-llama/Llama-3.1-8B-Instruct", gpu, tensor_parallel);
                    deployment.replicas = replicas;
                    deployment.engine.max_num_seqs = Some(max_num_seqs);
                    deployment.engine.max_model_len = Some(8_192);
                    deployments.push(deployment);
                }
            }
        }
    }
    deployments
}

/// Two hundred chat requests on each of the deployments.
fn search(criterion: &mut Criterion) {
    let (catalog, physics) = (Catalog::builtin(), Physics::default());
    let load = Synthetic::poisson(
        10.0,
        200,
        LengthSpec::uniform(200, 800),
        LengthSpec::uniform(50, 400),
    )
    .expect("a positive rate");
    let deployments = deployments();
    let predict = |deployment: &Deployment| {
        let scenario = Scenario::new(deployment.clone(), load.clone());
        scenario.run(&catalog, &physics).expect("it fits")
    };
    let mut group = criterion.benchmark_group("search");
    group.sample_size(10);
    group.throughput(Throughput::Elements(deployments.len() as u64));
    on_threads(&mut group, || sweep(&deployments, predict));
    group.finish();
}

criterion_group!(benches, grid, search);
criterion_main!(benches);

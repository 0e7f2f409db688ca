//! Whole runs, from one instance to a hundred. Each element is a request.
//!
//! The hour of a hundred instances, 1.8 million requests, takes minutes: it is run if
//! `FORETOKEN_BENCH_HOUR` is set. `benches/compare.sh` compares two builds, `examples/speed.rs` says
//! how the time grows.

use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use foretoken::prelude::*;

mod support;

use support::Codegen;

const HOUR: &str = "FORETOKEN_BENCH_HOUR";

fn runs(criterion: &mut Criterion) {
    let (catalog, physics) = (Catalog::builtin(), Physics::default());
    let mut loads = vec![
        ("1 instance, 10k requests", Codegen::new(10_000, 1)),
        ("16 instances, 16k requests", Codegen::new(16_000, 16)),
        ("100 instances, 50k requests", Codegen::new(50_000, 100)),
    ];
    if std::env::var_os(HOUR).is_some() {
        let hour = Codegen::new(1_800_000, 100);
        loads.push(("100 instances, an hour, 1.8M requests", hour));
    }
    let mut group = criterion.benchmark_group("runs");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100));
    for (name, load) in loads {
        group.throughput(Throughput::Elements(load.requests.into()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| load.run(&catalog, &physics));
        });
    }
    group.finish();
}

criterion_group!(benches, runs);
criterion_main!(benches);

//! What one request costs to make: every simulation makes each of its requests once.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foretoken_des_kernel::RngStreams;
use foretoken_workload::{LengthSpec, SharedPrefixSpec, Synthetic, SyntheticSpec, Workload};

const REQUESTS: u32 = 10_000;

fn synthetic(prompt: LengthSpec, output: LengthSpec) -> SyntheticSpec {
    Synthetic::poisson(20.0, REQUESTS, prompt, output).expect("a positive rate")
}

fn shared_prefix() -> SharedPrefixSpec {
    let text = r#"{
        "num-groups": 10, "prompts-per-group": 10,
        "system-prompt-tokens": 100, "question-tokens": 447, "output-tokens": 248,
        "stages": [{"rate-rps": 10, "duration-s": 1000}]
    }"#;
    serde_json::from_str(text).expect("a valid client")
}

fn drain(mut load: impl Workload) -> u64 {
    core::iter::from_fn(|| load.next())
        .map(|request| u64::from(request.prompt.tokens()))
        .sum()
}

fn generate(criterion: &mut Criterion) {
    let streams = RngStreams::new(1, 0);
    let mut group = criterion.benchmark_group("generate");
    group.throughput(Throughput::Elements(REQUESTS.into()));
    let uniform = synthetic(LengthSpec::uniform(200, 800), LengthSpec::uniform(50, 400));
    let lognormal = LengthSpec::lognormal;
    let lognormal = synthetic(lognormal(600.0, 300.0), lognormal(250.0, 100.0));
    let shared = SyntheticSpec {
        system_prompt_tokens: 100,
        ..uniform.clone()
    };
    for (name, spec) in [
        ("uniform", uniform),
        ("lognormal", lognormal),
        ("system prompt", shared),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| drain(spec.build(&streams).expect("a valid load")));
        });
    }
    group.bench_function("shared prefix", |bencher| {
        bencher.iter(|| drain(shared_prefix().build(&streams).expect("a valid load")));
    });
    group.finish();
}

criterion_group!(benches, generate);
criterion_main!(benches);

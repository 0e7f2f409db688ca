//! What one request costs to make: every simulation makes each of its requests once.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foretoken_des_kernel::RngStreams;
use foretoken_workload::{
    ClientsSpec, LengthSpec, Preset, PresetSpec, Rate, SharedPrefixSpec, Synthetic, SyntheticSpec,
    Workload, WorkloadSpec,
};

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

/// A load of these arrivals and of these lengths, for prompts and outputs, with `more` fields.
fn load(arrivals: &str, lengths: &str, more: &str) -> SyntheticSpec {
    let text = format!(
        r#"{{"arrivals": {arrivals}, "requests": {REQUESTS},
            "prompt-tokens": {lengths}, "output-tokens": {lengths} {more}}}"#
    );
    serde_json::from_str(&text).expect("a valid load")
}

const POISSON: &str = r#"{"poisson": {"rate-rps": 20}}"#;
const EXPONENTIAL: &str = r#"{"exponential": {"mean": 400}}"#;
const GAMMA: &str = r#"{"gamma": {"shape": 0.7, "scale": 600}}"#;

const ARRIVALS: [(&str, &str); 6] = [
    ("equal gaps", r#"{"constant": {"rate-rps": 20}}"#),
    ("gamma gaps", r#"{"gamma": {"rate-rps": 20, "cv": 2}}"#),
    (
        "weibull gaps",
        r#"{"weibull": {"rate-rps": 20, "shape": 0.5}}"#,
    ),
    (
        "bursts",
        r#"{"mmpp": {"states": [
            {"rate-rps": 5, "mean-sojourn-s": 8}, {"rate-rps": 80, "mean-sojourn-s": 2}]}}"#,
    ),
    (
        "diurnal",
        r#"{"diurnal": {"mean-rate-rps": 20, "amplitude": 0.8, "period-s": 600}}"#,
    ),
    (
        "hourly with spikes",
        r#"{"spikes": {
            "base": {"hourly": {"rates-rps": [5, 20, 35], "period-s": 600}},
            "spikes": [{"at-s": 10, "duration-s": 5, "factor": 5, "every-s": 60}]}}"#,
    ),
];

/// Names, lengths and further fields.
const CONTENTS: [(&str, &str, &str); 7] = [
    ("gamma lengths", GAMMA, ""),
    (
        "gev lengths",
        r#"{"gev": {"location": 400, "scale": 90, "shape": 0.2}}"#,
        "",
    ),
    (
        "mixture",
        r#"{"mixture": {"parts": [
            {"weight": 95, "tokens": {"lognormal": {"mean": 400, "std": 300, "max": 2000}}},
            {"weight": 5, "tokens": {"uniform": {"min": 2000, "max": 8000}}}]}}"#,
        "",
    ),
    (
        "coupled lengths, closed form",
        EXPONENTIAL,
        r#", "length-correlation": 0.5"#,
    ),
    (
        "coupled lengths, search",
        GAMMA,
        r#", "length-correlation": 0.5"#,
    ),
    (
        "classes and adapters",
        EXPONENTIAL,
        r#", "adapters": {"count": 50, "popularity": {"zipf": {"exponent": 1}}},
            "classes": [{"class": "critical", "weight": 1}, {"class": "batch", "weight": 2}]"#,
    ),
    (
        "tree of prefixes",
        EXPONENTIAL,
        r#", "prefix": {"tree": {"levels": [
            {"branches": 5, "tokens": {"exponential": {"mean": 900}}},
            {"branches": 20, "tokens": {"exponential": {"mean": 300}},
             "popularity": {"zipf": {"exponent": 1}}}]}}"#,
    ),
];

/// Loads of every family of arrivals and lengths.
fn families() -> impl Iterator<Item = (&'static str, SyntheticSpec)> {
    let arrivals = ARRIVALS.map(|(name, arrivals)| (name, load(arrivals, EXPONENTIAL, "")));
    let contents = CONTENTS.map(|(name, lengths, more)| (name, load(POISSON, lengths, more)));
    arrivals.into_iter().chain(contents)
}

fn clients() -> ClientsSpec {
    let text = format!(
        r#"{{"rates": {{"zipf": {{"clients": 1000, "total-rate-rps": 20, "exponent": 1.1}}}},
            "gaps": {{"gamma": {{"cv": {{"lognormal": {{"mean": 1.5, "cv": 0.5}}}}}}}},
            "requests": {REQUESTS}, "prompt-scale": {{"lognormal": {{"mean": 1, "cv": 0.8}}}},
            "prompt-tokens": {{"exponential": {{"mean": 400}}}},
            "output-tokens": {{"exponential": {{"mean": 400}}}}}}"#
    );
    serde_json::from_str(&text).expect("valid clients")
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
    for (name, spec) in families() {
        group.bench_function(name, |bencher| {
            bencher.iter(|| drain(spec.build(&streams).expect("a valid load")));
        });
    }
    group.bench_function("a thousand clients", |bencher| {
        bencher.iter(|| drain(clients().build(&streams).expect("valid clients")));
    });
    let documents = WorkloadSpec::from(PresetSpec {
        name: Preset::Rag,
        rate_rps: Rate::new(20.0).expect("positive"),
        requests: Some(REQUESTS),
        duration_s: None,
    });
    group.bench_function("five of ten thousand documents", |bencher| {
        bencher.iter(|| drain(documents.build(&streams).expect("a valid preset")));
    });
    group.finish();
}

criterion_group!(benches, generate);
criterion_main!(benches);

//! The experiment; a test looks at the direction of its outcome.

use foretoken::deployment::SchedulingPolicy;
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;
use foretoken::workload::ArrivalSpec;

/// What requests experienced under one queue order.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Median TTFT of the third of the requests with the shortest prompts, in milliseconds.
    pub(crate) short_ttft_p50_ms: f64,
    /// Median end-to-end latency of the third with the longest prompts, in seconds.
    pub(crate) long_e2e_p50_s: f64,
    /// 99th percentile of the end-to-end latency of those, in seconds.
    pub(crate) long_e2e_p99_s: f64,
    /// 99th percentile of the TTFT of all requests, in milliseconds.
    pub(crate) ttft_p99_ms: f64,
    /// 99th percentile of the end-to-end latency of all requests, in seconds.
    pub(crate) e2e_p99_s: f64,
}

/// 50 requests a second for a minute, prompts of 500 to 5,000 tokens and outputs of 100 to 800, on so many H100 with
/// Llama-3.1-8B.
pub(crate) fn outcome(
    policy: SchedulingPolicy,
    replicas: u32,
    seed: u64,
) -> Result<Outcome, Error> {
    let mut deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", 1);
    deployment.replicas = replicas;
    deployment.engine.scheduling_policy = policy;
    let load = SyntheticSpec::new(
        ArrivalSpec::Poisson {
            rate: 50.0.try_into()?,
        },
        3_000,
        LengthSpec::uniform(500, 5_000),
        LengthSpec::uniform(100, 800),
    );
    let mut scenario = Scenario::new(deployment, load);
    scenario.seed = seed;
    let recorder = Recorder::new();
    let (_, recording) =
        scenario.predict_recorded(&Catalog::builtin(), &Physics::default(), recorder)?;
    let records = recording.records();
    let short: Vec<_> = records
        .iter()
        .filter(|it| it.prompt_tokens < 2_000)
        .collect();
    let long: Vec<_> = records
        .iter()
        .filter(|it| it.prompt_tokens > 3_500)
        .collect();
    let all: Vec<_> = records.iter().collect();
    Ok(Outcome {
        short_ttft_p50_ms: percentile(&short, 50, |it| it.ttft),
        long_e2e_p50_s: percentile(&long, 50, |it| it.e2e) / 1e3,
        long_e2e_p99_s: percentile(&long, 99, |it| it.e2e) / 1e3,
        ttft_p99_ms: percentile(&all, 99, |it| it.ttft),
        e2e_p99_s: percentile(&all, 99, |it| it.e2e) / 1e3,
    })
}

/// In milliseconds, by the nearest rank.
fn percentile(
    records: &[&RequestRecord],
    percent: usize,
    latency: impl Fn(&RequestRecord) -> Option<SimDuration>,
) -> f64 {
    let mut values: Vec<SimDuration> = records.iter().filter_map(|it| latency(it)).collect();
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values[rank - 1].as_millis_f64()
}

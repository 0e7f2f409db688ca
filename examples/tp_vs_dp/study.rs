//! The experiment; a test looks at the direction of its outcome.

use foretoken::prelude::*;

/// How two GPUs are used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout {
    /// One engine over both.
    TensorParallel,
    /// One engine on each.
    DataParallel,
}

/// What requests experienced.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Output tokens per second.
    pub(crate) output_tokens_per_s: f64,
    /// Mean time to first token, in milliseconds.
    pub(crate) ttft_ms: f64,
    /// Mean time per output token, in milliseconds.
    pub(crate) tpot_ms: f64,
    /// Mean end-to-end latency, in seconds.
    pub(crate) e2e_s: f64,
}

/// Llama-3.1-8B on two H100 with so many sequences in a batch at most, under `rate` requests per second.
pub(crate) fn outcome(layout: Layout, max_num_seqs: u32, rate: f64) -> Result<Outcome, Error> {
    let (tensor_parallel, replicas) = match layout {
        Layout::TensorParallel => (2, 1),
        Layout::DataParallel => (1, 2),
    };
    let mut deployment = Deployment::new(
        "meta-llama/Llama-3.1-8B-Instruct",
        "H100-SXM-80GB",
        tensor_parallel,
    );
    deployment.replicas = replicas;
    deployment.engine.max_num_seqs = Some(max_num_seqs);
    let (prompts, outputs) = (LengthSpec::uniform(200, 800), LengthSpec::uniform(50, 350));
    let load = Synthetic::poisson(rate, 3_000, prompts, outputs)?;
    let report = Scenario::new(deployment, load).run(&Catalog::builtin(), &Physics::default())?;
    let all = report.overall;
    let mean = |latency: Option<foretoken::metrics::Latency>| latency.map_or(0.0, |it| it.mean);
    Ok(Outcome {
        output_tokens_per_s: all.throughput.output_tokens_per_s,
        ttft_ms: mean(all.ttft_ms),
        tpot_ms: mean(all.tpot_ms),
        e2e_s: mean(all.e2e_ms) / 1e3,
    })
}

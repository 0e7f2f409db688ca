//! The same load twice: with prompts that are all different, and with a few that come again and again.

use foretoken::metrics::Summary;
use foretoken::prelude::*;
use foretoken::workload::Stage;

/// Requests of a run.
const REQUESTS: u32 = 600;

/// Throughput, prefix hits and TTFT without and with prefix caching.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compared {
    pub(crate) output_tokens_per_s: [f64; 2],
    pub(crate) ttft_p50_ms: [f64; 2],
    pub(crate) hit_rate: f64,
}

/// Llama-3.1-8B on one H100 that is asked for more than it can do: prompts of 2000 tokens, so many of
/// them distinct, and answers of 50.
pub(crate) fn compare(distinct: u32) -> Result<Compared, Error> {
    let [without, with] = [false, true].map(|caching| {
        let engine = EngineOptions {
            max_model_len: Some(4096),
            enable_prefix_caching: caching,
            ..EngineOptions::default()
        };
        serve(engine, distinct)
    });
    let (without, with) = (without?, with?);
    let ttft = |summary: &Summary| summary.ttft_ms.map_or(0.0, |ttft| ttft.p50);
    let both = [&without, &with];
    Ok(Compared {
        output_tokens_per_s: both.map(|summary| summary.throughput.output_tokens_per_s),
        ttft_p50_ms: both.map(ttft),
        hit_rate: with.prefix_hit_rate.unwrap_or(0.0),
    })
}

fn serve(engine: EngineOptions, distinct: u32) -> Result<Summary, Error> {
    let mut deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", 1);
    deployment.engine = engine;
    let load = SharedPrefixSpec {
        num_groups: distinct,
        prompts_per_group: 1,
        system_prompt_tokens: 0,
        question_tokens: 2000,
        output_tokens: 50,
        stages: vec![Stage::new(40.0, f64::from(REQUESTS) / 40.0)?],
        prompt_tokens_mean_reported: None,
        prompt_inflation: 1.0,
        client: ClientSpec::default(),
    };
    let report = Scenario::new(deployment, load).run(&Catalog::builtin(), &Physics::default())?;
    Ok(report.overall)
}

/// Each prompt is asked once.
pub(crate) fn fresh() -> Result<Compared, Error> {
    compare(REQUESTS)
}

/// Each of fifty prompts is asked twelve times.
pub(crate) fn repeated() -> Result<Compared, Error> {
    compare(50)
}

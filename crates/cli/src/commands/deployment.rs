//! The flags that describe a deployment, shared by the commands that need one.

use clap::Args;
use foretoken::Deployment;
use foretoken::deployment::{LatencyModelChoice, SchedulingPolicy, VllmVersion};
use foretoken::engine::{Batching, KvAllocation};
use foretoken::hwspec::KvFormat;

use crate::failure::Failure;

/// What serves: flags take the place of what a scenario file says.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is a switch of its own"
)]
pub(crate) struct DeploymentFlags {
    /// Model: a name of the catalog, or the path of a config.json
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Accelerator: a name of the catalog
    #[arg(long)]
    pub(crate) gpu: Option<String>,
    /// Accelerators that share one engine [default: 1]
    #[arg(long, visible_alias = "tp", value_name = "N")]
    pub(crate) tensor_parallel: Option<u32>,
    /// Engines [default: 1]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// Sequences in the batch at most [default: as a vLLM server on this accelerator]
    #[arg(long, value_name = "N")]
    max_num_seqs: Option<u32>,
    /// Tokens in a step at most [default: as a vLLM server on this accelerator]
    #[arg(long, value_name = "N")]
    max_num_batched_tokens: Option<u32>,
    /// Longest sequence [default: the model's]
    #[arg(long, value_name = "N")]
    max_model_len: Option<u32>,
    /// Tokens in a KV block [default: 16]
    #[arg(long, value_name = "N")]
    block_size: Option<u32>,
    /// Share of the accelerator's memory that the engine may use [default: 0.9]
    #[arg(long, value_name = "SHARE")]
    gpu_memory_utilization: Option<f64>,
    /// KV blocks, in place of what the memory plan says
    #[arg(long, value_name = "N")]
    num_gpu_blocks_override: Option<u32>,
    /// Format of the KV cache [default: auto]
    #[arg(long, value_name = "auto|fp8", value_parser = parse::<KvFormat>)]
    kv_cache_dtype: Option<KvFormat>,
    /// Forget blocks with their request
    #[arg(long)]
    no_enable_prefix_caching: bool,
    /// Compute every prompt in one step
    #[arg(long)]
    no_enable_chunked_prefill: bool,
    /// Longest chunk of one request in a step; 0 is no limit [default: 0]
    #[arg(long, value_name = "N")]
    long_prefill_token_threshold: Option<u32>,
    /// Who is admitted next, and whose blocks are taken [default: fcfs]
    #[arg(
        long,
        value_name = "fcfs|priority|shortest-job-first|longest-prefix-match",
        value_parser = parse::<SchedulingPolicy>
    )]
    scheduling_policy: Option<SchedulingPolicy>,
    /// Plan each step only after the one before has ended
    #[arg(long)]
    no_async_scheduling: bool,
    /// Who may join the running batch [default: continuous]
    #[arg(long, value_name = "continuous|static", value_parser = parse::<Batching>)]
    batching: Option<Batching>,
    /// KV memory of a running request: as its tokens come, or for the longest sequence [default: paged]
    #[arg(long, value_name = "paged|reserved", value_parser = parse::<KvAllocation>)]
    kv_allocation: Option<KvAllocation>,
    /// No CUDA graphs
    #[arg(long)]
    enforce_eager: bool,
    /// The version of vLLM whose scheduler is followed [default: 0.15.1]
    #[arg(long, value_name = "VERSION", value_parser = parse::<VllmVersion>)]
    vllm_version: Option<VllmVersion>,
    /// How steps are timed [default: kernel-physics]; a table of a load test goes into a scenario file
    #[arg(
        long,
        value_name = "kernel-physics|additive-physics|roofline",
        value_parser = parse::<LatencyModelChoice>
    )]
    latency_model: Option<LatencyModelChoice>,
}

/// Reads a name as configuration files have it.
fn parse<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|error| error.to_string())
}

impl DeploymentFlags {
    /// The deployment that the flags describe, on top of `base` (from a file) if there is one.
    pub(crate) fn apply(&self, base: Option<Deployment>) -> Result<Deployment, Failure> {
        let mut deployment = match base {
            Some(deployment) => deployment,
            None => Deployment::new(
                self.model.clone().ok_or(Failure::Missing {
                    missing: "the model",
                    flag: "--model",
                })?,
                self.gpu.clone().ok_or(Failure::Missing {
                    missing: "the GPU",
                    flag: "--gpu",
                })?,
                1,
            ),
        };
        let set = |target: &mut u32, flag: Option<u32>| *target = flag.unwrap_or(*target);
        let set_some = |target: &mut Option<u32>, flag: Option<u32>| *target = flag.or(*target);
        if let Some(model) = &self.model {
            deployment.model.clone_from(model);
        }
        if let Some(gpu) = &self.gpu {
            deployment.gpu.clone_from(gpu);
        }
        set(&mut deployment.tensor_parallel, self.tensor_parallel);
        set(&mut deployment.replicas, self.replicas);
        if let Some(choice) = &self.latency_model {
            deployment.latency_model.clone_from(choice);
        }
        let engine = &mut deployment.engine;
        set_some(&mut engine.max_num_seqs, self.max_num_seqs);
        set_some(
            &mut engine.max_num_batched_tokens,
            self.max_num_batched_tokens,
        );
        set_some(&mut engine.max_model_len, self.max_model_len);
        set_some(
            &mut engine.num_gpu_blocks_override,
            self.num_gpu_blocks_override,
        );
        set(&mut engine.block_size, self.block_size);
        set(
            &mut engine.long_prefill_token_threshold,
            self.long_prefill_token_threshold,
        );
        engine.gpu_memory_utilization = self
            .gpu_memory_utilization
            .unwrap_or(engine.gpu_memory_utilization);
        engine.kv_cache_dtype = self.kv_cache_dtype.unwrap_or(engine.kv_cache_dtype);
        engine.scheduling_policy = self.scheduling_policy.unwrap_or(engine.scheduling_policy);
        engine.vllm_version = self.vllm_version.unwrap_or(engine.vllm_version);
        engine.enable_prefix_caching &= !self.no_enable_prefix_caching;
        engine.enable_chunked_prefill &= !self.no_enable_chunked_prefill;
        engine.async_scheduling &= !self.no_async_scheduling;
        engine.batching = self.batching.unwrap_or(engine.batching);
        engine.kv_allocation = self.kv_allocation.unwrap_or(engine.kv_allocation);
        engine.enforce_eager |= self.enforce_eager;
        Ok(deployment)
    }
}

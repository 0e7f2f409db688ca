//! [`Deployment`]: a model on accelerators with vLLM's settings, as configurations give it.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::SimDuration;
use foretoken_engine::{
    Batching, CudaGraphs, EngineConfig, KvAllocation, LastAdmitted, Policies, SchedulerConfig,
    Scheduling, Semantics,
};
use foretoken_hwspec::{
    Catalog, Generation, GpuSpec, HwspecError, KvFormat, MemoryOptions, MemoryPlan, ModelSpec,
    TensorParallel,
};
use foretoken_latency_model::{
    AdditivePhysics, HostCosts, KernelParameters, KernelPhysics, LatencyModel, Roofline,
    RuntimeParameters, TableModel,
};
use foretoken_workload::{LongestPrefixMatch, ShortestJobFirst};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::simulation::Instance;

/// A model on accelerators, served by one or more engines.
///
/// ```
/// use foretoken::prelude::*;
///
/// let mut deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", 1);
/// deployment.engine.max_model_len = Some(8192);
/// let resolved = deployment.resolve(&Catalog::builtin(), &Physics::default())?;
/// assert_eq!(resolved.engine.scheduler.max_num_seqs, 1024);
/// assert!(resolved.engine.scheduler.num_gpu_blocks > 20_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Deployment {
    /// Name of a model in the catalog, or path of a `config.json`.
    pub model: String,
    /// Name of an accelerator in the catalog.
    pub gpu: String,
    /// Accelerators that share one engine; 1 by default.
    #[serde(default = "one")]
    pub tensor_parallel: u32,
    /// Engines, at most 4096; 1 by default.
    #[serde(default = "one")]
    pub replicas: u32,
    /// Settings of each engine.
    #[serde(default)]
    pub engine: EngineOptions,
    /// How steps are timed; `kernel-physics` by default.
    #[serde(default)]
    pub latency_model: LatencyModelChoice,
    /// Labels of its pods, for gateways: `llm-d.ai/role: prefill` makes it a prefill pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// KV blocks of all engines together; a record of each is kept.
const MAX_BLOCKS: u64 = 1 << 27;

const fn one() -> u32 {
    1
}

/// Settings of an engine, named as vLLM's flags where it has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "vLLM's flags are what users know"
)]
pub struct EngineOptions {
    /// Sequences in the batch at most. By default as a vLLM server has it: 1024 on accelerators of
    /// 70 GiB or more other than A100, else 256.
    pub max_num_seqs: Option<u32>,
    /// Tokens in a step at most. By default as a vLLM server has it: 8192 on accelerators of 70 GiB
    /// or more other than A100, else 2048.
    pub max_num_batched_tokens: Option<u32>,
    /// Longest sequence. By default the model's.
    pub max_model_len: Option<u32>,
    /// Tokens in a KV block; 16 by default.
    pub block_size: u32,
    /// Share of the accelerator's memory that the engine may use; 0.9 by default.
    pub gpu_memory_utilization: f64,
    /// KV blocks, at most 2^24, in place of what the memory plan says.
    pub num_gpu_blocks_override: Option<u32>,
    /// Format of the KV cache; `auto` by default.
    pub kv_cache_dtype: KvFormat,
    /// Keep full blocks for later requests with the same prefix; on by default.
    pub enable_prefix_caching: bool,
    /// Spread prompts over steps; on by default.
    pub enable_chunked_prefill: bool,
    /// Longest chunk of one request in a step; 0, no limit, by default.
    pub long_prefill_token_threshold: u32,
    /// Who is admitted next, and whose blocks are taken; `fcfs` by default.
    pub scheduling_policy: SchedulingPolicy,
    /// Plan a step while the one before runs; on by default.
    pub async_scheduling: bool,
    /// Who may join the running batch; `continuous` by default, `static` as before vLLM.
    pub batching: Batching,
    /// KV memory of a running request; `paged` by default, `reserved` for the longest sequence as
    /// before vLLM.
    pub kv_allocation: KvAllocation,
    /// No CUDA graphs; off by default.
    pub enforce_eager: bool,
    /// The version of vLLM whose scheduler is followed; `0.15.1` by default.
    pub vllm_version: VllmVersion,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            max_num_seqs: None,
            max_num_batched_tokens: None,
            max_model_len: None,
            block_size: 16,
            gpu_memory_utilization: 0.9,
            num_gpu_blocks_override: None,
            kv_cache_dtype: KvFormat::Auto,
            enable_prefix_caching: true,
            enable_chunked_prefill: true,
            long_prefill_token_threshold: 0,
            scheduling_policy: SchedulingPolicy::Fcfs,
            async_scheduling: true,
            batching: Batching::Continuous,
            kv_allocation: KvAllocation::Paged,
            enforce_eager: false,
            vllm_version: VllmVersion::default(),
        }
    }
}

/// Who is admitted next, and whose blocks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SchedulingPolicy {
    /// First come, first served; the last admitted is preempted (vLLM's default).
    #[default]
    Fcfs,
    /// By (priority, arrival); the least urgent is preempted (vLLM's `priority`).
    Priority,
    /// The fewest tokens first, prompt and declared output; the last admitted is preempted.
    ShortestJobFirst,
    /// The longest cached prefix first; the last admitted is preempted.
    LongestPrefixMatch,
}

impl SchedulingPolicy {
    /// The policies by that name.
    pub fn policies(self) -> Policies {
        match self {
            Self::Fcfs => Policies::fcfs(),
            Self::Priority => Policies::priority(),
            Self::ShortestJobFirst => Policies {
                order: Box::new(ShortestJobFirst),
                preemption: Box::new(LastAdmitted),
            },
            Self::LongestPrefixMatch => Policies {
                order: Box::new(LongestPrefixMatch),
                preemption: Box::new(LastAdmitted),
            },
        }
    }
}

/// A version of vLLM, as `0.15.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VllmVersion {
    minor: u32,
    patch: u32,
}

impl Default for VllmVersion {
    fn default() -> Self {
        Self {
            minor: 15,
            patch: 1,
        }
    }
}

impl VllmVersion {
    /// The scheduler's details in this version.
    pub const fn semantics(self) -> Semantics {
        Semantics::of_minor_version(self.minor)
    }
}

impl TryFrom<String> for VllmVersion {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        let numbers: Option<Vec<u32>> = text
            .trim_start_matches('v')
            .split('.')
            .map(|part| part.parse().ok())
            .collect();
        match numbers.as_deref() {
            Some([0, minor]) if *minor >= 15 => Ok(Self {
                minor: *minor,
                patch: 0,
            }),
            Some([0, minor, patch]) if *minor >= 15 => Ok(Self {
                minor: *minor,
                patch: *patch,
            }),
            _ => Err(Error::out_of_range(
                "vllm-version",
                &text,
                "0.15 or later, as `0.15.1`",
            )),
        }
    }
}

impl From<VllmVersion> for String {
    fn from(version: VllmVersion) -> Self {
        format!("0.{}.{}", version.minor, version.patch)
    }
}

/// How steps are timed. In files a plain name, or `{ table: {...} }`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LatencyModelChoice {
    /// The step as the sum of its kernels.
    #[default]
    KernelPhysics,
    /// The published ten-term form.
    AdditivePhysics,
    /// Closed-form bounds with fixed utilisations.
    Roofline,
    /// What a load test measured. Costs of the host around a step are in its numbers, those around a
    /// request are the runtime parameters'.
    Table(TableModel),
}

/// The parameters of the latency models.
#[derive(Debug, Clone, PartialEq)]
pub struct Physics {
    /// Efficiencies of kernels, by accelerator.
    pub kernels: KernelParameters,
    /// Costs of the serving software.
    pub runtime: RuntimeParameters,
}

impl Default for Physics {
    /// The built-in parameters.
    fn default() -> Self {
        Self {
            kernels: KernelParameters::builtin().clone(),
            runtime: RuntimeParameters::builtin().clone(),
        }
    }
}

/// A deployment with its names looked up and its memory planned.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Resolved {
    /// The model.
    pub model: ModelSpec,
    /// The accelerator.
    pub gpu: GpuSpec,
    /// How one engine is spread.
    pub tensor_parallel: TensorParallel,
    /// Where each accelerator's memory goes; absent if only `num-gpu-blocks-override` makes it fit.
    pub memory: Option<MemoryPlan>,
    /// Settings of each engine.
    pub engine: EngineConfig,
    /// Its queue and preemption policies.
    pub policy: SchedulingPolicy,
    /// How steps are timed.
    pub latency: Arc<dyn LatencyModel>,
    /// Bytes of one KV block, over all accelerators of an engine.
    pub block_bytes: u64,
    /// Engines of this kind.
    pub replicas: u32,
    /// Labels of their pods.
    pub labels: BTreeMap<String, String>,
}

impl Resolved {
    /// One of its engines, to be built.
    pub fn instance(&self) -> Instance {
        let mut instance = Instance::new(self.engine.clone())
            .policies(self.policy.policies())
            .latency(self.latency.clone())
            .block_bytes(self.block_bytes);
        for (name, value) in &self.labels {
            instance = instance.label(name, value);
        }
        instance
    }
}

impl Deployment {
    /// A model on a group of accelerators, one engine, default settings.
    pub fn new(model: impl Into<String>, gpu: impl Into<String>, tensor_parallel: u32) -> Self {
        Self {
            model: model.into(),
            gpu: gpu.into(),
            tensor_parallel,
            replicas: 1,
            engine: EngineOptions::default(),
            latency_model: LatencyModelChoice::default(),
            labels: BTreeMap::new(),
        }
    }

    /// Looks names up, plans memory, builds the latency model.
    ///
    /// # Errors
    /// [`Error`] names the key, its value and what is allowed; a model that does not fit says what
    /// would.
    pub fn resolve(&self, catalog: &Catalog, physics: &Physics) -> Result<Resolved, Error> {
        let model = catalog.model(&self.model)?;
        let gpu = catalog.gpu(&self.gpu)?;
        let tp = TensorParallel::new(self.tensor_parallel)
            .ok_or_else(|| Error::out_of_range("tensor-parallel", &0, "1 or more"))?;
        if !(1..=4096).contains(&self.replicas) {
            return Err(Error::out_of_range("replicas", &self.replicas, "1 to 4096"));
        }
        model.shard(tp)?;
        let options = &self.engine;
        let (memory, scheduler) = options.scheduler(&model, &gpu, tp)?;
        let (latency, host) = self.latency(&model, &gpu, tp, physics)?;
        if let LatencyModelChoice::Table(table) = &self.latency_model {
            table.covers(scheduler.max_num_seqs)?;
        }
        let engine = EngineConfig {
            scheduler,
            host,
            cuda_graphs: if options.enforce_eager {
                CudaGraphs::Off
            } else {
                CudaGraphs::FullAndPiecewise
            },
        };
        engine.check()?;
        let blocks = u64::from(self.replicas) * u64::from(engine.scheduler.num_gpu_blocks);
        if blocks > MAX_BLOCKS {
            let allowed = format!("at most {MAX_BLOCKS} KV blocks in all replicas together");
            return Err(Error::out_of_range("replicas", &self.replicas, allowed));
        }
        let policy = options.scheduling_policy;
        let token = model.kv_bytes_per_token(options.kv_cache_dtype).get();
        let block_bytes = token.saturating_mul(options.block_size.into());
        Ok(Resolved {
            model,
            gpu,
            tensor_parallel: tp,
            memory,
            engine,
            policy,
            latency,
            block_bytes,
            replicas: self.replicas,
            labels: self.labels.clone(),
        })
    }

    fn latency(
        &self,
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
        physics: &Physics,
    ) -> Result<(Arc<dyn LatencyModel>, HostCosts), Error> {
        let kv = self.engine.kv_cache_dtype;
        Ok(match &self.latency_model {
            LatencyModelChoice::KernelPhysics => {
                let (kernels, runtime) = (&physics.kernels, &physics.runtime);
                let kernels = KernelPhysics::with_parameters(model, gpu, tp, kv, kernels, runtime)?;
                (Arc::new(kernels), runtime.host)
            }
            LatencyModelChoice::AdditivePhysics => {
                let additive = AdditivePhysics::new(model, gpu, tp, kv)?;
                let host = additive.host_costs();
                (Arc::new(additive), host)
            }
            LatencyModelChoice::Roofline => (
                Arc::new(Roofline::new(model, gpu, tp, kv)?),
                physics.runtime.host,
            ),
            LatencyModelChoice::Table(table) => {
                let host = HostCosts {
                    schedule: SimDuration::ZERO,
                    schedule_per_sequence: SimDuration::ZERO,
                    update: SimDuration::ZERO,
                    update_per_sequence: SimDuration::ZERO,
                    ..physics.runtime.host
                };
                (Arc::new(table.clone()), host)
            }
        })
    }
}

impl EngineOptions {
    /// The scheduler's settings with defaults filled in, and the memory plan that they follow from.
    fn scheduler(
        &self,
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
    ) -> Result<(Option<MemoryPlan>, SchedulerConfig), Error> {
        let large = gpu.memory.as_gib() >= 70.0 && gpu.generation != Generation::Ampere;
        let (default_tokens, default_seqs) = if large { (8192, 1024) } else { (2048, 256) };
        let max_model_len = self.max_model_len.unwrap_or(model.max_position);
        let max_num_seqs = self.max_num_seqs.unwrap_or(default_seqs);
        let max_num_batched_tokens = self.max_num_batched_tokens.unwrap_or_else(|| {
            let tokens = default_tokens.min(max_num_seqs.saturating_mul(max_model_len));
            if self.enable_chunked_prefill {
                tokens
            } else {
                tokens.max(max_model_len)
            }
        });
        for (field, value) in [
            ("max-num-seqs", self.max_num_seqs),
            ("max-num-batched-tokens", self.max_num_batched_tokens),
            ("max-model-len", self.max_model_len),
        ] {
            if value == Some(0) {
                return Err(Error::out_of_range(field, &0, "1 or more"));
            }
        }
        // Far beyond any device; the engine keeps a record of each block.
        if let Some(blocks @ 16_777_217..) = self.num_gpu_blocks_override {
            let (field, allowed) = ("num-gpu-blocks-override", "2 to 16777216");
            return Err(Error::out_of_range(field, &blocks, allowed));
        }
        let plan = MemoryPlan::new(
            model,
            gpu,
            tp,
            &MemoryOptions {
                gpu_memory_utilization: self.gpu_memory_utilization,
                max_num_seqs: max_num_seqs.min(max_num_batched_tokens),
                max_num_batched_tokens,
                max_model_len: Some(max_model_len),
                block_size: self.block_size,
                kv_format: self.kv_cache_dtype,
            },
        );
        let (memory, num_gpu_blocks) = match (plan, self.num_gpu_blocks_override) {
            (Ok(plan), None) => {
                let blocks = u32::try_from(plan.blocks).unwrap_or(u32::MAX);
                (Some(plan), blocks)
            }
            (Ok(plan), Some(blocks)) => (Some(plan), blocks),
            (Err(HwspecError::DoesNotFit(_)), Some(blocks)) => (None, blocks),
            (Err(error), _) => return Err(error.into()),
        };
        let scheduler = SchedulerConfig {
            max_num_seqs: max_num_seqs.min(max_num_batched_tokens),
            max_num_batched_tokens,
            max_model_len,
            block_size: self.block_size,
            num_gpu_blocks,
            prefix_caching: self.enable_prefix_caching,
            chunked_prefill: self.enable_chunked_prefill,
            long_prefill_token_threshold: self.long_prefill_token_threshold,
            scheduling: if self.async_scheduling {
                Scheduling::Asynchronous
            } else {
                Scheduling::Synchronous
            },
            batching: self.batching,
            kv_allocation: self.kv_allocation,
            semantics: self.vllm_version.semantics(),
        };
        Ok((memory, scheduler))
    }
}

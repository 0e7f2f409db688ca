//! How many KV blocks an engine has: the memory plan of one device.
//!
//! The procedure is vLLM's (0.15.1): of the device's memory the engine may use a share; weights and
//! the peak of a profiling run are subtracted; what remains is cut into blocks of
//! [`block_size`](MemoryOptions::block_size) tokens over all layers. CUDA graphs, the context and
//! the communicators live in the share that is left free. All devices of a group are alike, so one
//! plan stands for all of them.
//!
//! Layers with a sliding window or chunked attention are given blocks for the whole context, as
//! vLLM does when it treats all layers alike (`disable_hybrid_kv_cache_manager`). With its hybrid
//! manager, layers of different spans share the same pool and a long request holds fewer blocks;
//! the pool has the size computed here.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::counts::product;
use crate::error::HwspecError;
use crate::gpu::GpuSpec;
use crate::model::{KvFormat, ModelSpec};
use crate::parallelism::TensorParallel;
pub use crate::reserve::{Phases, Reserve};
use crate::units::Bytes;

/// The engine's settings that decide about memory. The defaults are those of a vLLM server on a
/// device of 70 GiB or more; smaller devices and A100 start with 2048 tokens and 256 sequences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MemoryOptions {
    /// Share of the device's memory that the engine may use, above 0 and at most 1. Default 0.9.
    pub gpu_memory_utilization: f64,
    /// Most requests in a batch. Default 1024.
    pub max_num_seqs: u32,
    /// Most tokens in a batch. Default 8192.
    pub max_num_batched_tokens: u32,
    /// Longest request, prompt and output together. Default: what the model accepts.
    pub max_model_len: Option<u32>,
    /// Tokens per KV block. Default 16.
    pub block_size: u32,
    /// Format of the KV cache. Default `auto`, the model's 16 bits.
    pub kv_format: KvFormat,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            gpu_memory_utilization: 0.9,
            max_num_seqs: 1024,
            max_num_batched_tokens: 8192,
            max_model_len: None,
            block_size: 16,
            kv_format: KvFormat::Auto,
        }
    }
}

impl MemoryOptions {
    fn check(&self) -> Result<(), HwspecError> {
        let invalid = |field: &str, value: String, allowed: &str| HwspecError::InvalidField {
            source_name: "memory options".to_owned(),
            field: field.to_owned(),
            value,
            allowed: allowed.to_owned(),
        };
        let share = self.gpu_memory_utilization;
        if !(share > 0.0 && share <= 1.0) {
            let allowed = "above 0 and at most 1";
            return Err(invalid(
                "gpu-memory-utilization",
                share.to_string(),
                allowed,
            ));
        }
        for (field, value) in [
            ("max-num-seqs", self.max_num_seqs),
            ("max-num-batched-tokens", self.max_num_batched_tokens),
            ("max-model-len", self.max_model_len.unwrap_or(1)),
            ("block-size", self.block_size),
        ] {
            if value == 0 {
                return Err(invalid(field, value.to_string(), "at least 1"));
            }
        }
        Ok(())
    }
}

/// Where one device's memory goes, and how many KV blocks come out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct MemoryPlan {
    /// What the engine may use.
    pub requested: Bytes,
    /// Weights on this device.
    pub weights: Bytes,
    /// Everything else that is not KV cache.
    pub reserve: Reserve,
    /// What is left for the KV cache; up to one block of it is not used.
    pub kv: Bytes,
    /// One block over all layers, on this device.
    pub block_bytes: Bytes,
    /// KV blocks, the null block that vLLM sets aside included.
    pub blocks: u64,
    /// Tokens per block.
    pub block_size: u32,
    /// Longest request.
    pub max_model_len: u32,
}

impl MemoryPlan {
    /// Plans the memory of each device of a group.
    ///
    /// # Errors
    ///
    /// [`HwspecError::InvalidField`] for a setting out of range, [`HwspecError::NotDivisible`] if
    /// the model cannot be split so, [`HwspecError::DoesNotFit`] if weights and reserve leave no
    /// room for one request of the longest length.
    pub fn new(
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
        options: &MemoryOptions,
    ) -> Result<Self, HwspecError> {
        options.check()?;
        model.shard(tp)?;
        let sketch = Sketch::new(model, gpu, tp, options);
        let max_model_len = options.max_model_len.unwrap_or(model.max_position);
        let needed = u64::from(max_model_len.div_ceil(options.block_size));
        match sketch.blocks() {
            Some((kv, blocks)) if blocks >= needed => Ok(Self {
                requested: sketch.requested,
                weights: sketch.weights,
                reserve: sketch.reserve,
                kv,
                block_bytes: sketch.block_bytes,
                blocks,
                block_size: options.block_size,
                max_model_len,
            }),
            outcome => {
                let fits = |&degree: &u32| {
                    degree > tp.get()
                        && TensorParallel::new(degree).is_some_and(|wider| {
                            Sketch::new(model, gpu, wider, options)
                                .blocks()
                                .is_some_and(|(_, blocks)| blocks >= needed)
                        })
                };
                let longest = outcome
                    .map(|(_, blocks)| blocks.saturating_mul(u64::from(options.block_size)))
                    .filter(|&tokens| tokens > 0);
                Err(HwspecError::DoesNotFit(Box::new(Shortage {
                    model: model.name.clone(),
                    gpu: gpu.name.clone(),
                    tensor_parallel: tp.get(),
                    requested: sketch.requested,
                    weights: sketch.weights,
                    reserve: sketch.reserve.total(),
                    kv_needed: Bytes::new(product([needed, sketch.block_bytes.get()])),
                    max_model_len,
                    longest: longest.and_then(|tokens| u32::try_from(tokens).ok()),
                    smallest_tensor_parallel: model.valid_degrees().into_iter().find(fits),
                })))
            }
        }
    }

    /// Tokens that the KV cache holds.
    pub fn tokens(&self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_size))
    }

    /// Requests of the longest length that the KV cache holds at once, as vLLM reports at start.
    pub fn max_concurrency(&self) -> f64 {
        self.blocks as f64 / f64::from(self.max_model_len.div_ceil(self.block_size))
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "usable          {:>12}", self.requested.to_string())?;
        writeln!(f, "weights         {:>12}", self.weights.to_string())?;
        for (name, bytes) in self.reserve.terms() {
            writeln!(f, "{name:<16}{:>12}", bytes.to_string())?;
        }
        writeln!(f, "KV cache        {:>12}", self.kv.to_string())?;
        write!(
            f,
            "{} blocks of {} tokens, {} tokens, {:.2} requests of {}",
            self.blocks,
            self.block_size,
            self.tokens(),
            self.max_concurrency(),
            self.max_model_len
        )
    }
}

/// A deployment that does not fit, and what would.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// The model.
    pub model: String,
    /// The accelerator.
    pub gpu: String,
    /// Devices of the group.
    pub tensor_parallel: u32,
    /// What the engine may use of each device.
    pub requested: Bytes,
    /// Weights on each device.
    pub weights: Bytes,
    /// Reserve on each device.
    pub reserve: Bytes,
    /// KV cache of one request of the longest length, on each device.
    pub kv_needed: Bytes,
    /// The longest length that was asked for.
    pub max_model_len: u32,
    /// The longest length that fits; `None` if nothing does.
    pub longest: Option<u32>,
    /// The smallest larger group on which it fits, of those the model can be split over.
    pub smallest_tensor_parallel: Option<u32>,
}

impl Shortage {
    /// How much each device lacks.
    pub fn missing(&self) -> Bytes {
        let needed = [self.weights, self.reserve, self.kv_needed]
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(part.get()));
        Bytes::new(needed.saturating_sub(self.requested.get()))
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` does not fit on {} x {}: of {} usable on each device, weights take {} and the \
             reserve {}",
            self.model, self.tensor_parallel, self.gpu, self.requested, self.weights, self.reserve
        )?;
        write!(
            f,
            ", and one request of max-model-len = {} needs {} of KV cache: {} too much",
            self.max_model_len,
            self.kv_needed,
            self.missing()
        )?;
        if let Some(longest) = self.longest {
            write!(f, "; a max-model-len of {longest} would fit")?;
        }
        match self.smallest_tensor_parallel {
            Some(degree) => write!(f, "; tensor-parallel = {degree} would fit"),
            None => write!(f, "; no larger tensor-parallel degree fits either"),
        }
    }
}

/// A plan before anybody asked whether it fits.
struct Sketch {
    requested: Bytes,
    weights: Bytes,
    reserve: Reserve,
    block_bytes: Bytes,
}

impl Sketch {
    fn new(model: &ModelSpec, gpu: &GpuSpec, tp: TensorParallel, options: &MemoryOptions) -> Self {
        let token = model.kv_bytes_per_token_per_gpu(tp, options.kv_format);
        Self {
            requested: usable(gpu.memory, options.gpu_memory_utilization),
            weights: model.weight_bytes_per_gpu(tp),
            reserve: Reserve::new(model, tp, options),
            block_bytes: Bytes::new(product([u64::from(options.block_size), token.get()])),
        }
    }

    /// Room for the KV cache and the whole blocks in it. Pages are cut layer by layer, but
    /// flooring twice comes to flooring once.
    fn blocks(&self) -> Option<(Bytes, u64)> {
        let kv = self
            .requested
            .checked_sub(self.weights)
            .and_then(|rest| rest.checked_sub(self.reserve.total()))?;
        Some((kv, kv.get().checked_div(self.block_bytes.get())?))
    }
}

/// The share of `memory` that an engine takes, rounded up to whole bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a memory size is a memory size"
)]
fn usable(memory: Bytes, share: f64) -> Bytes {
    Bytes::new((memory.as_f64() * share).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    fn plan(gpu: &str, options: &MemoryOptions) -> Result<MemoryPlan, HwspecError> {
        let model = catalog::model("Qwen/Qwen3-8B").expect("known");
        MemoryPlan::new(&model, &catalog::gpu(gpu)?, TensorParallel::ONE, options)
    }

    #[test]
    fn the_share_is_rounded_up_to_whole_bytes() {
        assert_eq!(usable(Bytes::new(1001), 0.5), Bytes::new(501));
        assert_eq!(usable(Bytes::new(1000), 1.0), Bytes::new(1000));
    }

    #[test]
    fn settings_of_zero_are_refused_by_name() {
        let options = MemoryOptions {
            block_size: 0,
            ..MemoryOptions::default()
        };
        let error = plan("H100", &options).expect_err("no tokens in a block");
        assert_eq!(
            error.to_string(),
            "`memory options`: block-size = 0, but must be at least 1"
        );
    }

    #[test]
    fn concurrency_counts_whole_blocks_of_the_longest_request() {
        let options = MemoryOptions {
            max_model_len: Some(4097),
            ..MemoryOptions::default()
        };
        let plan = plan("H100", &options).expect("it fits");
        assert!((plan.max_concurrency() - plan.blocks as f64 / 257.0).abs() < 1e-9);
        assert_eq!(plan.tokens(), 16 * plan.blocks);
    }

    #[test]
    fn a_shortage_says_what_is_missing_and_what_would_fit() {
        let error = plan("L4", &MemoryOptions::default()).expect_err("24 GB");
        let text = error.to_string();
        for part in [
            "Qwen/Qwen3-8B",
            "1 x L4-24GB",
            "max-model-len = 40960",
            "too much",
            "would fit",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn options_have_the_documented_names_and_no_others() {
        let parsed: MemoryOptions =
            toml::from_str("gpu-memory-utilization = 0.8\nkv-format = \"fp8\"").expect("valid");
        assert_eq!(parsed.kv_format, KvFormat::Fp8);
        assert_eq!(parsed.max_num_seqs, 1024);
        assert!(toml::from_str::<MemoryOptions>("gpu-memory-utilisation = 0.8").is_err());
    }
}

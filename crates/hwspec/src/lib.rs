//! Accelerators and models as data, and the arithmetic that follows from their shapes alone.
//!
//! - [`catalog`] finds built-in [`GpuSpec`]s and [`ModelSpec`]s by name and takes in a user's own.
//! - [`config_json`] reads a model's shape from its Hugging Face `config.json`.
//! - [`ModelSpec`] counts: parameters in total, active, by part and per device
//!   ([`counts`](ModelSpec::counts)), bytes of weights and of cached tokens.
//! - [`parallelism`] says over how many devices a model can be split, and why not.
//! - [`memory`] plans a device's memory and says how many KV blocks an engine gets.
//!
//! Nothing here knows time or requests. Rates of a [`GpuSpec`] are peaks; what a kernel reaches of
//! them is the latency model's business.
//!
//! # The memory of a server
//!
//! Llama 3.1 8B in 16 bits on one H100, with at most 128 requests in a batch:
//!
//! ```
//! use foretoken_hwspec::{KvFormat, MemoryOptions, MemoryPlan, TensorParallel, catalog};
//!
//! let model = catalog::model("meta-llama/Llama-3.1-8B-Instruct")?;
//! let gpu = catalog::gpu("H100")?;
//! assert_eq!(model.parameters(), 8_030_261_248);
//! assert_eq!(model.kv_bytes_per_token(KvFormat::Auto).get(), 131_072);
//!
//! let options = MemoryOptions {
//!     max_num_seqs: 128,
//!     max_num_batched_tokens: 2048,
//!     ..MemoryOptions::default()
//! };
//! let plan = MemoryPlan::new(&model, &gpu, TensorParallel::ONE, &options)?;
//! assert_eq!(plan.requested.to_string(), "71.30 GiB");
//! assert_eq!(plan.weights.to_string(), "14.96 GiB");
//! // 55 GiB in blocks of 2 MiB: 28 thousand, or 3.4 requests of 131 072 tokens.
//! assert!((28_100..28_300).contains(&plan.blocks));
//! assert!((3.4..3.5).contains(&plan.max_concurrency()));
//! # Ok::<(), foretoken_hwspec::HwspecError>(())
//! ```

pub mod catalog;
pub mod config_json;
mod counts;
mod error;
pub mod gpu;
pub mod memory;
pub mod model;
pub mod parallelism;
mod reserve;
pub mod units;

pub use catalog::Catalog;
pub use counts::ParameterCounts;
pub use error::HwspecError;
pub use gpu::{Generation, GpuSpec, KernelPower, Link, LinkKind, PeakFlops};
pub use memory::{MemoryOptions, MemoryPlan, Phases, Reserve, Shortage};
pub use model::{
    Attention, FeedForward, GroupedAttention, KvFormat, LatentAttention, LayerGroup, ModelSpec,
    Moe, Sampling, Span, VisionEncoder, WeightFormat, WeightFormats,
};
pub use parallelism::TensorParallel;
pub use units::{Bytes, BytesPerSecond, FlopsPerSecond};

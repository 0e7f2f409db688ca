//! Settings of an engine, in vLLM's words and with vLLM's defaults.

use foretoken_latency_model::{GraphMode, HostCosts, StepShape};
use serde::{Deserialize, Serialize};

/// A setting that no engine can run with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A value outside its range.
    #[error("{field} is {value}: allowed is {allowed}")]
    OutOfRange {
        /// Name of the setting.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The KV pool cannot hold one request of the maximum length, which vLLM refuses to start with.
    #[error(
        "num_gpu_blocks is {num_gpu_blocks}: one request of max_model_len {max_model_len} needs {needed} blocks \
         of {block_size} tokens; allowed is more KV memory or a max_model_len of at most {longest}"
    )]
    PoolTooSmall {
        /// Blocks of the pool, the null block included.
        num_gpu_blocks: u32,
        /// Tokens in a block.
        block_size: u32,
        /// The longest sequence asked for.
        max_model_len: u32,
        /// Blocks that it needs.
        needed: u32,
        /// The longest sequence that fits.
        longest: u32,
    },
}

/// The largest pool, so that a slip of a digit is an error and not an allocation of gigabytes.
const MAX_BLOCKS: u32 = 1 << 24;

/// What decides a batch: the scheduler's limits and switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Sequences in the running batch at most (`max_num_seqs`).
    pub max_num_seqs: u32,
    /// Tokens in a step at most (`max_num_batched_tokens`).
    pub max_num_batched_tokens: u32,
    /// Longest sequence, prompt and output together (`max_model_len`).
    pub max_model_len: u32,
    /// Tokens in a KV block.
    pub block_size: u32,
    /// KV blocks of the pool, the reserved null block included (`num_gpu_blocks`).
    pub num_gpu_blocks: u32,
    /// Whether full blocks are kept for later requests with the same prefix.
    pub prefix_caching: bool,
    /// Whether a prompt may be computed over several steps.
    pub chunked_prefill: bool,
    /// Longest chunk of one request in one step; 0 is no limit.
    pub long_prefill_token_threshold: u32,
    /// Whether a step is planned before the one in flight has ended.
    pub scheduling: Scheduling,
    /// Who may join the running batch.
    pub batching: Batching,
    /// How much KV memory a running request takes.
    pub kv_allocation: KvAllocation,
    /// Which version's details are followed.
    pub semantics: Semantics,
}

/// Who may join the running batch, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Batching {
    /// Whoever waits, in every step that has a seat, budget and memory left (iteration-level
    /// scheduling, as Orca brought it and vLLM has it; the default).
    #[default]
    Continuous,
    /// Request-level batching, as `FasterTransformer` behind a batcher has it: once nobody runs, those
    /// who wait, up to the number of seats, become the batch, and nobody joins until all of them have
    /// ended. Their prompts are computed over as many steps as the budget takes.
    ///
    /// A member that was preempted comes back; one that ended or was aborted leaves its seat empty.
    /// Kinder than those systems were: nothing is padded, an empty seat costs nothing, tokens are
    /// streamed, and an end is told at once, not with that of the whole batch.
    Static,
}

/// How much KV memory a running request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvAllocation {
    /// Blocks as its tokens come (`PagedAttention`; the default).
    #[default]
    Paged,
    /// From its admission on contiguous memory for `max_model_len` tokens, as before `PagedAttention`:
    /// "Orca (Max)" of the vLLM paper (Kwon et al., SOSP 2023). There are only so many seats as that
    /// fits for. Nothing is shared, so that the prefix cache finds nothing; and nobody is preempted for
    /// lack of memory.
    Reserved,
}

/// Whether a step is planned before the one in flight has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Two batches in flight: the next one is planned while the accelerator works (the default).
    #[default]
    Asynchronous,
    /// Plan, run, apply, and again.
    Synchronous,
}

/// Details in which versions of vLLM differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Semantics {
    /// A waiting request is admitted only if all its known tokens fit now, not only its next chunk
    /// (`scheduler_reserve_full_isl`; from 0.20).
    pub admission_gate: bool,
    /// Blocks without a key are reused before all others (from 0.23).
    pub uncached_first_release: bool,
    /// `long_prefill_token_threshold` is ignored for the only request of the engine (from 0.33).
    pub lone_request_ignores_threshold: bool,
    /// After a request preempted itself, the requests behind it are still served in this step
    /// (from 0.33).
    pub continue_after_self_preemption: bool,
    /// A victim before the request being served never makes the next one lose its turn (from 0.29).
    pub victims_keep_turns: bool,
    /// Waiting requests that hold blocks, because their KV came from outside, are admitted before all
    /// others (from 0.33). Without it they can be stuck for good behind a head that needs their blocks.
    pub block_holders_first: bool,
    /// Blocks that stay free when a waiting request is admitted (`watermark`; from 0.26).
    pub watermark_blocks: u32,
}

impl Semantics {
    /// vLLM 0.`minor`.
    pub const fn of_minor_version(minor: u32) -> Self {
        Self {
            admission_gate: minor >= 20,
            uncached_first_release: minor >= 23,
            lone_request_ignores_threshold: minor >= 33,
            continue_after_self_preemption: minor >= 33,
            victims_keep_turns: minor >= 29,
            block_holders_first: minor >= 33,
            watermark_blocks: 0,
        }
    }

    /// vLLM 0.15.1.
    pub const V0_15: Self = Self::of_minor_version(15);

    /// vLLM 0.33.
    pub const V0_33: Self = Self::of_minor_version(33);
}

impl Default for Semantics {
    fn default() -> Self {
        Self::V0_15
    }
}

/// Batches are padded to the sizes of captured CUDA graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CudaGraphs {
    /// Full graphs for uniform decode batches, piecewise graphs for mixed ones (vLLM's default).
    #[default]
    FullAndPiecewise,
    /// Every kernel launched from the host (`enforce_eager`).
    Off,
}

impl CudaGraphs {
    /// The largest captured batch: the last captured size up to
    /// `min(2 * max_num_seqs, 512, max_num_batched_tokens)`.
    pub fn largest(self, max_num_seqs: u32, max_num_batched_tokens: u32) -> u32 {
        let limit = max_num_seqs
            .saturating_mul(2)
            .min(512)
            .min(max_num_batched_tokens);
        match self {
            Self::FullAndPiecewise => match limit {
                0..=2 => limit,
                3 => 2,
                4..=7 => 4,
                8..=255 => limit - limit % 8,
                _ => limit - limit % 16,
            },
            Self::Off => 0,
        }
    }

    /// The captured size that `tokens` are padded to: 1, 2, 4, then multiples of 8 below 256, then
    /// multiples of 16. The caller checks that it is at most [`largest`](Self::largest).
    pub const fn padded(tokens: u64) -> u64 {
        match tokens {
            0..=2 => tokens,
            3..=4 => 4,
            5..=248 => tokens.next_multiple_of(8),
            _ => tokens.next_multiple_of(16),
        }
    }
}

/// Settings of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// The scheduler's limits and switches.
    pub scheduler: SchedulerConfig,
    /// What the CPU does around steps and requests.
    pub host: HostCosts,
    /// How steps are launched and padded.
    pub cuda_graphs: CudaGraphs,
}

impl Default for SchedulerConfig {
    /// vLLM's server defaults on a small device: 256 sequences, 2048 tokens a step, 4096 tokens a
    /// sequence, and a pool of 4096 blocks of 16 tokens.
    fn default() -> Self {
        Self {
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            max_model_len: 4096,
            block_size: 16,
            num_gpu_blocks: 4096,
            prefix_caching: true,
            chunked_prefill: true,
            long_prefill_token_threshold: 0,
            scheduling: Scheduling::Asynchronous,
            batching: Batching::Continuous,
            kv_allocation: KvAllocation::Paged,
            semantics: Semantics::V0_15,
        }
    }
}

impl SchedulerConfig {
    /// Checks the ranges that the scheduler relies on.
    ///
    /// # Errors
    /// [`EngineError`] names the setting.
    pub fn check(&self) -> Result<(), EngineError> {
        let positive = [
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("block_size", self.block_size),
        ];
        for (field, value) in positive {
            if value == 0 {
                return Err(out_of_range(field, value, "1 or more"));
            }
        }
        // The upper end leaves sums of lengths inside 32 bits.
        if !(2..=1 << 30).contains(&self.max_model_len) {
            return Err(out_of_range(
                "max_model_len",
                self.max_model_len,
                "2 to 1073741824",
            ));
        }
        if !(2..=MAX_BLOCKS).contains(&self.num_gpu_blocks) {
            return Err(out_of_range(
                "num_gpu_blocks",
                self.num_gpu_blocks,
                "2 to 16777216",
            ));
        }
        if self.seats() == 0 {
            return Err(self.pool_too_small());
        }
        Ok(())
    }

    /// Blocks that requests can use: all but the null block.
    pub const fn usable_blocks(&self) -> u32 {
        self.num_gpu_blocks - 1
    }

    /// Blocks of a sequence of the longest length.
    pub const fn longest_blocks(&self) -> u32 {
        self.max_model_len.div_ceil(self.block_size)
    }

    /// Sequences in the running batch at most: what limits it besides memory that is taken as tokens
    /// come.
    pub fn seats(&self) -> u32 {
        match self.kv_allocation {
            KvAllocation::Paged => self.max_num_seqs,
            KvAllocation::Reserved => {
                let reservations = self.usable_blocks() / self.longest_blocks();
                self.max_num_seqs.min(reservations)
            }
        }
    }

    /// Whether blocks can be found again by their content.
    pub fn shares_blocks(&self) -> bool {
        self.prefix_caching && self.kv_allocation == KvAllocation::Paged
    }

    /// Whether KV can come from other engines or stay for them: systems with static batches or reserved
    /// memory had nothing of the kind.
    pub fn exchanges_kv(&self) -> bool {
        self.batching == Batching::Continuous && self.kv_allocation == KvAllocation::Paged
    }

    fn pool_too_small(&self) -> EngineError {
        EngineError::PoolTooSmall {
            num_gpu_blocks: self.num_gpu_blocks,
            block_size: self.block_size,
            max_model_len: self.max_model_len,
            needed: self.longest_blocks(),
            longest: self.usable_blocks().saturating_mul(self.block_size),
        }
    }
}

impl Default for EngineConfig {
    /// [`SchedulerConfig::default`], a host without costs, CUDA graphs on.
    fn default() -> Self {
        Self {
            scheduler: SchedulerConfig::default(),
            host: HostCosts::default(),
            cuda_graphs: CudaGraphs::default(),
        }
    }
}

impl EngineConfig {
    /// The step as it is launched: padded to the captured graph that it runs in, if one is large
    /// enough.
    #[must_use]
    #[inline]
    pub fn launched(&self, mut shape: StepShape) -> StepShape {
        let limits = &self.scheduler;
        let largest = self
            .cuda_graphs
            .largest(limits.max_num_seqs, limits.max_num_batched_tokens);
        let tokens = shape.tokens();
        if tokens > u64::from(largest) {
            shape.padded_tokens = tokens;
            shape.graph = GraphMode::Eager;
            return shape;
        }
        shape.padded_tokens = CudaGraphs::padded(tokens);
        // Full graphs are captured for as many sequences as can decode together, at most.
        let full = shape.padded_tokens <= u64::from(limits.max_num_seqs);
        shape.graph = if shape.prefills == 0 && full {
            GraphMode::Full
        } else {
            GraphMode::Piecewise
        };
        shape
    }

    /// Checks what vLLM checks at start-up.
    ///
    /// # Errors
    /// [`EngineError`] names the setting, its value and what is allowed.
    pub fn check(&self) -> Result<(), EngineError> {
        let scheduler = &self.scheduler;
        scheduler.check()?;
        if !scheduler.chunked_prefill && scheduler.max_num_batched_tokens < scheduler.max_model_len
        {
            return Err(out_of_range(
                "max_num_batched_tokens",
                scheduler.max_num_batched_tokens,
                "max_model_len or more while chunked prefill is off",
            ));
        }
        // The check of vLLM counts the null block as if it could be used.
        if scheduler.longest_blocks() > scheduler.num_gpu_blocks {
            return Err(scheduler.pool_too_small());
        }
        Ok(())
    }
}

fn out_of_range(field: &'static str, value: u32, allowed: &'static str) -> EngineError {
    EngineError::OutOfRange {
        field,
        value: u64::from(value),
        allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_sizes_are_one_two_four_then_multiples_of_eight_then_sixteen() {
        let padded = [1, 2, 3, 5, 9, 247, 248, 249, 257].map(CudaGraphs::padded);
        assert_eq!(padded, [1, 2, 4, 8, 16, 248, 248, 256, 272]);
    }

    #[test]
    fn the_largest_captured_batch_is_a_captured_size() {
        let largest = [1, 3, 5, 60, 128, 140, 256, 1024]
            .map(|seqs| CudaGraphs::FullAndPiecewise.largest(seqs, 8192));
        assert_eq!(largest, [2, 4, 8, 120, 256, 272, 512, 512]);
        assert_eq!(CudaGraphs::FullAndPiecewise.largest(256, 100), 96);
        assert_eq!(CudaGraphs::Off.largest(256, 8192), 0);
        for largest in largest {
            assert_eq!(CudaGraphs::padded(u64::from(largest)), u64::from(largest));
        }
    }

    #[test]
    fn a_pool_smaller_than_one_request_is_refused_with_the_longest_that_fits() {
        let mut config = EngineConfig::default();
        config.scheduler.num_gpu_blocks = 100;
        let error = config.check().expect_err("99 blocks hold 1584 tokens only");
        assert!(error.to_string().contains("at most 1584"), "{error}");
    }

    #[test]
    fn a_zero_is_refused_by_name() {
        let config = SchedulerConfig {
            max_num_seqs: 0,
            ..SchedulerConfig::default()
        };
        let error = config.check().expect_err("no sequence can run");
        assert_eq!(error.to_string(), "max_num_seqs is 0: allowed is 1 or more");
    }
}

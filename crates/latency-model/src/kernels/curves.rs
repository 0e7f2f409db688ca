//! The curves of kernels: their forms, and the numbers that each has.

use serde::{Deserialize, Serialize};

use crate::number::{Amount, Blend, Share};
use crate::provenance::Provenance;

/// A matrix product `m x k` by `k x n`:
/// `launch + max_p(2 (m' + rows) (n + columns) (k + depth) / (compute P), bytes / (memory W))`
/// with `m'` between `m` and `m` rounded up to whole tiles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GemmCurve {
    /// Time of an infinitely small product.
    pub launch_us: Amount,
    /// Share of peak FLOP/s that a huge product reaches.
    pub compute: Share,
    /// Share of memory bandwidth that a huge weight matrix reaches.
    pub memory: Share,
    /// Rows that are computed besides the given ones.
    pub rows: Amount,
    /// Likewise, columns: stands for output tiles that do not fill the device.
    pub columns: Amount,
    /// Likewise, inner width: stands for filling the pipeline of a tile.
    pub depth: Amount,
    /// Rows of a tile.
    pub tile: Amount,
    /// How far rows are rounded up to tiles: 0 not at all, 1 wholly.
    pub tiled: Amount,
    /// Sharpness of the change from memory-bound to compute-bound.
    pub blend: Blend,
    /// A kernel for few rows that does without matrix units, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<VectorKernel>,
    /// What a benchmark that multiplies with the same weights again finds in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// Where these numbers come from.
    pub provenance: Provenance,
}

/// A matrix product of few rows as a stream of weights: `launch + bytes / (memory W)`, taken where it
/// is the faster one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VectorKernel {
    /// Time of an infinitely small product.
    pub launch_us: Amount,
    /// Share of memory bandwidth at which weights stream.
    pub memory: Share,
}

impl VectorKernel {
    /// Rows up to which it runs: the next size that was measured is 8, where it no longer does.
    pub const ROWS: u32 = 4;
}

/// The last-level cache of an accelerator as a kernel sees it that comes back to the same bytes.
///
/// Benchmarks time a kernel on the same operands again and again; a model comes back to a layer's
/// weights and caches only after all others, so that its steps never find them there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Reuse {
    /// Bytes that stay, in 2^20.
    pub mebibytes: Amount,
    /// How many times faster they move than those from memory: at least 1.
    pub speed: Amount,
}

impl Reuse {
    /// The part of the time from memory that `bytes` bytes take, used again and again: all that
    /// fits stays, and nothing of what is half as large again.
    pub(crate) fn factor(self, bytes: f64) -> f64 {
        let capacity = self.mebibytes.get() * 1_048_576.0;
        let kept = if capacity > 0.0 {
            ((1.5 * capacity - bytes) / (0.5 * capacity)).clamp(0.0, 1.0)
        } else {
            0.0
        };
        1.0 - kept * (1.0 - 1.0 / self.speed.get().max(1.0))
    }
}

/// Attention of decodes:
/// `launch + per sequence (granule tokens of cache + own bytes) + cached bytes / (memory W)`, the
/// cached bytes costing `max_4(1, fill / (heads max(sequences, split)))` times that while the batch
/// does not fill the device. Kernels that split long contexts over the device, or that bring the
/// queries of a group together first, launch a further kernel for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DecodeAttentionCurve {
    /// Time of an infinitely small kernel.
    pub launch_us: Amount,
    /// Share of memory bandwidth that long contexts reach.
    pub memory: Share,
    /// Share of 16-bit peak FLOP/s that latent attention reaches.
    pub compute: Share,
    /// Tokens of cache that a sequence costs besides its own.
    pub granule: Amount,
    /// Sequences times key/value heads that fill the device.
    pub fill: Amount,
    /// The same where every query head has its own key/value head, if it differs: kernels split the
    /// contexts of groups only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_ungrouped: Option<Amount>,
    /// Sequences that a smaller batch counts as, since the kernel splits its contexts.
    pub split: Amount,
    /// Time of combining the parts of split contexts: groups whose mean context is longer than
    /// [`TILE`](Self::TILE).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub combine_us: Amount,
    /// Time of bringing the queries of groups together: with several sequences and several
    /// key/value heads they do not lie so already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub regroup_us: Amount,
    /// How often the query and output bytes of a sequence are paid.
    pub own: Amount,
    /// What a benchmark that reads the same caches again finds nearer than in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// Where these numbers come from.
    pub provenance: Provenance,
}

impl DecodeAttentionCurve {
    /// Tokens of context that a kernel reads at a time; it splits no shorter ones.
    pub const TILE: u32 = 128;
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over references"
)]
fn is_zero(amount: &Amount) -> bool {
    amount.get() <= 0.0
}

/// Attention of prefill chunks:
/// `launch + max_4(FLOPs / (compute P) + own bytes / (memory W) + past, serial (past + new))`. The
/// FLOPs are those of `(new + rows)` queries by `(past + new / 2 + keys)` keys for each chunk; the
/// past is read as a decode reads it; the last part is the loop of one tile of queries over all its
/// keys, which is what a small chunk behind a long prefix waits for. Where a `blend` is given, FLOPs
/// and bytes overlap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PrefillAttentionCurve {
    /// Time of an infinitely small kernel.
    pub launch_us: Amount,
    /// Share of 16-bit peak FLOP/s that a long prompt reaches.
    pub compute: Share,
    /// Keys that each query is multiplied with beyond the causal ones.
    pub keys: Amount,
    /// Queries of each chunk beyond its own.
    pub rows: Amount,
    /// Time that one tile of queries spends on a key, in nanoseconds.
    pub serial_ns: Amount,
    /// Share of memory bandwidth at which queries, keys, values and outputs move.
    pub memory: Share,
    /// How often each tile of 128 queries reads its keys and values from memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reread: Amount,
    /// Sharpness of the change from moving to multiplying; if absent, they take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blend: Option<Blend>,
    /// The cache that queries, keys, values and outputs stay in while they are few. They come from
    /// the kernel before, so that steps find them there too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// Where these numbers come from.
    pub provenance: Provenance,
}

/// Routed experts of one layer:
/// `launch + max_p(6 h (i + columns) (token-experts + rows touched) / (compute P),
/// weights of the touched experts / (memory W)) + activations / (traffic W)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExpertCurve {
    /// Time of an infinitely small layer: routing, permutation, launches.
    pub launch_us: Amount,
    /// Share of peak FLOP/s that many tokens reach.
    pub compute: Share,
    /// Share of memory bandwidth at which expert weights stream.
    pub memory: Share,
    /// Rows computed besides the routed ones, for each touched expert.
    pub rows: Amount,
    /// Columns computed besides the inner width.
    pub columns: Amount,
    /// Share of memory bandwidth at which gathered and scattered activations move.
    pub traffic: Share,
    /// Sharpness of the change from memory-bound to compute-bound.
    pub blend: Blend,
    /// Shapes whose kernels are tuned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<TunedExperts>,
    /// Where these numbers come from.
    pub provenance: Provenance,
}

/// Shapes of experts that the serving software has tuned kernels for: vLLM carries Triton settings
/// for some models by accelerator, expert count and sharded width, and falls back to slow ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TunedExperts {
    /// Number of experts and inner width on one device.
    pub shapes: Vec<[u32; 2]>,
    /// Share of peak FLOP/s that many tokens reach.
    pub compute: Share,
    /// Rows computed besides the routed ones, for each touched expert.
    pub rows: Amount,
}

/// All-reduce by group size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AllReduceCurve {
    /// Group sizes in ascending order; a size between two takes the larger one's numbers.
    pub groups: Vec<AllReduceGroup>,
    /// Where these numbers come from.
    pub provenance: Provenance,
}

/// All-reduce within a group of one size: the fastest of its algorithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AllReduceGroup {
    /// Devices in the group.
    pub devices: u32,
    /// Its algorithms: one-shot, two-shot, ring.
    pub algorithms: Vec<AllReduceAlgorithm>,
}

/// One algorithm: `latency + bytes / (bandwidth L)`, with `L` the link's bandwidth in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AllReduceAlgorithm {
    /// Time of an empty message.
    pub latency_us: Amount,
    /// Share of the link's bandwidth at which the reduced bytes advance.
    pub bandwidth: Share,
}

/// Small kernels: `launch + bytes / (memory W)` each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SmallKernelCurve {
    /// Time of an infinitely small kernel.
    pub launch_us: Amount,
    /// Share of memory bandwidth that large ones reach.
    pub memory: Share,
    /// Where these numbers come from.
    pub provenance: Provenance,
}

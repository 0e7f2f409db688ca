//! Parameters of the kernels of each accelerator, as data.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use foretoken_hwspec::{Generation, GpuSpec, KvFormat, catalog};
use serde::{Deserialize, Serialize};

use super::derive::Ratios;
use super::lineage::Lineage;
use crate::arithmetic::KernelKind;
use crate::error::LatencyError;
use crate::number::{Amount, Blend, Share};
use crate::provenance::{Band, Provenance};

const BUILTIN: &str = include_str!("../../data/kernels.toml");

/// Kernel parameters of all known accelerators: the contents of a `kernels.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KernelParameters {
    /// The accelerator whose parameters stand in for one of the same generation that has none.
    pub generations: BTreeMap<Generation, String>,
    /// Parameters by the accelerator's catalog name.
    pub gpus: BTreeMap<String, GpuKernels>,
}

/// Kernel parameters of one accelerator. What is absent is taken from `like`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct GpuKernels {
    /// The relatives whose parameters complete these, the nearest first: their shares of peaks, and
    /// their times as the datasheets of both let expect them. One name, or a list.
    #[serde(with = "names", skip_serializing_if = "Vec::is_empty")]
    pub like: Vec<String>,
    /// Matrix products by kind.
    pub gemm: BTreeMap<KernelKind, GemmCurve>,
    /// Attention of decodes.
    pub decode_attention: Option<DecodeAttentionCurve>,
    /// Attention of decodes over an 8-bit cache, if it differs from the 16-bit one by more than bytes.
    pub decode_attention_fp8: Option<DecodeAttentionCurve>,
    /// Latent attention of decodes, if its kernel was measured.
    pub latent_decode: Option<DecodeAttentionCurve>,
    /// Attention of prefill chunks.
    pub prefill_attention: Option<PrefillAttentionCurve>,
    /// Routed experts by kind.
    pub experts: BTreeMap<KernelKind, ExpertCurve>,
    /// All-reduce between the devices of a group.
    pub all_reduce: Option<AllReduceCurve>,
    /// Norms, rotary embedding, activation and the like.
    pub small_kernels: Option<SmallKernelCurve>,
}

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
    /// It is taken for messages below this size alone, in 2^20 bytes: its buffers are no larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_mebibytes: Option<Amount>,
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

/// One name as a string, several as a list.
mod names {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged, expecting = "a name or a list of names")]
    enum Names {
        One(String),
        Several(Vec<String>),
    }

    pub(super) fn serialize<S: Serializer>(names: &[String], to: S) -> Result<S::Ok, S::Error> {
        match names {
            [one] => one.serialize(to),
            several => several.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        Ok(match Names::deserialize(from)? {
            Names::One(name) => vec![name],
            Names::Several(names) => names,
        })
    }
}

impl KernelParameters {
    /// The parameters that come with the crate.
    ///
    /// # Panics
    ///
    /// Never: a test reads the file.
    pub fn builtin() -> &'static Self {
        static BUILT_IN: OnceLock<KernelParameters> = OnceLock::new();
        BUILT_IN.get_or_init(|| {
            Self::from_toml_str(BUILTIN).expect("a test reads the built-in kernel parameters")
        })
    }

    /// Reads a parameter file.
    ///
    /// # Errors
    ///
    /// [`LatencyError::Malformed`] with the position for anything but a valid file.
    pub fn from_toml_str(text: &str) -> Result<Self, LatencyError> {
        toml::from_str(text).map_err(|error| LatencyError::Malformed {
            reason: error.to_string(),
        })
    }

    /// The accelerators whose parameters apply to `gpu`, the nearest first.
    pub(crate) fn lineage(&self, gpu: &GpuSpec) -> Lineage<'_> {
        let listed = self.gpus.get_key_value(&gpu.name);
        let own = listed.is_some();
        // Depth first: a relative's relatives come before the next relative.
        let mut next: Vec<&String> = listed
            .map(|(name, _)| name)
            .or_else(|| self.generations.get(&gpu.generation))
            .into_iter()
            .collect();
        let mut entries: Vec<(&str, Cow<'_, GpuKernels>)> = Vec::new();
        while let Some(name) = next.pop() {
            let Some((name, kernels)) = self.gpus.get_key_value(name) else {
                continue;
            };
            if entries.iter().any(|(seen, _)| seen == name) {
                continue;
            }
            let mut adapted = Cow::Borrowed(kernels);
            if *name != gpu.name
                && let Ok(relative) = catalog::gpu(name)
            {
                Ratios::new(gpu, &relative).apply(adapted.to_mut());
            }
            entries.push((name, adapted));
            next.extend(kernels.like.iter().rev());
        }
        Lineage {
            gpu: gpu.name.clone(),
            own,
            entries,
        }
    }

    /// The curve of matrix products that applies to `gpu`: its own, or its nearest relative's.
    ///
    /// # Errors
    ///
    /// [`LatencyError::NoParameters`] if neither has one.
    pub fn gemm(&self, gpu: &GpuSpec, kind: KernelKind) -> Result<GemmCurve, LatencyError> {
        self.lineage(gpu).kind("gemm", kind, |k| &k.gemm).cloned()
    }

    /// Likewise, of the attention of decodes.
    ///
    /// # Errors
    ///
    /// As [`gemm`](Self::gemm).
    pub fn decode_attention(&self, gpu: &GpuSpec) -> Result<DecodeAttentionCurve, LatencyError> {
        self.decode_attention_of(gpu, false, KvFormat::Auto)
    }

    /// The same over a cache in `format`, and of latent attention.
    ///
    /// # Errors
    ///
    /// As [`gemm`](Self::gemm).
    pub fn decode_attention_of(
        &self,
        gpu: &GpuSpec,
        latent: bool,
        format: KvFormat,
    ) -> Result<DecodeAttentionCurve, LatencyError> {
        let lineage = self.lineage(gpu);
        let found = lineage.decode(latent, format);
        found.map(|((curve, _), _)| curve.clone())
    }

    /// Likewise, of the attention of prefill chunks.
    ///
    /// # Errors
    ///
    /// As [`gemm`](Self::gemm).
    pub fn prefill_attention(&self, gpu: &GpuSpec) -> Result<PrefillAttentionCurve, LatencyError> {
        let lineage = self.lineage(gpu);
        let found = lineage.find("prefill-attention", |k| k.prefill_attention.as_ref());
        found.map(|(curve, _)| curve.clone())
    }

    /// Likewise, of routed experts.
    ///
    /// # Errors
    ///
    /// As [`gemm`](Self::gemm).
    pub fn experts(&self, gpu: &GpuSpec, kind: KernelKind) -> Result<ExpertCurve, LatencyError> {
        self.lineage(gpu)
            .kind("experts", kind, |k| &k.experts)
            .cloned()
    }

    /// Likewise, of all-reduces.
    ///
    /// # Errors
    ///
    /// As [`gemm`](Self::gemm).
    pub fn all_reduce(&self, gpu: &GpuSpec) -> Result<AllReduceCurve, LatencyError> {
        let lineage = self.lineage(gpu);
        let found = lineage.all_reduce(gpu);
        found.map(|(curve, _)| curve.clone())
    }

    /// Where the parameters of `gpu` come from, block by block; those of 16-bit kernels for blocks
    /// that differ by format.
    ///
    /// # Errors
    ///
    /// [`LatencyError::NoParameters`] if neither the accelerator nor a relative of it has a block.
    pub fn provenance(
        &self,
        gpu: &GpuSpec,
    ) -> Result<Vec<(&'static str, Provenance)>, LatencyError> {
        let lineage = self.lineage(gpu);
        let seen = |block, of: fn(&GpuKernels) -> Option<&Provenance>| {
            let found = lineage.find(block, of)?;
            Ok((block, lineage.provenance(found)))
        };
        [
            seen("gemm", |k| Some(&k.gemm.get(&KernelKind::Bf16)?.provenance)),
            seen("decode-attention", |k| {
                Some(&k.decode_attention.as_ref()?.provenance)
            }),
            seen("prefill-attention", |k| {
                Some(&k.prefill_attention.as_ref()?.provenance)
            }),
            seen("experts", |k| {
                Some(&k.experts.get(&KernelKind::Bf16)?.provenance)
            }),
            lineage.all_reduce(gpu).map(|(curve, at)| {
                let provenance = lineage.provenance((&curve.provenance, at));
                ("all-reduce", provenance)
            }),
            seen("small-kernels", |k| {
                Some(&k.small_kernels.as_ref()?.provenance)
            }),
        ]
        .into_iter()
        .collect()
    }

    /// How far the predicted time of a step on `gpu` may be off, by where the parameters of its
    /// matrix products and its attention come from.
    ///
    /// # Errors
    ///
    /// As [`provenance`](Self::provenance).
    pub fn band(&self, gpu: &GpuSpec) -> Result<Band, LatencyError> {
        let blocks = self.provenance(gpu)?;
        let decisive = blocks
            .iter()
            .filter(|(block, _)| ["gemm", "decode-attention", "prefill-attention"].contains(block));
        Ok(decisive
            .map(|(_, from)| Band::of(from))
            .fold(Band::EXACT, Band::union))
    }
}

#[cfg(test)]
mod tests {
    use foretoken_hwspec::catalog;

    use super::*;

    #[test]
    fn the_built_in_parameters_are_valid_and_every_relative_is_listed() {
        let parameters = KernelParameters::from_toml_str(BUILTIN).expect("valid");
        let relatives = parameters.gpus.values().flat_map(|kernels| &kernels.like);
        for name in relatives.chain(parameters.generations.values()) {
            assert!(parameters.gpus.contains_key(name), "{name}");
        }
    }

    #[test]
    fn a_measured_accelerator_is_fitted_and_its_relative_derived() {
        let parameters = KernelParameters::builtin();
        let gemm = |name: &str| {
            let gpu = catalog::gpu(name).expect("listed");
            parameters.provenance(&gpu).expect("known").remove(0).1
        };
        assert!(matches!(gemm("H100-SXM-80GB"), Provenance::Fitted { .. }));
        let derived = Provenance::Derived {
            from: "H100-SXM-80GB".into(),
        };
        assert_eq!(gemm("H100-PCIe-80GB"), derived);
    }

    #[test]
    fn an_unlisted_accelerator_takes_after_its_generation() {
        let mut gpu = catalog::gpu("H100-SXM-80GB").expect("listed");
        gpu.name = "H999".into();
        let blocks = KernelParameters::builtin().provenance(&gpu).expect("known");
        assert_eq!(
            blocks[0].1,
            Provenance::Derived {
                from: "H100-SXM-80GB".into()
            }
        );
    }

    #[test]
    fn a_circle_of_relatives_is_an_error_and_not_a_loop() {
        let text =
            "[generations]\nhopper = \"a\"\n[gpus.a]\nlike = \"b\"\n[gpus.b]\nlike = \"a\"\n";
        let parameters = KernelParameters::from_toml_str(text).expect("well-formed");
        let gpu = catalog::gpu("H100-SXM-80GB").expect("listed");
        let error = parameters.band(&gpu).expect_err("no numbers");
        assert!(error.to_string().contains("a -> b"), "{error}");
    }

    #[test]
    fn a_share_above_one_is_refused_with_its_line() {
        let text = BUILTIN.replacen("memory = 0.", "memory = 1.", 1);
        let error = KernelParameters::from_toml_str(&text).expect_err("beyond the datasheet");
        let text = error.to_string();
        assert!(text.contains("a share") && text.contains("line"), "{text}");
    }
}

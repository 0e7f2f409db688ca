//! Parameters of the kernels of each accelerator, as data.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use foretoken_hwspec::{Generation, GpuSpec, KvFormat, catalog};
use serde::{Deserialize, Serialize};

use super::curves::{
    AllReduceCurve, DecodeAttentionCurve, ExpertCurve, GemmCurve, PrefillAttentionCurve,
    SmallKernelCurve,
};
use super::derive::Ratios;
use super::lineage::Lineage;
use crate::arithmetic::KernelKind;
use crate::error::LatencyError;
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

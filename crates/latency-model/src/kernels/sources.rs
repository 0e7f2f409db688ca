//! Where the numbers of a deployment's terms come from, and what there is to doubt about them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use foretoken_hwspec::{GpuSpec, KvFormat, WeightFormat, catalog};
use serde::Deserialize;

use super::lineage::Lineage;
use super::parameters::GpuKernels;
use crate::arithmetic::{Arithmetic, KernelKind};
use crate::confidence::{Confidence, Doubt, Extent};
use crate::error::LatencyError;
use crate::explain::Term;
use crate::part::Part;
use crate::provenance::{Band, Provenance, Source};
use crate::shard::Shard;

const COVERAGE: &str = include_str!("../../data/coverage.toml");

/// How far the measurements reach, by accelerator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Coverage {
    gpus: BTreeMap<String, Extent>,
}

impl Coverage {
    fn builtin() -> &'static Self {
        static BUILT_IN: OnceLock<Coverage> = OnceLock::new();
        BUILT_IN.get_or_init(|| toml::from_str(COVERAGE).expect("a test reads the built-in file"))
    }
}

/// Sources of the terms, and doubts about them.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    parts: Vec<(Part, Source)>,
    doubts: Vec<Doubt>,
    reach: Option<Extent>,
    band: Band,
}

/// Collects sources block by block.
struct Survey<'a> {
    gpu: &'a GpuSpec,
    lineage: &'a Lineage<'a>,
    parts: Vec<(Part, Source)>,
    formats: Vec<Doubt>,
    derived: BTreeMap<String, Vec<String>>,
    datasheet: Vec<String>,
    /// Whether a 16-bit curve stands in for one of an 8-bit cache.
    narrow_cache: bool,
    band: Band,
}

impl Sources {
    pub(super) fn new(
        shard: &Shard,
        gpu: &GpuSpec,
        kv: KvFormat,
        lineage: &Lineage<'_>,
    ) -> Result<Self, LatencyError> {
        let mut survey = Survey {
            gpu,
            lineage,
            parts: Vec::new(),
            formats: Vec::new(),
            derived: BTreeMap::new(),
            datasheet: Vec::new(),
            narrow_cache: false,
            band: Band::EXACT,
        };
        let layers = shard.layers.iter().flat_map(|layer| &layer.matmuls);
        for matmul in layers.chain([&shard.head]) {
            survey.kind("gemm", matmul.part, matmul.format)?;
        }
        survey.decode(shard, kv)?;
        survey.block("prefill-attention", Part::PrefillAttention, |k| {
            Some(&k.prefill_attention.as_ref()?.provenance)
        })?;
        for experts in shard.layers.iter().filter_map(|l| l.experts.as_ref()) {
            survey.kind("experts", Part::Experts, experts.format)?;
        }
        if shard.degree > 1 {
            let (curve, at) = lineage.all_reduce(gpu)?;
            let provenance = lineage.provenance((&curve.provenance, at));
            survey.add(Part::AllReduce, "all-reduce", at, provenance);
        }
        survey.small_kernels()?;
        let reach = lineage
            .names()
            .find_map(|name| Coverage::builtin().gpus.get(name).copied());
        Ok(survey.finish(reach))
    }

    /// The term with its source.
    pub(super) fn attach(&self, part: Part, term: Term) -> Term {
        match self.parts.iter().find(|(of, _)| *of == part) {
            Some((_, source)) => term.with_source(source.clone()),
            None => term,
        }
    }

    pub(super) const fn band(&self) -> Band {
        self.band
    }

    pub(super) fn confidence(&self, extent: &Extent) -> Confidence {
        let mut doubts = self.doubts.clone();
        if let Some(reach) = self.reach {
            let beyond = [
                ("sequences in a step", extent.sequences, reach.sequences),
                ("tokens of a sequence", extent.context, reach.context),
                ("new tokens in a step", extent.tokens, reach.tokens),
            ];
            doubts.extend(
                beyond
                    .into_iter()
                    .filter(|(_, seen, measured)| seen > measured)
                    .map(|(what, seen, measured)| Doubt::Beyond {
                        what,
                        seen,
                        measured,
                    }),
            );
        }
        Confidence::new(Some(self.band), doubts)
    }
}

impl<'a> Survey<'a> {
    /// A block that does not depend on a format.
    fn block(
        &mut self,
        block: &'static str,
        part: Part,
        of: impl Fn(&'a GpuKernels) -> Option<&'a Provenance>,
    ) -> Result<(), LatencyError> {
        let found = self.lineage.find(block, of)?;
        self.add(part, block, found.1, self.lineage.provenance(found));
        Ok(())
    }

    /// The attention of decodes.
    fn decode(&mut self, shard: &Shard, kv: KvFormat) -> Result<(), LatencyError> {
        let latent = shard.layers.iter().any(|layer| layer.attention.latent);
        let ((curve, at), block) = self.lineage.decode(latent, kv)?;
        let provenance = self.lineage.provenance((&curve.provenance, at));
        self.narrow_cache = kv != KvFormat::Auto && block == "decode-attention";
        self.add(Part::DecodeAttention, block, at, provenance);
        Ok(())
    }

    /// A block of the kernels of a weight format.
    fn kind(
        &mut self,
        block: &'static str,
        part: Part,
        format: WeightFormat,
    ) -> Result<(), LatencyError> {
        if self.parts.iter().any(|(seen, _)| *seen == part) {
            return Ok(());
        }
        let wanted = match (block, Arithmetic::of(format, self.gpu).kind) {
            // Dense products run on one kernel, whatever the scales.
            ("gemm", KernelKind::Fp8Channel) => KernelKind::Fp8,
            (_, kind) => kind,
        };
        let provenance = |kernels: &'a GpuKernels, kind| match block {
            "gemm" => kernels.gemm.get(&kind).map(|curve| &curve.provenance),
            _ => kernels.experts.get(&kind).map(|curve| &curve.provenance),
        };
        let (found, kind) = self.lineage.nearest_kind(block, wanted, provenance)?;
        let name = format!("{block}.{}", kind.name());
        if kind != wanted {
            let doubt = Doubt::Format {
                block: format!("{block}.{} on {}", wanted.name(), self.gpu.name),
                stand_in: name.clone(),
            };
            if !self.formats.contains(&doubt) {
                self.formats.push(doubt);
            }
        }
        self.add(part, &name, found.1, self.lineage.provenance(found));
        Ok(())
    }

    fn add(&mut self, part: Part, block: &str, generation: usize, provenance: Provenance) {
        self.band = self.band.union(Band::of(&provenance));
        let blocks = match &provenance {
            Provenance::Derived { from } => Some(self.derived.entry(from.clone()).or_default()),
            Provenance::Datasheet {} => Some(&mut self.datasheet),
            _ => None,
        };
        if let Some(blocks) = blocks
            && !blocks.iter().any(|seen| seen == block)
        {
            blocks.push(block.to_owned());
        }
        let path = format!(
            "kernels.toml [gpus.{}.{block}]",
            self.lineage.name(generation)
        );
        self.parts.push((part, Source::new(path, Some(provenance))));
    }

    /// Norms and the like, and the sampler's passes over the logits. They are a few percent of a
    /// step and were measured on one accelerator only, so that they neither widen the band nor lower
    /// the confidence.
    fn small_kernels(&mut self) -> Result<(), LatencyError> {
        let found = self.lineage.find("small-kernels", |k| {
            Some(&k.small_kernels.as_ref()?.provenance)
        })?;
        let name = self.lineage.name(found.1);
        let path = format!("kernels.toml [gpus.{name}.small-kernels]");
        let provenance = self.lineage.provenance(found);
        self.parts
            .push((Part::Small, Source::new(path, Some(provenance))));
        let runtime = [
            (
                Part::Sampling,
                "runtime.toml [step] logit-*, truncation-*, penalty-*",
            ),
            (
                Part::LaunchWait,
                "runtime.toml [step] *-launch-per-layer-us",
            ),
            (Part::Step, "runtime.toml [step]"),
        ];
        self.parts
            .extend(runtime.map(|(part, block)| (part, Source::new(block, None))));
        Ok(())
    }

    fn finish(self, reach: Option<Extent>) -> Sources {
        let gpu = || self.gpu.name.clone();
        let mut doubts = Vec::new();
        if !self.datasheet.is_empty() {
            doubts.push(Doubt::Datasheet {
                gpu: gpu(),
                blocks: self.datasheet,
            });
        }
        for (from, blocks) in self.derived {
            let relative = catalog::gpu(&from).ok();
            // A link does not care which generation of devices it connects.
            let distant = blocks.iter().any(|block| block != "all-reduce")
                && relative.is_none_or(|r| r.generation != self.gpu.generation);
            doubts.push(Doubt::Derived {
                gpu: gpu(),
                blocks,
                from,
                distant,
            });
        }
        doubts.extend(self.formats);
        if self.narrow_cache {
            doubts.push(Doubt::Cache { gpu: gpu() });
        }
        Sources {
            parts: self.parts,
            doubts,
            reach,
            band: self.band,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_reach_is_valid_and_its_accelerators_are_listed() {
        let coverage: Coverage = toml::from_str(COVERAGE).expect("valid");
        for name in coverage.gpus.keys() {
            assert!(catalog::gpu(name).is_ok(), "{name}");
        }
    }
}

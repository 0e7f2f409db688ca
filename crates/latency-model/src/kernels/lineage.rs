//! [`Lineage`]: whose curves stand in for those that an accelerator lacks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foretoken_hwspec::{GpuSpec, KvFormat, catalog};

use super::curves::{AllReduceCurve, DecodeAttentionCurve};
use super::parameters::GpuKernels;
use crate::arithmetic::KernelKind;
use crate::error::LatencyError;
use crate::provenance::Provenance;

/// The accelerators whose parameters apply to one, the nearest first.
#[derive(Debug)]
pub(crate) struct Lineage<'a> {
    pub(super) gpu: String,
    /// Whether the first entry is the accelerator itself.
    pub(super) own: bool,
    pub(super) entries: Vec<(&'a str, Cow<'a, GpuKernels>)>,
}

/// A block of parameters and the place in the lineage where it was found.
pub(crate) type Found<'a, T> = (&'a T, usize);

impl<'a> Lineage<'a> {
    /// The nearest block.
    pub(crate) fn find<'s, T>(
        &'s self,
        block: &'static str,
        of: impl Fn(&'s GpuKernels) -> Option<&'s T>,
    ) -> Result<Found<'s, T>, LatencyError> {
        self.search(of).ok_or_else(|| self.missing(block))
    }

    /// What the first accelerator that has something gives, and its place.
    fn search<'s, T>(&'s self, of: impl Fn(&'s GpuKernels) -> Option<T>) -> Option<(T, usize)> {
        self.entries
            .iter()
            .enumerate()
            .find_map(|(generation, (_, kernels))| Some((of(kernels)?, generation)))
    }

    fn missing(&self, block: &'static str) -> LatencyError {
        LatencyError::NoParameters {
            gpu: self.gpu.clone(),
            block,
            path: self.names().collect::<Vec<_>>().join(" -> "),
        }
    }

    /// The nearest curve for `kind`, else for the kinds that resemble it.
    pub(crate) fn kind<'s, T>(
        &'s self,
        block: &'static str,
        kind: KernelKind,
        of: impl Fn(&'s GpuKernels) -> &'s BTreeMap<KernelKind, T>,
    ) -> Result<&'s T, LatencyError> {
        self.nearest_kind(block, kind, |kernels, kind| of(kernels).get(&kind))
            .map(|((curve, _), _)| curve)
    }

    /// The same, with the kind that it is for.
    pub(crate) fn nearest_kind<'s, T>(
        &'s self,
        block: &'static str,
        kind: KernelKind,
        of: impl Fn(&'s GpuKernels, KernelKind) -> Option<&'s T>,
    ) -> Result<(Found<'s, T>, KernelKind), LatencyError> {
        let stand_ins: &[KernelKind] = match kind {
            KernelKind::Fp8Block | KernelKind::Fp8Channel | KernelKind::Int8 => &[KernelKind::Fp8],
            KernelKind::Fp8 => &[KernelKind::Fp8Block],
            KernelKind::Fp4 => &[KernelKind::Fp8, KernelKind::Fp8Block],
            KernelKind::Bf16 | KernelKind::WeightOnly => &[],
        };
        // A neighbouring kind of the same accelerator is nearer than the same kind of a relative.
        let near = self.search(|kernels| {
            let mut kinds = core::iter::once(kind).chain(stand_ins.iter().copied());
            kinds.find_map(|kind| Some((of(kernels, kind)?, kind)))
        });
        match near {
            Some(((curve, kind), generation)) => Ok(((curve, generation), kind)),
            None => self
                .find(block, |kernels| of(kernels, KernelKind::Bf16))
                .map(|found| (found, KernelKind::Bf16)),
        }
    }

    /// The nearest curve for decodes that read a cache in `format`, of latent attention or not, and
    /// the name of its block: an own curve for something near comes before a relative's for the same.
    pub(crate) fn decode(
        &self,
        latent: bool,
        format: KvFormat,
    ) -> Result<(Found<'_, DecodeAttentionCurve>, &'static str), LatencyError> {
        let found = self.search(|kernels| {
            let own = [
                ("latent-decode", latent, &kernels.latent_decode),
                (
                    "decode-attention-fp8",
                    format != KvFormat::Auto,
                    &kernels.decode_attention_fp8,
                ),
                ("decode-attention", true, &kernels.decode_attention),
            ];
            let mut fitting = own.into_iter().filter(|(_, fits, _)| *fits);
            fitting.find_map(|(block, _, curve)| Some((curve.as_ref()?, block)))
        });
        let ((curve, block), generation) = found.ok_or_else(|| self.missing("decode-attention"))?;
        Ok(((curve, generation), block))
    }

    /// The nearest curve of all-reduces: of a relative with the same kind of link if there is one,
    /// since a link does not care which devices it connects.
    pub(crate) fn all_reduce(
        &self,
        gpu: &GpuSpec,
    ) -> Result<Found<'_, AllReduceCurve>, LatencyError> {
        let usable = |kernels: &'_ GpuKernels| {
            let groups = kernels
                .all_reduce
                .as_ref()
                .map_or(&[][..], |curve| &curve.groups);
            !groups.is_empty() && groups.iter().all(|group| !group.algorithms.is_empty())
        };
        let alike = |name: &str| {
            name == gpu.name
                || catalog::gpu(name).is_ok_and(|relative| relative.link.kind == gpu.link.kind)
        };
        let found = self
            .entries
            .iter()
            .position(|(name, k)| usable(k) && alike(name));
        let found = found.or_else(|| self.entries.iter().position(|(_, k)| usable(k)));
        let curve = found.and_then(|at| Some((self.entries[at].1.all_reduce.as_ref()?, at)));
        curve.ok_or_else(|| self.missing("all-reduce"))
    }

    /// The accelerators, the nearest first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|(name, _)| *name)
    }

    /// The accelerator at a place of the lineage.
    pub(crate) fn name(&self, generation: usize) -> &'a str {
        self.entries[generation].0
    }

    /// The provenance of a block as seen from the accelerator: a relative's fit is derived.
    pub(crate) fn provenance(&self, (own, generation): Found<'_, Provenance>) -> Provenance {
        match own {
            _ if self.own && generation == 0 => own.clone(),
            Provenance::Datasheet {} => Provenance::Datasheet {},
            _ => Provenance::Derived {
                from: self.entries[generation].0.to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_hwspec::catalog;

    use crate::arithmetic::KernelKind;
    use crate::kernels::KernelParameters;

    const CURVE: &str = "launch-us = 1\ncompute = 0.5\nmemory = 0.5\nrows = 0\ncolumns = 0\n\
        depth = 0\ntile = 64\ntiled = 0\nblend = 4\nprovenance = { datasheet = {} }\n";

    #[test]
    fn an_own_neighbouring_kind_comes_before_a_relatives_same_kind() {
        let text = format!(
            "[generations]\n[gpus.H100-SXM-80GB]\nlike = [\"none\", \"H200-SXM-141GB\"]\n\
             [gpus.H100-SXM-80GB.gemm.fp8]\n{CURVE}\
             [gpus.H200-SXM-141GB]\nlike = \"H100-SXM-80GB\"\n\
             [gpus.H200-SXM-141GB.gemm.int8]\n{CURVE}\
             [gpus.H200-SXM-141GB.gemm.weight-only]\n{CURVE}"
        );
        let parameters = KernelParameters::from_toml_str(&text).expect("well-formed");
        let gpu = catalog::gpu("H100-SXM-80GB").expect("listed");
        let lineage = parameters.lineage(&gpu);
        let near = |kind| {
            let found = lineage.nearest_kind("gemm", kind, |k, kind| k.gemm.get(&kind));
            let ((_, generation), kind) = found.expect("there is one");
            (lineage.name(generation), kind)
        };
        let own = ("H100-SXM-80GB", KernelKind::Fp8);
        assert_eq!(near(KernelKind::Int8), own);
        assert_eq!(near(KernelKind::Fp4), own);
        let relatives = ("H200-SXM-141GB", KernelKind::WeightOnly);
        assert_eq!(near(KernelKind::WeightOnly), relatives);
    }
}

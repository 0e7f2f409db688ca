//! [`Block`]: the places of a parameter file that a fit fills.

use std::collections::BTreeMap;

use foretoken::hwspec::{GpuSpec, KvFormat};
use foretoken::latency_model::kernels::{AllReduceCurve, AllReduceGroup, GpuKernels};
use foretoken::latency_model::number::Amount;
use foretoken::latency_model::{KernelKind, KernelParameters, Provenance};

use super::curve::Curve;
use super::fit::FittedBlock;
use super::timing::Kernel;

/// Which curve a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Block {
    Gemm(KernelKind),
    Decode,
    NarrowDecode,
    LatentDecode,
    Prefill,
    Experts(KernelKind),
    AllReduce(u32),
}

impl Block {
    /// The block that is fitted to a row, if one is.
    pub(super) fn of(kernel: &Kernel, gpu: &GpuSpec) -> Option<Self> {
        match *kernel {
            // Narrower products are a router's or a test's.
            Kernel::Gemm { format, shape, .. } if shape[1].min(shape[2]) >= 512 => {
                Some(Self::Gemm(KernelKind::of(format, gpu)))
            }
            Kernel::Decode { heads, .. } if heads.format == KvFormat::Auto => Some(Self::Decode),
            Kernel::Decode { .. } => Some(Self::NarrowDecode),
            Kernel::LatentDecode { .. } => Some(Self::LatentDecode),
            Kernel::Prefill { heads, chunks }
                if heads.format == KvFormat::Auto && chunks[1] > 1 =>
            {
                Some(Self::Prefill)
            }
            // Divided experts are another exchange, not another kernel.
            Kernel::Experts {
                layer, devices: 1, ..
            } => Some(Self::Experts(KernelKind::of(layer.format, gpu))),
            Kernel::AllReduce { devices, .. } => Some(Self::AllReduce(devices)),
            _ => None,
        }
    }
}

/// The accelerator's own curve.
pub(super) fn own_curve(
    parameters: &KernelParameters,
    gpu: &GpuSpec,
    block: Block,
) -> Option<Curve> {
    let kernels = parameters.gpus.get(&gpu.name)?;
    match block {
        Block::Gemm(kind) => kernels.gemm.get(&kind).cloned().map(Curve::Gemm),
        Block::Decode => kernels.decode_attention.clone().map(Curve::Decode),
        Block::NarrowDecode => kernels.decode_attention_fp8.clone().map(Curve::Decode),
        Block::LatentDecode => kernels.latent_decode.clone().map(Curve::Decode),
        Block::Prefill => kernels.prefill_attention.clone().map(Curve::Prefill),
        Block::Experts(kind) => kernels.experts.get(&kind).cloned().map(Curve::Experts),
        Block::AllReduce(devices) => {
            let groups = &kernels.all_reduce.as_ref()?.groups;
            let group = groups.iter().find(|group| group.devices == devices)?;
            Some(Curve::AllReduce(group.clone()))
        }
    }
}

/// A relative's, to start from.
pub(super) fn near_curve(
    parameters: &KernelParameters,
    gpu: &GpuSpec,
    block: Block,
) -> Option<Curve> {
    let decode = |latent, format| parameters.decode_attention_of(gpu, latent, format);
    Some(match block {
        Block::Gemm(kind) => Curve::Gemm(parameters.gemm(gpu, kind).ok()?),
        Block::Decode => Curve::Decode(decode(false, KvFormat::Auto).ok()?),
        Block::NarrowDecode => Curve::Decode(decode(false, KvFormat::Fp8).ok()?),
        Block::LatentDecode => Curve::Decode(decode(true, KvFormat::Auto).ok()?),
        Block::Prefill => Curve::Prefill(parameters.prefill_attention(gpu).ok()?),
        Block::Experts(kind) => Curve::Experts(parameters.experts(gpu, kind).ok()?),
        Block::AllReduce(_) => return None,
    })
}

/// Puts a fitted curve in place.
pub(super) fn install(parameters: &mut KernelParameters, fitted: &FittedBlock) {
    if fitted.kept {
        return;
    }
    let (block, curve) = (fitted.block, fitted.curve.clone());
    let what = match block {
        Block::Gemm(kind) => format!("{} GEMM", kind.name()),
        Block::Decode => "decode attention".to_owned(),
        Block::NarrowDecode => "decode attention, 8-bit cache".to_owned(),
        Block::LatentDecode => "latent attention".to_owned(),
        Block::Prefill => "causal attention".to_owned(),
        Block::Experts(kind) => format!("fused experts, {}", kind.name()),
        Block::AllReduce(_) => "all-reduce".to_owned(),
    };
    let errors = [fitted.median_error, fitted.p90_error];
    let provenance = provenance(fitted, &what, fitted.rows, errors);
    let kernels = parameters.gpus.entry(fitted.gpu.clone()).or_default();
    match (block, curve) {
        (Block::Gemm(kind), Curve::Gemm(mut curve)) => {
            curve.provenance = provenance;
            kernels.gemm.insert(kind, curve);
        }
        (block, Curve::Decode(mut curve)) => {
            curve.provenance = provenance;
            if block == Block::NarrowDecode {
                // All tables of 8-bit caches are of groups.
                curve.fill_ungrouped = None;
            }
            let place = match block {
                Block::NarrowDecode => &mut kernels.decode_attention_fp8,
                Block::LatentDecode => &mut kernels.latent_decode,
                _ => &mut kernels.decode_attention,
            };
            *place = Some(curve);
        }
        (_, Curve::Prefill(mut curve)) => {
            curve.provenance = provenance;
            kernels.prefill_attention = Some(curve);
        }
        (Block::Experts(kind), Curve::Experts(mut curve)) => {
            curve.provenance = provenance;
            kernels.experts.insert(kind, curve);
        }
        (_, Curve::AllReduce(group)) => install_group(kernels, group, provenance),
        (block, _) => unreachable!("{block:?} was fitted with the curve of another class"),
    }
}

/// Puts one group size in place; see [`join_groups`] for the provenance of all.
fn install_group(kernels: &mut GpuKernels, group: AllReduceGroup, provenance: Provenance) {
    let curve = kernels.all_reduce.get_or_insert_with(|| AllReduceCurve {
        groups: Vec::new(),
        provenance,
    });
    let at = |other: &AllReduceGroup| other.devices;
    match curve.groups.binary_search_by_key(&group.devices, at) {
        Ok(at) => curve.groups[at] = group,
        Err(at) => curve.groups.insert(at, group),
    }
}

/// The all-reduces of an accelerator have one provenance for all group sizes, fitted now or before:
/// rows add up, of errors the largest counts.
pub(super) fn join_groups(parameters: &mut KernelParameters, blocks: &[FittedBlock]) {
    let mut accelerators: BTreeMap<&str, Vec<&FittedBlock>> = BTreeMap::new();
    for block in blocks {
        if matches!(block.block, Block::AllReduce(_)) {
            accelerators.entry(&block.gpu).or_default().push(block);
        }
    }
    for (gpu, groups) in accelerators {
        let kernels = parameters.gpus.get_mut(gpu);
        let curve = kernels.and_then(|kernels| kernels.all_reduce.as_mut());
        if let (Some(curve), Some(new)) = (curve, groups.iter().find(|group| !group.kept)) {
            let rows = groups.iter().map(|group| group.rows).sum();
            let largest = |pick: fn(&FittedBlock) -> f64| {
                let errors = groups.iter().map(|group| pick(group));
                errors.fold(0.0, f64::max)
            };
            let errors = [largest(|g| g.median_error), largest(|g| g.p90_error)];
            curve.provenance = provenance(new, "all-reduce", rows, errors);
        }
    }
}

/// Where a curve comes from, with its errors on held-out rows.
fn provenance(fitted: &FittedBlock, what: &str, rows: usize, errors: [f64; 2]) -> Provenance {
    let [median_error, p90_error] = errors.map(|value| {
        Amount::new((value.min(1e9) * 1_000.0).round() / 1_000.0)
            .expect("absolute errors are not negative")
    });
    Provenance::Fitted {
        to: format!("aiconfigurator 095f58a: {} {what}", fitted.software),
        rows: u32::try_from(rows).unwrap_or(u32::MAX),
        median_error,
        p90_error,
    }
}

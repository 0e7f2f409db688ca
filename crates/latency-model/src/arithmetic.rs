//! How a weight format is multiplied on a given accelerator.

use foretoken_hwspec::{FlopsPerSecond, GpuSpec, WeightFormat};
use serde::{Deserialize, Serialize};

/// The kind of matrix kernel that a weight format runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum KernelKind {
    /// 16-bit weights and activations.
    Bf16,
    /// 8-bit floats with one scale per matrix.
    Fp8,
    /// 8-bit floats with a scale per output channel.
    Fp8Channel,
    /// 8-bit floats with a scale per block.
    Fp8Block,
    /// 8-bit integers on both sides.
    Int8,
    /// Narrow weights, expanded to 16 bits on the way to the tensor cores.
    WeightOnly,
    /// 4-bit floats.
    Fp4,
}

impl KernelKind {
    /// The kernel that weights in `format` run on.
    pub fn of(format: WeightFormat, gpu: &GpuSpec) -> Self {
        Arithmetic::of(format, gpu).kind
    }

    /// Its name in parameter files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp8Channel => "fp8-channel",
            Self::Fp8Block => "fp8-block",
            Self::Int8 => "int8",
            Self::WeightOnly => "weight-only",
            Self::Fp4 => "fp4",
        }
    }
}

/// How products with one weight format are computed: kernel, rate and sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arithmetic {
    pub(crate) kind: KernelKind,
    /// Peak rate, in FLOPs per nanosecond.
    pub(crate) peak: f64,
    /// Bytes per weight, scales included.
    pub(crate) weight_bytes: f64,
    /// Bytes per activation as the kernel reads it.
    pub(crate) activation_bytes: f64,
}

impl Arithmetic {
    /// Tensor cores compute a narrow format where they know it; elsewhere the weights stay narrow
    /// in memory and the products are 16-bit (vLLM then runs Marlin kernels).
    pub(crate) fn of(format: WeightFormat, gpu: &GpuSpec) -> Self {
        let bf16 = gpu.peak.bf16.get();
        let native = |kind, peak: Option<f64>, activation_bytes| match peak {
            // A few parts have a token unit for a format that is slower than 16 bits.
            Some(peak) if peak >= bf16 => (kind, peak, activation_bytes),
            _ => (KernelKind::WeightOnly, bf16, 2.0),
        };
        let peaks = &gpu.peak;
        let (kind, peak, activation_bytes) = match format {
            WeightFormat::Fp8 => native(KernelKind::Fp8, peaks.fp8.map(FlopsPerSecond::get), 1.0),
            WeightFormat::Fp8Channel => native(
                KernelKind::Fp8Channel,
                peaks.fp8.map(FlopsPerSecond::get),
                1.0,
            ),
            WeightFormat::Fp8Block => native(
                KernelKind::Fp8Block,
                peaks.fp8.map(FlopsPerSecond::get),
                1.0,
            ),
            WeightFormat::Int8 => {
                native(KernelKind::Int8, peaks.int8.map(FlopsPerSecond::get), 1.0)
            }
            WeightFormat::Nvfp4 => {
                native(KernelKind::Fp4, peaks.fp4.map(FlopsPerSecond::get), 0.5625)
            }
            // Activations are 8-bit where the weights are MXFP4 (gpt-oss), so that is the rate.
            WeightFormat::Mxfp4 if peaks.fp4.is_some() => {
                native(KernelKind::Fp4, peaks.fp8.map(FlopsPerSecond::get), 1.0)
            }
            WeightFormat::Mxfp4 | WeightFormat::Int8WeightOnly | WeightFormat::Int4WeightOnly => {
                (KernelKind::WeightOnly, bf16, 2.0)
            }
            // 32-bit checkpoints are served in 16 bits.
            _ => (KernelKind::Bf16, bf16, 2.0),
        };
        let weight_bytes = match kind {
            KernelKind::Bf16 => 2.0,
            _ => format.bits_per_weight() / 8.0,
        };
        Self {
            kind,
            peak: peak * 1e-9,
            weight_bytes,
            activation_bytes,
        }
    }

    /// The 16-bit products that every accelerator has.
    pub(crate) fn plain(gpu: &GpuSpec) -> Self {
        Self::of(WeightFormat::Bf16, gpu)
    }
}

//! [`Timing`]: one timed kernel.

use foretoken::hwspec::{KvFormat, WeightFormat};
use foretoken::latency_model::kernels::{ExpertLayer, Heads, LatentHeads};
use serde::Serialize;

/// A timed kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// The accelerator, as the table names it.
    pub gpu: String,
    /// What ran.
    pub kernel: Kernel,
    /// The number format, as the table names it.
    pub dtype: String,
    /// Software and version, as far as the table says.
    pub software: String,
    /// Measured time in microseconds, above 0.
    pub micros: f64,
    /// Experts that the tokens touch under skewed routing, worked out once.
    pub touched: Option<f64>,
}

/// What ran.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Kernel {
    /// A matrix product.
    Gemm {
        /// Format of the weights.
        format: WeightFormat,
        /// Rows, outputs, inputs.
        shape: [u32; 3],
        /// Weight matrices that the benchmark multiplies with in turn.
        copies: u32,
    },
    /// Attention of decodes.
    Decode {
        /// Heads of the device.
        heads: Heads,
        /// Sequences.
        batch: u32,
        /// Tokens that they attend to, summed, their own included.
        context: u64,
    },
    /// Attention of prompts, or of chunks of them. A chunk of one token runs as a decode.
    Prefill {
        /// Heads of the device.
        heads: Heads,
        /// Chunks, new tokens of each, cached tokens before each.
        chunks: [u32; 3],
    },
    /// Latent attention of decodes.
    LatentDecode {
        /// Heads of the device.
        heads: LatentHeads,
        /// Sequences.
        batch: u32,
        /// Tokens that they attend to, summed, their own included.
        context: u64,
    },
    /// Latent attention of prompts.
    LatentPrefill {
        /// Heads of the device.
        heads: LatentHeads,
        /// Chunks, new tokens of each, cached tokens before each.
        chunks: [u32; 3],
    },
    /// Routed experts of one layer.
    Experts {
        /// The layer: all experts, at the width of one device.
        layer: ExpertLayer,
        /// Tokens.
        tokens: u32,
        /// Devices that the experts are divided among.
        devices: u32,
        /// Power of the law that the loads of experts are drawn from; 0 if all are equally popular.
        skew: f64,
    },
    /// All-reduce.
    AllReduce {
        /// Devices.
        devices: u32,
        /// Bytes of each device.
        bytes: u64,
    },
}

impl Kernel {
    /// Whether all tokens of a benchmark of divided experts go to those of the timed device, as the
    /// times of these formats tell: 32 devices are as slow there as 8. With 4 they divide the tokens.
    pub(crate) fn tokens_stay(&self) -> bool {
        let narrow = |format| matches!(format, WeightFormat::Fp8Block | WeightFormat::Nvfp4);
        matches!(self, Self::Experts { layer, devices, .. } if *devices >= 8 && narrow(layer.format))
    }

    /// Experts that the tokens of a benchmark of experts touch; `None` if they are balanced, or of
    /// another kernel.
    ///
    /// `AIConfigurator` draws the load of each expert from a power law between 1 and four fifths of
    /// the tokens (between 0.01 and 2 while there are fewer visits than experts), scales the loads to
    /// the visits and rounds them. Here the draws are the distribution's quantiles.
    pub(crate) fn touched(&self) -> Option<f64> {
        let Self::Experts {
            layer,
            tokens,
            skew,
            ..
        } = *self
        else {
            return None;
        };
        if skew <= 0.0 {
            return None;
        }
        let [experts, per_token, tokens] = [layer.experts, layer.per_token, tokens].map(f64::from);
        let visits = tokens * per_token;
        let (low, high) = if visits > experts {
            (1.0, (0.8 * tokens).max(1.0))
        } else {
            (0.01, 2.0)
        };
        let power = 1.0 - skew;
        let load = |at: u32| {
            let share = (f64::from(at) + 0.5) / experts;
            if power.abs() < 1e-9 {
                return low * libm::pow(high / low, share);
            }
            let (first, last) = (libm::pow(low, power), libm::pow(high, power));
            libm::pow(first + share * (last - first), 1.0 / power)
        };
        let total: f64 = (0..layer.experts).map(load).sum();
        let loaded = (0..layer.experts).filter(|at| load(*at) * visits / total >= 0.5);
        Some((loaded.count() as f64).max(per_token.min(visits)))
    }
}

/// Kernels that are told apart in tables of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Class {
    /// Matrix products with at least 1024 outputs and inputs.
    Gemm,
    /// Narrower ones.
    NarrowGemm,
    /// Attention of decodes.
    DecodeAttention,
    /// Attention of prompts.
    PrefillAttention,
    /// Latent attention of decodes.
    LatentDecode,
    /// Latent attention of prompts.
    LatentPrefill,
    /// Routed experts.
    Experts,
    /// Routed experts that are divided among devices: another exchange of tokens, which is in the
    /// times and in no curve.
    DividedExperts,
    /// All-reduces.
    AllReduce,
}

impl Kernel {
    /// Its class.
    pub fn class(&self) -> Class {
        match self {
            Self::Gemm { shape, .. } if shape[1].min(shape[2]) >= 1024 => Class::Gemm,
            Self::Gemm { .. } => Class::NarrowGemm,
            Self::Decode { .. } => Class::DecodeAttention,
            Self::Prefill { .. } => Class::PrefillAttention,
            Self::LatentDecode { .. } => Class::LatentDecode,
            Self::LatentPrefill { .. } => Class::LatentPrefill,
            Self::Experts { devices: 1, .. } => Class::Experts,
            Self::Experts { .. } => Class::DividedExperts,
            Self::AllReduce { .. } => Class::AllReduce,
        }
    }
}

impl Class {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::NarrowGemm => "narrow-gemm",
            Self::DecodeAttention => "decode-attention",
            Self::PrefillAttention => "prefill-attention",
            Self::LatentDecode => "latent-decode",
            Self::LatentPrefill => "latent-prefill",
            Self::Experts => "experts",
            Self::DividedExperts => "divided-experts",
            Self::AllReduce => "all-reduce",
        }
    }
}

impl Timing {
    /// Whether a fit leaves this row out, to be tested on it: one of five, by a hash of what ran, so
    /// that neither the order of rows nor other rows move it.
    pub fn is_held_out(&self) -> bool {
        let text = format!("{} {} {:?}", self.gpu, self.dtype, self.kernel);
        // FNV-1a, folded: its low bits alone are weak.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash ^ (hash >> 32)) % 5 == 0
    }
}

/// The weight format that tables call `dtype`.
pub(crate) fn weight_format(dtype: &str) -> Option<WeightFormat> {
    Some(match dtype {
        "bfloat16" | "bf16" | "float16" => WeightFormat::Bf16,
        "fp8" => WeightFormat::Fp8,
        "fp8_block" => WeightFormat::Fp8Block,
        "int8_smoothquant" | "int8" => WeightFormat::Int8,
        "w8a16_int8" | "int8_wo" => WeightFormat::Int8WeightOnly,
        "w4a16_int4" | "int4_wo" => WeightFormat::Int4WeightOnly,
        "nvfp4" => WeightFormat::Nvfp4,
        "mxfp4" | "w4a16_mxfp4" | "w4a8_mxfp4_mxfp8" => WeightFormat::Mxfp4,
        _ => return None,
    })
}

/// The cache format that tables call `kv_dtype`.
pub(crate) fn cache_format(dtype: &str) -> Option<KvFormat> {
    Some(match dtype {
        "bfloat16" | "bf16" | "float16" => KvFormat::Auto,
        "fp8" => KvFormat::Fp8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gemm(rows: u32) -> Timing {
        Timing {
            gpu: "H100-SXM-80GB".into(),
            kernel: Kernel::Gemm {
                format: WeightFormat::Bf16,
                shape: [rows, 4096, 4096],
                copies: 6,
            },
            dtype: "bfloat16".into(),
            software: "vLLM 0.14.0".into(),
            micros: 10.0,
            touched: None,
        }
    }

    #[test]
    fn about_a_fifth_is_held_out_and_always_the_same() {
        let held_out = |timing: &u32| gemm(*timing).is_held_out();
        let count = (0..5_000).filter(held_out).count();
        assert!((900..1_100).contains(&count), "{count}");
        let mut again = gemm(7);
        again.micros = 99.0;
        assert_eq!(again.is_held_out(), gemm(7).is_held_out());
    }

    #[test]
    fn skewed_loads_touch_fewer_experts_and_a_token_touches_its_own() {
        let experts = |tokens, skew| {
            let layer = ExpertLayer {
                experts: 128,
                per_token: 8,
                hidden: 2048,
                intermediate: 768,
                format: WeightFormat::Bf16,
            };
            let kernel = Kernel::Experts {
                layer,
                tokens,
                devices: 1,
                skew,
            };
            kernel.touched()
        };
        assert_eq!(experts(64, 0.0), None);
        let touched = |tokens| experts(tokens, 1.2).expect("skewed");
        assert!((touched(1) - 8.0).abs() < 1e-9);
        for (few, many) in [(1, 8), (8, 32), (32, 8_192)] {
            assert!(touched(few) < touched(many), "{few} {many}");
        }
        assert!(touched(8) < 64.0 && touched(8_192) <= 128.0);
        assert!(experts(64, 1.0).is_some_and(|touched| touched > 8.0));
    }
}

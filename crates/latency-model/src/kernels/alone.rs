//! One kernel alone, as a microbenchmark times it: for fits of curves and for checks against
//! measurements. The code is the one that steps are made of.

use foretoken_hwspec::{GpuSpec, KvFormat, WeightFormat};

use super::attention::{Decode, Prefill};
use super::collective::AllReduce;
use super::curves::{
    AllReduceGroup, DecodeAttentionCurve, ExpertCurve, GemmCurve, PrefillAttentionCurve,
};
use super::{gemm, moe};
use crate::arithmetic::Arithmetic;
use crate::fine::Fine;
use crate::number::Share;
use crate::part::{Part, Peaks, fine};
use crate::shape::StepShape;
use crate::shard::{AttentionShard, ExpertShard, Matmul};

/// Heads of one device's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: u32,
    /// Key/value heads.
    pub kv: u32,
    /// Width of a head.
    pub width: u32,
    /// Format of the cache.
    pub format: KvFormat,
}

impl Heads {
    fn shard(self) -> AttentionShard {
        let [query, kv, width] = [self.query, self.kv, self.width].map(f64::from);
        AttentionShard::grouped(query, kv, width, self.format, None)
    }
}

/// One device's latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentHeads {
    /// Heads.
    pub heads: u32,
    /// Width of the latent vector.
    pub rank: u32,
    /// Width of its rotary part.
    pub rope: u32,
    /// Width of a head's keys without the rotary part.
    pub nope: u32,
    /// Width of a head's values.
    pub value: u32,
    /// Format of the cache.
    pub format: KvFormat,
}

impl LatentHeads {
    /// That of DeepSeek-V3 with `heads` of its 128 heads.
    pub const fn deepseek(heads: u32, format: KvFormat) -> Self {
        Self {
            heads,
            rank: 512,
            rope: 64,
            nope: 128,
            value: 128,
            format,
        }
    }

    fn shard(self) -> AttentionShard {
        let widths = [self.rank, self.rope, self.nope, self.value].map(f64::from);
        AttentionShard::latent(f64::from(self.heads), widths, self.format)
    }
}

impl DecodeAttentionCurve {
    /// Time of `batch` latent decodes that attend to `context` tokens together.
    pub fn time_latent(&self, gpu: &GpuSpec, heads: LatentHeads, batch: u32, context: u64) -> Fine {
        Decode::new(&heads.shard(), gpu, self, Share::ONE).time(batch, context)
    }
}

impl PrefillAttentionCurve {
    /// Time of `chunks` with latent attention: how many, new tokens and past tokens of each. The past
    /// is read at the share `cache` of the memory bandwidth.
    pub fn time_latent(
        &self,
        gpu: &GpuSpec,
        heads: LatentHeads,
        cache: Share,
        chunks: [u32; 3],
    ) -> Fine {
        self.time_on(&heads.shard(), gpu, cache, chunks)
    }
}

/// A layer of routed experts on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpertLayer {
    /// Routed experts.
    pub experts: u32,
    /// Experts that a token visits.
    pub per_token: u32,
    /// Width of the tokens.
    pub hidden: u32,
    /// Inner width of an expert.
    pub intermediate: u32,
    /// Format of the weights.
    pub format: WeightFormat,
}

impl GemmCurve {
    /// Time of `rows` x `inputs` by `inputs` x `outputs` with weights in `format`.
    pub fn time(
        &self,
        gpu: &GpuSpec,
        format: WeightFormat,
        [rows, outputs, inputs]: [u32; 3],
    ) -> Fine {
        self.time_again(gpu, format, [rows, outputs, inputs], None)
    }

    /// The same as a benchmark times it that multiplies with `copies` weight matrices in turn, again
    /// and again; `None` for so many that nothing stays in the cache.
    pub fn time_again(
        &self,
        gpu: &GpuSpec,
        format: WeightFormat,
        [rows, outputs, inputs]: [u32; 3],
        copies: Option<u32>,
    ) -> Fine {
        let [outputs, inputs] = [outputs, inputs].map(f64::from);
        let matmul = Matmul {
            part: Part::Qkv,
            inputs,
            outputs,
            format,
        };
        let arithmetic = Arithmetic::of(format, gpu);
        let curve = gemm::Curve::new(&matmul, arithmetic, Peaks::new(gpu), self);
        let weights = arithmetic.weight_bytes * inputs * outputs;
        let warm = self.reuse.zip(copies).map_or(1.0, |(reuse, copies)| {
            reuse.factor(weights * f64::from(copies))
        });
        fine(curve.time_with(u64::from(rows), warm))
    }
}

impl DecodeAttentionCurve {
    /// Time of `batch` decodes that attend to `context` tokens together.
    pub fn time(&self, gpu: &GpuSpec, heads: Heads, batch: u32, context: u64) -> Fine {
        Decode::new(&heads.shard(), gpu, self, Share::ONE).time(batch, context)
    }

    /// The same as a benchmark times it that reads the same caches again and again.
    pub fn time_again(&self, gpu: &GpuSpec, heads: Heads, batch: u32, context: u64) -> Fine {
        let shard = heads.shard();
        let warm = self
            .reuse
            .map_or(1.0, |reuse| reuse.factor(shard.kv_bytes * context as f64));
        Decode::new(&shard, gpu, self, Share::ONE).time_warm(batch, context, warm)
    }
}

impl PrefillAttentionCurve {
    /// Time of `chunks`: how many, new tokens and past tokens of each. The past is read at the share
    /// `cache` of the memory bandwidth.
    pub fn time(&self, gpu: &GpuSpec, heads: Heads, cache: Share, chunks: [u32; 3]) -> Fine {
        self.time_on(&heads.shard(), gpu, cache, chunks)
    }

    fn time_on(
        &self,
        shard: &AttentionShard,
        gpu: &GpuSpec,
        cache: Share,
        [batch, new, past]: [u32; 3],
    ) -> Fine {
        let shape = StepShape::chunks(batch, new, past);
        let prefill = Prefill::new(shard, gpu, cache, self);
        fine(prefill.launch() + prefill.time(shard, &shape))
    }
}

impl ExpertCurve {
    /// Time of `tokens` tokens with balanced routing.
    pub fn time(&self, gpu: &GpuSpec, layer: ExpertLayer, tokens: u32) -> Fine {
        self.time_routed(gpu, layer, tokens, 1, None)
    }

    /// The same on one of `devices` that the experts are divided among, with tokens that touch
    /// `touched` of the experts there; `None` for balanced routing. A device gathers and scatters all
    /// tokens, to find its own among them.
    pub fn time_routed(
        &self,
        gpu: &GpuSpec,
        layer: ExpertLayer,
        tokens: u32,
        devices: u32,
        touched: Option<f64>,
    ) -> Fine {
        let (tokens, devices) = (u64::from(tokens), f64::from(devices.max(1)));
        let shard = ExpertShard {
            experts: f64::from(layer.experts) / devices,
            per_token: f64::from(layer.per_token) / devices,
            hidden: f64::from(layer.hidden),
            intermediate: f64::from(layer.intermediate),
            format: layer.format,
        };
        let arithmetic = Arithmetic::of(layer.format, gpu);
        let curve = moe::Curve::new(&shard, arithmetic, Peaks::new(gpu), self);
        let balanced = || moe::Routing::new(shard.experts, shard.per_token, 0.0).touched(tokens);
        let touched = touched.map_or_else(balanced, |touched| touched.clamp(0.0, shard.experts));
        let routed = tokens as f64 * shard.per_token;
        fine(curve.time(routed, touched) + curve.traffic(routed * (devices - 1.0)))
    }
}

impl AllReduceGroup {
    /// Time of reducing `bytes` bytes.
    pub fn time(&self, gpu: &GpuSpec, bytes: u64) -> Fine {
        fine(AllReduce::of(self, gpu).time(bytes as f64))
    }
}

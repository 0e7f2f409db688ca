//! One kernel alone, as a microbenchmark times it: for fits of curves and for checks against
//! measurements. The code is the one that steps are made of.

use foretoken_hwspec::{GpuSpec, KvFormat, WeightFormat};

use super::attention::{Decode, Prefill};
use super::collective::AllReduce;
use super::parameters::{
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
        let [outputs, inputs] = [outputs, inputs].map(f64::from);
        let matmul = Matmul {
            part: Part::Qkv,
            inputs,
            outputs,
            format,
        };
        let arithmetic = Arithmetic::of(format, gpu);
        let curve = gemm::Curve::new(&matmul, arithmetic, Peaks::new(gpu), self);
        fine(curve.time(u64::from(rows)))
    }
}

impl DecodeAttentionCurve {
    /// Time of `batch` decodes that attend to `context` tokens together.
    pub fn time(&self, gpu: &GpuSpec, heads: Heads, batch: u32, context: u64) -> Fine {
        Decode::new(&heads.shard(), gpu, self, Share::ONE).time(batch, context, 0, true)
    }
}

impl PrefillAttentionCurve {
    /// Time of `batch` chunks of `new` tokens behind `past` cached ones, which are read at the share
    /// `cache` of the memory bandwidth.
    pub fn time(
        &self,
        gpu: &GpuSpec,
        heads: Heads,
        cache: Share,
        [batch, new, past]: [u32; 3],
    ) -> Fine {
        let mut shape = StepShape::default();
        (0..batch).for_each(|_| shape.add(new, past, true));
        let shard = heads.shard();
        let prefill = Prefill::new(&shard, gpu, cache, self);
        fine(prefill.launch() + prefill.time(&shard, &shape))
    }
}

impl ExpertCurve {
    /// Time of `tokens` tokens with balanced routing.
    pub fn time(&self, gpu: &GpuSpec, layer: ExpertLayer, tokens: u32) -> Fine {
        let shard = ExpertShard {
            experts: f64::from(layer.experts),
            per_token: f64::from(layer.per_token),
            hidden: f64::from(layer.hidden),
            intermediate: f64::from(layer.intermediate),
            format: layer.format,
        };
        let arithmetic = Arithmetic::of(layer.format, gpu);
        let curve = moe::Curve::new(&shard, arithmetic, Peaks::new(gpu), self);
        let routing = moe::Routing::new(shard.experts, shard.per_token, 0.0);
        fine(curve.time(
            f64::from(tokens) * shard.per_token,
            routing.touched(u64::from(tokens)),
        ))
    }
}

impl AllReduceGroup {
    /// Time of reducing `bytes` bytes.
    pub fn time(&self, gpu: &GpuSpec, bytes: u64) -> Fine {
        fine(AllReduce::of(self, gpu).time(bytes as f64))
    }
}

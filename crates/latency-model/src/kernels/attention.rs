//! Attention: decodes stream their caches; prefill chunks multiply, and read their past.

use foretoken_hwspec::GpuSpec;

use super::parameters::{DecodeAttentionCurve, Lineage, PrefillAttentionCurve};
use crate::error::LatencyError;
use crate::fine::Fine;
use crate::number::Blend;
use crate::part::{Ideal, Part, Peaks, Sink, fine};
use crate::shape::StepShape;
use crate::shard::AttentionShard;

/// The attention of one layer with everything but the batch worked out. Times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    shard: AttentionShard,
    decode_launch: f64,
    prefill_launch: f64,
    /// A decode, besides its context.
    per_decode: f64,
    /// A token of context of a decode, on a full device.
    per_context: f64,
    /// A past token of a prefill chunk.
    per_past: f64,
    /// Sequences that fill the device.
    fill: f64,
    /// Sequences that a smaller batch counts as.
    split: f64,
    per_pair: f64,
    per_prefill_token: f64,
    per_chunk: f64,
    /// A key that one tile of a prefill chunk walks past.
    serial: f64,
    ideal: IdealCosts,
}

/// The same at the datasheet's peaks.
#[derive(Debug, Clone)]
struct IdealCosts {
    context_compute: f64,
    pair_compute: f64,
    past_compute: f64,
    kv: f64,
}

impl Attention {
    pub(super) fn new(
        shard: AttentionShard,
        gpu: &GpuSpec,
        lineage: &Lineage<'_>,
    ) -> Result<Self, LatencyError> {
        let peaks = Peaks::new(gpu);
        let (decode, _) = lineage.find("decode-attention", |k| k.decode_attention.as_ref())?;
        let (prefill, _) = lineage.find("prefill-attention", |k| k.prefill_attention.as_ref())?;
        let DecodeAttentionCurve {
            memory,
            compute,
            granule,
            fill,
            split,
            own,
            ..
        } = decode;
        let PrefillAttentionCurve {
            compute: multiply,
            keys,
            rows,
            serial_ns,
            memory: traffic,
            ..
        } = prefill;
        let kv = shard.kv_bytes / peaks.bandwidth;
        let cached = kv / memory.get();
        let context_compute = shard.decode_flops / peaks.bf16;
        let pair_compute = shard.pair_flops / peaks.bf16;
        let past_compute = shard.past_flops / peaks.bf16;
        let per_pair = pair_compute / multiply.get();
        let io = shard.io_bytes / peaks.bandwidth;
        Ok(Self {
            decode_launch: decode.launch_us.get() * 1e3,
            prefill_launch: prefill.launch_us.get() * 1e3,
            per_decode: granule.get() * cached + own.get() * io,
            per_context: cached.max(context_compute / compute.get()),
            fill: fill.get() / shard.kv_heads,
            split: split.get(),
            per_pair,
            per_past: cached + past_compute / multiply.get() + rows.get() * per_pair,
            per_prefill_token: (keys.get() + rows.get() / 2.0) * per_pair + io / traffic.get(),
            per_chunk: rows.get() * keys.get() * per_pair,
            serial: serial_ns.get(),
            ideal: IdealCosts {
                context_compute,
                pair_compute,
                past_compute,
                kv,
            },
            shard,
        })
    }

    /// Time for each token of context of `decodes` decodes.
    fn slope(&self, decodes: u32) -> Fine {
        let share = self.fill / f64::from(decodes).max(self.split).max(1.0);
        fine(self.per_context * Blend::Four.max(1.0, share))
    }

    pub(super) fn visit(&self, shape: &StepShape, count: u32, sink: &mut impl Sink) {
        if shape.decodes > 0 {
            let decodes = f64::from(shape.decodes);
            // A mixed batch is one kernel, whose launch the prefill part below carries.
            let launch = if shape.prefills == 0 {
                self.decode_launch
            } else {
                0.0
            };
            let context = self.shard.decode_context(shape);
            let time = fine(launch + decodes * self.per_decode)
                + self.slope(shape.decodes) * u128::from(context);
            let ideal = Ideal {
                compute: self.ideal.context_compute * context as f64,
                memory: self.ideal.kv * context as f64,
            };
            sink.add(Part::DecodeAttention, time, ideal, count);
        }
        if shape.prefills > 0 {
            let chunks = f64::from(shape.prefills);
            let launch = if shape.decodes == 0 {
                self.prefill_launch
            } else {
                self.prefill_launch.max(self.decode_launch)
            };
            let pairs = self.shard.pairs(shape);
            let past = self.shard.past(shape) as f64;
            let tokens = shape.prefill_tokens as f64;
            let work = self.per_pair * pairs
                + self.per_past * past
                + self.per_prefill_token * tokens
                + self.per_chunk * chunks;
            let walk = self.serial * self.shard.longest(shape);
            let time = launch + Blend::Four.max(work, walk);
            let ideal = Ideal {
                compute: self.ideal.pair_compute * pairs + self.ideal.past_compute * past,
                memory: self.ideal.kv * past,
            };
            sink.add(Part::PrefillAttention, fine(time), ideal, count);
        }
    }

    /// How a pure decode step grows from step to step, and for how many steps from `shape` on that
    /// holds: until the mean context fills the window.
    pub(super) fn growth(&self, shape: &StepShape) -> (Fine, u64) {
        let decodes = u64::from(shape.decodes);
        let increment = self.slope(shape.decodes) * u128::from(decodes);
        let Some(window) = self.shard.window else {
            return (increment, u64::MAX);
        };
        let room = decodes
            .saturating_mul(window)
            .checked_sub(shape.decode_context);
        // Step k reads `context + k decodes` tokens while that is within the window; later steps
        // read the full windows.
        room.map_or((Fine::ZERO, u64::MAX), |room| {
            (increment, room / decodes + 1)
        })
    }
}

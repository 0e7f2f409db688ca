//! Attention: decodes stream their caches; prefill chunks multiply, and read their past.

use foretoken_hwspec::{GpuSpec, KvFormat};

use super::curves::{DecodeAttentionCurve, PrefillAttentionCurve, Reuse};
use super::lineage::Lineage;
use crate::error::LatencyError;
use crate::fine::Fine;
use crate::memo::Memo;
use crate::number::{Blend, Share};
use crate::part::{Ideal, Part, Peaks, Sink, fine};
use crate::shape::StepShape;
use crate::shard::AttentionShard;

/// Queries that a prefill kernel multiplies with the keys that it has read.
const QUERY_TILE: f64 = 128.0;

/// The attention of one layer with everything but the batch worked out.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    shard: AttentionShard,
    decode: Decode,
    prefill: Prefill,
    ideal: IdealCosts,
    /// What [`Decode`] says of each number of decodes.
    slopes: Memo,
    savings: Memo,
    /// By [`Launch`].
    bases: [Memo; 3],
}

/// What the kernel of decodes launches.
#[derive(Debug, Clone, Copy)]
enum Launch {
    /// Nothing: that of a mixed batch is one with the kernel of its prefill chunks.
    Nothing,
    /// A kernel for whole contexts.
    Whole,
    /// Besides, one that combines the parts of split contexts.
    Split,
}

/// Costs of decodes, in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Decode {
    launch: f64,
    /// A sequence's own query, output, keys and values.
    own: f64,
    /// What a sequence reads besides its context.
    granule: f64,
    /// A token of context, on a full device.
    per_context: f64,
    /// Share of that which a token saves if another sequence of the batch has read it before: it
    /// comes from the L2 cache.
    shared_saving: f64,
    /// Sequences that fill the device.
    fill: f64,
    /// Sequences that a smaller batch counts as.
    split: f64,
    /// The further kernel of contexts beyond a tile.
    combine: f64,
    /// The further kernel of several sequences.
    regroup: f64,
}

/// Costs of prefill chunks, in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Prefill {
    launch: f64,
    per_pair: f64,
    /// A past token, read and computed with.
    past: f64,
    per_past: f64,
    per_token: f64,
    per_chunk: f64,
    /// A key that one tile of queries walks past.
    serial: f64,
    /// Keys and values that are read again, for each query-key pair.
    reread: f64,
    /// Queries, keys, values and outputs of a token, in time and in bytes.
    io: f64,
    io_bytes: f64,
    reuse: Option<Reuse>,
    blend: Option<Blend>,
}

/// The same at the datasheet's peaks.
#[derive(Debug, Clone)]
struct IdealCosts {
    context_compute: f64,
    pair_compute: f64,
    past_compute: f64,
    kv: f64,
}

impl Decode {
    /// A token read by another sequence before costs the share `reread` of one that is not. Windows
    /// have left common prefixes behind, so that nothing is shared there.
    pub(super) fn new(
        shard: &AttentionShard,
        gpu: &GpuSpec,
        curve: &DecodeAttentionCurve,
        reread: Share,
    ) -> Self {
        let shared_saving = match shard.window {
            None => 1.0 - reread.get(),
            Some(_) => 0.0,
        };
        let peaks = Peaks::new(gpu);
        let cached = shard.kv_bytes / (peaks.bandwidth * curve.memory.get());
        let compute = shard.decode_flops / (peaks.bf16 * curve.compute.get());
        // Contexts of heads without a group are not split.
        let (fill, split) = match curve.fill_ungrouped {
            Some(fill) if !shard.grouped => (fill, 1.0),
            _ => (curve.fill, curve.split.get().max(1.0)),
        };
        Self {
            launch: curve.launch_us.get() * 1e3,
            own: curve.own.get() * shard.io_bytes / peaks.bandwidth,
            granule: curve.granule.get() * cached,
            per_context: cached.max(compute),
            shared_saving,
            fill: fill.get() / shard.pieces,
            split,
            combine: if shard.grouped {
                curve.combine_us.get() * 1e3
            } else {
                0.0
            },
            regroup: if shard.grouped && shard.kv_heads > 1.0 {
                curve.regroup_us.get() * 1e3
            } else {
                0.0
            },
        }
    }

    /// Nanoseconds of launches.
    fn launches(&self, sequences: u32, launch: Launch) -> f64 {
        let mut launches = match launch {
            Launch::Nothing => return 0.0,
            Launch::Whole => self.launch,
            Launch::Split => self.launch + self.combine,
        };
        if sequences > 1 {
            launches += self.regroup;
        }
        launches
    }

    /// What is launched for `sequences` decodes that attend to `context` tokens together.
    fn launch(sequences: u32, context: u64) -> Launch {
        if context > Self::unsplit(sequences) {
            Launch::Split
        } else {
            Launch::Whole
        }
    }

    /// Context of `sequences` decodes up to which none is split.
    fn unsplit(sequences: u32) -> u64 {
        u64::from(sequences) * u64::from(DecodeAttentionCurve::TILE)
    }

    /// Nanoseconds for each token of context of `sequences` decodes.
    fn per_token(&self, sequences: u32) -> f64 {
        self.per_token_warm(sequences, 1.0)
    }

    /// The same where bytes take the part `warm` of their time from memory.
    fn per_token_warm(&self, sequences: u32, warm: f64) -> f64 {
        let lack = self.fill / f64::from(sequences).max(self.split);
        self.per_context * Blend::Four.max(warm, lack)
    }

    /// Time of `sequences` decodes but for their context.
    fn base(&self, sequences: u32, launch: Launch) -> Fine {
        fine(self.launches(sequences, launch) + f64::from(sequences) * (self.granule + self.own))
    }

    /// Time of each token of context.
    fn slope(&self, sequences: u32) -> Fine {
        fine(self.per_token(sequences))
    }

    /// What a token of context saves of that if another sequence has read it before. Rounded against the
    /// slope, so that the difference never turns negative.
    fn saving(&self, sequences: u32) -> Fine {
        fine(self.per_token(sequences) * self.shared_saving).min(self.slope(sequences))
    }

    /// Time of `sequences` decodes that attend to `context` tokens together, none of which another
    /// sequence has read before.
    pub(super) fn time(&self, sequences: u32, context: u64) -> Fine {
        let base = self.base(sequences, Self::launch(sequences, context));
        base + self.slope(sequences) * u128::from(context)
    }
}

impl Decode {
    /// Time where bytes take the part `warm` of their time from memory.
    pub(super) fn time_warm(&self, sequences: u32, context: u64, warm: f64) -> Fine {
        let per_sequence = self.granule * warm + self.own;
        fine(
            self.launches(sequences, Self::launch(sequences, context))
                + f64::from(sequences) * per_sequence
                + self.per_token_warm(sequences, warm) * context as f64,
        )
    }
}

impl Prefill {
    /// Past tokens are read at the share `cache` of the memory bandwidth.
    pub(super) fn new(
        shard: &AttentionShard,
        gpu: &GpuSpec,
        cache: Share,
        curve: &PrefillAttentionCurve,
    ) -> Self {
        let peaks = Peaks::new(gpu);
        let rate = peaks.bf16 * curve.compute.get();
        let per_pair = shard.pair_flops / rate;
        let (keys, rows) = (curve.keys.get(), curve.rows.get());
        let io = shard.prefill_io_bytes / (peaks.bandwidth * curve.memory.get());
        let past = shard.kv_bytes / (peaks.bandwidth * cache.get());
        Self {
            launch: curve.launch_us.get() * 1e3,
            per_pair,
            past,
            per_past: shard.past_flops / rate + rows * per_pair,
            per_token: (keys + rows / 2.0) * per_pair,
            per_chunk: rows * keys * per_pair,
            serial: curve.serial_ns.get(),
            reread: curve.reread.get() * shard.kv_bytes / (QUERY_TILE * peaks.bandwidth),
            io,
            io_bytes: shard.prefill_io_bytes,
            reuse: curve.reuse,
            blend: curve.blend,
        }
    }

    /// Time of the prefill chunks of `shape`, but for the launch.
    pub(super) fn time(&self, shard: &AttentionShard, shape: &StepShape) -> f64 {
        let (pairs, tokens) = (shard.pairs(shape), shape.prefill_tokens as f64);
        let past = shard.past(shape) as f64;
        let compute = self.per_pair * pairs
            + self.per_past * past
            + self.per_token * tokens
            + self.per_chunk * f64::from(shape.prefills);
        let warm = self
            .reuse
            .map_or(1.0, |reuse| reuse.factor(self.io_bytes * tokens));
        let memory = self.past * past + self.io * warm * tokens + self.reread * pairs;
        let work = self
            .blend
            .map_or(compute + memory, |blend| blend.max(compute, memory));
        Blend::Four.max(work, self.serial * shard.longest(shape))
    }

    pub(super) const fn launch(&self) -> f64 {
        self.launch
    }
}

impl Attention {
    pub(super) fn new(
        shard: AttentionShard,
        gpu: &GpuSpec,
        kv: KvFormat,
        lineage: &Lineage<'_>,
        reread: Share,
    ) -> Result<Self, LatencyError> {
        let peaks = Peaks::new(gpu);
        let ((decode, _), _) = lineage.decode(shard.latent, kv)?;
        let (prefill, _) = lineage.find("prefill-attention", |k| k.prefill_attention.as_ref())?;
        Ok(Self {
            decode: Decode::new(&shard, gpu, decode, reread),
            prefill: Prefill::new(&shard, gpu, decode.memory, prefill),
            ideal: IdealCosts {
                context_compute: shard.decode_flops / peaks.bf16,
                pair_compute: shard.pair_flops / peaks.bf16,
                past_compute: shard.past_flops / peaks.bf16,
                kv: shard.kv_bytes / peaks.bandwidth,
            },
            shard,
            slopes: Memo::new(),
            savings: Memo::new(),
            bases: [Memo::new(), Memo::new(), Memo::new()],
        })
    }

    #[inline]
    fn slope(&self, decodes: u32) -> Fine {
        self.slopes
            .time(decodes.into(), || self.decode.slope(decodes))
    }

    /// Time of `decodes` decodes that attend to `context` tokens together, `shared` of which another one
    /// has read before.
    fn decode_time(&self, decodes: u32, context: u64, shared: u64, launch: Launch) -> Fine {
        let count = u64::from(decodes);
        let base = self.bases[launch as usize].time(count, || self.decode.base(decodes, launch));
        let time = base + self.slope(decodes) * u128::from(context);
        if shared == 0 {
            return time;
        }
        let saving = self.savings.time(count, || self.decode.saving(decodes));
        time - saving * u128::from(shared.min(context))
    }

    pub(super) fn visit(&self, shape: &StepShape, count: u32, sink: &mut impl Sink) {
        if shape.decodes > 0 {
            let context = self.shard.decode_context(shape);
            let shared = self.shard.decode_shared(shape);
            let launch = if shape.prefills == 0 {
                Decode::launch(shape.decodes, context)
            } else {
                Launch::Nothing
            };
            let time = self.decode_time(shape.decodes, context, shared, launch);
            let ideal = Ideal {
                compute: self.ideal.context_compute * context as f64,
                memory: self.ideal.kv * (context - shared) as f64,
            };
            sink.add(Part::DecodeAttention, time, ideal, count);
        }
        if shape.prefills > 0 {
            self.visit_prefills(shape, count, sink);
        }
    }

    // Most steps have none, and do without what is prepared here.
    #[inline(never)]
    fn visit_prefills(&self, shape: &StepShape, count: u32, sink: &mut impl Sink) {
        let launch = if shape.decodes == 0 {
            self.prefill.launch
        } else {
            self.prefill.launch.max(self.decode.launch)
        };
        let time = fine(launch + self.prefill.time(&self.shard, shape));
        let past = self.shard.past(shape) as f64;
        let ideal = Ideal {
            compute: self.ideal.pair_compute * self.shard.pairs(shape)
                + self.ideal.past_compute * past,
            memory: self.ideal.kv * past,
        };
        sink.add(Part::PrefillAttention, time, ideal, count);
    }

    /// How a pure decode step grows from step to step, and for how many steps from `shape` on that
    /// holds: until the mean context is long enough to be split, or fills the window.
    pub(super) fn growth(&self, shape: &StepShape) -> (Fine, u64) {
        let decodes = u64::from(shape.decodes);
        let increment = self.slope(shape.decodes) * u128::from(decodes);
        // Step k reads `context + k decodes` tokens: how many steps stay within `limit`?
        let within = |limit: u64| {
            let room = limit.checked_sub(shape.decode_context)?;
            Some(room / decodes + 1)
        };
        let window = self.shard.window.unwrap_or(u64::MAX);
        let Some(filling) = within(decodes.saturating_mul(window)) else {
            return (Fine::ZERO, u64::MAX);
        };
        let steps = if self.shard.window.is_some() {
            filling
        } else {
            u64::MAX
        };
        let splits = self.decode.combine > 0.0 && window > u64::from(DecodeAttentionCurve::TILE);
        let unsplit = within(Decode::unsplit(shape.decodes)).filter(|_| splits);
        (
            increment,
            unsplit.map_or(steps, |unsplit| steps.min(unsplit)),
        )
    }
}

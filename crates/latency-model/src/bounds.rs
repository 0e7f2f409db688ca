//! The time that no implementation of a step can beat.

use foretoken_hwspec::{GpuSpec, ModelSpec, TensorParallel};

use crate::arithmetic::Arithmetic;
use crate::error::LatencyError;
use crate::fine::Fine;
use crate::kernels::{Routing, RuntimeParameters};
use crate::part::{Peaks, fine};
use crate::shape::StepShape;
use crate::shard::{Matmul, Shard};

/// Work of one step on one device: time of its FLOPs at their peaks, and of its bytes at the peak
/// memory bandwidth, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) prefill_flops: f64,
    pub(crate) decode_flops: f64,
    pub(crate) prefill_kv: f64,
    pub(crate) decode_kv: f64,
    pub(crate) weights: f64,
}

impl Work {
    pub(crate) fn of(shard: &Shard, gpu: &GpuSpec, shape: &StepShape) -> Self {
        let peaks = Peaks::new(gpu);
        let tokens = shape.tokens();
        let decode_share = if tokens == 0 {
            0.0
        } else {
            f64::from(shape.decodes) / tokens as f64
        };
        let mut work = Self::default();
        let mut linear = 0.0;
        let mut matmul = |matmul: &Matmul, rows: f64, count: f64| {
            let arithmetic = Arithmetic::of(matmul.format, gpu);
            let size = matmul.inputs * matmul.outputs * count;
            linear += 2.0 * size * rows / arithmetic.peak;
            if rows > 0.0 {
                work.weights += size * arithmetic.weight_bytes / peaks.bandwidth;
            }
        };
        matmul(&shard.head, f64::from(shape.sampled), 1.0);
        for layer in &shard.layers {
            let count = f64::from(layer.count);
            for each in &layer.matmuls {
                matmul(each, tokens as f64, count);
            }
        }
        for layer in &shard.layers {
            let count = f64::from(layer.count);
            let attention = &layer.attention;
            let (context, past) = (
                attention.decode_context(shape) as f64,
                attention.past(shape) as f64,
            );
            work.decode_flops += count * attention.decode_flops * context / peaks.bf16;
            work.prefill_flops += count
                * (attention.pair_flops * attention.pairs(shape) + attention.past_flops * past)
                / peaks.bf16;
            let distinct = context - attention.decode_shared(shape) as f64;
            work.decode_kv += count * attention.kv_bytes * distinct / peaks.bandwidth;
            work.prefill_kv += count * attention.kv_bytes * past / peaks.bandwidth;
            if let Some(experts) = &layer.experts {
                let arithmetic = Arithmetic::of(experts.format, gpu);
                let size = 3.0 * experts.hidden * experts.intermediate * count;
                linear += 2.0 * size * experts.per_token * tokens as f64 / arithmetic.peak;
                let skew = RuntimeParameters::builtin().routing_skew.get();
                let routing = Routing::new(experts.experts, experts.per_token, skew);
                work.weights +=
                    size * routing.touched(tokens) * arithmetic.weight_bytes / peaks.bandwidth;
            }
        }
        work.decode_flops += linear * decode_share;
        work.prefill_flops += linear * (1.0 - decode_share);
        work
    }

    pub(crate) fn flops(&self) -> f64 {
        self.prefill_flops + self.decode_flops
    }

    pub(crate) fn bytes(&self) -> f64 {
        self.prefill_kv + self.decode_kv + self.weights
    }
}

/// The time that no implementation of this step can beat: the longer of all FLOPs at their formats'
/// peaks and all bytes (weights once, experts that routing as uneven as in `runtime.toml` touches, cached keys and values)
/// at the memory's.
///
/// The cache is taken as 16-bit; communication, activations and every overhead are left out.
///
/// # Errors
///
/// If the model cannot be split so, if the group is larger than the link connects, or if the
/// accelerator's rates make no sense.
///
/// ```
/// use foretoken_hwspec::{TensorParallel, catalog};
/// use foretoken_latency_model::{StepShape, bounds::bound_step};
///
/// let model = catalog::model("meta-llama/Llama-3.1-8B-Instruct")?;
/// let gpu = catalog::gpu("H100-SXM-80GB")?;
/// // A single decode reads 15 GB of weights at 3.35 TB/s.
/// let bound = bound_step(&model, &gpu, TensorParallel::ONE, &StepShape::decode(1, 100))?;
/// assert!((4_400.0..4_600.0).contains(&bound.as_micros_f64()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bound_step(
    model: &ModelSpec,
    gpu: &GpuSpec,
    tp: TensorParallel,
    shape: &StepShape,
) -> Result<Fine, LatencyError> {
    bound_step_with(model, gpu, tp, foretoken_hwspec::KvFormat::Auto, shape)
}

/// The same for a given format of the cache.
///
/// # Errors
///
/// As [`bound_step`].
pub fn bound_step_with(
    model: &ModelSpec,
    gpu: &GpuSpec,
    tp: TensorParallel,
    kv: foretoken_hwspec::KvFormat,
    shape: &StepShape,
) -> Result<Fine, LatencyError> {
    let work = Work::of(&Shard::new(model, gpu, tp, kv)?, gpu, shape);
    Ok(fine(work.flops().max(work.bytes())))
}

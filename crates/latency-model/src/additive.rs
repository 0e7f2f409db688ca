//! [`AdditivePhysics`]: the published ten-term form.

use foretoken_des_kernel::SimDuration;
use foretoken_hwspec::{GpuSpec, KvFormat, ModelSpec, TensorParallel};
use serde::{Deserialize, Serialize};

use crate::LatencyModel;
use crate::bounds::Work;
use crate::confidence::{Confidence, Doubt, Extent};
use crate::error::LatencyError;
use crate::explain::{Bound, Explanation, Term};
use crate::fine::Fine;
use crate::host::HostCosts;
use crate::number::Amount;
use crate::part::fine;
use crate::roofline::all_reduce_bytes;
use crate::shape::StepShape;
use crate::shard::Shard;

/// Coefficients of [`AdditivePhysics`]. `b1a` to `b4` have no unit and multiply ideal times; 1 is
/// the datasheet's peak. The others are microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AdditiveCoefficients {
    /// FLOPs of prefill tokens.
    pub b1a: Amount,
    /// Cached keys and values that prefill chunks read.
    pub b1b: Amount,
    /// FLOPs of decode tokens.
    pub b2a: Amount,
    /// Cached keys and values that decodes read.
    pub b2b: Amount,
    /// Weights.
    pub b3: Amount,
    /// Bytes between devices.
    pub b4: Amount,
    /// Each layer.
    pub b5_us: Amount,
    /// Each sequence.
    pub b6_us: Amount,
    /// Any step.
    pub b7_us: Amount,
    /// Each layer with routed experts, in models that also have layers without.
    pub b8_us: Amount,
    /// Taking a request in.
    pub a0_us: Amount,
    /// Detokenising and finishing a request.
    pub a1_us: Amount,
    /// Streaming a token.
    pub a2_us: Amount,
}

impl AdditiveCoefficients {
    /// Plausible figures, not fitted: FLOPs at 60 % in prefill, decode FLOPs hidden behind memory,
    /// memory at 80 %, links at half.
    ///
    /// # Panics
    ///
    /// Never: the figures are in range.
    pub fn plausible() -> Self {
        let amount = |value| Amount::new(value).expect("the figures below are in range");
        Self {
            b1a: amount(1.65),
            b1b: amount(1.2),
            b2a: amount(0.2),
            b2b: amount(1.2),
            b3: amount(1.25),
            b4: amount(2.0),
            b5_us: amount(25.0),
            b6_us: amount(3.0),
            b7_us: amount(300.0),
            b8_us: amount(40.0),
            a0_us: amount(3_000.0),
            a1_us: amount(500.0),
            a2_us: amount(5.0),
        }
    }

    /// The per-request coefficients as host costs: `a0` on the way in, `a1` on the way out, `a2`
    /// for each token that is delivered. What the host does per step is in `b6` and `b7` already.
    ///
    /// # Panics
    ///
    /// Never: an amount of microseconds fits in a span.
    pub fn host_costs(&self) -> HostCosts {
        let span = |amount: Amount| {
            SimDuration::try_from_secs_f64(amount.get() * 1e-6).expect("an amount is a short span")
        };
        HostCosts {
            ingest: span(self.a0_us),
            deliver: span(self.a1_us),
            deliver_per_sequence: span(self.a2_us),
            ..HostCosts::default()
        }
    }
}

/// The step as a weighted sum of its ideal times.
///
/// Compute and memory add up here where [`KernelPhysics`](crate::KernelPhysics) lets them overlap,
/// and no term knows the shape of a kernel: the form that others published, for comparison.
#[derive(Debug, Clone)]
pub struct AdditivePhysics {
    shard: Shard,
    gpu: GpuSpec,
    coefficients: AdditiveCoefficients,
    interleaved_moe_layers: u32,
}

impl AdditivePhysics {
    /// The form for `model` on a group of `tp` devices `gpu`, with [plausible
    /// coefficients](AdditiveCoefficients::plausible).
    ///
    /// # Errors
    ///
    /// If the model cannot be split so, if the group is larger than the link connects, or if the
    /// accelerator's rates make no sense.
    pub fn new(
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
        kv: KvFormat,
    ) -> Result<Self, LatencyError> {
        Self::with_coefficients(model, gpu, tp, kv, AdditiveCoefficients::plausible())
    }

    /// The same with other coefficients.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_coefficients(
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
        kv: KvFormat,
        coefficients: AdditiveCoefficients,
    ) -> Result<Self, LatencyError> {
        let shard = Shard::new(model, gpu, tp, kv)?;
        let moe: u32 = shard
            .layers
            .iter()
            .filter(|l| l.experts.is_some())
            .map(|l| l.count)
            .sum();
        let interleaved_moe_layers = if moe < shard.depth() { moe } else { 0 };
        Ok(Self {
            shard,
            gpu: gpu.clone(),
            coefficients,
            interleaved_moe_layers,
        })
    }

    /// Host costs that go with the coefficients.
    pub fn host_costs(&self) -> HostCosts {
        self.coefficients.host_costs()
    }

    fn terms(&self, shape: &StepShape) -> [Term; 10] {
        let work = Work::of(&self.shard, &self.gpu, shape, 0.0);
        let b = &self.coefficients;
        let network = all_reduce_bytes(&self.shard, shape) / (self.gpu.link.bandwidth.get() * 1e-9);
        let scaled = |name, bound, factor: Amount, ideal: f64| {
            let term = Term::new(name, fine(factor.get() * ideal), bound);
            if factor.get() > 0.0 {
                term.with_efficiency(1.0 / factor.get())
            } else {
                term
            }
        };
        let counted = |name, each: Amount, count: f64| {
            Term::new(name, fine(each.get() * 1e3 * count), Bound::Overhead)
        };
        let (depth, steps) = if shape.is_empty() {
            (0, 0.0)
        } else {
            (self.shard.depth(), 1.0)
        };
        [
            scaled("prefill FLOPs", Bound::Compute, b.b1a, work.prefill_flops),
            scaled("prefill cache", Bound::Memory, b.b1b, work.prefill_kv),
            scaled("decode FLOPs", Bound::Compute, b.b2a, work.decode_flops),
            scaled("decode cache", Bound::Memory, b.b2b, work.decode_kv),
            scaled("weights", Bound::Memory, b.b3, work.weights),
            scaled("all-reduce", Bound::Network, b.b4, network),
            counted("layers", b.b5_us, f64::from(depth)),
            counted("sequences", b.b6_us, f64::from(shape.sequences())),
            counted("step overhead", b.b7_us, steps),
            counted(
                "interleaved experts",
                b.b8_us,
                steps * f64::from(self.interleaved_moe_layers),
            ),
        ]
    }
}

impl LatencyModel for AdditivePhysics {
    fn step(&self, shape: &StepShape) -> Fine {
        self.terms(shape).into_iter().map(|term| term.time).sum()
    }

    fn explain(&self, shape: &StepShape) -> Explanation {
        let terms = self
            .terms(shape)
            .into_iter()
            .filter(|term| term.time > Fine::ZERO);
        Explanation::new(terms.collect())
    }

    fn confidence(&self, _extent: &Extent) -> Confidence {
        Confidence::new(
            None,
            vec![Doubt::Unfitted {
                model: "AdditivePhysics",
            }],
        )
    }
}

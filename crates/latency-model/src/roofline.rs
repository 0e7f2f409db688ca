//! [`Roofline`]: bounds with fixed utilisation factors, without any fit.

use foretoken_hwspec::{Generation, GpuSpec, KvFormat, ModelSpec, TensorParallel};
use serde::{Deserialize, Serialize};

use crate::LatencyModel;
use crate::bounds::Work;
use crate::confidence::{Confidence, Doubt, Extent};
use crate::error::LatencyError;
use crate::explain::{Bound, Explanation, Term};
use crate::fine::Fine;
use crate::number::{Amount, Share};
use crate::part::fine;
use crate::shape::StepShape;
use crate::shard::Shard;

/// Shares of the datasheet's peaks that steps reach, by phase.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Utilisation {
    /// FLOP/s of prefill tokens.
    pub prefill_compute: Share,
    /// FLOP/s of decode tokens.
    pub decode_compute: Share,
    /// Memory bandwidth.
    pub memory: Share,
    /// Bandwidth of the link between devices.
    pub link: Share,
    /// Any step, in microseconds.
    pub step_us: Amount,
}

impl Utilisation {
    /// Rules of thumb by generation: two thirds of the FLOPs in prefill, a third in decode, four
    /// fifths of the memory bandwidth; less where software is younger. Not fitted to anything.
    ///
    /// # Panics
    ///
    /// Never: the figures are in range.
    pub fn typical(generation: Generation) -> Self {
        let (prefill, decode, memory) = match generation {
            Generation::Ampere | Generation::Ada => (0.65, 0.35, 0.8),
            Generation::Hopper | Generation::Blackwell => (0.6, 0.3, 0.8),
            _ => (0.5, 0.25, 0.7),
        };
        let share = |value| Share::new(value).expect("the shares above are in range");
        Self {
            prefill_compute: share(prefill),
            decode_compute: share(decode),
            memory: share(memory),
            link: share(0.5),
            step_us: Amount::new(500.0).expect("the amount is in range"),
        }
    }
}

/// A step as the longer of its FLOPs and its bytes, each at a fixed share of the datasheet's peak.
///
/// The baseline that says what the other models are worth: it knows nothing of shapes, launches or
/// layers.
#[derive(Debug, Clone)]
pub struct Roofline {
    shard: Shard,
    gpu: GpuSpec,
    utilisation: Utilisation,
}

impl Roofline {
    /// The roofline of `model` on a group of `tp` devices `gpu`, with typical utilisation.
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
        Self::with_utilisation(model, gpu, tp, kv, Utilisation::typical(gpu.generation))
    }

    /// The same with another utilisation.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_utilisation(
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
        kv: KvFormat,
        utilisation: Utilisation,
    ) -> Result<Self, LatencyError> {
        Ok(Self {
            shard: Shard::new(model, gpu, tp, kv)?,
            gpu: gpu.clone(),
            utilisation,
        })
    }

    fn terms(&self, shape: &StepShape) -> [Term; 3] {
        let Utilisation {
            prefill_compute,
            decode_compute,
            memory,
            link,
            step_us,
        } = self.utilisation;
        let work = Work::of(&self.shard, &self.gpu, shape, 0.0);
        let compute =
            work.prefill_flops / prefill_compute.get() + work.decode_flops / decode_compute.get();
        let bytes = work.bytes() / memory.get();
        let roof = if compute > bytes {
            Term::new("compute roof", fine(compute), Bound::Compute)
                .with_efficiency(work.flops() / compute)
        } else {
            Term::new("memory roof", fine(bytes), Bound::Memory).with_efficiency(memory.get())
        };
        let network = all_reduce_bytes(&self.shard, shape)
            / (self.gpu.link.bandwidth.get() * 1e-9 * link.get());
        let overhead = if shape.is_empty() {
            0.0
        } else {
            step_us.get() * 1e3
        };
        [
            roof,
            Term::new("all-reduce", fine(network), Bound::Network).with_efficiency(link.get()),
            Term::new("step overhead", fine(overhead), Bound::Overhead),
        ]
    }
}

/// Bytes that one device sends for the all-reduces of a step: twice `(t - 1) / t` of each message.
pub(crate) fn all_reduce_bytes(shard: &Shard, shape: &StepShape) -> f64 {
    let degree = f64::from(shard.degree);
    let messages = 2.0 * f64::from(shard.depth());
    let message = 2.0 * shard.hidden * shape.tokens() as f64;
    messages * message * 2.0 * (degree - 1.0) / degree
}

impl LatencyModel for Roofline {
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
        Confidence::new(None, vec![Doubt::Unfitted { model: "Roofline" }])
    }
}

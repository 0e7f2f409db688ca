//! [`KernelPhysics`]: the step as the sum of its kernels.
//!
//! Each kernel is a roofline with an efficiency curve of its accelerator (`data/kernels.toml`); what
//! kernels do not explain is a few global overheads (`data/runtime.toml`).

mod alone;
mod attention;
mod collective;
mod curves;
mod derive;
mod gemm;
mod lineage;
mod moe;
mod overhead;
mod parameters;
mod sampling;
mod sources;

use foretoken_hwspec::{GpuSpec, KvFormat, ModelSpec, TensorParallel};

pub use self::alone::{ExpertLayer, Heads, LatentHeads};
pub use self::curves::{
    AllReduceAlgorithm, AllReduceCurve, AllReduceGroup, DecodeAttentionCurve, ExpertCurve,
    GemmCurve, PrefillAttentionCurve, Reuse, SmallKernelCurve, TunedExperts, VectorKernel,
};
pub use self::overhead::{RuntimeParameters, StepOverheads};
pub use self::parameters::{GpuKernels, KernelParameters};

use self::attention::Attention;
use self::collective::AllReduce;
use self::gemm::Linear;
use self::moe::Experts;
pub(crate) use self::moe::Routing;
use self::overhead::Launches;
use self::sampling::Sampler;
use self::sources::Sources;
use crate::LatencyModel;
use crate::confidence::{Confidence, Extent};
use crate::error::LatencyError;
use crate::explain::Explanation;
use crate::fine::Fine;
use crate::host::HostCosts;
use crate::law::DecodeLaw;
use crate::memo::Memo;
use crate::part::{Breakdown, Ideal, Part, Peaks, Sink, Sum, fine};
use crate::provenance::Band;
use crate::shape::StepShape;
use crate::shard::Shard;

/// The step as the sum of its kernels, for one model on one kind of accelerator.
///
/// Everything but the batch is worked out on construction, so that [`step`](LatencyModel::step)
/// takes well under a microsecond and allocates nothing.
#[derive(Debug, Clone)]
pub struct KernelPhysics {
    groups: Box<[Group]>,
    head: Linear,
    all_reduce: AllReduce,
    depth: u32,
    /// All-reduces of a step: two a layer, and one after the embedding.
    reductions: u32,
    /// Bytes of one token's hidden vector.
    hidden_bytes: f64,
    /// Bytes of one sequence's logits on all devices.
    logit_bytes: f64,
    sampler: Sampler,
    overheads: StepOverheads,
    launches: Launches,
    host: HostCosts,
    sources: Sources,
    /// Times of what depends on the rows alone, and on the samples alone.
    by_rows: Memo,
    by_samples: Memo,
    /// [`StepOverheads::fixed`] by sequences: of steps of one kind, and of mixed ones.
    fixed: Memo,
    fixed_mixed: Memo,
}

/// Equal layers.
#[derive(Debug, Clone)]
struct Group {
    count: u32,
    linears: Box<[Linear]>,
    attention: Attention,
    experts: Option<Experts>,
    small_launch: f64,
    small_per_token: f64,
    ideal_small_per_token: f64,
}

impl KernelPhysics {
    /// The physics of `model` on a group of `tp` devices `gpu`, with the built-in parameters.
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
        let (kernels, runtime) = (KernelParameters::builtin(), RuntimeParameters::builtin());
        Self::with_parameters(model, gpu, tp, kv, kernels, runtime)
    }

    /// The same with other parameters.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and if the parameters cover neither the accelerator nor a relative.
    pub fn with_parameters(
        model: &ModelSpec,
        gpu: &GpuSpec,
        tp: TensorParallel,
        kv: KvFormat,
        kernels: &KernelParameters,
        runtime: &RuntimeParameters,
    ) -> Result<Self, LatencyError> {
        let shard = Shard::new(model, gpu, tp, kv)?;
        let lineage = kernels.lineage(gpu);
        let peaks = Peaks::new(gpu);
        let (small, _) = lineage.find("small-kernels", |k| k.small_kernels.as_ref())?;
        let small_bandwidth = peaks.bandwidth * small.memory.get();
        let groups = shard.layers.iter().map(|layer| {
            let linears = layer
                .matmuls
                .iter()
                .map(|matmul| Linear::new(matmul, gpu, &lineage));
            let experts = layer.experts.as_ref();
            Ok(Group {
                count: layer.count,
                linears: linears.collect::<Result<_, _>>()?,
                attention: Attention::new(
                    layer.attention,
                    gpu,
                    kv,
                    &lineage,
                    runtime.shared_context_cost,
                )?,
                experts: experts
                    .map(|experts| Experts::new(experts, gpu, &lineage, runtime.routing_skew))
                    .transpose()?,
                small_launch: small.launch_us.get() * 1e3 * layer.small_kernels,
                small_per_token: layer.small_bytes / small_bandwidth,
                ideal_small_per_token: layer.small_bytes / peaks.bandwidth,
            })
        });
        let groups = groups.collect::<Result<_, LatencyError>>()?;
        // The sampler reads all devices' logits in 32 bits.
        let logits = shard.vocabulary * f64::from(shard.degree);
        Ok(Self {
            groups,
            head: Linear::new(&shard.head, gpu, &lineage)?,
            all_reduce: AllReduce::new(shard.degree, gpu, &lineage)?,
            depth: shard.depth(),
            reductions: 2 * shard.depth() + 1,
            hidden_bytes: 2.0 * shard.hidden,
            logit_bytes: 2.0 * logits,
            sampler: Sampler::new(model.sampling, logits, gpu, small.memory, &runtime.step),
            overheads: runtime.step,
            launches: runtime.step.launches(shard.depth()),
            host: runtime.host,
            sources: Sources::new(&shard, gpu, kv, &lineage)?,
            by_rows: Memo::new(),
            by_samples: Memo::new(),
            fixed: Memo::new(),
            fixed_mixed: Memo::new(),
        })
    }

    /// What the host spends around a step and a request.
    pub const fn host_costs(&self) -> HostCosts {
        self.host
    }

    /// How far a predicted step may be off, as factors, by where the accelerator's numbers come from.
    pub const fn band(&self) -> Band {
        self.sources.band()
    }

    /// Hands over the terms that the device executes.
    fn visit_device(&self, shape: &StepShape, sink: &mut impl Sink) {
        self.visit_rows(rows(shape), sink);
        self.visit_samples(shape.sampled, sink);
        self.visit_sequences(shape, sink);
    }

    /// The terms that depend on the number of rows alone.
    fn visit_rows(&self, rows: u64, sink: &mut impl Sink) {
        let tokens = rows as f64;
        for group in &self.groups {
            let small = fine(group.small_launch + group.small_per_token * tokens);
            let ideal = Ideal {
                compute: 0.0,
                memory: group.ideal_small_per_token * tokens,
            };
            sink.add(Part::Small, small, ideal, group.count);
            for linear in &group.linears {
                linear.visit(rows, group.count, sink);
            }
        }
        self.all_reduce
            .visit(self.hidden_bytes * tokens, self.reductions, sink);
    }

    /// The terms that depend on the number of sampling sequences alone.
    fn visit_samples(&self, rows: u32, sink: &mut impl Sink) {
        if rows == 0 {
            return;
        }
        let samples = f64::from(rows);
        self.head.visit(u64::from(rows), 1, sink);
        self.all_reduce
            .visit_gather(self.logit_bytes * samples, sink);
        self.sampler.visit(samples, sink);
    }

    /// The terms that depend on the sequences.
    fn visit_sequences(&self, shape: &StepShape, sink: &mut impl Sink) {
        for group in &self.groups {
            group.attention.visit(shape, group.count, sink);
            if let Some(experts) = &group.experts {
                experts.visit(shape.tokens(), rows(shape), group.count, sink);
            }
        }
    }

    /// Hands over what the host adds to a step whose kernels take `device`.
    fn visit_host(&self, shape: &StepShape, device: Fine, sink: &mut impl Sink) {
        let wait = self.launches.of(shape.graph).saturating_sub(device);
        sink.add(Part::LaunchWait, wait, Ideal::default(), 1);
        sink.add(Part::Step, self.fixed(shape), Ideal::default(), 1);
    }

    #[inline]
    fn fixed(&self, shape: &StepShape) -> Fine {
        let memo = if shape.is_mixed() {
            &self.fixed_mixed
        } else {
            &self.fixed
        };
        memo.time(shape.sequences().into(), || {
            self.overheads.fixed(shape, self.depth)
        })
    }

    fn device(&self, shape: &StepShape) -> Fine {
        let (rows, samples) = (rows(shape), shape.sampled);
        let by_rows = self.by_rows.time(rows, || self.rows_time(rows));
        let by_samples = self
            .by_samples
            .time(samples.into(), || self.samples_time(samples));
        by_rows + by_samples + Sum::of(|sum| self.visit_sequences(shape, sum))
    }

    fn rows_time(&self, rows: u64) -> Fine {
        Sum::of(|sum| self.visit_rows(rows, sum))
    }

    fn samples_time(&self, samples: u32) -> Fine {
        Sum::of(|sum| self.visit_samples(samples, sum))
    }

    /// Time of a step whose kernels take `device`.
    fn on_host(&self, shape: &StepShape, device: Fine) -> Fine {
        device + Sum::of(|sum| self.visit_host(shape, device, sum))
    }
}

/// Rows that the linear layers run on.
fn rows(shape: &StepShape) -> u64 {
    shape.padded_tokens.max(shape.tokens())
}

impl LatencyModel for KernelPhysics {
    fn step(&self, shape: &StepShape) -> Fine {
        if shape.is_empty() {
            return Fine::ZERO;
        }
        self.on_host(shape, self.device(shape))
    }

    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        if shape.prefills > 0 || shape.decodes == 0 {
            return None;
        }
        let (mut increment, mut steps) = (Fine::ZERO, u64::MAX);
        for group in &self.groups {
            let (growth, valid) = group.attention.growth(shape);
            increment += growth * u128::from(group.count);
            steps = steps.min(valid);
        }
        let device = self.device(shape);
        let first = self.on_host(shape, device);
        // While the device waits for launches, a step lasts as long as these.
        let launches = self.launches.of(shape.graph);
        if let Some(slack) = launches.bits().checked_sub(device.bits())
            && increment > Fine::ZERO
        {
            let waiting = u64::try_from(slack / increment.bits())
                .unwrap_or(u64::MAX)
                .saturating_add(1);
            if waiting < steps || steps == u64::MAX {
                return Some(DecodeLaw::new(first, Fine::ZERO, waiting.min(steps)));
            }
            // The growth changes before the wait ends.
            let mut later = *shape;
            later.decode_context += steps * u64::from(shape.decodes);
            let rest = (self.device(&later) <= launches).then(|| self.decode_law(&later));
            let rest = rest.flatten().map_or(0, |law| law.steps());
            return Some(DecodeLaw::new(
                first,
                Fine::ZERO,
                steps.saturating_add(rest),
            ));
        }
        Some(DecodeLaw::new(first, increment, steps))
    }

    fn explain(&self, shape: &StepShape) -> Explanation {
        if shape.is_empty() {
            return Explanation::default();
        }
        let mut breakdown = Breakdown::default();
        self.visit_device(shape, &mut breakdown);
        self.visit_host(shape, self.device(shape), &mut breakdown);
        breakdown
            .explain(|part, term| self.sources.attach(part, term))
            .with_band(self.band())
    }

    fn confidence(&self, extent: &Extent) -> Confidence {
        self.sources.confidence(extent)
    }
}

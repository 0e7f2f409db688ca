//! How long one forward step of an LLM takes, from physics.
//!
//! A model of step time answers one question: a batch of this [shape](StepShape) on these devices,
//! how long from the first kernel to the last? Three answers of rising detail share the trait
//! [`LatencyModel`], so that they can be compared and replaced:
//!
//! - [`Roofline`]: the longer of FLOPs and bytes, at fixed shares of the datasheet's peaks.
//! - [`AdditivePhysics`]: a weighted sum of ideal times, ten coefficients.
//! - [`KernelPhysics`]: the sum of the step's kernels, each with an efficiency curve of its
//!   accelerator. The default.
//!
//! [`TableModel`] is a load test of one's own; [`Affine`] serves examples and tests; [`bound_step`] is
//! the time that none may undercut. What a prediction rests on, and how far to trust it, say
//! [`explain`](LatencyModel::explain) and [`confidence`](LatencyModel::confidence).
//!
//! Times are [`Fine`]: fixed-point, so that a run of decode steps in closed form ([`DecodeLaw`])
//! equals its steps to the bit.
//!
//! ```
//! use foretoken_hwspec::{KvFormat, TensorParallel, catalog};
//! use foretoken_latency_model::{KernelPhysics, LatencyModel, StepShape};
//!
//! let model = catalog::model("meta-llama/Llama-3.1-8B-Instruct")?;
//! let gpu = catalog::gpu("H100-SXM-80GB")?;
//! let physics = KernelPhysics::new(&model, &gpu, TensorParallel::ONE, KvFormat::Auto)?;
//!
//! // 32 decodes at 1000 tokens each.
//! let shape = StepShape::decode(32, 32_000);
//! let step = physics.step(&shape);
//! assert!((6_000.0..10_000.0).contains(&step.as_micros_f64()));
//!
//! // Where the time goes, term by term.
//! let explanation = physics.explain(&shape);
//! assert_eq!(explanation.total(), step);
//! println!("{explanation}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod additive;
pub mod affine;
mod arithmetic;
pub mod bounds;
pub mod confidence;
pub mod error;
pub mod explain;
pub mod fine;
pub mod host;
pub mod kernels;
pub mod law;
mod memo;
pub mod number;
mod part;
pub mod provenance;
pub mod roofline;
pub mod shape;
mod shard;
pub mod table;

pub use additive::{AdditiveCoefficients, AdditivePhysics};
pub use affine::Affine;
pub use arithmetic::KernelKind;
pub use bounds::bound_step;
pub use confidence::{Confidence, Doubt, Extent, Level};
pub use error::LatencyError;
pub use explain::{Bound, Explanation, Term};
pub use fine::Fine;
pub use host::HostCosts;
pub use kernels::{KernelParameters, KernelPhysics, RuntimeParameters, StepOverheads};
pub use law::DecodeLaw;
pub use provenance::{Band, Provenance, Source};
pub use roofline::{Roofline, Utilisation};
pub use shape::{GraphMode, StepShape};
pub use table::{Extrapolate, TableModel};

/// How long one forward step takes on its accelerators.
///
/// The question: what does a batch of this shape cost, from its first kernel to its last? What the
/// host does around a step is not part of it, see [`HostCosts`].
///
/// # Contract
///
/// - Pure and shared: the same shape gives the same time, whoever asks, on whatever thread.
/// - A shape without sequences takes no time.
/// - [`decode_law`](Self::decode_law) and [`explain`](Self::explain) agree with
///   [`step`](Self::step) to the bit. Hosts rely on it and do not check.
/// - Hosts ask only for shapes that they can run: sums that belong together, no more tokens than
///   their limits allow. What other shapes give is unspecified, but not a panic.
///
/// # Example
///
/// Any model, slower by a factor once a batch attends to more than `knee` tokens; below the knee it
/// keeps the closed form.
///
/// ```
/// use foretoken_latency_model::{Affine, DecodeLaw, Fine, LatencyModel, StepShape};
///
/// #[derive(Debug)]
/// struct Knee<M> {
///     inner: M,
///     knee: u64,
///     factor: u128,
/// }
///
/// impl<M: LatencyModel> LatencyModel for Knee<M> {
///     fn step(&self, shape: &StepShape) -> Fine {
///         let time = self.inner.step(shape);
///         if shape.decode_context < self.knee { time } else { time * self.factor }
///     }
///
///     fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
///         let room = self.knee.checked_sub(shape.decode_context + 1)?;
///         let steps = room / u64::from(shape.decodes) + 1;
///         Some(self.inner.decode_law(shape)?.limited(steps))
///     }
/// }
///
/// let model = Knee { inner: Affine::example(), knee: 1_000, factor: 2 };
/// let law = model.decode_law(&StepShape::decode(8, 900)).expect("below the knee");
/// assert_eq!(law.steps(), 13);
/// assert_eq!(law.step(12), model.step(&StepShape::decode(8, 996)));
/// assert!(model.decode_law(&StepShape::decode(8, 1_000)).is_none());
/// ```
pub trait LatencyModel: core::fmt::Debug + Send + Sync {
    /// Time of one step of this shape, from its first kernel to its last.
    fn step(&self, shape: &StepShape) -> Fine;

    /// The law of consecutive decode steps that start with `shape`, if the model has one in closed
    /// form; `shape` must be a pure decode step. Step 0 of the law equals [`step`](Self::step) of
    /// `shape`, to the bit, and so on for the following steps. `None` is always right: whoever asks
    /// then steps one by one.
    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        let _ = shape;
        None
    }

    /// The terms that [`step`](Self::step) is made of; they sum to it exactly.
    fn explain(&self, shape: &StepShape) -> Explanation {
        Explanation::new(vec![Term::new("step", self.step(shape), Bound::Unknown)])
    }

    /// How far to trust predictions of a run of this extent, and why not further. A zero extent asks
    /// for what holds of any run. By default the model states no doubts.
    fn confidence(&self, extent: &Extent) -> Confidence {
        let _ = extent;
        Confidence::default()
    }
}

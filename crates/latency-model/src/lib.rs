//! How long one forward step of an LLM takes, from physics.

pub mod additive;
pub mod affine;
mod arithmetic;
pub mod bounds;
pub mod error;
pub mod explain;
pub mod fine;
pub mod host;
pub mod kernels;
pub mod law;
pub mod number;
mod part;
pub mod provenance;
pub mod roofline;
pub mod shape;
mod shard;

pub use additive::{AdditiveCoefficients, AdditivePhysics};
pub use affine::Affine;
pub use arithmetic::KernelKind;
pub use bounds::bound_step;
pub use error::LatencyError;
pub use explain::{Bound, Explanation, Term};
pub use fine::Fine;
pub use host::HostCosts;
pub use kernels::{KernelParameters, KernelPhysics, RuntimeParameters, StepOverheads};
pub use law::DecodeLaw;
pub use provenance::{Band, Provenance};
pub use roofline::{Roofline, Utilisation};
pub use shape::{GraphMode, StepShape};

/// How long one forward step takes on its accelerators.
///
/// Pure and shared: the same shape gives the same time, whoever asks, on whatever thread.
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
}

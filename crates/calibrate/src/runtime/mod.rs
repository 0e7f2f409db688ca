//! Fits the costs of the serving software to whole experiments, through the whole simulator.
//!
//! A [`Timing`] is a form of latency model with parameters that may move; [`Experiments`] run it and
//! compare. [`fit`] searches for the parameters of least loss: the root mean square over
//! experiments of the relative error of mean TTFT, plus that of mean E2E latency, all experiments
//! with equal weight. [`sensitivities`], [`cross_validate`] and [`ablate`] say what the result is
//! worth.
//!
//! ```no_run
//! use std::sync::Arc;
//! use foretoken::hwspec::Catalog;
//! use foretoken_calibrate::runtime::{Experiments, KernelTiming, Schedule, fit, runtime_toml, sensitivities};
//!
//! let file = serde_json::from_str(&std::fs::read_to_string("measured.json")?)?;
//! let experiments = Experiments::new(&file, 0, &Catalog::builtin())?;
//! let timing = KernelTiming::default();
//! let schedule = Schedule::default();
//! let fitted = fit(&timing, &experiments, &schedule)?;
//! let slopes = sensitivities(&timing, &experiments, &fitted, &schedule)?;
//! std::fs::write("runtime.toml", runtime_toml(&timing, &fitted, &slopes)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod additive;
mod coefficients;
mod experiments;
mod fit;
mod kernel;
mod report;
mod toml_file;
mod worth;

use std::sync::Arc;

use foretoken::deployment::Resolved;
use foretoken::hwspec::KvFormat;
use foretoken::latency_model::{HostCosts, LatencyError, LatencyModel};

pub use self::additive::{AdditiveTiming, RooflineTiming};
pub use self::experiments::Experiments;
pub use self::fit::{Coefficient, Fitted, Schedule, fit};
pub use self::kernel::KernelTiming;
pub use self::report::RuntimeReport;
pub use self::toml_file::runtime_toml;
pub use self::worth::{
    Ablation, CrossValidation, Fold, Sensitivity, ablate, cross_validate, sensitivities,
};

use crate::optimizer::Space;

/// A form of latency model whose parameters a fit may move.
pub trait Timing: Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// What may move; nothing by default.
    fn space(&self) -> Option<&Space> {
        None
    }

    /// All that its times depend on beside deployment and candidate, as text: a log of evaluations
    /// is good only as long as this stays the same.
    fn fixed(&self) -> String;

    /// The model of a deployment, and its host costs, at a candidate of the space (none if it has
    /// no space).
    ///
    /// # Errors
    /// If it cannot time this deployment.
    fn build(
        &self,
        values: &[f64],
        deployment: &Resolved,
        kv: KvFormat,
    ) -> Result<(Arc<dyn LatencyModel>, HostCosts), LatencyError>;
}

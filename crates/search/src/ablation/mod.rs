//! Ablation: what each feature of a deployment is worth, alone and beside the others.
//!
//! An [`Ablation`] has a scenario with all its features off, and says how each is switched on. Any set
//! of features is a *coalition*; what it is worth is a number of its run ([`AblationValue`]). Three
//! questions are asked of the same runs:
//!
//! - the **ladder**: what does each feature add if they are switched on in order?
//! - **leave-one-out**: what is lost without each of them?
//! - **Shapley values**: what does each add on average over all orders? They sum to the gain of all
//!   features together.
//!
//! The gain of a feature depends on what else is on, so that the three differ; the Shapley value is the
//! only one that is fair to all orders. Every coalition is run once per replication, with the same
//! arrivals, lengths and texts as all others, and gains are differences of such pairs.
//!
//! ```
//! use foretoken::Scenario;
//! use foretoken_search::Environment;
//! use foretoken_search::ablation::{Ablation, AblationValue};
//!
//! let scenario: Scenario = serde_json::from_str(r#"{
//!     "deployment": { "model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "L4",
//!                     "engine": { "max-model-len": 4096 } },
//!     "workload": { "synthetic": {
//!         "arrivals": { "poisson": { "rate-rps": 4 } }, "requests": 40,
//!         "prompt-tokens": { "constant": { "tokens": 500 } },
//!         "output-tokens": { "uniform": { "min": 20, "max": 200 } }
//!     } }
//! }"#)?;
//! let environment = Environment::builtin();
//! let mut ablation = Ablation::of_engine(&scenario, AblationValue::Minimise("ttft-mean-ms".parse()?), &environment)?;
//! ablation.features.truncate(2);
//! let report = ablation.run(&environment, &|_, _| ())?;
//! assert_eq!(report.ladder[0].feature, "continuous batching");
//! let shares: f64 = report.shapley.iter().map(|share| share.gain.estimate.mean).sum();
//! let total = report.total.estimate.mean;
//! assert!((shares - total).abs() < 1e-9 * total.abs());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coalition;
mod engine_ladder;
mod report;
mod shapley;
mod spec;
mod study;
#[cfg(test)]
mod tests;

pub use report::{AblationReport, Gain, Share, Step};
pub use shapley::ShapleyMethod;
pub use spec::{Ablation, AblationValue, Feature};

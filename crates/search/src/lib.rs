//! Finds the deployment: which one meets the objectives for the least money, and why.
//!
//! Everything here runs scenarios through the simulator and compares what comes out. An
//! [`Environment`] knows accelerators, models, coefficients and prices; [`Setting`]s turn one
//! scenario into another; a [`Metric`] is a number of a run by its name.
//!
//! ```
//! use foretoken::Scenario;
//! use foretoken_search::{Environment, Metric, Setting};
//!
//! let scenario: Scenario = serde_json::from_str(r#"{
//!     "deployment": { "model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "H100-SXM-80GB" },
//!     "workload": { "synthetic": {
//!         "arrivals": { "poisson": { "rate-rps": 4 } }, "requests": 100,
//!         "prompt-tokens": { "constant": { "tokens": 500 } },
//!         "output-tokens": { "constant": { "tokens": 100 } }
//!     } }
//! }"#)?;
//! let environment = Environment::builtin();
//! let wide = Setting::new("tensor-parallel", 2).apply(&scenario)?;
//! let ttft: Metric = "ttft-p99-ms".parse()?;
//! let (one, two) = (environment.measure(&scenario)?, environment.measure(&wide)?);
//! assert!(ttft.of(&two) < ttft.of(&one));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Search`] runs many candidates of a [`Space`] and says which are best.

pub mod ablation;
pub mod compare;
mod environment;
mod error;
mod front;
pub mod goodput;
pub mod interactivity;
mod journal;
mod judgement;
mod method;
mod metric;
mod objective;
pub mod plan;
mod replications;
mod search;
mod setting;
mod space;

pub use environment::{Environment, Measured};
pub use error::SearchError;
pub use goodput::{GoodputReport, GoodputSpec};
pub use judgement::Judgement;
pub use method::Method;
pub use metric::{Direction, LatencyKind, Metric, Statistic};
pub use objective::{Bound, Constraint, Objective};
pub use plan::{CapacityPlan, PlanSpec};
pub use search::{Candidate, Counts, Search, SearchResult, SearchSpec, Standing};
pub use setting::Setting;
pub use space::{Choices, GpuBudget, Knob, Levels, Range, Space};

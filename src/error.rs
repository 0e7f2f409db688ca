//! [`Error`]: everything that can go wrong between a description and a report.

use foretoken_dataplane::DataplaneError;
use foretoken_engine::EngineError;
use foretoken_hwspec::HwspecError;
use foretoken_latency_model::LatencyError;
use foretoken_workload::WorkloadError;

/// Why a simulation cannot be built or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An accelerator, a model or a memory plan.
    #[error(transparent)]
    Hardware(#[from] HwspecError),
    /// A latency model.
    #[error(transparent)]
    Latency(#[from] LatencyError),
    /// An engine's settings.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A router's configuration file.
    #[error("{}: {problem}", file.display())]
    RouterConfig {
        /// The file.
        file: std::path::PathBuf,
        /// What is wrong, with line and field.
        problem: String,
    },
    /// A policy of a gateway.
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
    /// A workload.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A setting of the simulation itself.
    #[error("{field} is {value}: allowed is {allowed}")]
    OutOfRange {
        /// Path to the configuration key.
        field: String,
        /// The offending value.
        value: String,
        /// What would be right.
        allowed: String,
    },
    /// A part that a simulation cannot do without.
    #[error("a simulation needs {needed}: call Simulation::{method}")]
    Missing {
        /// What is missing.
        needed: &'static str,
        /// The builder method that gives it.
        method: &'static str,
    },
    /// A policy gave an answer that makes no sense.
    #[error("the {policy} answered {answer}: allowed is {allowed}")]
    Policy {
        /// Which policy.
        policy: String,
        /// What it answered.
        answer: String,
        /// What would be right.
        allowed: String,
    },
    /// An engine works on and on without serving anybody.
    #[error(
        "engine {engine} is stuck at {at}: {wakes} steps without an output token; its queue order and preemption \
         policy take the same blocks back and forth, or its KV cache is too small for them; with KV from other engines \
         vLLM before 0.33 can deadlock: set vllm-version to 0.33"
    )]
    Stuck {
        /// Number of the engine.
        engine: u32,
        /// The simulated time.
        at: foretoken_des_kernel::SimTime,
        /// Steps without an output token.
        wakes: u64,
    },
    /// Every request of an engine waits for KV blocks that another of them holds.
    #[error(
        "engine {engine} has stalled at {at}: requests whose KV comes from another engine hold the blocks that the \
         head of the queue needs, as can happen in vLLM before 0.33; give it more KV blocks or set vllm-version"
    )]
    Stalled {
        /// Number of the engine.
        engine: u32,
        /// The simulated time.
        at: foretoken_des_kernel::SimTime,
    },
    /// Requests wait in a gateway, without a time to live, and nothing will ever let them go.
    #[error(
        "{requests} requests wait in the gateway at {at} for ever: nothing is in flight, the pool is empty or its \
         saturation stays at the ceiling, and they have no time to live; set a defaultRequestTTL or a horizon"
    )]
    Waiting {
        /// How many.
        requests: usize,
        /// The simulated time.
        at: foretoken_des_kernel::SimTime,
    },
    /// A file of measured experiments that cannot be read.
    #[error("experiment {experiment}: {problem}")]
    Experiment {
        /// Its id.
        experiment: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    pub(crate) fn out_of_range(
        field: impl Into<String>,
        value: &impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Self::OutOfRange {
            field: field.into(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

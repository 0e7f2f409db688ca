//! [`Scenario`]: a whole simulation as plain data.

use foretoken_des_kernel::SimTime;
use foretoken_hwspec::Catalog;
use foretoken_metrics::Report;
use foretoken_workload::WorkloadSpec;
use serde::{Deserialize, Serialize};

use crate::deployment::{Deployment, Physics};
use crate::error::Error;
use crate::simulation::Simulation;

/// A deployment under a workload: what a file describes and `foretoken run` runs.
///
/// ```
/// use foretoken::prelude::*;
///
/// let scenario: Scenario = serde_json::from_str(r#"{
///     "deployment": { "model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "H100" },
///     "workload": { "synthetic": {
///         "arrivals": { "poisson": { "rate-rps": 4 } }, "requests": 100,
///         "prompt-tokens": { "constant": { "tokens": 500 } },
///         "output-tokens": { "constant": { "tokens": 100 } }
///     } },
///     "seed": 1
/// }"#)?;
/// let report = scenario.run(&Catalog::builtin(), &Physics::default())?;
/// assert_eq!(report.overall.counts.finished, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// What serves.
    pub deployment: Deployment,
    /// What is asked.
    pub workload: WorkloadSpec,
    /// Names the experiment; 0 by default.
    #[serde(default)]
    pub seed: u64,
    /// Names the repetition; 0 by default.
    #[serde(default)]
    pub replication: u64,
    /// Ends the run at this simulated time, in seconds; by default it runs until all is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizon_s: Option<f64>,
}

impl Scenario {
    /// A deployment under a workload, seed 0.
    pub fn new(deployment: Deployment, workload: impl Into<WorkloadSpec>) -> Self {
        let workload = workload.into();
        Self {
            deployment,
            workload,
            seed: 0,
            replication: 0,
            horizon_s: None,
        }
    }

    /// The simulation described.
    ///
    /// # Errors
    /// [`Error`] names the key, its value and what is allowed.
    pub fn build(&self, catalog: &Catalog, physics: &Physics) -> Result<Simulation, Error> {
        let resolved = self.deployment.resolve(catalog, physics)?;
        let mut simulation = Simulation::new()
            .workload(self.workload.clone())
            .seed(self.seed)
            .replication(self.replication);
        for _ in 0..self.deployment.replicas {
            simulation = simulation.engine(
                resolved.engine.clone(),
                resolved.policy.policies(),
                resolved.latency.clone(),
            );
        }
        if let Some(seconds) = self.horizon_s {
            let horizon = SimTime::try_from_secs_f64(seconds)
                .map_err(|_| Error::out_of_range("horizon-s", &seconds, "0 to 1.8e10 seconds"))?;
            simulation = simulation.horizon(horizon);
        }
        Ok(simulation)
    }

    /// Builds and runs it.
    ///
    /// # Errors
    /// As [`build`](Self::build) and [`Simulation::run`].
    pub fn run(&self, catalog: &Catalog, physics: &Physics) -> Result<Report, Error> {
        self.build(catalog, physics)?.run()
    }
}

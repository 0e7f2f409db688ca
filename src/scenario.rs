//! [`Scenario`]: a whole simulation as plain data.

use foretoken_dataplane::view::ROLE_LABEL;
use foretoken_des_kernel::{RngStreams, SimTime};
use foretoken_engine::{Batching, KvAllocation};
use foretoken_hwspec::Catalog;
use foretoken_latency_model::{Confidence, Extent};
use foretoken_metrics::{
    DecodeSteps, MetricSink, RecordSink, Recorder, Recording, Report, Slos, StepRecord,
};
use foretoken_workload::{TokenRun, WorkloadSpec};
use serde::{Deserialize, Serialize};

use crate::deployment::{Deployment, Physics, Resolved};
use crate::energy::{Energy, Meter};
use crate::error::Error;
use crate::gateway::GatewaySpec;
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
    /// What else serves in the same pool: other models' settings, accelerators or roles. Engines are
    /// numbered in the order in which they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_deployments: Vec<Deployment>,
    /// What stands before them. Without it requests go to one engine after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySpec>,
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
    /// What the clients of each class of service were promised; nothing by default.
    #[serde(default, skip_serializing_if = "Slos::is_empty")]
    pub slos: Slos,
    /// Whether engines go [step by step](Simulation::step_by_step). The result is the same, so that it is
    /// no part of the description.
    #[serde(skip)]
    pub step_by_step: bool,
}

impl Scenario {
    /// A deployment under a workload, seed 0.
    pub fn new(deployment: Deployment, workload: impl Into<WorkloadSpec>) -> Self {
        let workload = workload.into();
        Self {
            deployment,
            other_deployments: Vec::new(),
            gateway: None,
            workload,
            seed: 0,
            replication: 0,
            horizon_s: None,
            slos: Slos::default(),
            step_by_step: false,
        }
    }

    /// All deployments with their names looked up.
    ///
    /// # Errors
    /// [`Error`] names the key, its value and what is allowed.
    pub fn resolve(&self, catalog: &Catalog, physics: &Physics) -> Result<Vec<Resolved>, Error> {
        core::iter::once(&self.deployment)
            .chain(&self.other_deployments)
            .map(|deployment| deployment.resolve(catalog, physics))
            .collect()
    }

    /// The simulation described.
    ///
    /// # Errors
    /// [`Error`] names the key, its value and what is allowed.
    pub fn build(&self, catalog: &Catalog, physics: &Physics) -> Result<Simulation, Error> {
        self.build_with(&self.resolve(catalog, physics)?)
    }

    /// The same for deployments that are resolved already, perhaps with other latency models.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_with(&self, resolved: &[Resolved]) -> Result<Simulation, Error> {
        let mut simulation = Simulation::new()
            .workload(self.workload.clone())
            .seed(self.seed)
            .replication(self.replication);
        if self.step_by_step {
            simulation = simulation.step_by_step();
        }
        check_roles(resolved)?;
        for deployment in resolved {
            for _ in 0..deployment.replicas {
                simulation = simulation.instance(deployment.instance());
            }
        }
        if let Some(gateway) = &self.gateway {
            let streams = RngStreams::new(self.seed, self.replication);
            simulation = gateway.apply(simulation, resolved, &streams)?;
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
        Ok(self.predict(catalog, physics)?.report)
    }

    /// Builds and runs it, and says how far to trust the report.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn predict(&self, catalog: &Catalog, physics: &Physics) -> Result<Prediction, Error> {
        self.predict_with(&self.resolve(catalog, physics)?)
    }

    /// The same for deployments that are resolved already, perhaps with other latency models.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn predict_with(&self, resolved: &[Resolved]) -> Result<Prediction, Error> {
        Ok(self.record(resolved, Recorder::streaming(()))?.0)
    }

    /// The same as [`predict`](Self::predict) with what `recorder` took down.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn predict_recorded<R: RecordSink>(
        &self,
        catalog: &Catalog,
        physics: &Physics,
        recorder: Recorder<R>,
    ) -> Result<(Prediction, Recording<R>), Error> {
        self.record(&self.resolve(catalog, physics)?, recorder)
    }

    fn record<R: RecordSink>(
        &self,
        resolved: &[Resolved],
        recorder: Recorder<R>,
    ) -> Result<(Prediction, Recording<R>), Error> {
        let sink = (
            recorder.judging(&self.slos),
            Reach::default(),
            Meter::default(),
        );
        let ((recorder, reach, meter), end) = self.build_with(resolved)?.run_with(sink)?;
        let recording = recorder.finish(end.at);
        let report = Report::new(&recording, self.seed, self.replication);
        // With the longest sequence that was scheduled.
        let extent = Extent {
            context: recording.longest_sequence(),
            ..reach.0
        };
        let confidence = resolved
            .iter()
            .map(|deployment| deployment.latency.confidence(&extent))
            .reduce(Confidence::and)
            .unwrap_or_default();
        let prediction = Prediction {
            energy: meter.energy(resolved, &report),
            report,
            confidence,
        };
        Ok((prediction, recording))
    }
}

/// Deployments with roles hand KV blocks over to each other, so these have to be alike.
fn check_roles(deployments: &[Resolved]) -> Result<(), Error> {
    let mut with_roles = (0..)
        .zip(deployments)
        .filter(|(_, deployment)| deployment.labels.contains_key(ROLE_LABEL));
    let field = |number: usize, key: &str| match number {
        0 => format!("deployment.{key}"),
        number => format!("other-deployments[{}].{key}", number - 1),
    };
    for (number, deployment) in with_roles.clone() {
        check_exchange(deployment, |key| field(number, key))?;
    }
    let Some((_, first)) = with_roles.next() else {
        return Ok(());
    };
    for (number, other) in with_roles {
        let field = |key: &str| field(number, key);
        let allowed = |value: &dyn core::fmt::Display| {
            format!(
                "{value}, as the other deployments with a role have it: they exchange KV blocks"
            )
        };
        if other.model.name != first.model.name {
            let (value, allowed) = (&other.model.name, allowed(&first.model.name));
            return Err(Error::out_of_range(field("model"), value, allowed));
        }
        let block_size = |resolved: &Resolved| resolved.engine.scheduler.block_size;
        if block_size(other) != block_size(first) {
            let (value, allowed) = (&block_size(other), allowed(&block_size(first)));
            return Err(Error::out_of_range(
                field("engine.block-size"),
                value,
                allowed,
            ));
        }
        if other.block_bytes != first.block_bytes {
            let allowed = allowed(&first.block_bytes);
            let field = field("engine.kv-cache-dtype (bytes of a block)");
            return Err(Error::out_of_range(field, &other.block_bytes, allowed));
        }
    }
    Ok(())
}

/// Systems with static batches or reserved memory exchanged no KV blocks.
fn check_exchange(deployment: &Resolved, field: impl Fn(&str) -> String) -> Result<(), Error> {
    let scheduler = &deployment.engine.scheduler;
    let (key, value, allowed) = if scheduler.batching == Batching::Static {
        ("engine.batching", "static", "continuous")
    } else if scheduler.kv_allocation == KvAllocation::Reserved {
        ("engine.kv-allocation", "reserved", "paged")
    } else {
        return Ok(());
    };
    let allowed = format!("{allowed} in a deployment with a role: it exchanges KV blocks");
    Err(Error::out_of_range(field(key), &value, allowed))
}

/// A report, and how far to trust it. As JSON the report with the keys `energy`, where it is known, and `confidence`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// The run in numbers.
    #[serde(flatten)]
    pub report: Report,
    /// What the accelerators drew; `None` if the board power of one is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// How far to trust them, by what the run asked of the latency model.
    pub confidence: Confidence,
}

impl core::fmt::Display for Prediction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.report)?;
        if let Some(energy) = &self.energy {
            write!(f, "\n{energy}")?;
        }
        write!(f, "\n\n{}", self.confidence)
    }
}

/// Listens for the largest steps of a run.
#[derive(Debug, Default)]
struct Reach(Extent);

impl MetricSink for Reach {
    fn on_tokens(&mut self, _: &TokenRun<'_>) {}

    fn on_step(&mut self, step: &StepRecord) {
        self.0 = self.0.max(Extent {
            sequences: step.sequences.into(),
            tokens: step.tokens.into(),
            ..Extent::default()
        });
    }

    fn on_decode_steps(&mut self, steps: &DecodeSteps<'_>) {
        // They are alike but for their times.
        if let Some(step) = steps.records().next() {
            self.on_step(&step);
        }
    }
}

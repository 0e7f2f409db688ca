//! [`Experiments`]: measured experiments, ready to be simulated again and again.

use std::fmt::Write as _;
use std::sync::Arc;

use foretoken::deployment::{Physics, Resolved};
use foretoken::hwspec::Catalog;
use foretoken::validation::{Comparison, Experiment, ExperimentFile, ValidationSummary};
use foretoken::{Error, Scenario, sweep};

use super::Timing;
use crate::error::CalibrateError;
use crate::progress::fingerprint;

/// Measured experiments whose names are looked up and whose memory is planned, once for all
/// candidates of a fit.
#[derive(Debug, Clone)]
pub struct Experiments {
    prepared: Vec<Arc<Prepared>>,
    seed: u64,
}

#[derive(Debug)]
struct Prepared {
    experiment: Experiment,
    resolved: Resolved,
    scenario: Scenario,
}

impl Prepared {
    fn new(experiment: &Experiment, seed: u64, catalog: &Catalog) -> Result<Self, Error> {
        let scenario = experiment.scenario(seed)?;
        Ok(Self {
            resolved: scenario.deployment.resolve(catalog, &Physics::default())?,
            experiment: experiment.clone(),
            scenario,
        })
    }

    fn run(&self, timing: &dyn Timing, values: &[f64]) -> Result<Comparison, Error> {
        let kv = self.scenario.deployment.engine.kv_cache_dtype;
        let mut resolved = self.resolved.clone();
        (resolved.latency, resolved.engine.host) = timing.build(values, &self.resolved, kv)?;
        self.experiment
            .against(self.scenario.predict_with(&[resolved])?)
    }
}

impl Experiments {
    /// Prepares the experiments of a file; `seed` is that of the arrivals and prompts.
    ///
    /// # Errors
    /// [`CalibrateError::OutOfRange`] if there is none; [`CalibrateError::Simulation`] names the
    /// experiment that makes no sense.
    pub fn new(
        file: &ExperimentFile,
        seed: u64,
        catalog: &Catalog,
    ) -> Result<Self, CalibrateError> {
        if file.experiments.is_empty() {
            let allowed = "at least one experiment";
            return Err(CalibrateError::out_of_range(
                "experiments",
                &"empty",
                allowed,
            ));
        }
        let prepare = |experiment: &Experiment| {
            let prepared = Prepared::new(experiment, seed, catalog);
            Ok(Arc::new(prepared.map_err(|e| named(experiment, &e))?))
        };
        let prepared = file.experiments.iter().map(prepare);
        Ok(Self {
            prepared: prepared.collect::<Result<_, CalibrateError>>()?,
            seed,
        })
    }

    /// How many experiments.
    pub fn len(&self) -> usize {
        self.prepared.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.prepared.is_empty()
    }

    /// The models, each once, in the order of the file.
    pub fn models(&self) -> Vec<String> {
        let mut models = Vec::new();
        for prepared in &self.prepared {
            if !models.contains(&prepared.experiment.model) {
                models.push(prepared.experiment.model.clone());
            }
        }
        models
    }

    /// The experiments of one model.
    #[must_use]
    pub fn of(&self, model: &str) -> Self {
        let of_model = self.prepared.iter();
        let of_model = of_model.filter(|p| p.experiment.model == model);
        Self {
            prepared: of_model.cloned().collect(),
            seed: self.seed,
        }
    }

    /// Whether each experiment is of another model than this.
    pub(super) fn other_than(&self, model: Option<&str>) -> Vec<bool> {
        let models = self.prepared.iter().map(|p| p.experiment.model.as_str());
        models.map(|m| Some(m) != model).collect()
    }

    /// Predictions beside measurements at a candidate, in the order of the file, on all of rayon's
    /// threads.
    ///
    /// # Errors
    /// [`CalibrateError::Simulation`] names the experiment that cannot be run.
    pub fn compare(
        &self,
        timing: &dyn Timing,
        values: &[f64],
    ) -> Result<Vec<Comparison>, CalibrateError> {
        let results = sweep(&self.prepared, |prepared| {
            prepared
                .run(timing, values)
                .map_err(|error| named(&prepared.experiment, &error))
        });
        results.into_iter().collect()
    }

    /// The loss at a candidate.
    ///
    /// # Errors
    /// As [`compare`](Self::compare).
    pub fn loss(&self, timing: &dyn Timing, values: &[f64]) -> Result<f64, CalibrateError> {
        let summary = ValidationSummary::of(&self.compare(timing, values)?);
        // Nothing compared is nothing explained.
        Ok(summary.loss.unwrap_or(f64::INFINITY))
    }

    /// The relative errors of mean TTFT of all experiments, then those of mean E2E latency.
    ///
    /// # Errors
    /// As [`compare`](Self::compare).
    pub(super) fn residuals(
        &self,
        timing: &dyn Timing,
        values: &[f64],
    ) -> Result<Vec<f64>, CalibrateError> {
        let comparisons = self.compare(timing, values)?;
        let errors: Vec<_> = comparisons.iter().map(Comparison::errors).collect();
        let ttft = errors.iter().map(|e| e.ttft_mean);
        let e2e = errors.iter().map(|e| e.e2e_mean);
        // What cannot be compared is infinitely bad.
        let all = ttft.chain(e2e);
        let all = all.map(|e| e.map_or(f64::INFINITY, |percent| percent / 100.0));
        Ok(all.collect())
    }

    /// Stands for everything that a loss depends on beside the candidate.
    pub(super) fn context(&self, timing: &dyn Timing) -> u64 {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!(
            "{version} {} {} {:?} {}",
            timing.name(),
            timing.fixed(),
            timing.space(),
            self.seed
        );
        for prepared in &self.prepared {
            let Prepared {
                experiment,
                resolved,
                ..
            } = prepared.as_ref();
            let (model, gpu) = (&resolved.model, &resolved.gpu);
            let _ = write!(text, "{experiment:?}{model:?}{gpu:?}");
        }
        fingerprint(&text)
    }
}

/// An error with the name of its experiment.
fn named(experiment: &Experiment, error: &Error) -> CalibrateError {
    let problem = match error {
        Error::Experiment { problem, .. } => problem.clone(),
        other => other.to_string(),
    };
    let experiment = experiment.id.clone();
    Error::Experiment {
        experiment,
        problem,
    }
    .into()
}

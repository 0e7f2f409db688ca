//! [`Variant`]: one of several ways to serve the same requests.

use core::fmt;

use foretoken::metrics::{Recorder, Report, Slos};
use foretoken::workload::WorkloadSpec;
use foretoken::{Energy, Error, Fleet, Scenario, Simulation};

use crate::environment::Environment;
use crate::error::SearchError;

/// One run of a comparison: a workload with the draws of a replication.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Trial<'a> {
    /// The name of the workload.
    pub name: &'a str,
    /// What is asked.
    pub workload: &'a WorkloadSpec,
    /// Names the experiment.
    pub seed: u64,
    /// Names the repetition of the experiment.
    pub replication: u64,
    /// What simulations are judged by.
    pub slos: &'a Slos,
}

/// What one run gave.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Observed {
    /// The run in numbers.
    pub report: Report,
    /// What served; not known of a simulation.
    pub fleet: Option<Fleet>,
    /// What it drew, where that is known.
    pub energy: Option<Energy>,
}

type Run<'a> = dyn Fn(&Trial<'_>) -> Result<Observed, SearchError> + Send + Sync + 'a;

/// One of several ways to serve the same requests.
pub struct Variant<'a> {
    name: String,
    run: Box<Run<'a>>,
}

impl fmt::Debug for Variant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variant")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<'a> Variant<'a> {
    /// A simulation with policies of one's own, built anew for each trial. The comparison adds the trial's workload,
    /// seed and replication.
    pub fn simulation(
        name: impl Into<String>,
        build: impl Fn(&Trial<'_>) -> Result<Simulation, Error> + Send + Sync + 'a,
    ) -> Self {
        let run = move |trial: &Trial<'_>| {
            let &Trial {
                workload,
                seed,
                replication,
                ..
            } = trial;
            let simulation = build(trial)?
                .workload(workload.clone())
                .seed(seed)
                .replication(replication);
            let recorder = Recorder::streaming(()).judging(trial.slos);
            let (recorder, end) = simulation.run_with(recorder)?;
            Ok(Observed {
                report: Report::new(&recorder.finish(end.at), seed, replication),
                fleet: None,
                energy: None,
            })
        };
        Self {
            name: name.into(),
            run: Box::new(run),
        }
    }

    /// A scenario, under the workloads of the comparison in place of its own.
    ///
    /// # Errors
    /// As [`Scenario::resolve`].
    pub fn scenario(
        name: impl Into<String>,
        environment: &Environment,
        scenario: Scenario,
    ) -> Result<Self, SearchError> {
        Self::of_scenario(name.into(), environment, scenario, |trial, scenario| {
            scenario.workload = trial.workload.clone();
        })
    }

    /// A scenario under its own workload, whatever the comparison's are.
    ///
    /// # Errors
    /// As [`Scenario::resolve`].
    pub fn whole_scenario(
        name: impl Into<String>,
        environment: &Environment,
        scenario: Scenario,
    ) -> Result<Self, SearchError> {
        Self::of_scenario(name.into(), environment, scenario, |_, _| {})
    }

    fn of_scenario(
        name: String,
        environment: &Environment,
        scenario: Scenario,
        adapt: fn(&Trial<'_>, &mut Scenario),
    ) -> Result<Self, SearchError> {
        let resolved = scenario.resolve(&environment.catalog, &environment.physics)?;
        let fleet = Fleet::of(&resolved, &environment.prices);
        let run = move |trial: &Trial<'_>| {
            let mut scenario = scenario.clone();
            adapt(trial, &mut scenario);
            (scenario.seed, scenario.replication) = (trial.seed, trial.replication);
            let prediction = scenario.predict_with(&resolved)?;
            Ok(Observed {
                report: prediction.report,
                fleet: Some(fleet),
                energy: prediction.energy,
            })
        };
        Ok(Self {
            name,
            run: Box::new(run),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it once.
    pub(super) fn observe(&self, trial: &Trial<'_>) -> Result<Observed, SearchError> {
        (self.run)(trial)
    }
}

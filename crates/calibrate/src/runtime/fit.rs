//! [`fit`]: the parameters of least loss.

use std::sync::Arc;

use foretoken::validation::{Comparison, ValidationSummary};
use serde::Serialize;

use super::{Experiments, Timing};
use crate::error::CalibrateError;
use crate::optimizer::{CmaEs, GoldenSection, Optimizer, Search, Space, minimise};
use crate::progress::Log;

/// How long to search, from which seed, with which log.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Seed of the search; 1 by default.
    pub seed: u64,
    /// Evaluations of all experiments; 360 by default. The first four fifths go to CMA-ES, the rest
    /// to golden-section polish.
    pub evaluations: usize,
    /// Where evaluations are kept; in memory by default.
    pub log: Arc<Log>,
    /// Whether progress bars are shown on standard error; not by default.
    pub progress: bool,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            seed: 1,
            evaluations: 360,
            log: Arc::default(),
            progress: false,
        }
    }
}

/// A fitted coefficient.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Coefficient {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// The least value that physics allows.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

/// A form of latency model at its best candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Fitted {
    /// The form.
    pub timing: &'static str,
    /// Its coefficients; none if it was not fitted.
    pub coefficients: Vec<Coefficient>,
    /// Seed of the search.
    pub seed: u64,
    /// Evaluations that the search took.
    pub evaluations: usize,
    /// Medians and loss.
    pub summary: ValidationSummary,
    /// Every experiment.
    pub experiments: Vec<Comparison>,
}

impl Fitted {
    /// The candidate.
    pub fn values(&self) -> Vec<f64> {
        self.coefficients.iter().map(|c| c.value).collect()
    }
}

/// Searches for the parameters of least loss: CMA-ES over all of them from the space's start, then
/// golden-section polish of one after the other. A form without a space is only evaluated.
///
/// The same experiments, schedule and form give the same result, on any number of threads.
///
/// # Errors
/// [`CalibrateError`] if the schedule is too short or an experiment cannot be run.
pub fn fit(
    timing: &dyn Timing,
    experiments: &Experiments,
    schedule: &Schedule,
) -> Result<Fitted, CalibrateError> {
    let (values, evaluations) = match timing.space() {
        None => (Vec::new(), 0),
        Some(space) => search(timing, experiments, schedule, space, Strategy::COLD)?,
    };
    evaluate(timing, experiments, schedule.seed, &values, evaluations)
}

/// How the two parts of a search go about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strategy {
    /// Initial standard deviation, as a share of each range.
    width: f64,
    /// Rounds of polish over all parameters.
    rounds: u32,
    /// Probes of each.
    probes: u32,
}

impl Strategy {
    /// From a guess.
    pub(super) const COLD: Self = Self {
        width: 0.2,
        rounds: 2,
        probes: 4,
    };
    /// From what is nearly right.
    pub(super) const WARM: Self = Self {
        width: 0.1,
        rounds: 1,
        probes: 2,
    };
}

/// The best candidate, and how many were looked at.
pub(super) fn search(
    timing: &dyn Timing,
    experiments: &Experiments,
    schedule: &Schedule,
    space: &Space,
    strategy: Strategy,
) -> Result<(Vec<f64>, usize), CalibrateError> {
    let loss = |values: &[f64]| experiments.loss(timing, values);
    let run = |optimizer: &mut dyn Optimizer, evaluations: usize, label: &str| {
        let search =
            Search::new(evaluations).with_log(schedule.log.clone(), experiments.context(timing));
        let search = if schedule.progress {
            search.shown_as(format!("{}, {label}", timing.name()))
        } else {
            search
        };
        minimise(optimizer, &loss, &search)
    };
    let mut explore = CmaEs::new(space.clone(), schedule.seed).with_width(strategy.width);
    let (budget, least) = (schedule.evaluations, explore.population() * 5 / 4 + 1);
    if budget < least {
        let allowed = format!("{least} or more for each search");
        return Err(CalibrateError::out_of_range(
            "evaluations",
            &budget,
            allowed,
        ));
    }
    let explored = run(&mut explore, budget * 4 / 5, "explore")?;
    let left = budget - explored.evaluations;
    let mut polish = GoldenSection::new(space.clone().starting_at(&explored.values)?)
        .with_rounds(strategy.rounds)
        .with_probes(strategy.probes);
    let polished = run(&mut polish, left, "polish")?;
    let evaluations = explored.evaluations + polished.evaluations;
    Ok((polished.values, evaluations))
}

/// A form at a candidate.
pub(super) fn evaluate(
    timing: &dyn Timing,
    experiments: &Experiments,
    seed: u64,
    values: &[f64],
    evaluations: usize,
) -> Result<Fitted, CalibrateError> {
    let comparisons = experiments.compare(timing, values)?;
    let parameters = timing.space().map_or(&[][..], Space::parameters);
    let coefficient = |(parameter, value): (&crate::optimizer::Parameter, &f64)| Coefficient {
        name: parameter.name.clone(),
        value: *value,
        unit: parameter.unit.clone(),
        low: parameter.low,
        high: parameter.high,
    };
    Ok(Fitted {
        timing: timing.name(),
        coefficients: parameters.iter().zip(values).map(coefficient).collect(),
        seed,
        evaluations,
        summary: ValidationSummary::of(&comparisons),
        experiments: comparisons,
    })
}

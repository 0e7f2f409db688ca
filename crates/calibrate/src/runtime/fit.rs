//! [`fit`]: the parameters of least loss.

use std::sync::Arc;

use foretoken::validation::{Comparison, ValidationSummary, published_loss};
use serde::Serialize;

use super::{Experiments, Timing};
use crate::error::CalibrateError;
use crate::optimizer::{Best, Parameter, Residuals, Search, Space, linearised};
use crate::progress::Log;

/// What moving a parameter through its whole range from its guess adds to the loss, growing with the
/// square: a third of the range adds about what the grain of a simulation does. Of candidates that
/// explain the experiments equally well, the one that is nearest to the guesses is taken.
const NEARNESS: f64 = 5e-3;

/// How long to search, from which seed, with which log.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Seed of the search; 1 by default.
    pub seed: u64,
    /// Evaluations of all experiments at the most; 200 by default. A search that has arrived ends
    /// earlier.
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
            evaluations: 200,
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

/// Searches for the parameters of least loss, from the space's start, by [`linearised`]. A form
/// without a space is only evaluated.
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
        Some(space) => {
            let best = search(timing, experiments, schedule, space, None)?;
            (best.values, best.evaluations)
        }
    };
    evaluate(timing, experiments, schedule.seed, &values, evaluations)
}

/// Errors of all experiments, and the loss of those that count. Since all are evaluated, searches
/// that leave out different ones share what the log holds.
pub(super) struct Errors<'a> {
    timing: &'a dyn Timing,
    experiments: &'a Experiments,
    /// Whether each experiment counts.
    counts: Vec<bool>,
}

impl<'a> Errors<'a> {
    /// Of all models but this one.
    pub(super) fn new(
        timing: &'a dyn Timing,
        experiments: &'a Experiments,
        without: Option<&str>,
    ) -> Self {
        Self {
            timing,
            experiments,
            counts: experiments.other_than(without),
        }
    }

    /// The published loss at a candidate.
    pub(super) fn published_at(
        &self,
        values: &[f64],
        schedule: &Schedule,
    ) -> Result<f64, CalibrateError> {
        let context = self.experiments.context(self.timing);
        let evaluate = || self.residuals(values);
        let residuals = schedule.log.remember(context, values, evaluate)?;
        Ok(self.published(&residuals))
    }

    /// The published loss of such residuals.
    fn published(&self, residuals: &[f64]) -> f64 {
        let (ttft, e2e) = residuals.split_at(self.counts.len().min(residuals.len()));
        let [ttft, e2e] = [ttft, e2e].map(|part| {
            let pairs = part.iter().zip(&self.counts);
            pairs.filter_map(|(error, &counts)| counts.then_some(*error))
        });
        published_loss(ttft, e2e)
    }
}

impl Residuals for Errors<'_> {
    /// The errors, and then how far each parameter is from its guess.
    fn residuals(&self, values: &[f64]) -> Result<Vec<f64>, CalibrateError> {
        let mut residuals = self.experiments.residuals(self.timing, values)?;
        if let Some(space) = self.timing.space() {
            residuals.extend(space.distances(values));
        }
        Ok(residuals)
    }

    fn loss(&self, residuals: &[f64]) -> f64 {
        let guesses = residuals.iter().skip(2 * self.counts.len());
        self.published(residuals) + NEARNESS * guesses.map(|d| d * d).sum::<f64>()
    }
}

/// The best candidate for all experiments but those of one model.
pub(super) fn search(
    timing: &dyn Timing,
    experiments: &Experiments,
    schedule: &Schedule,
    space: &Space,
    without: Option<&str>,
) -> Result<Best, CalibrateError> {
    let errors = Errors::new(timing, experiments, without);
    let mut search = Search::new(schedule.evaluations)
        .with_log(schedule.log.clone(), experiments.context(timing));
    if schedule.progress {
        let without = without.map_or(String::new(), |model| format!(" without {model}"));
        search = search.shown_as(format!("{}{without}", timing.name()));
    }
    linearised(space, &errors, schedule.seed, &search)
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
    let coefficient = |(parameter, value): (&Parameter, &f64)| Coefficient {
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

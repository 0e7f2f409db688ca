//! [`minimise`]: drives an optimizer.

use std::sync::Arc;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::Optimizer;
use crate::error::CalibrateError;
use crate::progress::{Log, Progress};

/// What is to be made small.
pub trait Objective: Sync {
    /// The loss of a candidate; what is not finite counts as infinitely bad.
    ///
    /// It must be a pure function: candidates are evaluated in parallel, and what was evaluated once
    /// is not evaluated again.
    ///
    /// # Errors
    /// Whatever makes the whole search pointless.
    fn evaluate(&self, values: &[f64]) -> Result<f64, CalibrateError>;
}

impl<F: Fn(&[f64]) -> Result<f64, CalibrateError> + Sync> Objective for F {
    fn evaluate(&self, values: &[f64]) -> Result<f64, CalibrateError> {
        self(values)
    }
}

/// How a search is run: its budget, its log, its progress bar.
#[derive(Debug, Clone)]
pub struct Search {
    pub(super) evaluations: usize,
    pub(super) log: Arc<Log>,
    pub(super) context: u64,
    label: Option<String>,
}

impl Search {
    /// A search of so many evaluations at the most, which keeps its log in memory and shows nothing.
    pub fn new(evaluations: usize) -> Self {
        Self {
            evaluations,
            log: Arc::default(),
            context: 0,
            label: None,
        }
    }

    /// Keeps evaluations in this log, and takes from it what it already holds. `context` names all
    /// that a loss depends on beside the candidate: data, settings, the form that is fitted.
    #[must_use]
    pub fn with_log(mut self, log: Arc<Log>, context: u64) -> Self {
        (self.log, self.context) = (log, context);
        self
    }

    /// Shows a progress bar with this label on standard error, if that is a terminal.
    #[must_use]
    pub fn shown_as(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub(super) fn progress(&self) -> Progress {
        match &self.label {
            Some(label) => Progress::bar(label, self.evaluations),
            None => Progress::hidden(),
        }
    }
}

/// The best candidate of a search.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Best {
    /// Its values, in the order of the space.
    pub values: Vec<f64>,
    /// Its loss.
    pub loss: f64,
    /// Candidates that were looked at, in the log or by evaluation.
    pub evaluations: usize,
}

/// Evaluates what the optimizer asks for, a batch at a time on all of rayon's threads, until it has
/// nothing more to ask or the next batch would exceed the budget. Of equal losses the first wins;
/// the result does not depend on the number of threads, nor on what the log holds already.
///
/// # Errors
/// [`CalibrateError::OutOfRange`] if the budget does not hold one batch; what the objective says;
/// what the log says.
pub fn minimise(
    optimizer: &mut dyn Optimizer,
    objective: &dyn Objective,
    search: &Search,
) -> Result<Best, CalibrateError> {
    let progress = search.progress();
    let loss_of = |values: &Vec<f64>| {
        let evaluate = || Ok(vec![objective.evaluate(values)?]);
        let outcome = search.log.remember(search.context, values, evaluate)?;
        progress.advance();
        Ok(outcome.first().copied().unwrap_or(f64::INFINITY))
    };
    let mut best: Option<Best> = None;
    let mut evaluations = 0;
    loop {
        let batch = optimizer.ask();
        if batch.is_empty() || evaluations + batch.len() > search.evaluations {
            break;
        }
        evaluations += batch.len();
        let results: Vec<_> = batch.par_iter().with_max_len(1).map(loss_of).collect();
        let losses = results
            .into_iter()
            .collect::<Result<Vec<f64>, CalibrateError>>()?;
        for (values, &loss) in batch.iter().zip(&losses) {
            if best.as_ref().is_none_or(|best| loss < best.loss) {
                progress.tell(format!("loss {loss:.5}"));
                best = Some(Best {
                    values: values.clone(),
                    loss,
                    evaluations,
                });
            }
        }
        optimizer.tell(&losses);
    }
    progress.finish();
    let best = best.ok_or_else(|| {
        let allowed = "at least one batch of the optimizer";
        CalibrateError::out_of_range("evaluations", &search.evaluations, allowed)
    })?;
    Ok(Best {
        evaluations,
        ..best
    })
}

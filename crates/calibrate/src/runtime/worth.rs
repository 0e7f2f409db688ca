//! What a fit is worth: sensitivities, cross-validation, comparison of forms.

use foretoken::validation::{Comparison, ValidationSummary};
use serde::Serialize;

use super::fit::{Errors, search};
use super::{Experiments, Fitted, Schedule, Timing, fit};
use crate::error::CalibrateError;

/// What the loss does when one coefficient is off.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Sensitivity {
    /// The coefficient.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// The loss at 80 % of it, or at its lower bound if that is nearer.
    pub loss_below: f64,
    /// The loss at 120 % of it, or at its upper bound if that is nearer.
    pub loss_above: f64,
}

/// The loss with each coefficient 20 % smaller and larger; one that is 0 moves by a fiftieth of its
/// range.
///
/// # Errors
/// [`CalibrateError::Simulation`] if an experiment cannot be run.
pub fn sensitivities(
    timing: &dyn Timing,
    experiments: &Experiments,
    fitted: &Fitted,
    schedule: &Schedule,
) -> Result<Vec<Sensitivity>, CalibrateError> {
    let everything = Errors::new(timing, experiments, None);
    let loss_with = |index: usize, value: f64| {
        let mut values = fitted.values();
        values[index] = value;
        everything.published_at(&values, schedule)
    };
    let coefficients = fitted.coefficients.iter().enumerate();
    coefficients
        .map(|(index, coefficient)| {
            let value = coefficient.value;
            let step = if value > 0.0 {
                0.2 * value
            } else {
                0.02 * (coefficient.high - coefficient.low)
            };
            Ok(Sensitivity {
                name: coefficient.name.clone(),
                value,
                loss_below: loss_with(index, (value - step).max(coefficient.low))?,
                loss_above: loss_with(index, (value + step).min(coefficient.high))?,
            })
        })
        .collect()
}

/// A fit to all models but one, and what it says of that one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Fold {
    /// The model that was left out.
    pub model: String,
    /// Coefficients fitted to the others.
    pub values: Vec<f64>,
    /// The loss on the others.
    pub training_loss: f64,
    /// Medians and loss on the one left out.
    pub held_out: ValidationSummary,
}

/// Leave one model out, for each in turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct CrossValidation {
    /// Evaluations of all folds' searches, those that they share counted each time.
    pub evaluations: usize,
    /// One for each model.
    pub folds: Vec<Fold>,
    /// Medians and loss over all experiments, each predicted by the fold that did not see its model.
    pub summary: ValidationSummary,
    /// These predictions.
    pub experiments: Vec<Comparison>,
}

/// Fits again for each model without its experiments, from the same start as the first fit, and
/// predicts these.
///
/// # Errors
/// [`CalibrateError::OutOfRange`] if there are not two models or nothing was fitted; else as [`fit`].
pub fn cross_validate(
    timing: &dyn Timing,
    experiments: &Experiments,
    schedule: &Schedule,
) -> Result<CrossValidation, CalibrateError> {
    let models = experiments.models();
    let (2.., Some(space)) = (models.len(), timing.space()) else {
        return Err(CalibrateError::out_of_range(
            "experiments",
            &format!("of {} model(s)", models.len()),
            "of two or more, and a form that can be fitted",
        ));
    };
    let (mut evaluations, mut folds, mut all) = (0, Vec::new(), Vec::new());
    for model in models {
        let best = search(timing, experiments, schedule, space, Some(&model))?;
        let held_out = experiments.of(&model);
        let comparisons = held_out.compare(timing, &best.values)?;
        let seen = Errors::new(timing, experiments, Some(&model));
        evaluations += best.evaluations;
        folds.push(Fold {
            model,
            training_loss: seen.published_at(&best.values, schedule)?,
            values: best.values,
            held_out: ValidationSummary::of(&comparisons),
        });
        all.extend(comparisons);
    }
    Ok(CrossValidation {
        evaluations,
        folds,
        summary: ValidationSummary::of(&all),
        experiments: all,
    })
}

/// Forms of latency model on the same data, fitted with the same loss, search and budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Ablation {
    /// One for each form.
    pub forms: Vec<Fitted>,
}

/// Fits every form that is not fitted yet, and puts all of them beside each other.
///
/// # Errors
/// As [`fit`].
pub fn ablate(
    fitted: Fitted,
    others: &[&dyn Timing],
    experiments: &Experiments,
    schedule: &Schedule,
) -> Result<Ablation, CalibrateError> {
    let mut forms = vec![fitted];
    for timing in others {
        forms.push(fit(*timing, experiments, schedule)?);
    }
    Ok(Ablation { forms })
}

//! [`RuntimeReport`]: a fit and what it is worth, for people and for machines.

use std::fmt::Write as _;

use foretoken::validation::{Comparison, Errors, ValidationSummary};
use serde::Serialize;

use super::{Ablation, CrossValidation, Fitted, Sensitivity};

/// Everything that a fit of the software's costs gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuntimeReport {
    /// The fit.
    pub fit: Fitted,
    /// What the loss does when a coefficient is off.
    pub sensitivities: Vec<Sensitivity>,
    /// Leave one model out, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_validation: Option<CrossValidation>,
    /// Other forms on the same data, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ablation: Option<Ablation>,
}

const MEDIANS: &str =
    "| TTFT mean | TTFT P90 | TTFT P99 | ITL mean | E2E mean | E2E P90 | E2E P99 | loss |\n";

impl RuntimeReport {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Fit of the serving software's costs\n\n");
        let fit = &self.fit;
        let _ = writeln!(
            text,
            "{} experiments, {} coefficients, {} evaluations (linear models, one after the other), seed {}. \
             The loss is the root mean square of the relative errors of mean TTFT plus that of mean \
             E2E latency, over all experiments with equal weight: **{:.4}**.\n",
            fit.experiments.len(),
            fit.coefficients.len(),
            fit.evaluations,
            fit.seed,
            fit.summary.loss.unwrap_or_default()
        );
        self.coefficients(&mut text);
        text.push_str("## Medians of the absolute errors, in percent\n\n| |");
        text.push_str(&MEDIANS[1..]);
        text.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
        medians(&mut text, "training", &fit.summary);
        if let Some(cross) = &self.cross_validation {
            medians(&mut text, "model left out", &cross.summary);
        }
        text.push('\n');
        experiments(
            &mut text,
            "Experiments, signed errors in percent",
            &fit.experiments,
        );
        if let Some(cross) = &self.cross_validation {
            folds(&mut text, cross);
            experiments(
                &mut text,
                "Experiments whose model was left out",
                &cross.experiments,
            );
        }
        if let Some(ablation) = &self.ablation {
            forms(&mut text, ablation);
        }
        text
    }

    fn coefficients(&self, text: &mut String) {
        text.push_str(
            "| coefficient | value | allowed | loss at -20 % | at +20 % |\n|---|--:|---|--:|--:|\n",
        );
        for coefficient in &self.fit.coefficients {
            let found = self
                .sensitivities
                .iter()
                .find(|s| s.name == coefficient.name);
            let loss = |pick: fn(&Sensitivity) -> f64| {
                found.map_or("-".to_owned(), |s| format!("{:.4}", pick(s)))
            };
            let _ = writeln!(
                text,
                "| {} | {} {} | {} to {} | {} | {} |",
                coefficient.name,
                coefficient.value,
                coefficient.unit,
                coefficient.low,
                coefficient.high,
                loss(|s| s.loss_below),
                loss(|s| s.loss_above),
            );
        }
        text.push('\n');
    }
}

fn medians(text: &mut String, name: &str, summary: &ValidationSummary) {
    let errors = &summary.overall.median_absolute_percentage_error;
    let _ = write!(text, "| {name} |");
    for error in columns(errors) {
        let _ = write!(
            text,
            " {} |",
            error.map_or("-".to_owned(), |e| format!("{e:.1}"))
        );
    }
    let _ = writeln!(text, " {:.4} |", summary.loss.unwrap_or_default());
}

fn columns(errors: &Errors) -> [Option<f64>; 7] {
    [
        errors.ttft_mean,
        errors.ttft_p90,
        errors.ttft_p99,
        errors.itl_mean,
        errors.e2e_mean,
        errors.e2e_p90,
        errors.e2e_p99,
    ]
}

fn experiments(text: &mut String, title: &str, comparisons: &[Comparison]) {
    let _ = writeln!(
        text,
        "## {title}\n\n| model | TP | load | TTFT mean | TTFT P90 | TTFT P99 | ITL mean | E2E mean | E2E P90 | E2E P99 |\n\
         |---|--:|---|--:|--:|--:|--:|--:|--:|--:|"
    );
    for comparison in comparisons {
        let _ = write!(
            text,
            "| {} | {} | {} |",
            comparison.model, comparison.tensor_parallel, comparison.profile
        );
        for error in columns(&comparison.errors()) {
            let _ = write!(
                text,
                " {} |",
                error.map_or("-".to_owned(), |e| format!("{e:+.1}"))
            );
        }
        text.push('\n');
    }
    text.push('\n');
}

fn folds(text: &mut String, cross: &CrossValidation) {
    let _ = writeln!(
        text,
        "## Leave one model out\n\nEach fold starts where the fit to all started, and sees the other models \
         only; {} evaluations in all.\n\n| model left out | loss on the others | TTFT mean | E2E mean |\n|---|--:|--:|--:|",
        cross.evaluations
    );
    for fold in &cross.folds {
        let errors = &fold.held_out.overall.median_absolute_percentage_error;
        let percent = |e: Option<f64>| e.map_or("-".to_owned(), |e| format!("{e:.1}"));
        let _ = writeln!(
            text,
            "| {} | {:.4} | {} | {} |",
            fold.model,
            fold.training_loss,
            percent(errors.ttft_mean),
            percent(errors.e2e_mean)
        );
    }
    text.push('\n');
}

fn forms(text: &mut String, ablation: &Ablation) {
    text.push_str(
        "## Forms of latency model on the same data\n\nMedians of the absolute errors, in percent. The \
         forms that are fitted have the same loss, search and budget; Roofline has the host costs of \
         the first.\n\n| form | coefficients fitted ",
    );
    text.push_str(MEDIANS);
    text.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for form in &ablation.forms {
        let name = format!("{} | {}", form.timing, form.coefficients.len());
        medians(text, &name, &form.summary);
    }
    text.push('\n');
    for form in ablation
        .forms
        .iter()
        .skip(1)
        .filter(|f| !f.coefficients.is_empty())
    {
        let values = form
            .coefficients
            .iter()
            .map(|c| format!("{} = {}", c.name, c.value));
        let _ = writeln!(
            text,
            "{}: {}.\n",
            form.timing,
            values.collect::<Vec<_>>().join(", ")
        );
    }
}

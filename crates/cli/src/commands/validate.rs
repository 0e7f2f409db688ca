//! `foretoken validate`: predictions beside measurements.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table};
use foretoken::validation::{
    Comparison, Errors, Experiment, ExperimentFile, GroupErrors, Validation,
};
use serde::Deserialize;

use crate::commands::Extras;
use crate::failure::{Failure, from_json, read};
use crate::output::{self, JsonOutput};

/// Replay measured experiments and compare
///
/// Runs every experiment of a file, prints a row for each and the medians of the absolute percentage
/// errors, by GPU and by workload. Exit code 2 if an experiment cannot be run.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// File of measured experiments (JSON)
    file: PathBuf,
    /// Seed of the arrivals and prompts
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file: RawFile = from_json(&arguments.file, &read(&arguments.file)?)?;
    let (catalog, physics) = (arguments.extras.catalog()?, arguments.extras.physics()?);
    let total = file.experiments.len();
    // One experiment that cannot be read does not keep the others from running.
    let (mut experiments, mut unread) = (Vec::new(), Vec::new());
    for (index, value) in file.experiments.into_iter().enumerate() {
        match serde_path_to_error::deserialize::<_, Experiment>(value) {
            Ok(experiment) => experiments.push(experiment),
            Err(error) => unread.push(format!("experiments[{index}].{error}")),
        }
    }
    let file = ExperimentFile { experiments };
    let mut validation = Validation::run(&file, arguments.seed, &catalog, &physics);
    validation.failures.extend(unread);
    arguments.output.emit(&validation, &tables(&validation))?;
    for failure in &validation.failures {
        eprintln!("{}: {failure}", arguments.file.display());
    }
    match validation.failures.len() {
        0 => Ok(()),
        failed => Err(Failure::Experiments { failed, total }),
    }
}

/// A file of experiments, each yet to be read.
#[derive(Deserialize)]
struct RawFile {
    experiments: Vec<serde_json::Value>,
}

fn tables(validation: &Validation) -> String {
    let mut rows = table(&[
        "experiment",
        "TTFT ms",
        "measured",
        "error",
        "ITL",
        "error",
        "E2E ms",
        "measured",
        "error",
        "P90",
        "P99",
        "confidence",
    ]);
    for comparison in &validation.experiments {
        rows.add_row(row(comparison));
    }
    let mut groups = table(&[
        "median |error| %",
        "runs",
        "TTFT mean",
        "P90",
        "P99",
        "ITL mean",
        "E2E mean",
        "P90",
        "P99",
    ]);
    let summary = &validation.summary;
    groups.add_row(group("all", &summary.overall));
    for (name, errors) in summary.by_gpu.iter().chain(&summary.by_profile) {
        groups.add_row(group(name, errors));
    }
    let mut text = format!("{rows}\n\n");
    for (reason, experiments) in reasons(validation) {
        let _ = writeln!(text, "lower confidence: {reason} ({experiments})\n");
    }
    let _ = writeln!(text, "{groups}\n");
    if let Some(loss) = summary.loss {
        let _ = write!(
            text,
            "loss (RMSE of TTFT mean + RMSE of E2E mean): {loss:.4}"
        );
    }
    text
}

/// Reasons for a lower confidence, with the experiments that each holds for, in their order.
fn reasons(validation: &Validation) -> Vec<(String, String)> {
    let mut reasons: Vec<(String, String)> = Vec::new();
    for comparison in &validation.experiments {
        for reason in &comparison.confidence.reasons {
            let reason = reason.to_string();
            match reasons.iter_mut().find(|(seen, _)| *seen == reason) {
                Some((_, experiments)) => {
                    experiments.push_str(", ");
                    experiments.push_str(&comparison.id);
                }
                None => reasons.push((reason, comparison.id.clone())),
            }
        }
    }
    reasons
}

fn table(header: &[&str]) -> Table {
    let mut table = output::table(header.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(comparison: &Comparison) -> Vec<String> {
    let (predicted, measured) = (&comparison.predicted.overall, &comparison.measured.overall);
    let errors = comparison.errors();
    vec![
        comparison.id.clone(),
        format!("{:.1}", predicted.ttft_ms.mean),
        format!("{:.1}", measured.ttft_ms.mean),
        signed(errors.ttft_mean),
        format!("{:.2}", predicted.mean_itl_ms(comparison.output_tokens)),
        signed(errors.itl_mean),
        format!("{:.0}", predicted.e2e_ms.mean),
        format!("{:.0}", measured.e2e_ms.mean),
        signed(errors.e2e_mean),
        signed(errors.e2e_p90),
        signed(errors.e2e_p99),
        comparison.confidence.level.to_string(),
    ]
}

fn group(name: &str, errors: &GroupErrors) -> Vec<String> {
    let Errors {
        ttft_mean,
        ttft_p90,
        ttft_p99,
        itl_mean,
        e2e_mean,
        e2e_p90,
        e2e_p99,
        ..
    } = errors.median_absolute_percentage_error;
    let values = [
        ttft_mean, ttft_p90, ttft_p99, itl_mean, e2e_mean, e2e_p90, e2e_p99,
    ];
    let plain = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
    [name.to_owned(), errors.experiments.to_string()]
        .into_iter()
        .chain(values.map(plain))
        .collect()
}

fn signed(percent: Option<f64>) -> String {
    percent.map_or("-".to_owned(), |value| format!("{value:+.1} %"))
}

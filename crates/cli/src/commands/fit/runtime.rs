//! `foretoken fit runtime`: the costs of the serving software.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use foretoken_calibrate::progress::Log;
use foretoken_calibrate::runtime::{
    AdditiveTiming, Experiments, KernelTiming, RooflineTiming, RuntimeReport, Schedule, Timing,
    ablate, cross_validate, fit, runtime_toml, sensitivities,
};

use crate::commands::Extras;
use crate::failure::{Failure, from_json, read, save};
use crate::output::JsonOutput;

/// Fit the costs of the serving software to measured experiments
///
/// Searches, through the whole simulation, for the costs with the least error of mean TTFT and mean
/// end-to-end latency, and prints a report in Markdown. The same file, seed and number of evaluations
/// give the same costs, on any number of threads.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File of measured experiments (JSON), as `validate` reads it
    file: PathBuf,
    /// Seed of the search
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Evaluations of all experiments at the most, for each search
    #[arg(long, default_value_t = 200)]
    evaluations: usize,
    /// Write the fitted costs to this file (TOML), for `--runtime-parameters`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the report to this file (Markdown), beside printing it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Keep evaluations in this file (JSON lines), and continue from what it holds
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Also fit without each model in turn, and predict it
    #[arg(long)]
    cross_validate: bool,
    /// Also fit the additive form and evaluate the roofline on the same data
    #[arg(long)]
    ablation: bool,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let file = from_json(&arguments.file, &read(&arguments.file)?)?;
    let experiments = Experiments::new(&file, 0, &arguments.extras.catalog()?)?;
    let physics = arguments.extras.physics()?;
    let timing = KernelTiming::new(physics.kernels, physics.runtime);
    let log = arguments.log.as_deref().map(Log::open).transpose()?;
    let schedule = Schedule {
        seed: arguments.seed,
        evaluations: arguments.evaluations,
        log: Arc::new(log.unwrap_or_default()),
        progress: true,
    };
    let fitted = fit(&timing, &experiments, &schedule)?;
    let sensitivities = sensitivities(&timing, &experiments, &fitted, &schedule)?;
    // What took longest is on disk before anything else is tried.
    save(
        arguments.out.as_deref(),
        &runtime_toml(&timing, &fitted, &sensitivities)?,
    )?;
    let cross_validation = arguments
        .cross_validate
        .then(|| cross_validate(&timing, &experiments, &schedule));
    let others: [&dyn Timing; 2] = [
        &AdditiveTiming::default(),
        &RooflineTiming::new(timing.parameters(&fitted.values())?.host),
    ];
    let ablation = arguments
        .ablation
        .then(|| ablate(fitted.clone(), &others, &experiments, &schedule));
    let report = RuntimeReport {
        fit: fitted,
        sensitivities,
        cross_validation: cross_validation.transpose()?,
        ablation: ablation.transpose()?,
    };
    let markdown = report.markdown();
    save(arguments.report.as_deref(), &markdown)?;
    arguments.output.emit(&report, markdown.trim_end())
}

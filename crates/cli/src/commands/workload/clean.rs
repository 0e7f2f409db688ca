//! `foretoken workload clean`: a trace without what does not belong in it.

use std::path::{Path, PathBuf};

use clap::Args;
use foretoken::prelude::RngStreams;
use foretoken::workload::trace::{Bounds, CleanStep, Cleaning, Late, Resampling, Unit};
use foretoken::workload::{Positive, Rate, Seconds};
use serde::Deserialize;

use super::generate::{output_format, write_beside};
use super::source::TraceFlags;
use crate::failure::{Failure, from_json, from_yaml, read, save};
use crate::output::{other_than, print};

/// Drop or change rows of a trace, step by step, and say what became of each
///
/// Steps come from a file, which lists them in order, or from flags, which are taken in the order in which they are
/// listed here. Without either, the trace is written as it is.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    flags: TraceFlags,
    /// Where to: a file that ends in .csv, .jsonl or .parquet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Steps, in order: a list in YAML or JSON
    #[arg(long, value_name = "FILE", conflicts_with = "steps")]
    steps_file: Option<PathBuf>,
    #[command(flatten)]
    steps: StepFlags,
    /// Names the experiment, for the steps that draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write what became of the rows as JSON to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// One flag for each step.
#[derive(Debug, Args)]
#[group(id = "steps", multiple = true)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is a switch of its own"
)]
struct StepFlags {
    /// Drop requests that failed
    #[arg(long)]
    drop_failed: bool,
    /// Drop requests whose client went away
    #[arg(long)]
    drop_timed_out: bool,
    /// Drop all but the first row of each id
    #[arg(long)]
    drop_duplicate_ids: bool,
    /// Sort by time, with all rows in memory
    #[arg(long, conflicts_with = "sort_within")]
    sort: bool,
    /// Sort rows that are late by at most so many seconds, with the rows of that span in memory
    #[arg(long, value_name = "SECONDS")]
    sort_within: Option<f64>,
    /// Drop requests that ask again for the same within so many seconds
    #[arg(long, value_name = "SECONDS")]
    drop_retries: Option<f64>,
    /// Drop lengths of 0 and those that no model takes
    #[arg(long)]
    drop_impossible_lengths: bool,
    /// Drop longer prompts
    #[arg(long, value_name = "TOKENS")]
    drop_input_above: Option<u64>,
    /// Drop longer answers
    #[arg(long, value_name = "TOKENS")]
    drop_output_above: Option<u64>,
    /// Make lengths of 0 one token
    #[arg(long)]
    raise_zeros: bool,
    /// Shorten longer prompts to this
    #[arg(long, value_name = "TOKENS")]
    clip_input: Option<u64>,
    /// Shorten longer answers to this
    #[arg(long, value_name = "TOKENS")]
    clip_output: Option<u64>,
    /// Keep rows from so many seconds after the first
    #[arg(long, value_name = "SECONDS")]
    from: Option<f64>,
    /// Keep rows up to so many seconds after the first
    #[arg(long, value_name = "SECONDS")]
    to: Option<f64>,
    /// Leave out so many rows at the start
    #[arg(long, value_name = "N")]
    skip: Option<u64>,
    /// Keep so many rows at most
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// Keep this share of the sessions, each whole
    #[arg(long, value_name = "SHARE")]
    sample: Option<f64>,
    /// Let the first row be sent at 0
    #[arg(long)]
    shift_to_zero: bool,
    /// Multiply all times since the first row
    #[arg(long, value_name = "FACTOR")]
    scale_time: Option<f64>,
    /// Make the load one of this rate; see --by
    #[arg(long, value_name = "RPS")]
    rate: Option<f64>,
    /// How the rate is reached [default: stretch]
    #[arg(long, value_name = "stretch|thin|overlay", requires = "rate", value_parser = by)]
    by: Option<Resampling>,
}

fn by(name: &str) -> Result<Resampling, String> {
    match name {
        "stretch" => Ok(Resampling::Stretch {}),
        "thin" => Ok(Resampling::Thin {
            whole: Unit::Session,
        }),
        "overlay" => Ok(Resampling::Overlay {}),
        _ => Err("allowed is stretch, thin or overlay".to_owned()),
    }
}

impl StepFlags {
    fn steps(&self) -> Result<Vec<CleanStep>, Failure> {
        let bounds = |max: Option<u64>| Bounds::new(0, max.unwrap_or(u64::MAX));
        let mut steps = Vec::new();
        if self.drop_failed {
            steps.push(CleanStep::DropFailed {});
        }
        if self.drop_timed_out {
            steps.push(CleanStep::DropTimedOut {});
        }
        if self.drop_duplicate_ids {
            steps.push(CleanStep::DropDuplicateIds {});
        }
        if self.sort || self.sort_within.is_some() {
            let span = |span| flag("--sort-within", Seconds::new(span));
            steps.push(CleanStep::Sort {
                within: self.sort_within.map(span).transpose()?,
                late: Late::Error,
            });
        }
        if let Some(within) = self.drop_retries {
            steps.push(CleanStep::DropRetries {
                within: flag("--drop-retries", Seconds::new(within))?,
            });
        }
        if self.drop_impossible_lengths {
            steps.push(CleanStep::drop_impossible_lengths());
        }
        if self.drop_input_above.is_some() || self.drop_output_above.is_some() {
            steps.push(CleanStep::DropLengths {
                input: bounds(self.drop_input_above),
                output: bounds(self.drop_output_above),
                total: Bounds::default(),
            });
        }
        if self.raise_zeros {
            let one = Bounds::new(1, u64::MAX);
            steps.push(CleanStep::ClipLengths {
                input: one,
                output: one,
            });
        }
        if self.clip_input.is_some() || self.clip_output.is_some() {
            steps.push(CleanStep::ClipLengths {
                input: bounds(self.clip_input),
                output: bounds(self.clip_output),
            });
        }
        if self.from.is_some() || self.to.is_some() {
            steps.push(CleanStep::SliceTime {
                from_s: self.from.unwrap_or(0.0),
                to_s: self.to,
            });
        }
        if self.skip.is_some() || self.rows.is_some() {
            steps.push(CleanStep::SliceRows {
                skip: self.skip.unwrap_or(0),
                count: self.rows,
            });
        }
        if let Some(share) = self.sample {
            steps.push(CleanStep::Sample {
                share,
                whole: Unit::Session,
            });
        }
        if self.shift_to_zero {
            steps.push(CleanStep::ShiftToZero {});
        }
        if let Some(factor) = self.scale_time {
            steps.push(CleanStep::ScaleTime {
                factor: flag("--scale-time", Positive::new(factor))?,
            });
        }
        if let Some(rate) = self.rate {
            steps.push(CleanStep::Resample {
                rate: flag("--rate", Rate::new(rate))?,
                from: None,
                by: self.by.unwrap_or_default(),
            });
        }
        Ok(steps)
    }
}

/// The value of a flag, or an error that names it.
fn flag<T, E: std::fmt::Display>(name: &'static str, value: Result<T, E>) -> Result<T, Failure> {
    value.map_err(|problem| Failure::BadFlag {
        flag: name,
        problem: problem.to_string(),
    })
}

/// The steps of a file: a list, or `steps:` and a list.
fn steps_of(path: &Path) -> Result<Vec<CleanStep>, Failure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct StepsFile {
        steps: Vec<CleanStep>,
    }
    let text = read(path)?;
    let json = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let listed = text
        .lines()
        .map(str::trim_start)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .is_some_and(|line| line.starts_with(['-', '[']));
    match (json, listed) {
        (true, true) => from_json(path, &text),
        (true, false) => from_json(path, &text).map(|file: StepsFile| file.steps),
        (false, true) => from_yaml(path, &text),
        (false, false) => from_yaml(path, &text).map(|file: StepsFile| file.steps),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = &arguments.out;
    output_format(out)?;
    for file in [out, &arguments.trace] {
        other_than(file, "--report", arguments.report.as_deref())?;
    }
    let steps = match &arguments.steps_file {
        Some(path) => steps_of(path)?,
        None => arguments.steps.steps()?,
    };
    let cleaning = Cleaning::new(steps)?;
    let opened = arguments.flags.open(&arguments.trace)?;
    let streams = RngStreams::new(arguments.seed, 0);
    let mut rows = cleaning.apply(opened.rows, &streams, arguments.flags.bad_rows());
    write_beside(rows.by_ref(), &arguments.trace, out)?;
    let report = rows.into_report();
    let json = serde_json::to_string_pretty(&report).expect("reports are plain data");
    save(arguments.report.as_deref(), &(json + "\n"))?;
    print(&report.to_string())
}

//! `foretoken workload generate`: the requests that a description stands for.

use std::path::{Path, PathBuf};

use clap::Args;
use foretoken::prelude::RngStreams;
use foretoken::workload::trace::{OutputFormat, Row, RowWriter, TraceError};

use super::source::{Answers, made, spec_or_trace};
use crate::failure::Failure;
use crate::output::{is_closed, other_than};

/// Standard output, as a file that rows are written to.
const STDOUT: &str = "/dev/stdout";

/// Write the requests of a workload as a table
///
/// What is written is what a simulation with the same seed and replication is asked, to the token and the
/// nanosecond; of loads that wait for answers, what they ask of a server of the pace that is given. The table can be run (`foretoken run --workload`), inspected and cleaned like any trace.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Workload file (YAML or JSON), or a trace
    spec: PathBuf,
    /// Names the experiment: every random draw follows from it
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Names the repetition of the experiment
    #[arg(long, default_value_t = 0)]
    replication: u64,
    /// Requests at most [default: all of the workload]
    #[arg(long, visible_alias = "limit", value_name = "N")]
    requests: Option<u64>,
    #[command(flatten)]
    answers: Answers,
    /// Where to: a file that ends in .csv, .jsonl or .parquet [default: CSV on standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let spec = spec_or_trace(&arguments.spec)?;
    let streams = RngStreams::new(arguments.seed, arguments.replication);
    let rows = made(
        &arguments.spec,
        &spec,
        &streams,
        arguments.requests,
        &arguments.answers,
    )?;
    match &arguments.out {
        Some(path) => {
            let written = write_whole(rows, path, output_format(path)?)?;
            eprintln!("{written} requests written to {}", path.display());
            Ok(())
        }
        // Opening it would empty a file that something is to be added to.
        None if std::fs::metadata(STDOUT).is_ok_and(|about| about.is_file() && about.len() > 0) => {
            Err(Failure::BadFlag {
                flag: "--out",
                problem: "standard output is a file that is not empty: name it here".to_owned(),
            })
        }
        // A reader that has seen enough (`| head`) is no failure.
        None => match write(rows, Path::new(STDOUT), OutputFormat::Csv) {
            Err(_) if is_closed() => Ok(()),
            written => Ok(written.map(|_| ())?),
        },
    }
}

/// The format that the ending of a file to be written stands for.
pub(super) fn output_format(path: &Path) -> Result<OutputFormat, TraceError> {
    OutputFormat::of(path).map_err(|error| error.in_file(path))
}

/// Writes all rows, and says how many. The file is checked to be none of those that the rows are read from.
pub(super) fn write_beside(
    rows: impl Iterator<Item = Result<Row, TraceError>>,
    trace: &Path,
    out: &Path,
) -> Result<u64, Failure> {
    other_than(trace, "--out", Some(out))?;
    let format = output_format(out)?;
    Ok(write_whole(rows, out, format)?)
}

/// Writes all rows, or leaves what is there: half of the rows would look like all of them.
fn write_whole(
    rows: impl Iterator<Item = Result<Row, TraceError>>,
    out: &Path,
    format: OutputFormat,
) -> Result<u64, TraceError> {
    if std::fs::metadata(out).is_ok_and(|about| !about.is_file()) {
        // A pipe or a device has no name to be given at the end.
        return write(rows, out, format);
    }
    let mut part = out.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = write(rows, &part, format).and_then(|written| {
        std::fs::rename(&part, out).map_err(|problem| TraceError::Io {
            problem: format!("{}: {problem}", out.display()),
        })?;
        Ok(written)
    });
    if written.is_err() {
        std::fs::remove_file(&part).ok();
    }
    written
}

/// Writes all rows, and says how many.
fn write(
    rows: impl Iterator<Item = Result<Row, TraceError>>,
    path: &Path,
    format: OutputFormat,
) -> Result<u64, TraceError> {
    let mut writer = RowWriter::create(path, format)?;
    let mut written = 0;
    for row in rows {
        writer.write(&row?)?;
        written += 1;
    }
    writer.finish()?;
    Ok(written)
}

//! `foretoken workload inspect`: what a trace is like.

use std::path::PathBuf;

use clap::Args;
use foretoken::prelude::RngStreams;
use foretoken::workload::trace::Inspection;

use super::source::{Answers, TraceFlags, description, made};
use super::{pages, pictures, text};
use crate::failure::{Failure, write};
use crate::output::{JsonOutput, other_than};

/// Say what a trace or a workload is like, and what is odd about it
///
/// One pass: rate over time, burstiness, lengths and their tails, sharing among prompts, sessions, the distributions that
/// come nearest, a workload of these, and warnings.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Trace, or workload file (YAML or JSON), whose requests are drawn
    source: PathBuf,
    #[command(flatten)]
    flags: TraceFlags,
    /// Requests of a workload file at most [default: all]
    #[arg(long, visible_alias = "limit", value_name = "N")]
    requests: Option<u64>,
    /// Names the experiment, for workload files
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    answers: Answers,
    /// Draw rate and lengths to this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the report with its pictures to this file, one page that needs no other (HTML)
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    output: JsonOutput,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    for (flag, written) in [("--svg", &arguments.svg), ("--html", &arguments.html)] {
        other_than(&arguments.source, flag, written.as_deref())?;
    }
    other_than(&arguments.source, "--json", arguments.output.file())?;
    let bad_rows = arguments.flags.bad_rows();
    let (what, seen) = if let Some(spec) = description(&arguments.source)? {
        let streams = RngStreams::new(arguments.seed, 0);
        let rows = made(
            &arguments.source,
            &spec,
            &streams,
            arguments.requests,
            &arguments.answers,
        )?;
        ("workload".to_owned(), Inspection::of(rows, bad_rows)?)
    } else {
        let opened = arguments.flags.open(&arguments.source)?;
        let format = opened.format.to_string();
        (format, Inspection::of(opened.rows, bad_rows)?)
    };
    let title = format!("{} ({what})", arguments.source.display());
    let table = text::report(&title, &seen);
    if let Some(path) = &arguments.svg {
        write(
            path,
            &pictures::all(&seen).map_err(|problem| unable(path, problem))?,
        )?;
    }
    if let Some(path) = &arguments.html {
        let page = pages::page(&title, &seen, &table).map_err(|problem| unable(path, problem))?;
        write(path, &page)?;
    }
    arguments.output.emit(&seen, table.trim_end())
}

fn unable(path: &std::path::Path, problem: String) -> Failure {
    Failure::Picture {
        path: path.into(),
        problem,
    }
}

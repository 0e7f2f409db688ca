//! Where rows come from: a trace, or a description of a workload, which makes them.

use std::io::{IsTerminal as _, stderr};
use std::path::{Path, PathBuf};

use clap::Args;
use foretoken::prelude::{RngStreams, SimDuration, Workload, WorkloadSpec};
use foretoken::workload::Paced;
use foretoken::workload::trace::{
    BadRows, Columns, Format, OpenOptions, Progress, Row, TraceError, TraceFile, TraceSpec,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

pub(crate) use super::description::description;

/// Files from this size on show how far reading has come.
const LARGE: u64 = 16 << 20;

/// A trace and how to read it.
#[derive(Debug, Args)]
pub(crate) struct TraceFlags {
    /// Format of the trace [default: told from its content]; `table` formats are csv, jsonl and parquet
    #[arg(long, value_name = "FORMAT", value_parser = parse::<Format>)]
    format: Option<Format>,
    /// Columns of a table, as sent=TIME,input-tokens=IN,output-tokens=OUT,time-unit=milliseconds
    #[arg(long, value_name = "FIELD=COLUMN,…", value_parser = parse::<Columns>)]
    columns: Option<Columns>,
    /// Leave out rows that cannot be read, and count them
    #[arg(long)]
    skip_bad_rows: bool,
}

fn parse<T: core::str::FromStr<Err = TraceError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: TraceError| error.to_string())
}

impl TraceFlags {
    pub(crate) const fn bad_rows(&self) -> BadRows {
        if self.skip_bad_rows {
            BadRows::Skip
        } else {
            BadRows::Stop
        }
    }

    /// Opens the trace at `path`.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened, Failure> {
        let options = OpenOptions {
            format: self.format,
            columns: self.columns.clone().unwrap_or_default(),
        };
        let trace = TraceFile::open(path, &options)?;
        let (format, progress) = (trace.format, trace.progress());
        let rows = Followed {
            bar: bar(&progress),
            rows: trace.into_rows(),
            progress,
            path: path.to_owned(),
            given: 0,
        };
        Ok(Opened { format, rows })
    }
}

/// A trace that is being read.
pub(crate) struct Opened {
    pub(crate) format: Format,
    pub(crate) rows: Followed,
}

/// Rows of a file, while people at a terminal see how far reading has come. Errors name the file.
pub(crate) struct Followed {
    rows: Box<dyn foretoken::workload::trace::Rows>,
    progress: Progress,
    bar: ProgressBar,
    path: PathBuf,
    given: u64,
}

impl Iterator for Followed {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.given += 1;
        if self.given.is_multiple_of(4096) {
            self.bar.set_position(self.progress.bytes_read());
        }
        let item = self.rows.next();
        if item.is_none() {
            self.bar.finish_and_clear();
        }
        item.map(|row| {
            row.map_err(|error| match error {
                TraceError::InFile { .. } => error,
                _ => error.in_file(&self.path),
            })
        })
    }
}

/// A bar on standard error for a large file, if that is a terminal.
fn bar(progress: &Progress) -> ProgressBar {
    let bar = match progress.bytes_total() {
        Some(bytes) if bytes >= LARGE && stderr().is_terminal() => {
            ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr())
        }
        _ => ProgressBar::hidden(),
    };
    let style = "{bar:30} {bytes}/{total_bytes} {eta}";
    bar.with_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

/// What a file of a workload or a trace stands for, as part of a scenario.
pub(crate) fn spec_or_trace(path: &Path) -> Result<WorkloadSpec, Failure> {
    Ok(match description(path)? {
        Some(workload) => workload,
        None => TraceSpec::new(path).into(),
    })
}

/// How fast answers come, where requests wait for them and nobody serves.
#[derive(Debug, Args)]
pub(crate) struct Answers {
    /// Time to the first token of an answer that requests wait for
    #[arg(long, value_name = "MS", default_value_t = 200.0, value_parser = milliseconds)]
    answer_ttft_ms: f64,
    /// Time from token to token of an answer that requests wait for
    #[arg(long, value_name = "MS", default_value_t = 20.0, value_parser = milliseconds)]
    answer_itl_ms: f64,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ms) if (0.0..=1e9).contains(&ms) => Ok(ms),
        _ => Err("allowed is 0 to 1e9 milliseconds".to_owned()),
    }
}

impl Answers {
    /// The workload before a server of this pace; says so if that makes a difference.
    fn pace(&self, load: Box<dyn Workload>) -> Paced {
        let span = |ms: f64| SimDuration::try_from_secs_f64(ms / 1e3).unwrap_or(SimDuration::MAX);
        let paced = Paced::new(load, span(self.answer_ttft_ms), span(self.answer_itl_ms));
        if paced.reacts() {
            eprintln!(
                "note: requests wait for answers: the first token after {} ms, the others every {} ms \
                 (--answer-ttft-ms, --answer-itl-ms)",
                self.answer_ttft_ms, self.answer_itl_ms
            );
        }
        paced
    }
}

/// At most `limit` requests that `spec`, which `path` holds, describes, as rows; it must end by itself or by the limit.
pub(crate) fn made(
    path: &Path,
    spec: &WorkloadSpec,
    streams: &RngStreams,
    limit: Option<u64>,
    answers: &Answers,
) -> Result<impl Iterator<Item = Result<Row, TraceError>> + Send + use<>, Failure> {
    let load = spec.build(streams).map_err(|error| Failure::InFile {
        path: path.into(),
        source: Box::new(error.into()),
    })?;
    let mut load = answers.pace(load);
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let requests = core::iter::from_fn(move || load.next());
    Ok(requests.take(limit).map(|request| Ok(Row::of(&request))))
}

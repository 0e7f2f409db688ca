//! `foretoken workload convert`: a trace of any format as a table.

use std::path::PathBuf;

use clap::Args;
use foretoken::prelude::RngStreams;
use foretoken::workload::trace::Cleaning;

use super::generate::{output_format, write_beside};
use super::source::TraceFlags;
use crate::failure::Failure;

/// Write a trace of any known format as CSV, JSONL or Parquet
///
/// Nothing is dropped or changed, but rows that cannot be read with `--skip-bad-rows`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    flags: TraceFlags,
    /// Where to: a file that ends in .csv, .jsonl or .parquet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = &arguments.out;
    output_format(out)?;
    let opened = arguments.flags.open(&arguments.trace)?;
    let from = opened.format;
    let mut rows = Cleaning::default().apply(
        opened.rows,
        &RngStreams::new(0, 0),
        arguments.flags.bad_rows(),
    );
    let written = write_beside(rows.by_ref(), &arguments.trace, out)?;
    let report = rows.into_report();
    eprintln!("{from}: {written} rows written to {}", out.display());
    if report.bad_rows.total() > 0 {
        eprintln!("warning: {} bad rows left out", report.bad_rows.total());
        for message in &report.bad_rows.first {
            eprintln!("  {message}");
        }
    }
    Ok(())
}

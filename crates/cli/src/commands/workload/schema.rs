//! `foretoken workload schema`: what a workload file may hold, for machines.

use std::path::PathBuf;

use clap::Args;
use foretoken::workload::WorkloadFile;

use crate::failure::{Failure, write};
use crate::output::print;

/// Print the JSON Schema of workload files
///
/// Editors complete and check YAML and JSON by it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write it to this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let schema =
        serde_json::to_string_pretty(&WorkloadFile::schema()).expect("schemas are plain data");
    match &arguments.out {
        Some(path) => write(path, &(schema + "\n")),
        None => print(&schema),
    }
}

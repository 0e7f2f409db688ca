//! `foretoken workload expand`: a workload file with everything written out.

use std::path::PathBuf;

use clap::Args;
use foretoken::workload::WorkloadFile;

use super::source::spec_or_trace;
use crate::failure::Failure;
use crate::output::print;

/// Print a workload file with its presets written out in full, to be edited
///
/// What else is described is repeated as it is: configurations of inference-perf, scenarios and traces become workload
/// files by this.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Workload file (YAML or JSON)
    spec: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let spec = spec_or_trace(&arguments.spec)?.expand();
    let file = serde_saphyr::to_string(&WorkloadFile::new(spec));
    print(file.expect("descriptions are plain data").trim_end())
}

//! `foretoken fit check-kernels`: predicted against measured kernels.

use std::path::PathBuf;

use clap::Args;
use foretoken_calibrate::kernels::check::check;
use foretoken_calibrate::kernels::table::Table;

use crate::commands::Extras;
use crate::failure::Failure;
use crate::output::JsonOutput;

/// Compare predicted kernels with timings of kernels
///
/// Predicts every row of tables of timings (CSV) and prints the absolute relative errors by
/// accelerator, class of kernels and number format, and how many rows are left out for which reason.
/// An accelerator without curves of its own is predicted with its relative's.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Tables of timings (CSV)
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let tables = arguments.files.iter().map(|path| Table::read(path));
    let tables = tables.collect::<Result<Vec<_>, _>>()?;
    let catalog = arguments.extras.catalog()?;
    let parameters = arguments.extras.physics()?.kernels;
    let checked = check(&tables, &catalog, &parameters);
    arguments
        .output
        .emit(&checked, checked.markdown().trim_end())
}

//! `foretoken fit kernels`: efficiencies of kernels.

use std::path::{Path, PathBuf};

use clap::Args;
use foretoken_calibrate::CalibrateError;
use foretoken_calibrate::kernels::file::kernels_toml;
use foretoken_calibrate::kernels::fit::{Settings, fit};
use foretoken_calibrate::kernels::table::Table;

use crate::commands::Extras;
use crate::failure::{Failure, save};
use crate::output::JsonOutput;

/// Fit the curves of kernels to timings of kernels
///
/// Reads all tables of timings in a folder, fits one curve for each accelerator, class of kernels and
/// number format to four fifths of their rows, and prints a report in Markdown with the errors on
/// the other fifth, and of every accelerator as predicted from its relative. Curves that the tables
/// do not cover stay as they are. The same tables and seed give the same curves, on any number of
/// threads.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder with tables of timings (CSV); files in other layouts are skipped
    dir: PathBuf,
    /// Fit only this accelerator
    #[arg(long)]
    gpu: Option<String>,
    /// Seed of the searches
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Candidates for each form of a curve; 0 measures the errors of the present curves and fits none
    #[arg(long, default_value_t = 3000)]
    evaluations: usize,
    /// Write the parameters to this file (TOML), for `--kernel-parameters`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the report to this file (Markdown), beside printing it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let catalog = arguments.extras.catalog()?;
    let base = arguments.extras.physics()?.kernels;
    let mut settings = Settings::default();
    settings.seed = arguments.seed;
    settings.evaluations = arguments.evaluations;
    if let Some(name) = &arguments.gpu {
        settings.gpu = Some(catalog.gpu(name)?.name);
    }
    let mut tables = Vec::new();
    for path in csv_files(&arguments.dir)? {
        match Table::read(&path) {
            Ok(table) => tables.push(table),
            // Folders of measurements hold other tables too.
            Err(CalibrateError::Table { name, .. }) => {
                eprintln!("skipped: {name}: not the columns of a table of timings");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if tables.is_empty() {
        return Err(Failure::Malformed {
            path: arguments.dir.clone(),
            problem: "no table of timings (*.csv) in it".to_owned(),
        });
    }
    let fitted = fit(&tables, &catalog, &base, &settings)?;
    let markdown = fitted.markdown();
    save(arguments.out.as_deref(), &kernels_toml(&fitted.parameters))?;
    save(arguments.report.as_deref(), &markdown)?;
    arguments.output.emit(&fitted, markdown.trim_end())
}

/// The CSV files of a folder, by name.
fn csv_files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failure = |source| Failure::Read {
        path: dir.into(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failure)? {
        let path = entry.map_err(failure)?.path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

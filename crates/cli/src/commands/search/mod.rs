//! `foretoken search`: which deployment meets constraints best.

mod picture;

use std::path::{Path, PathBuf};

use clap::Args;
use foretoken_search::{Search, SearchError, SearchSpec};

use crate::commands::Extras;
use crate::failure::{Failure, from_file, save};
use crate::output::{Files, JsonOutput};

/// Search for deployments that meet constraints and are best in one or several numbers
///
/// A file says what varies, what must hold, what is to be small or large and how to look for it. Prints
/// the Pareto front and how many candidates are feasible. The same file gives the same result, on any
/// number of threads, whether or not it was interrupted.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File of the search (YAML or JSON)
    file: PathBuf,
    /// Keep evaluations in this file (JSON lines), and continue from what it holds
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write all candidates to this file (CSV)
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the first two objectives into this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.file;
    Files::read([path])
        .written("--log", arguments.log.as_deref())?
        .written("--csv", arguments.csv.as_deref())?
        .written("--svg", arguments.svg.as_deref())?
        .written("--json", arguments.output.file())?;
    let mut spec: SearchSpec = from_file(path)?;
    spec.rebase(path.parent().unwrap_or(Path::new("")));
    if arguments.svg.is_some() && spec.objectives.len() < 2 {
        return Err(Failure::BadFlag {
            flag: "--svg",
            problem: format!("{} has one objective: a picture needs two", path.display()),
        });
    }
    let environment = arguments.extras.environment()?;
    let in_file = |error: SearchError| match error {
        // These name their file themselves.
        SearchError::Calibrate(error) => Failure::Calibrate(error),
        source => Failure::SearchFile {
            path: path.clone(),
            source: Box::new(source),
        },
    };
    let mut search = Search::new(&spec, &environment).map_err(in_file)?;
    if let Some(log) = &arguments.log {
        search = search.with_log(log).map_err(in_file)?;
    }
    let result = search.shown_as("search").run().map_err(in_file)?;
    save(arguments.csv.as_deref(), &result.csv())?;
    if let Some(svg) = &arguments.svg {
        let picture = picture::front(&result).map_err(|problem| Failure::Picture {
            path: svg.clone(),
            problem,
        })?;
        save(Some(svg), &picture)?;
    }
    arguments.output.emit(&result, &result.to_string())
}

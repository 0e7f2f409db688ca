//! `foretoken workload`: what asks, without what serves.

mod clean;
mod convert;
mod description;
mod expand;
mod generate;
mod inspect;
mod pages;
mod pictures;
mod schema;
mod source;
mod text;

use clap::Subcommand;

use crate::failure::Failure;

pub(crate) use source::spec_or_trace;

/// Make, look at, clean and convert workloads and traces of requests
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    Generate(generate::Arguments),
    Inspect(inspect::Arguments),
    Clean(Box<clean::Arguments>),
    Convert(convert::Arguments),
    Expand(expand::Arguments),
    Schema(schema::Arguments),
}

pub(crate) fn run(command: &Workload) -> Result<(), Failure> {
    match command {
        Workload::Generate(arguments) => generate::run(arguments),
        Workload::Inspect(arguments) => inspect::run(arguments),
        Workload::Clean(arguments) => clean::run(arguments),
        Workload::Convert(arguments) => convert::run(arguments),
        Workload::Expand(arguments) => expand::run(arguments),
        Workload::Schema(arguments) => schema::run(arguments),
    }
}

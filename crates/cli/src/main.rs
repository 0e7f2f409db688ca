//! The command `foretoken`: predicts how an LLM serving deployment will behave.

mod chart;
mod commands;
mod failure;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{
    ablate, catalog, compare, curve, explain, fit, goodput, plan, run, search, validate, workload,
};

/// Foretells latency, throughput and memory of an LLM serving deployment, on a CPU.
#[derive(Debug, Parser)]
#[command(name = "foretoken", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Arguments>),
    Plan(Box<plan::Arguments>),
    Goodput(Box<goodput::Arguments>),
    Curve(curve::Arguments),
    Search(search::Arguments),
    Compare(compare::Arguments),
    Ablate(ablate::Arguments),
    Explain(explain::Arguments),
    Validate(validate::Arguments),
    Catalog(catalog::Arguments),
    #[command(subcommand)]
    Fit(fit::Fit),
    #[command(subcommand)]
    Workload(workload::Workload),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Goodput(arguments) => goodput::run(&arguments),
        Command::Curve(arguments) => curve::run(&arguments),
        Command::Search(arguments) => search::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Ablate(arguments) => ablate::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Catalog(arguments) => catalog::run(&arguments),
        Command::Fit(fit) => fit::run(&fit),
        Command::Workload(command) => workload::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

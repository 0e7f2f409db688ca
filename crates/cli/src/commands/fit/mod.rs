//! `foretoken fit`: from measurements to parameter files.

mod check_kernels;
mod kernels;
mod runtime;

use clap::Subcommand;

use crate::failure::Failure;

/// Fit the parameters of latency models to measurements
#[derive(Debug, Subcommand)]
pub(crate) enum Fit {
    Kernels(kernels::Arguments),
    CheckKernels(check_kernels::Arguments),
    Runtime(runtime::Arguments),
}

pub(crate) fn run(fit: &Fit) -> Result<(), Failure> {
    match fit {
        Fit::Kernels(arguments) => kernels::run(arguments),
        Fit::CheckKernels(arguments) => check_kernels::run(arguments),
        Fit::Runtime(arguments) => runtime::run(arguments),
    }
}

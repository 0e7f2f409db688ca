//! The command as its users call it: arguments in, tables or JSON out, mistakes by name.

mod ablate;
mod bad_input;
mod commands;
mod compare;
mod files;
mod fit_runtime;
mod goodput;
mod search;
mod support;
mod workload;

//! The workspace as a whole, through the facade's public API.

mod closed_forms;
mod closed_loops;
mod cluster;
mod conservation;
mod determinism;
mod dynamics;
mod golden;
mod literature_engine;
mod literature_policies;
mod measured_table;
mod properties;
mod public_api;
mod router_scenarios;
mod scenario_files;
mod studies;
mod support;
mod validation;

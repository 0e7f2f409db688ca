//! Searches as a user runs them.

mod bad_specs;
mod fixed_counts;
mod goodput;
mod methods;
mod plan;
mod resume;
mod support;

//! Searches as a user runs them.

mod bad_specs;
mod methods;
mod resume;
mod support;
mod fixed_counts;
mod goodput;
mod plan;

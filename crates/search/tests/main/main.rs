//! Searches whose answers are known.

mod fixed_counts;
mod goodput;
mod plan;

//! Cleaning and inspection of traces, through the public interface.

mod inspection;
mod invariants;
mod steps;
mod support;

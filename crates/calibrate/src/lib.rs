//! Fits the parameters of latency models to measurements.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`optimizer`] | searches for the parameters of least loss, for any model |
//! | [`progress`] | a log of evaluations that a later run continues |
//! | [`kernels`] | efficiencies of kernels, from timings of kernels |
//! | [`runtime`] | costs of the serving software, from whole experiments through the simulator |
//!
//! Everything is reproducible: the same data, seed and budget give the same coefficients, on any
//! number of threads, whether or not a run was interrupted.

mod error;
pub mod kernels;
pub mod optimizer;
pub mod progress;
pub mod runtime;

pub use error::CalibrateError;

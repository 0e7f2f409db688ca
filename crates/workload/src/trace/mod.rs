//! Traces: what was asked of a real deployment, as files tell it.
//!
//! [`Row`] is one request as a trace has it, before anybody believed it; [`Rows`] is a stream of them. Readers
//! make rows, cleaning steps drop or change them and count what they did, and a replay turns them into
//! [`Request`](crate::Request)s.

mod clean;
mod error;
mod row;

pub use clean::{
    BadRowReport, BadRows, Bounds, CleanReport, CleanStep, Cleaned, Cleaning, Late, Reason, Resampling, StepReport,
    Unit,
};
pub use error::TraceError;
pub use row::{Fate, Place, Prefix, Row, Rows, TraceTime};

//! Traces: what was asked of a real deployment, as files tell it.
//!
//! [`Row`] is one request as a trace has it, before anybody believed it; [`Rows`] is a stream of them. Readers
//! make rows ([`TraceFile`], of any [`Format`]), cleaning steps drop or change them and count what they did, a
//! [`RowWriter`] keeps them, and a [replay](TraceReplay) turns them into [`Request`](crate::Request)s.
//!
//! Reading is lazy: memory does not grow with the file. Text is UTF-8, and every error says where it is.

mod clean;
mod columns;
mod csv;
mod detect;
mod document;
mod error;
mod format;
mod formats;
mod input;
mod inspect;
mod json;
mod lines;
mod notation;
mod replay;
mod requests;
mod row;
mod value;
mod write;
mod write_parquet;

pub use clean::{
    BadRowReport, BadRows, Bounds, CleanReport, CleanStep, Cleaned, Cleaning, Late, Reason,
    Resampling, StepReport, Unit,
};
pub use columns::{Columns, Field, TimeUnit};
pub use error::TraceError;
pub use format::{Format, OpenOptions, OutputFormat, TraceFile};
pub use formats::inference_perf::{StageReport, inference_perf_config, stage_report};
pub use input::Progress;
pub use inspect::{
    Bin, Dispersion, Fit, Fits, Gaps, Goodness, Group, Groups, Inspection, Inspector, Law, Lengths,
    Neighbours, Part, Pause, PauseFrom, Quantiles, RateCurve, Relation, Sessions, Sharing, Tail,
    Warning,
};
pub use notation::NotThat;
pub use replay::{Models, TraceReplay, TraceSpec, Turns};
pub use row::{Fate, Place, Prefix, Row, Rows, TraceTime};
pub use write::RowWriter;

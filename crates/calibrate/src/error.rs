//! [`CalibrateError`]: why a fit cannot be done.

use std::path::PathBuf;

/// Why a fit cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A setting or a parameter's range makes no sense.
    #[error("{field} is {value}: allowed is {allowed}")]
    OutOfRange {
        /// Which one.
        field: String,
        /// Its value.
        value: String,
        /// What would be right.
        allowed: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A log of evaluations that was not written by a fit.
    #[error("{}, line {line}: {problem}", path.display())]
    Log {
        /// Its path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A table of timings whose columns say nothing.
    #[error("{name}: {problem}")]
    Table {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A simulation that cannot be built or run.
    #[error(transparent)]
    Simulation(Box<foretoken::Error>),
}

impl CalibrateError {
    pub(crate) fn out_of_range(
        field: impl Into<String>,
        value: &impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Self::OutOfRange {
            field: field.into(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }

    pub(crate) fn file(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::File {
            path: path.into(),
            source,
        }
    }
}

impl From<foretoken::Error> for CalibrateError {
    fn from(error: foretoken::Error) -> Self {
        Self::Simulation(Box::new(error))
    }
}

impl From<foretoken::latency_model::LatencyError> for CalibrateError {
    fn from(error: foretoken::latency_model::LatencyError) -> Self {
        foretoken::Error::from(error).into()
    }
}

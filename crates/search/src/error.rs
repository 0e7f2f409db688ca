//! [`SearchError`]: why nothing can be found.

use foretoken::workload::WorkloadError;
use foretoken::workload::trace::TraceError;

/// Why a search, a plan or a comparison cannot be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A key of its description makes no sense.
    #[error("{field} is {value}: allowed is {allowed}")]
    OutOfRange {
        /// Path to the key.
        field: String,
        /// The offending value.
        value: String,
        /// What would be right.
        allowed: String,
    },
    /// A setting that no scenario has, or with a value that it cannot have.
    #[error("{setting}: {problem}")]
    Setting {
        /// Its name, as it was given.
        setting: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A set of features that cannot be run.
    #[error("with {features}: {source}")]
    Coalition {
        /// Their names.
        features: String,
        /// Why not.
        source: Box<SearchError>,
    },
    /// A simulation that cannot be built or run.
    #[error(transparent)]
    Simulation(Box<foretoken::Error>),
    /// An optimiser or a log of evaluations.
    #[error(transparent)]
    Calibrate(#[from] foretoken_calibrate::CalibrateError),
}

impl SearchError {
    /// Whether a file could not be read, which may succeed the next time: no fault of what was to be run.
    pub(crate) fn is_of_reading(&self) -> bool {
        let Self::Simulation(error) = self else {
            return false;
        };
        match &**error {
            // What stands in it is checked before the first run.
            foretoken::Error::RouterConfig { .. } => true,
            foretoken::Error::Workload(WorkloadError::Trace(error)) => match error {
                TraceError::InFile { source, .. } => matches!(**source, TraceError::Io { .. }),
                error => matches!(error, TraceError::Io { .. }),
            },
            _ => false,
        }
    }

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
}

impl From<foretoken::Error> for SearchError {
    fn from(error: foretoken::Error) -> Self {
        Self::Simulation(Box::new(error))
    }
}

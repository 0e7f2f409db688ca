//! [`TraceError`]: a trace that cannot be read, or a row of one.

use std::path::PathBuf;

use super::row::Place;

/// Why a trace cannot be read.
///
/// ```
/// use foretoken_workload::trace::{Place, TraceError};
///
/// let error = TraceError::BadRow {
///     place: Place::Line(7),
///     column: "ContextTokens".to_owned(),
///     value: "many".to_owned(),
///     allowed: "a number of tokens".to_owned(),
/// };
/// assert_eq!(error.to_string(), "line 7, ContextTokens is \"many\": allowed is a number of tokens");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A row that makes no sense; those after it can be read all the same.
    #[error("{place}, {column} is {value:?}: allowed is {allowed}")]
    BadRow {
        /// Where it is.
        place: Place,
        /// The column or key.
        column: String,
        /// What is there, shortened if it is long.
        value: String,
        /// What would be right.
        allowed: String,
    },
    /// Something after which nothing can be read: a truncated or damaged file, a missing column.
    #[error("{place}: {problem}")]
    Broken {
        /// How far reading came.
        place: Place,
        /// What is wrong.
        problem: String,
    },
    /// A file of no known format, or of another one than was said.
    #[error("{problem}")]
    Format {
        /// What was looked for, what is there, and what is allowed.
        problem: String,
    },
    /// A file that cannot be opened or read.
    #[error("{problem}")]
    Io {
        /// What the system says.
        problem: String,
    },
    /// Any of the others, in this file.
    #[error("{}: {source}", .path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<TraceError>,
    },
}

impl TraceError {
    /// The same error, with the file that it is about.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> Self {
        Self::InFile {
            path: path.into(),
            source: Box::new(self),
        }
    }

    /// Whether only one row is lost, so that reading can go on.
    pub fn is_about_one_row(&self) -> bool {
        match self {
            Self::BadRow { .. } => true,
            Self::InFile { source, .. } => source.is_about_one_row(),
            _ => false,
        }
    }
}

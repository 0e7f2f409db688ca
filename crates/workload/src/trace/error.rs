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
    /// A description of a replay that contradicts itself.
    #[error("{field} is given with {other}: allowed is one of both; {advice}")]
    Contradiction {
        /// A configuration key.
        field: &'static str,
        /// The one that it contradicts.
        other: &'static str,
        /// Which to leave out.
        advice: &'static str,
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
    pub(crate) fn io(error: &std::io::Error) -> Self {
        Self::Io {
            problem: error.to_string(),
        }
    }

    pub(crate) fn format(problem: impl Into<String>) -> Self {
        Self::Format {
            problem: problem.into(),
        }
    }

    pub(crate) fn broken(place: Place, problem: impl Into<String>) -> Self {
        Self::Broken {
            place,
            problem: problem.into(),
        }
    }

    /// A row at `place` with a `value` that is not among the `allowed`.
    pub(crate) fn bad(place: Place, column: &str, value: &str, allowed: &str) -> Self {
        Self::BadRow {
            place,
            column: shortened(column),
            value: shortened(value),
            allowed: allowed.to_owned(),
        }
    }

    /// The same error as one after which nothing can be read.
    #[must_use]
    pub(crate) fn fatal(self) -> Self {
        match self {
            Self::BadRow {
                place,
                column,
                value,
                allowed,
            } => Self::Broken {
                place,
                problem: format!("{column} is {value:?}: allowed is {allowed}"),
            },
            Self::InFile { path, source } => source.fatal().in_file(path),
            other => other,
        }
    }

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

/// The longest text of a file that messages repeat, in characters.
const SHORT: usize = 60;

/// `text`, cut if it is long.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

//! [`WorkloadError`]: a workload that cannot exist.

use crate::prompt::PromptError;
use crate::request::RequestId;
use crate::trace::TraceError;

/// Why a description of a workload describes none.
///
/// Every variant names the field by its configuration key, with the path to it
/// (`output-tokens.mean`), the offending value and what is allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A number outside of its range.
    #[error("{field} is {value}: allowed is {allowed}")]
    OutOfRange {
        /// Path to the configuration key.
        field: String,
        /// The offending value.
        value: f64,
        /// What would be right.
        allowed: &'static str,
    },
    /// A count above its limit.
    #[error("{field} is {value}: allowed is at most {limit}")]
    TooMany {
        /// Path to the configuration key.
        field: String,
        /// The offending value.
        value: u32,
        /// The most that is allowed.
        limit: u32,
    },
    /// A lower bound above its upper bound.
    #[error("{field} has min {min} above max {max}: allowed is min <= max")]
    Reversed {
        /// Path to the configuration key.
        field: String,
        /// The lower bound.
        min: u32,
        /// The upper bound.
        max: u32,
    },
    /// Something that is needed is not there.
    #[error("{field} is missing or empty: needed is {needed}")]
    Missing {
        /// Path to the configuration key.
        field: String,
        /// What is needed.
        needed: &'static str,
    },
    /// Something that is known elsewhere, but has no place here.
    #[error("{field} is not allowed {here}: allowed is {allowed}")]
    NotAllowed {
        /// Path to the configuration key.
        field: String,
        /// Where, or beside what.
        here: &'static str,
        /// What would be right.
        allowed: &'static str,
    },
    /// A replayed request whose number is not its position.
    #[error("request at position {position} has id {id}: allowed is {position}")]
    Misnumbered {
        /// Position in the list, from 0.
        position: u64,
        /// The id found there.
        id: RequestId,
    },
    /// A replayed request that arrives before the one in front of it.
    #[error("request {id} arrives before the request in front of it: allowed is order of arrival")]
    OutOfOrder {
        /// The early request.
        id: RequestId,
    },
    /// A prompt that cannot exist.
    #[error("{field}: {source}")]
    Prompt {
        /// Path to the configuration key.
        field: String,
        /// Why.
        #[source]
        source: PromptError,
    },
    /// A trace that cannot be replayed.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl WorkloadError {
    /// `field` has a `value` that is not among the `allowed`.
    pub(crate) fn out_of_range(field: &str, value: f64, allowed: &'static str) -> Self {
        Self::OutOfRange {
            field: field.to_owned(),
            value,
            allowed,
        }
    }

    /// `field` is missing or empty.
    pub(crate) fn missing(field: &str, needed: &'static str) -> Self {
        Self::Missing {
            field: field.to_owned(),
            needed,
        }
    }

    /// `field` has no place `here`.
    pub(crate) fn not_allowed(field: &str, here: &'static str, allowed: &'static str) -> Self {
        Self::NotAllowed {
            field: field.to_owned(),
            here,
            allowed,
        }
    }

    /// The same error, seen from the table `outer` that holds the field.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        match &mut self {
            Self::OutOfRange { field, .. }
            | Self::Reversed { field, .. }
            | Self::TooMany { field, .. }
            | Self::Missing { field, .. }
            | Self::NotAllowed { field, .. }
            | Self::Prompt { field, .. } => *field = format!("{outer}.{field}"),
            Self::Misnumbered { .. } | Self::OutOfOrder { .. } | Self::Trace(_) => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_path_value_and_what_is_allowed() {
        let error = WorkloadError::out_of_range("mean", -3.5, "a finite number above 0")
            .within("output-tokens");
        assert_eq!(
            error.to_string(),
            "output-tokens.mean is -3.5: allowed is a finite number above 0"
        );
    }
}

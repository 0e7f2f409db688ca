//! [`DataplaneError`]: a policy that cannot exist, or whose answer means nothing.

use core::fmt;

/// What ends a run, or keeps it from starting, on account of a policy.
///
/// ```
/// use foretoken_dataplane::flow::{CeilingDomain, PriorityHoldback};
///
/// let error = PriorityHoldback::new(1.5, 1.0, CeilingDomain::Rank).unwrap_err();
/// assert_eq!(error.to_string(), "minCeiling is 1.5: allowed is 0 or more, and below 1");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataplaneError {
    /// A parameter outside of its range.
    #[error("{parameter} is {value}: allowed is {allowed}")]
    OutOfRange {
        /// The parameter, as llm-d's configuration spells it.
        parameter: &'static str,
        /// The offending value.
        value: f64,
        /// What would be right.
        allowed: &'static str,
    },
    /// A policy gave an answer that its host cannot act on.
    #[error("{policy} answered {answer}: allowed is {allowed}")]
    Answer {
        /// Which policy.
        policy: String,
        /// What it said.
        answer: String,
        /// What would be right.
        allowed: String,
    },
}

impl DataplaneError {
    /// `parameter` has a `value` that is not among the `allowed`.
    pub(crate) const fn out_of_range(
        parameter: &'static str,
        value: f64,
        allowed: &'static str,
    ) -> Self {
        Self::OutOfRange {
            parameter,
            value,
            allowed,
        }
    }

    /// `policy` gave an `answer` that is not among the `allowed`.
    pub(crate) fn answer(
        policy: impl Into<String>,
        answer: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::Answer {
            policy: policy.into(),
            answer: answer.to_string(),
            allowed: allowed.into(),
        }
    }
}

//! [`Judgement`]: whether a difference is for the better.

use core::fmt;

use foretoken::metrics::{Estimate, Verdict};
use serde::Serialize;

use crate::metric::Direction;

/// Whether a difference is for the better, and can be told from nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Judgement {
    /// The whole interval of the difference is on the better side.
    Better,
    /// The whole interval of the difference is on the worse side.
    Worse,
    /// The interval holds 0, or there is none.
    NotDistinguishable,
}

impl Judgement {
    /// What a difference says of a number that is to go in this direction.
    ///
    /// ```
    /// use foretoken::metrics::Estimate;
    /// use foretoken_search::{Direction, Judgement};
    ///
    /// let longer = Estimate::of(&[3.0, 4.0, 5.0]).expect("three values");
    /// assert_eq!(Judgement::of(&longer, Direction::Minimise), Judgement::Worse);
    /// ```
    pub fn of(difference: &Estimate, direction: Direction) -> Self {
        match (difference.verdict(), direction) {
            (Verdict::Above, Direction::Maximise) | (Verdict::Below, Direction::Minimise) => {
                Self::Better
            }
            (Verdict::Above, Direction::Minimise) | (Verdict::Below, Direction::Maximise) => {
                Self::Worse
            }
            _ => Self::NotDistinguishable,
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotDistinguishable => "not distinguishable",
        })
    }
}

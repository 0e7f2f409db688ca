//! The step that sorts by time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::step::Late;
use super::{Exit, Held, Reason, Stage, sent};
use crate::quantity::Seconds;
use crate::trace::error::TraceError;
use crate::trace::row::Row;

/// Holds rows until no row that may still come belongs before them.
pub(super) struct Sort {
    /// Nanoseconds by which a row may be late; none holds everything.
    within: Option<i64>,
    late: Late,
    held: BinaryHeap<Reverse<Waiting>>,
    seen: u64,
    /// The latest time that was read, and that of the latest row let out.
    latest: i64,
    released: i64,
}

impl Sort {
    pub(super) fn new(within: Option<Seconds>, late: Late) -> Self {
        let nanos = |span: Seconds| i64::try_from(span.to_duration().as_nanos());
        Self {
            within: within.map(|span| nanos(span).unwrap_or(i64::MAX)),
            late,
            held: BinaryHeap::new(),
            seen: 0,
            latest: i64::MIN,
            released: i64::MIN,
        }
    }

    fn release(&mut self, exit: &mut Exit<'_>) {
        let Some(Reverse(held)) = self.held.pop() else {
            return;
        };
        self.released = held.at;
        if held.overtakes {
            exit.change(held.row, Reason::OutOfOrder);
        } else {
            exit.keep(held.row);
        }
    }
}

impl Stage for Sort {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        let at = sent(&row, "sort")?;
        if at < self.released {
            return match self.late {
                Late::Drop => {
                    exit.drop(Reason::Late);
                    Ok(())
                }
                Late::Error => Err(TraceError::bad(
                    row.place,
                    "sent",
                    &format!(
                        "{} ms before a row in front of it",
                        self.latest.saturating_sub(at) / 1_000_000
                    ),
                    "a time within `within-s` of it, or `late: drop`, or a sort without `within-s`",
                )),
            };
        }
        self.held.push(Reverse(Waiting {
            at,
            number: self.seen,
            overtakes: at < self.latest,
            row,
        }));
        self.seen += 1;
        self.latest = self.latest.max(at);
        if let Some(within) = self.within {
            let sure = self.latest.saturating_sub(within);
            while self
                .held
                .peek()
                .is_some_and(|Reverse(held)| held.at <= sure)
            {
                self.release(exit);
            }
        }
        Ok(())
    }

    fn finish(&mut self, exit: &mut Exit<'_>) -> Result<Held, TraceError> {
        // A few at a time, so that no second place holds all of them.
        for _ in 0..1_000 {
            self.release(exit);
        }
        Ok(if self.held.is_empty() {
            Held::Nothing
        } else {
            Held::More
        })
    }
}

/// A row in the order of its time, then of its number.
struct Waiting {
    at: i64,
    number: u64,
    overtakes: bool,
    row: Row,
}

impl Waiting {
    const fn key(&self) -> (i64, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

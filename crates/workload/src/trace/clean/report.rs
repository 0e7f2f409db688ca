//! [`CleanReport`]: what became of the rows of a trace.

use core::fmt;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BadRows;
use crate::trace::error::TraceError;

/// How many messages about bad rows are kept.
const MESSAGES: usize = 5;

/// What a [`Cleaning`](super::Cleaning) did. `rows_in` and what steps added are together `rows_out` and what they
/// dropped, for the whole and for each step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CleanReport {
    /// Rows that could be read.
    pub rows_in: u64,
    /// Rows that came out.
    pub rows_out: u64,
    /// Rows that could not be read, or not be treated by a step.
    pub bad_rows: BadRowReport,
    /// Step by step, in order.
    pub steps: Vec<StepReport>,
}

impl CleanReport {
    /// Rows dropped by any step.
    pub fn dropped(&self) -> u64 {
        self.steps.iter().map(StepReport::dropped).sum()
    }

    /// Rows added by any step.
    pub fn added(&self) -> u64 {
        self.steps.iter().map(|step| step.added).sum()
    }
}

/// Rows that nothing could be made of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BadRowReport {
    /// Those that could not be read; they are not among the rows in.
    pub unread: u64,
    /// Those that a step could not treat, and dropped.
    pub untreated: u64,
    /// What was wrong with the first of them.
    pub first: Vec<String>,
}

impl BadRowReport {
    /// Notes what is wrong with a row, or gives the error back if it ends the work.
    pub(in crate::trace) fn note(
        &mut self,
        error: TraceError,
        policy: BadRows,
    ) -> Result<(), TraceError> {
        if policy == BadRows::Stop || !error.is_about_one_row() {
            return Err(error);
        }
        if self.first.len() < MESSAGES {
            self.first.push(error.to_string());
        }
        Ok(())
    }

    /// All of them.
    pub const fn total(&self) -> u64 {
        self.unread + self.untreated
    }
}

/// What one step did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// The step, as files write it.
    pub step: String,
    /// Rows that came to it.
    pub rows_in: u64,
    /// Rows that it let out.
    pub rows_out: u64,
    /// Rows that it dropped, by reason.
    pub dropped: BTreeMap<Reason, u64>,
    /// Rows that it changed, by reason; a row that was changed for two reasons is counted for the first.
    pub changed: BTreeMap<Reason, u64>,
    /// Rows that it made.
    pub added: u64,
    /// Whether it had enough before the trace was at its end, so that the rest was not read.
    pub closed: bool,
}

impl StepReport {
    pub(super) fn new(step: &str) -> Self {
        Self {
            step: step.to_owned(),
            rows_in: 0,
            rows_out: 0,
            dropped: BTreeMap::new(),
            changed: BTreeMap::new(),
            added: 0,
            closed: false,
        }
    }

    /// Rows that it dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Rows that it changed.
    pub fn changed(&self) -> u64 {
        self.changed.values().sum()
    }
}

/// Why a row was dropped or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// It failed.
    Failed,
    /// Its client went away.
    TimedOut,
    /// It asks again for what was asked before.
    Retry,
    /// Its id was there before.
    DuplicateId,
    /// It has no input tokens, or fewer than allowed.
    ShortInput,
    /// It has more input tokens than allowed.
    LongInput,
    /// It has no output tokens, or fewer than allowed.
    ShortOutput,
    /// It has more output tokens than allowed.
    LongOutput,
    /// It has fewer tokens in all than allowed.
    ShortTotal,
    /// It has more tokens in all than allowed.
    LongTotal,
    /// It came too late to be put in its place.
    Late,
    /// It was moved in front of rows that were read before it.
    OutOfOrder,
    /// Its time was moved.
    Moved,
    /// It was sent outside of the span that is kept.
    OutsideTime,
    /// It is not among the rows that are kept.
    OutsideRows,
    /// It was not drawn.
    NotDrawn,
    /// The step could make nothing of it: it is among the bad rows.
    Bad,
}

impl Reason {
    /// How it is said in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::TimedOut => "client went away",
            Self::Retry => "asked again",
            Self::DuplicateId => "id was there before",
            Self::ShortInput => "input too short",
            Self::LongInput => "input too long",
            Self::ShortOutput => "output too short",
            Self::LongOutput => "output too long",
            Self::ShortTotal => "too short in all",
            Self::LongTotal => "too long in all",
            Self::Late => "too late to be sorted in",
            Self::OutOfOrder => "put in its place",
            Self::Moved => "time moved",
            Self::OutsideTime => "outside of the span",
            Self::OutsideRows => "outside of the rows kept",
            Self::NotDrawn => "not drawn",
            Self::Bad => "not usable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for CleanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:>12} {:>12} {:>12} {:>12}",
            "step", "in", "out", "dropped", "changed"
        )?;
        for step in &self.steps {
            writeln!(
                f,
                "{:<20} {:>12} {:>12} {:>12} {:>12}",
                step.step,
                step.rows_in,
                step.rows_out,
                step.dropped(),
                step.changed(),
            )?;
            for (reason, count) in &step.dropped {
                writeln!(f, "  {:<18} {:>38}", reason.name(), count)?;
            }
            for (reason, count) in &step.changed {
                writeln!(f, "  {:<18} {:>51}", reason.name(), count)?;
            }
            if step.added > 0 {
                writeln!(f, "  {:<18} {:>25}", "rows added", step.added)?;
            }
            if step.closed {
                writeln!(f, "  has enough: the rest of the trace was not read")?;
            }
        }
        write!(
            f,
            "{:<20} {:>12} {:>12} {:>12}",
            "all",
            self.rows_in,
            self.rows_out,
            self.dropped(),
        )?;
        if self.bad_rows.total() > 0 {
            write!(
                f,
                "\nbad rows: {} could not be read, {} could not be treated",
                self.bad_rows.unread, self.bad_rows.untreated,
            )?;
            for message in &self.bad_rows.first {
                write!(f, "\n  {message}")?;
            }
        }
        Ok(())
    }
}

//! Steps that look at one row at a time.

use core::ops::RangeInclusive;

use foretoken_des_kernel::RngStreams;

use super::step::{Bounds, Unit};
use super::{Exit, Reason, Stage, number_of, sent};
use crate::trace::error::TraceError;
use crate::trace::row::{Fate, Row};

pub(super) struct DropFailed;

impl Stage for DropFailed {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        match row.fate {
            Fate::Failed { .. } => exit.drop(Reason::Failed),
            _ => exit.keep(row),
        }
        Ok(())
    }
}

pub(super) struct DropTimedOut;

impl Stage for DropTimedOut {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        match row.fate {
            Fate::TimedOut => exit.drop(Reason::TimedOut),
            _ => exit.keep(row),
        }
        Ok(())
    }
}

pub(super) struct DropLengths {
    pub(super) input: RangeInclusive<u64>,
    pub(super) output: RangeInclusive<u64>,
    pub(super) total: RangeInclusive<u64>,
}

impl Stage for DropLengths {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        let total = row.input_tokens.saturating_add(row.output_tokens);
        let checks = [
            (
                row.input_tokens,
                &self.input,
                Reason::ShortInput,
                Reason::LongInput,
            ),
            (
                row.output_tokens,
                &self.output,
                Reason::ShortOutput,
                Reason::LongOutput,
            ),
            (total, &self.total, Reason::ShortTotal, Reason::LongTotal),
        ];
        let wrong = checks.into_iter().find_map(|(tokens, range, short, long)| {
            if tokens < *range.start() {
                Some(short)
            } else {
                (tokens > *range.end()).then_some(long)
            }
        });
        match wrong {
            Some(reason) => exit.drop(reason),
            None => exit.keep(row),
        }
        Ok(())
    }
}

pub(super) struct ClipLengths {
    pub(super) input: Bounds,
    pub(super) output: Bounds,
}

impl Stage for ClipLengths {
    fn take(&mut self, mut row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        let (input, output) = (row.input_tokens, row.output_tokens);
        row.input_tokens = input.clamp(self.input.min, self.input.max);
        row.output_tokens = output.clamp(self.output.min, self.output.max);
        if output != row.output_tokens {
            row.max_tokens = row.max_tokens.map(|max| max.max(row.output_tokens));
        }
        let reason = if input < row.input_tokens {
            Reason::ShortInput
        } else if input > row.input_tokens {
            Reason::LongInput
        } else if output < row.output_tokens {
            Reason::ShortOutput
        } else if output > row.output_tokens {
            Reason::LongOutput
        } else {
            exit.keep(row);
            return Ok(());
        };
        exit.change(row, reason);
        Ok(())
    }
}

/// Keeps a span of time after the first row.
pub(super) struct SliceTime {
    from: i64,
    to: Option<i64>,
    first: Option<i64>,
}

impl SliceTime {
    pub(super) fn new(from_s: f64, to_s: Option<f64>) -> Self {
        Self {
            from: nanos(from_s),
            to: to_s.map(nanos),
            first: None,
        }
    }
}

impl Stage for SliceTime {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        let at = sent(&row, "slice-time")?;
        let since = at.saturating_sub(*self.first.get_or_insert(at));
        if since < self.from || self.to.is_some_and(|to| since >= to) {
            exit.drop(Reason::OutsideTime);
        } else {
            exit.keep(row);
        }
        Ok(())
    }
}

/// Nanoseconds of so many seconds, to the nearest; what is out of range becomes the nearest end.
fn nanos(seconds: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, which is what is wanted"
    )]
    let nanos = (seconds * 1e9).round() as i64;
    nanos
}

pub(super) struct SliceRows {
    skip: u64,
    left: Option<u64>,
}

impl SliceRows {
    pub(super) const fn new(skip: u64, count: Option<u64>) -> Self {
        Self { skip, left: count }
    }
}

impl Stage for SliceRows {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        if self.skip > 0 {
            self.skip -= 1;
            exit.drop(Reason::OutsideRows);
            return Ok(());
        }
        match &mut self.left {
            Some(0) => exit.drop(Reason::OutsideRows),
            Some(left) => {
                *left -= 1;
                exit.keep(row);
            }
            None => exit.keep(row),
        }
        if self.left == Some(0) {
            exit.close();
        }
        Ok(())
    }
}

/// Keeps a share of the sessions, tenants or rows.
pub(super) struct Sample {
    draw: Draw,
    share: f64,
}

impl Sample {
    pub(super) const fn new(share: f64, whole: Unit, streams: RngStreams, number: u64) -> Self {
        Self {
            draw: Draw::new(whole, streams, number),
            share,
        }
    }
}

impl Stage for Sample {
    fn take(&mut self, row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        if self.draw.of(&row) < self.share {
            exit.keep(row);
        } else {
            exit.drop(Reason::NotDrawn);
        }
        Ok(())
    }
}

/// A number in `[0, 1)` for each session, tenant or row, which is drawn for its name or, without one, for the
/// row's place among the rows that the step saw.
pub(super) struct Draw {
    whole: Unit,
    streams: RngStreams,
    /// The number of the step, so that two steps draw apart.
    step: u64,
    seen: u64,
}

impl Draw {
    pub(super) const fn new(whole: Unit, streams: RngStreams, step: u64) -> Self {
        Self {
            whole,
            streams,
            step,
            seen: 0,
        }
    }

    pub(super) fn of(&mut self, row: &Row) -> f64 {
        let number = self.seen;
        self.seen += 1;
        let name = match self.whole {
            Unit::Session => row.session.as_deref(),
            Unit::Tenant => row.tenant.as_deref(),
            Unit::Row => None,
        };
        let mut stream = match name {
            // A row without a name takes that of no other.
            None => self.streams.stream("trace-rows", number ^ self.step << 48),
            Some(name) => self
                .streams
                .stream("trace-names", number_of(name).wrapping_add(self.step)),
        };
        stream.unit()
    }
}

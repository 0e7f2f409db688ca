//! Steps that move rows in time or change how many there are of them.

use std::sync::Arc;

use foretoken_des_kernel::{Fingerprint, RngStreams};

use super::filters::Draw;
use super::step::{Resampling, Unit};
use super::{Exit, Held, Reason, Stage, moved, sent};
use crate::prompt::ContentId;
use crate::quantity::Rate;
use crate::trace::error::TraceError;
use crate::trace::row::{Prefix, Row, TraceTime};

#[derive(Default)]
pub(super) struct ShiftToZero {
    first: Option<i64>,
}

impl Stage for ShiftToZero {
    fn take(&mut self, mut row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        let at = sent(&row, "shift-to-zero")?;
        let first = *self.first.get_or_insert(at);
        moved(&mut row, at.saturating_sub(first));
        if first == 0 {
            exit.keep(row);
        } else {
            exit.change(row, Reason::Moved);
        }
        Ok(())
    }
}

/// Multiplies the time since the first row.
pub(super) struct ScaleTime {
    factor: f64,
    step: &'static str,
    first: Option<i64>,
}

impl ScaleTime {
    pub(super) const fn new(factor: f64, step: &'static str) -> Self {
        Self {
            factor,
            step,
            first: None,
        }
    }
}

impl Stage for ScaleTime {
    fn take(&mut self, mut row: Row, exit: &mut Exit<'_>) -> Result<(), TraceError> {
        let at = sent(&row, self.step)?;
        let first = *self.first.get_or_insert(at);
        let to = stretched(at, first, self.factor);
        moved(&mut row, to);
        if to == at {
            exit.keep(row);
        } else {
            exit.change(row, Reason::Moved);
        }
        Ok(())
    }
}

fn stretched(at: i64, first: i64, factor: f64) -> i64 {
    let since = at.saturating_sub(first) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, which is what is wanted"
    )]
    let stretched = (since * factor).round() as i64;
    first.saturating_add(stretched)
}

/// Makes the load one of another rate, with all rows at hand.
pub(super) struct Resample {
    rate: Rate,
    from: Option<Rate>,
    by: Resampling,
    draw: Draw,
    rows: Vec<Row>,
}

impl Resample {
    pub(super) fn new(
        rate: Rate,
        from: Option<Rate>,
        by: Resampling,
        streams: RngStreams,
        step: u64,
    ) -> Self {
        let whole = match by {
            Resampling::Thin { whole } => whole,
            _ => Unit::Session,
        };
        Self {
            rate,
            from,
            by,
            draw: Draw::new(whole, streams, step),
            rows: Vec::new(),
        }
    }

    /// First instant, nanoseconds from there to the last, and requests per second between them.
    fn extent(&self) -> Option<(i64, i64, f64)> {
        let times = self.rows.iter().filter_map(|row| row.sent);
        let first = times.clone().min()?.as_nanos();
        let span = times.max()?.as_nanos().saturating_sub(first);
        let counted = (self.rows.len().saturating_sub(1)) as f64 / (span as f64 / 1e9);
        let rate = self.from.map_or(counted, Rate::get);
        (span > 0 && rate > 0.0).then_some((first, span, rate))
    }

    fn thin(&mut self, rows: Vec<Row>, share: f64, exit: &mut Exit<'_>) {
        for row in rows {
            if self.draw.of(&row) < share {
                exit.keep(row);
            } else {
                exit.drop(Reason::NotDrawn);
            }
        }
    }

    /// The rows, and `copies` of them less one (the last perhaps in part) beside them, in order of time.
    fn overlay(
        &mut self,
        rows: Vec<Row>,
        (first, span): (i64, i64),
        copies: f64,
        exit: &mut Exit<'_>,
    ) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a quotient of rates is a small number from 1"
        )]
        let all = copies.ceil() as u32;
        // A row at the end of the span and one at its start are one gap apart, not none.
        let around = span
            .saturating_add(span / i64::try_from(rows.len()).unwrap_or(i64::MAX))
            .max(1);
        let mut laid: Vec<(Row, Origin)> = Vec::new();
        for copy in 1..all {
            let share = (copies - f64::from(copy)).min(1.0);
            let by = span / i64::from(all) * i64::from(copy);
            for row in &rows {
                if self.draw.of(row) < share {
                    laid.push((copied(row, copy, first, by, around), Origin::Copy));
                }
            }
        }
        laid.extend(rows.into_iter().map(|row| (row, Origin::Trace)));
        // Stable, so that what is sent at one instant has one order.
        laid.sort_by_key(|(row, _)| row.sent);
        for (row, origin) in laid {
            match origin {
                Origin::Trace => exit.keep(row),
                Origin::Copy => exit.add(row),
            }
        }
    }
}

impl Stage for Resample {
    fn take(&mut self, row: Row, _exit: &mut Exit<'_>) -> Result<(), TraceError> {
        sent(&row, "resample")?;
        self.rows.push(row);
        Ok(())
    }

    fn finish(&mut self, exit: &mut Exit<'_>) -> Result<Held, TraceError> {
        let extent = self.extent();
        let rows = core::mem::take(&mut self.rows);
        let Some(last) = rows.last().map(|row| row.place) else {
            return Ok(Held::Nothing);
        };
        let Some((first, span, rate)) = extent else {
            return Err(TraceError::broken(
                last,
                "resample finds all rows at one instant: needed are two instants, or `from-rps`",
            ));
        };
        if let Err(error) = self.by.check(rate, self.rate) {
            let problem = format!("resample finds {rate:.3} requests per second, and {error}");
            return Err(TraceError::broken(last, problem));
        }
        let quotient = self.rate.get() / rate;
        match self.by {
            Resampling::Stretch {} => {
                for mut row in rows {
                    let at = row.sent.map_or(first, TraceTime::as_nanos);
                    moved(&mut row, stretched(at, first, 1.0 / quotient));
                    exit.change(row, Reason::Moved);
                }
            }
            Resampling::Thin { .. } => self.thin(rows, quotient, exit),
            Resampling::Overlay {} => self.overlay(rows, (first, span), quotient, exit),
        }
        Ok(Held::Nothing)
    }
}

#[derive(Clone, Copy)]
enum Origin {
    Trace,
    Copy,
}

/// Copy number `copy` of a row, `by` later and around the end of the span, with names and texts of its own.
fn copied(row: &Row, copy: u32, first: i64, by: i64, around: i64) -> Row {
    let mut row = row.clone();
    let at = row.sent.map_or(first, TraceTime::as_nanos);
    let since = at.saturating_sub(first).saturating_add(by);
    moved(&mut row, first.saturating_add(since % around));
    // What goes around the end belongs to other conversations: their turns would be out of order.
    let mark = if since < around { "~" } else { "~~" };
    let renamed = |name: &Arc<str>| Arc::from(format!("{name}{mark}{copy}"));
    row.id = row.id.as_ref().map(renamed);
    row.session = row.session.as_ref().map(renamed);
    let renumbered = |id: u64| Fingerprint::new().with(u64::from(copy)).with(id).value();
    match &mut row.prefix {
        Prefix::Blocks { ids, .. } => ids.iter_mut().for_each(|id| *id = renumbered(*id)),
        Prefix::Segments(segments) => {
            for segment in segments {
                segment.content = ContentId::new(renumbered(segment.content.get()) >> 1);
            }
        }
        Prefix::Unknown | Prefix::Group { .. } | Prefix::History => {}
    }
    row
}

//! Steps that move rows in time or change how many there are of them.

use foretoken_des_kernel::RngStreams;

use super::filters::Draw;
use super::overlay::Overlay;
use super::step::{Resampling, Unit};
use super::{Exit, Held, Reason, Stage, moved, sent};
use crate::quantity::Rate;
use crate::trace::error::TraceError;
use crate::trace::row::{Row, TraceTime};

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
    /// What comes out at the end, if copies are laid over the rows.
    overlay: Option<Overlay>,
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
            overlay: None,
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
}

impl Stage for Resample {
    fn take(&mut self, row: Row, _exit: &mut Exit<'_>) -> Result<(), TraceError> {
        sent(&row, "resample")?;
        self.rows.push(row);
        Ok(())
    }

    fn finish(&mut self, exit: &mut Exit<'_>) -> Result<Held, TraceError> {
        if let Some(overlay) = &mut self.overlay {
            return Ok(overlay.release(exit));
        }
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
            let problem = format!("resample finds {rate} requests per second, and {error}");
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
            Resampling::Overlay {} => {
                let overlay = Overlay::new(rows, (first, span), quotient, &mut self.draw)?;
                return Ok(self.overlay.insert(overlay).release(exit));
            }
        }
        Ok(Held::Nothing)
    }
}

//! [`Piece`]: rates that are constant or linear for a while.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use super::intensity::{Intensity, Spent, spend_linear};
use crate::error::WorkloadError;
use crate::quantity::{Rate, Seconds, round_u64};

/// Part of a load with a constant or linearly changing rate, as configurations give it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Piece {
    /// Requests per second, at the start of the piece; from 0.
    pub rate_rps: f64,
    /// Requests per second at its end; from 0 (default: the same as at its start).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_rate_rps: Option<f64>,
    /// How long, in seconds.
    pub duration_s: Seconds,
}

/// What comes behind the last piece.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AfterPieces {
    /// Nothing.
    #[default]
    End,
    /// The last rate, for ever.
    Hold,
    /// All pieces again.
    Repeat,
}

/// The shortest cycle that repeats.
const MIN_CYCLE: SimDuration = SimDuration::from_millis(1);

/// Pieces as a rate over time.
#[derive(Debug, Clone)]
pub(super) struct Pieces {
    linear: Vec<Linear>,
    /// All together.
    length: SimDuration,
    /// Expected requests of all together.
    work: f64,
    after: AfterPieces,
}

#[derive(Debug, Clone, Copy)]
struct Linear {
    /// Since the start of the first piece.
    start: SimDuration,
    end: SimDuration,
    rate: f64,
    slope: f64,
}

impl Linear {
    /// The rate at a time since the start of the first piece.
    fn rate_at(&self, time: SimDuration) -> f64 {
        let since = time.saturating_sub(self.start).as_secs_f64();
        // Rounding may leave a falling rate below its end.
        (self.rate + self.slope * since).max(0.0)
    }
}

/// `rate`, if it is one that may also be zero.
pub(super) fn check_rate(field: &str, rate: f64) -> Result<f64, WorkloadError> {
    if rate == 0.0 || Rate::new(rate).is_ok() {
        return Ok(rate);
    }
    Err(WorkloadError::out_of_range(field, rate, "0 to 1e6"))
}

impl Pieces {
    pub(super) fn new(pieces: &[Piece], after: AfterPieces) -> Result<Self, WorkloadError> {
        Self::build("pieces", pieces, after)
    }

    pub(super) fn ramp(from: f64, to: f64, duration_s: Seconds) -> Result<Self, WorkloadError> {
        let ramp = Piece {
            rate_rps: check_rate("from-rps", from)?,
            to_rate_rps: Some(check_rate("to-rps", to)?),
            duration_s,
        };
        Self::build("from-rps", &[ramp], AfterPieces::Hold)
    }

    pub(super) fn hourly(rates: &[f64], period: Seconds) -> Result<Self, WorkloadError> {
        let slot = period.get() / rates.len().max(1) as f64;
        let duration_s = Seconds::new(slot)?;
        let pieces = rates.iter().enumerate().map(|(index, &rate)| {
            Ok(Piece {
                rate_rps: check_rate(&format!("rates-rps[{index}]"), rate)?,
                to_rate_rps: None,
                duration_s,
            })
        });
        let pieces = pieces.collect::<Result<Vec<_>, WorkloadError>>()?;
        let hourly = Self::build("rates-rps", &pieces, AfterPieces::Repeat);
        hourly.map_err(|error| match error {
            WorkloadError::OutOfRange { field, .. } if field == "rates-rps.duration-s" => {
                WorkloadError::out_of_range("period-s", period.get(), "at least 0.001 seconds")
            }
            other => other,
        })
    }

    fn build(field: &str, pieces: &[Piece], after: AfterPieces) -> Result<Self, WorkloadError> {
        let mut length = SimDuration::ZERO;
        let mut work = 0.0;
        let mut linear = Vec::with_capacity(pieces.len());
        for (index, piece) in pieces.iter().enumerate() {
            let within = |error: WorkloadError| error.within(&format!("{field}[{index}]"));
            let rate = check_rate("rate-rps", piece.rate_rps).map_err(within)?;
            let to = piece.to_rate_rps.unwrap_or(rate);
            let to = check_rate("to-rate-rps", to).map_err(within)?;
            let start = length;
            length = length
                .checked_add(piece.duration_s.to_duration())
                .ok_or_else(|| {
                    let allowed = "at most 1.8e10 seconds in all";
                    let field = format!("{field}.duration-s");
                    WorkloadError::out_of_range(&field, piece.duration_s.get(), allowed)
                })?;
            let seconds = piece.duration_s.get();
            work += 0.5 * (rate + to) * seconds;
            linear.push(Linear {
                start,
                end: length,
                rate,
                slope: (to - rate) / seconds,
            });
        }
        if work <= 0.0 {
            return Err(WorkloadError::missing(field, "at least one rate above 0"));
        }
        if after == AfterPieces::Repeat && length < MIN_CYCLE {
            return Err(WorkloadError::out_of_range(
                &format!("{field}.duration-s"),
                length.as_secs_f64(),
                "at least 0.001 seconds in all, where pieces repeat",
            ));
        }
        Ok(Self {
            linear,
            length,
            work,
            after,
        })
    }

    /// Spends from `offset` after `start`, where the first piece begins, to the end of the pieces.
    fn spend_cycle(&self, start: SimTime, from: SimTime, until: SimTime, work: f64) -> Spent {
        let offset = from.saturating_since(start);
        let first = self.linear.partition_point(|piece| piece.end <= offset);
        let mut left = work;
        let mut from = from;
        for piece in &self.linear[first..] {
            let end = start
                .checked_add(piece.end)
                .unwrap_or(SimTime::MAX)
                .min(until);
            let rate = piece.rate_at(from.saturating_since(start));
            match spend_linear(from, end, left, rate, piece.slope) {
                Spent::Left(rest) => left = rest,
                at @ Spent::At(_) => return at,
            }
            from = end;
            if end == until {
                break;
            }
        }
        Spent::Left(left)
    }
}

impl Intensity for Pieces {
    fn spend(&mut self, from: SimTime, until: SimTime, work: f64, _rng: &mut SimRng) -> Spent {
        if self.after != AfterPieces::Repeat {
            let end = SimTime::ZERO
                .checked_add(self.length)
                .unwrap_or(SimTime::MAX);
            let spent = self.spend_cycle(SimTime::ZERO, from, until, work);
            return match spent {
                Spent::Left(left) if self.after == AfterPieces::Hold => {
                    let last = &self.linear[self.linear.len() - 1];
                    let rate = last.rate_at(last.end);
                    spend_linear(from.max(end), until, left, rate, 0.0)
                }
                spent => spent,
            };
        }
        let cycle = self.length.as_nanos();
        let span = until.saturating_since(from).as_nanos();
        // Whole cycles need no walk.
        let whole = round_u64((work / self.work).floor()).min(span / cycle);
        let mut left = work - whole as f64 * self.work;
        let mut from = from + SimDuration::from_nanos(whole * cycle);
        while from < until {
            let start = SimTime::from_nanos(from.as_nanos() / cycle * cycle);
            match self.spend_cycle(start, from, until, left) {
                Spent::Left(rest) => left = rest,
                at @ Spent::At(_) => return at,
            }
            from = start.checked_add(self.length).unwrap_or(SimTime::MAX);
        }
        Spent::Left(left)
    }

    fn end(&self) -> SimTime {
        match self.after {
            AfterPieces::End => SimTime::ZERO
                .checked_add(self.length)
                .unwrap_or(SimTime::MAX),
            AfterPieces::Hold | AfterPieces::Repeat => SimTime::MAX,
        }
    }
}

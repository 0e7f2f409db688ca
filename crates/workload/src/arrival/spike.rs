//! [`Spike`]: more than usual for a while.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use super::intensity::{Intensity, Spent};
use crate::error::WorkloadError;
use crate::quantity::Seconds;

/// A span in which the rate is multiplied, as configurations give it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Spike {
    /// When it begins (the first time), in seconds from the start; from 0.
    pub at_s: f64,
    /// How long it lasts, in seconds; at least 0.001.
    pub duration_s: Seconds,
    /// What the rate is multiplied by; 0 (an outage) to 1e6.
    pub factor: f64,
    /// How long after its beginning it begins again, in seconds: longer than it lasts, at least 1
    /// (default: never).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<Seconds>,
}

/// A rate with a spike.
#[derive(Debug)]
pub(super) struct Spiked {
    base: Box<dyn Intensity>,
    start: SimTime,
    duration: SimDuration,
    factor: f64,
    every: Option<SimDuration>,
}

impl Spiked {
    pub(super) fn new(base: Box<dyn Intensity>, spike: Spike) -> Result<Self, WorkloadError> {
        let start = SimTime::try_from_secs_f64(spike.at_s)
            .map_err(|_| WorkloadError::out_of_range("at-s", spike.at_s, "0 to 1.8e10 seconds"))?;
        if !(0.0..=1e6).contains(&spike.factor) {
            return Err(WorkloadError::out_of_range(
                "factor",
                spike.factor,
                "0 to 1e6",
            ));
        }
        if spike.duration_s.get() < 0.001 {
            let allowed = "at least 0.001 seconds";
            let duration = spike.duration_s.get();
            return Err(WorkloadError::out_of_range("duration-s", duration, allowed));
        }
        let shortest = spike.duration_s.get().max(1.0);
        let short = |every: &Seconds| every.get() < shortest || *every == spike.duration_s;
        if let Some(every) = spike.every_s.filter(short) {
            let allowed = "at least 1 second and above duration-s";
            return Err(WorkloadError::out_of_range("every-s", every.get(), allowed));
        }
        Ok(Self {
            base,
            start,
            duration: spike.duration_s.to_duration(),
            factor: spike.factor,
            every: spike.every_s.map(Seconds::to_duration),
        })
    }

    /// The factor at `time`, and when it changes next.
    fn factor_at(&self, time: SimTime) -> (f64, SimTime) {
        let later = |from: SimTime, span| from.checked_add(span).unwrap_or(SimTime::MAX);
        let Some(since) = time.checked_since(self.start) else {
            return (1.0, self.start);
        };
        let start = match self.every {
            None => self.start,
            Some(every) => {
                let since = since.as_nanos() / every.as_nanos() * every.as_nanos();
                self.start + SimDuration::from_nanos(since)
            }
        };
        let end = later(start, self.duration);
        if time < end {
            return (self.factor, end);
        }
        (
            1.0,
            self.every.map_or(SimTime::MAX, |every| later(start, every)),
        )
    }
}

impl Intensity for Spiked {
    fn spend(&mut self, from: SimTime, until: SimTime, work: f64, rng: &mut SimRng) -> Spent {
        let until = until.min(self.base.end());
        let (mut from, mut left) = (from, work);
        while from < until {
            let (factor, end) = self.factor_at(from);
            let end = end.min(until);
            if factor > 0.0 {
                match self.base.spend(from, end, left / factor, rng) {
                    Spent::Left(rest) => left = rest * factor,
                    at @ Spent::At(_) => return at,
                }
            }
            from = end;
        }
        Spent::Left(left)
    }

    fn end(&self) -> SimTime {
        self.base.end()
    }
}

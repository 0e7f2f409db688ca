//! [`Spike`]: more than usual for a while.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use super::intensity::{Intensity, JUMPED, Spent, WALKED};
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

    /// The factor on average, and 1 where the spike comes once.
    fn mean_factor(&self) -> f64 {
        self.every.map_or(1.0, |every| {
            let share = self.duration.as_secs_f64() / every.as_secs_f64();
            1.0 + share * (self.factor - 1.0)
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
        let (mut walked, mut before) = (0, work);
        while from < until {
            if walked == WALKED {
                // By what was spent so far, more than twice as many changes are to come.
                if left > 2.0 * (before - left) {
                    let mean = self.mean_factor();
                    match self.base.spend(from, until, JUMPED * left / mean, rng) {
                        Spent::At(at) => from = at,
                        Spent::Left(rest) => {
                            return Spent::Left(rest * mean + (1.0 - JUMPED) * left);
                        }
                    }
                    left *= 1.0 - JUMPED;
                }
                (walked, before) = (0, left);
                continue;
            }
            walked += 1;
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

#[cfg(test)]
mod tests {
    use super::super::ArrivalSpec;
    use super::super::tests::{gaps, mean_and_cv};

    fn spiked(base: &str) -> ArrivalSpec {
        let spike = r#"{"at-s": 0, "duration-s": 0.5, "factor": 3, "every-s": 1}"#;
        let text = format!(r#"{{"spikes": {{"base": {base}, "spikes": [{spike}]}}}}"#);
        serde_json::from_str(&text).expect(&text)
    }

    #[test]
    fn gaps_of_very_many_spikes_have_the_mean_rate() {
        // Twice a request in ten million spikes.
        for base in [
            r#"{"constant": {"rate-rps": 1e-7}}"#,
            r#"{"diurnal": {"mean-rate-rps": 1e-7, "amplitude": 0.5, "gaps": {"constant": {}}}}"#,
        ] {
            let seen = gaps(&spiked(base), 20);
            assert_eq!(seen.len(), 20);
            for gap in seen {
                assert!((gap / 5e6 - 1.0).abs() < 1e-2, "{base}: {gap}");
            }
        }
    }

    #[test]
    fn a_gap_that_is_walked_ends_at_the_instant_of_its_integral() {
        // A thousand spikes and pauses between them hold 2000 units of the base.
        let (mean, cv) = mean_and_cv(&gaps(&spiked(r#"{"constant": {"rate-rps": 0.0005}}"#), 100));
        assert!((mean - 1_000.0).abs() < 1e-6, "{mean}");
        assert!(cv < 1e-9, "{cv}");
    }
}

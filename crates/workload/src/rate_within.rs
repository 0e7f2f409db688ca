//! A load over a part of the time: what a measurement asks that does not see all of it.

use foretoken_des_kernel::{RngStreams, SimTime};

use crate::arrival::{ArrivalProcess as _, ArrivalSpec, Gap};
use crate::error::WorkloadError;
use crate::quantity::Seconds;
use crate::source::Workload as _;
use crate::spec::WorkloadSpec;
use crate::trace::TraceSpec;

/// Arrivals that are walked through to know an expected rate to this share.
const SAMPLES: f64 = 10_000.0;

impl WorkloadSpec {
    /// Requests (conversations, where these arrive) per second that are expected from `from` until `to`; of
    /// a trace, those that it has there. Rates that change at random, `mmpp`, count with their means.
    ///
    /// # Errors
    /// As [`mean_rate`](Self::mean_rate); a field that is out of range.
    ///
    /// ```
    /// use foretoken_des_kernel::{SimDuration, SimTime};
    /// use foretoken_workload::WorkloadSpec;
    ///
    /// let load: WorkloadSpec = serde_json::from_str(r#"{ "synthetic": {
    ///     "arrivals": { "hourly": { "rates-rps": [9, 1], "period-s": 200 } }, "requests": 1,
    ///     "prompt-tokens": { "constant": { "tokens": 9 } },
    ///     "output-tokens": { "constant": { "tokens": 9 } }
    /// } }"#)?;
    /// let first = load.rate_within(SimTime::ZERO, SimTime::ZERO + SimDuration::from_secs(100))?;
    /// assert!((first - 9.0).abs() < 0.01 && (load.mean_rate()? - 5.0).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rate_within(&self, from: SimTime, to: SimTime) -> Result<f64, WorkloadError> {
        match self {
            Self::Synthetic(spec) => spec.arrivals.rate_within(from, to),
            Self::Trace(spec) => spec.rate_within(from, to),
            Self::Sessions(spec) => spec.start.open()?.rate_within(from, to),
            Self::Agents(spec) => spec.start.open()?.rate_within(from, to),
            Self::Mix(parts) => parts.iter().map(|part| part.rate_within(from, to)).sum(),
            Self::Clients(spec) => {
                let modulation = spec.modulation.as_ref();
                let modulation = modulation.map(|rate| rate.rate_within(from, to));
                Ok(spec.rates.total() * modulation.transpose()?.unwrap_or(1.0))
            }
            Self::SharedPrefix(_) | Self::Preset(_) | Self::ClosedLoop(_) => self.mean_rate(),
        }
    }

    /// What all rates can be multiplied by at most so that the load lasts for `duration`: a trace ends, the
    /// earlier the faster it is replayed. `None` of a load without traces.
    ///
    /// # Errors
    /// A trace that cannot be read.
    pub fn highest_factor(&self, duration: Seconds) -> Result<Option<f64>, WorkloadError> {
        match self {
            Self::Trace(spec) => {
                let whole = TraceSpec {
                    requests: None,
                    ..spec.clone()
                };
                // Below what rounding may lose.
                let last = whole.times()?.last.as_secs_f64() * (1.0 - 1e-9);
                Ok(Some(last / duration.get()))
            }
            Self::Mix(parts) => {
                let mut highest: Option<f64> = None;
                for part in parts {
                    if let Some(factor) = part.highest_factor(duration)? {
                        highest = Some(highest.map_or(factor, |highest| highest.min(factor)));
                    }
                }
                Ok(highest)
            }
            _ => Ok(None),
        }
    }
}

impl ArrivalSpec {
    /// Arrivals per second that are expected from `from` until `to`.
    fn rate_within(&self, from: SimTime, to: SimTime) -> Result<f64, WorkloadError> {
        let mean = self.mean_rate();
        let span = to.saturating_since(from).as_secs_f64();
        if self.has_one_mean() || span <= 0.0 || mean <= 0.0 {
            return Ok(mean);
        }
        // With equal gaps, and so many times as many arrivals.
        let factor = SAMPLES / (mean * span);
        let mut arrivals = self.with_gaps(Gap::Equal)?.faster(factor);
        let mut rng = RngStreams::new(0, 0).stream("rate within", 0);
        let (mut at, mut count) = (from, 0_u32);
        while let Some(next) = arrivals.next_after(at, &mut rng).filter(|&next| next < to) {
            (at, count) = (next, count + 1);
        }
        Ok(f64::from(count) / factor / span)
    }

    /// Whether the mean is that of any time.
    fn has_one_mean(&self) -> bool {
        match self {
            Self::Constant { .. }
            | Self::Poisson { .. }
            | Self::Gamma(_)
            | Self::Weibull(_)
            | Self::Stages { .. }
            | Self::Mmpp { .. } => true,
            Self::Piecewise { .. }
            | Self::Ramp { .. }
            | Self::Diurnal { .. }
            | Self::Hourly { .. } => false,
            // Of a random rate with spikes the expected one is not known.
            Self::Spikes { base, spikes } => {
                matches!(**base, Self::Mmpp { .. }) || base.has_one_mean() && spikes.is_empty()
            }
        }
    }
}

impl TraceSpec {
    fn rate_within(&self, from: SimTime, to: SimTime) -> Result<f64, WorkloadError> {
        let mut replay = self.build(&RngStreams::new(0, 0))?;
        let arrivals = core::iter::from_fn(|| replay.next()).map(|request| request.arrival);
        let count = arrivals.filter(|at| (from..to).contains(at)).count();
        Ok(count as f64 / to.saturating_since(from).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::SimDuration;

    use super::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    fn load(arrivals: &str) -> WorkloadSpec {
        let text = format!(
            r#"{{ "synthetic": {{ "arrivals": {arrivals}, "requests": 1,
                "prompt-tokens": {{ "constant": {{ "tokens": 9 }} }},
                "output-tokens": {{ "constant": {{ "tokens": 9 }} }} }} }}"#
        );
        serde_json::from_str(&text).expect("a workload")
    }

    #[test]
    fn a_part_of_a_load_has_the_rate_of_its_hours() {
        let piecewise = r#"{ "piecewise": { "after": "hold", "pieces": [
            { "rate-rps": 2, "duration-s": 10 }, { "rate-rps": 8, "duration-s": 10 }] } }"#;
        let spikes = r#"{ "spikes": { "base": { "gamma": { "rate-rps": 4, "cv": 5 } }, "spikes": [
            { "at-s": 10, "duration-s": 10, "factor": 3 }] } }"#;
        let ramp = r#"{ "ramp": { "from-rps": 0, "to-rps": 10, "duration-s": 100 } }"#;
        let diurnal = r#"{ "diurnal": { "mean-rate-rps": 4, "amplitude": 1, "period-s": 1000 } }"#;
        let poisson = r#"{ "poisson": { "rate-rps": 4 } }"#;
        for (arrivals, from, to, expected) in [
            (piecewise, 0, 10, 2.0),
            (piecewise, 5, 15, 5.0),
            (piecewise, 1_000_000, 1_000_010, 8.0),
            (spikes, 0, 10, 4.0),
            (spikes, 10, 20, 12.0),
            (ramp, 0, 100, 5.0),
            (ramp, 50, 100, 7.5),
            (diurnal, 500, 1_500, 4.0),
            // The mean of 1 + cos over a quarter of its period.
            (diurnal, 0, 250, 4.0 * (1.0 + core::f64::consts::FRAC_2_PI)),
            (poisson, 3, 4, 4.0),
        ] {
            let rate = load(arrivals).rate_within(at(from), at(to)).expect("open");
            assert!(
                (rate / expected - 1.0).abs() < 1e-3,
                "{rate}, not {expected}, of {arrivals} from {from} to {to}"
            );
        }
    }

    #[test]
    fn a_trace_lasts_up_to_its_highest_factor() {
        let name = format!("foretoken-workload-within-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let line = |second: u32| {
            format!(
                "{{\"timestamp\": {}, \"input_length\": 9, \"output_length\": 2, \"hash_ids\": []}}\n",
                second * 1_000
            )
        };
        // Twice as many in the second half.
        let text: String = (0..50)
            .map(line)
            .chain((50..101).map(|second| line(second).repeat(2)))
            .collect();
        std::fs::write(&path, text).expect("a file in the temporary directory");
        let trace = WorkloadSpec::Trace(TraceSpec::new(&path));
        assert_eq!(trace.rate_within(at(0), at(50)).ok(), Some(1.0));
        assert_eq!(trace.rate_within(at(50), at(100)).ok(), Some(2.0));
        let duration = Seconds::new(40.0).expect("positive");
        let highest = trace.highest_factor(duration).expect("a trace");
        let highest = highest.expect("it ends");
        assert!((highest - 2.5).abs() < 1e-6, "{highest}");
        let lasts = |factor: f64| trace.faster(factor).and_then(|load| load.lasting(duration));
        assert!(lasts(highest).is_ok() && lasts(1.001 * highest).is_err());
        std::fs::remove_file(path).expect("it is there");
    }
}

//! The same load at another rate: what a search for the highest rate asks for.
//!
//! What describes requests is drawn from streams of its own, so that a load at another rate has the same
//! requests in the same order, and only their times differ: common random numbers.

use foretoken_des_kernel::{RngStreams, SimTime};

use crate::arrival::{ArrivalSpec, MmppState, Piece, Stage, Varied};
use crate::clients::ClientRates;
use crate::error::WorkloadError;
use crate::quantity::{Positive, Rate, Seconds};
use crate::sessions::StartSpec;
use crate::source::Workload as _;
use crate::spec::WorkloadSpec;
use crate::trace::TraceSpec;

const HERE: &str = "in a load at another rate";
const OPEN: &str = "an open loop, whose clients do not wait for answers before they ask again";

impl WorkloadSpec {
    /// Requests per second in the mean; conversations per second where these are what arrives.
    ///
    /// Spikes are left out, and of pieces of a rate the mean over all pieces counts. A trace is read.
    ///
    /// # Errors
    /// [`WorkloadError::NotAllowed`] for a closed loop, which has users and no rate; a trace that cannot
    /// be read, or has a single instant.
    ///
    /// ```
    /// use foretoken_workload::{LengthSpec, Synthetic, WorkloadSpec};
    ///
    /// let load = Synthetic::poisson(4.0, 100, LengthSpec::constant(10), LengthSpec::constant(10))?;
    /// let load = WorkloadSpec::from(load);
    /// assert!((load.mean_rate()? - 4.0).abs() < 1e-12);
    /// assert!((load.at_rate(6.0)?.mean_rate()? - 6.0).abs() < 1e-12);
    /// # Ok::<(), foretoken_workload::WorkloadError>(())
    /// ```
    pub fn mean_rate(&self) -> Result<f64, WorkloadError> {
        match self {
            Self::Synthetic(spec) => Ok(spec.arrivals.mean_rate()),
            Self::SharedPrefix(spec) => Ok(mean_of_stages(&spec.stages)),
            Self::Trace(spec) => spec.mean_rate(),
            Self::ClosedLoop(_) => Err(WorkloadError::not_allowed("closed-loop", HERE, OPEN)),
            Self::Sessions(spec) => spec.start.open().map(ArrivalSpec::mean_rate),
            Self::Agents(spec) => spec.start.open().map(ArrivalSpec::mean_rate),
            Self::Mix(parts) => {
                let rates = parts.iter().map(Self::mean_rate);
                rates.sum()
            }
            Self::Clients(spec) => {
                let modulation = spec.modulation.as_ref().map(ArrivalSpec::mean_rate);
                Ok(spec.rates.total() * modulation.unwrap_or(1.0))
            }
            Self::Preset(spec) => Ok(spec.rate_rps.get()),
        }
    }

    /// The same load at so many requests (or conversations) per second in the mean.
    ///
    /// # Errors
    /// As [`mean_rate`](Self::mean_rate) and [`faster`](Self::faster).
    pub fn at_rate(&self, rate: f64) -> Result<Self, WorkloadError> {
        let rate = Rate::new(rate)?;
        self.faster(rate.get() / self.mean_rate()?)
    }

    /// The same load with every rate multiplied by `factor`. Times stay: a day has 24 hours at any rate,
    /// and a stage its duration. Only traces are replayed faster.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] if `factor` or a rate with it is none,
    /// [`WorkloadError::NotAllowed`] for a closed loop.
    pub fn faster(&self, factor: f64) -> Result<Self, WorkloadError> {
        Positive::new(factor).map_err(|error| error.within("factor"))?;
        let mut load = self.clone();
        match &mut load {
            Self::Synthetic(spec) => spec.arrivals = spec.arrivals.faster(factor)?,
            Self::SharedPrefix(spec) => stages_faster(&mut spec.stages, factor)?,
            Self::Trace(spec) => match &mut spec.rate_rps {
                Some(rate) => *rate = times(*rate, factor)?,
                None => spec.rate_factor = Positive::new(spec.rate_factor.get() * factor)?,
            },
            Self::ClosedLoop(_) => {
                return Err(WorkloadError::not_allowed("closed-loop", HERE, OPEN));
            }
            Self::Sessions(spec) => spec.start.faster(factor)?,
            Self::Agents(spec) => spec.start.faster(factor)?,
            Self::Mix(parts) => {
                for part in parts {
                    *part = part.faster(factor)?;
                }
            }
            Self::Clients(spec) => spec.rates.faster(factor)?,
            Self::Preset(spec) => spec.rate_rps = times(spec.rate_rps, factor)?,
        }
        Ok(load)
    }

    /// The same load for `duration`, however many requests that takes.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] if it ends by itself before that: a trace, or pieces of a rate with
    /// nothing behind them; [`WorkloadError::NotAllowed`] for a closed loop, and for several stages,
    /// which have several rates.
    pub fn lasting(&self, duration: Seconds) -> Result<Self, WorkloadError> {
        let mut load = self.clone();
        match &mut load {
            Self::Synthetic(spec) => {
                (spec.requests, spec.duration_s) = (None, Some(duration));
                spec.arrivals = spec.arrivals.lasting(duration)?;
            }
            Self::SharedPrefix(spec) => spec.stages = vec![one_stage(&spec.stages, duration)?],
            Self::Trace(spec) => {
                spec.requests = None;
                let available = spec.times()?.last;
                if available < SimTime::ZERO + duration.to_duration() {
                    let allowed = "at most the length of the trace at that rate";
                    return Err(too_short("duration of the load", duration, allowed));
                }
            }
            Self::ClosedLoop(_) => {
                return Err(WorkloadError::not_allowed("closed-loop", HERE, OPEN));
            }
            Self::Sessions(spec) => spec.start.last(duration)?,
            Self::Agents(spec) => spec.start.last(duration)?,
            Self::Mix(parts) => {
                for part in parts {
                    *part = part.lasting(duration)?;
                }
            }
            Self::Clients(spec) => (spec.requests, spec.duration_s) = (None, Some(duration)),
            Self::Preset(spec) => (spec.requests, spec.duration_s) = (None, Some(duration)),
        }
        Ok(load)
    }
}

fn times(rate: Rate, factor: f64) -> Result<Rate, WorkloadError> {
    Rate::new(rate.get() * factor)
}

fn too_short(field: &str, duration: Seconds, allowed: &'static str) -> WorkloadError {
    WorkloadError::out_of_range(field, duration.get(), allowed)
}

fn mean_of_stages(stages: &[Stage]) -> f64 {
    let requests = |stage: &Stage| stage.rate_rps.get() * stage.duration_s.get();
    let duration: f64 = stages.iter().map(|stage| stage.duration_s.get()).sum();
    stages.iter().map(requests).sum::<f64>() / duration
}

fn stages_faster(stages: &mut [Stage], factor: f64) -> Result<(), WorkloadError> {
    for stage in stages {
        stage.rate_rps = times(stage.rate_rps, factor)?;
    }
    Ok(())
}

fn one_stage(stages: &[Stage], duration_s: Seconds) -> Result<Stage, WorkloadError> {
    let [Stage { rate_rps, .. }] = *stages else {
        let allowed = "one stage: several have several rates";
        return Err(WorkloadError::not_allowed("stages", HERE, allowed));
    };
    Ok(Stage {
        rate_rps,
        duration_s,
    })
}

impl ArrivalSpec {
    /// Arrivals per second in the mean; without spikes, and of pieces the mean over all of them.
    pub fn mean_rate(&self) -> f64 {
        match self {
            Self::Constant { rate } | Self::Poisson { rate } => rate.get(),
            Self::Gamma(varied) | Self::Weibull(varied) => varied.rate.get(),
            Self::Stages { stages } => mean_of_stages(stages),
            Self::Piecewise { pieces, .. } => {
                let mean = |piece: &Piece| {
                    f64::midpoint(piece.rate_rps, piece.to_rate_rps.unwrap_or(piece.rate_rps))
                };
                let requests = pieces
                    .iter()
                    .map(|piece| mean(piece) * piece.duration_s.get());
                let duration: f64 = pieces.iter().map(|piece| piece.duration_s.get()).sum();
                requests.sum::<f64>() / duration
            }
            Self::Ramp {
                from_rps, to_rps, ..
            } => f64::midpoint(*from_rps, *to_rps),
            Self::Diurnal { mean_rate_rps, .. } => mean_rate_rps.get(),
            Self::Hourly { rates_rps, .. } => {
                rates_rps.iter().sum::<f64>() / rates_rps.len() as f64
            }
            Self::Mmpp { states } => {
                let requests = |state: &MmppState| state.rate_rps * state.mean_sojourn_s.get();
                let time: f64 = states.iter().map(|state| state.mean_sojourn_s.get()).sum();
                states.iter().map(requests).sum::<f64>() / time
            }
            Self::Spikes { base, .. } => base.mean_rate(),
        }
    }

    /// The same arrivals with every rate multiplied by `factor`.
    fn faster(&self, factor: f64) -> Result<Self, WorkloadError> {
        let mut arrivals = self.clone();
        match &mut arrivals {
            Self::Constant { rate } | Self::Poisson { rate } => *rate = times(*rate, factor)?,
            Self::Gamma(Varied { rate, .. }) | Self::Weibull(Varied { rate, .. }) => {
                *rate = times(*rate, factor)?;
            }
            Self::Stages { stages } => stages_faster(stages, factor)?,
            Self::Piecewise { pieces, .. } => {
                for piece in pieces {
                    piece.rate_rps *= factor;
                    piece.to_rate_rps = piece.to_rate_rps.map(|rate| rate * factor);
                }
            }
            Self::Ramp {
                from_rps, to_rps, ..
            } => {
                *from_rps *= factor;
                *to_rps *= factor;
            }
            Self::Diurnal { mean_rate_rps, .. } => *mean_rate_rps = times(*mean_rate_rps, factor)?,
            Self::Hourly { rates_rps, .. } => rates_rps.iter_mut().for_each(|rate| *rate *= factor),
            Self::Mmpp { states } => states.iter_mut().for_each(|state| state.rate_rps *= factor),
            Self::Spikes { base, .. } => **base = base.faster(factor)?,
        }
        Ok(arrivals)
    }

    /// The same arrivals, with one stage as long as that.
    fn lasting(&self, duration: Seconds) -> Result<Self, WorkloadError> {
        match self {
            Self::Stages { stages } => Ok(Self::Stages {
                stages: vec![one_stage(stages, duration)?],
            }),
            _ if self.ends() => {
                let end = self.stage_ends().last().copied().unwrap_or_default();
                if end < SimTime::ZERO + duration.to_duration() {
                    let allowed = "at most that of all pieces, or `after: hold` or `repeat`";
                    return Err(too_short("duration of the load", duration, allowed));
                }
                Ok(self.clone())
            }
            _ => Ok(self.clone()),
        }
    }
}

impl StartSpec {
    /// When somebody new comes.
    pub(crate) fn open(&self) -> Result<&ArrivalSpec, WorkloadError> {
        let arrivals = self.arrivals.as_ref();
        arrivals.ok_or_else(|| WorkloadError::not_allowed("start.users", HERE, OPEN))
    }

    fn faster(&mut self, factor: f64) -> Result<(), WorkloadError> {
        self.arrivals = Some(self.open()?.faster(factor)?);
        Ok(())
    }

    fn last(&mut self, duration: Seconds) -> Result<(), WorkloadError> {
        self.arrivals = Some(self.open()?.lasting(duration)?);
        (self.sessions, self.requests, self.duration_s) = (None, None, Some(duration));
        Ok(())
    }
}

impl ClientRates {
    pub(crate) fn total(&self) -> f64 {
        match self {
            Self::Equal { total_rate_rps, .. }
            | Self::Zipf { total_rate_rps, .. }
            | Self::Lognormal { total_rate_rps, .. } => total_rate_rps.get(),
            Self::Listed { rates_rps } => rates_rps.iter().map(|rate| rate.get()).sum(),
        }
    }

    fn faster(&mut self, factor: f64) -> Result<(), WorkloadError> {
        match self {
            Self::Equal { total_rate_rps, .. }
            | Self::Zipf { total_rate_rps, .. }
            | Self::Lognormal { total_rate_rps, .. } => {
                *total_rate_rps = times(*total_rate_rps, factor)?;
            }
            Self::Listed { rates_rps } => {
                for rate in rates_rps {
                    *rate = times(*rate, factor)?;
                }
            }
        }
        Ok(())
    }
}

/// When the requests of a trace come.
pub(crate) struct Times {
    first: SimTime,
    pub(crate) last: SimTime,
    count: u64,
}

impl TraceSpec {
    pub(crate) fn times(&self) -> Result<Times, WorkloadError> {
        let mut replay = self.build(&RngStreams::new(0, 0))?;
        let mut times = Times {
            first: SimTime::MAX,
            last: SimTime::ZERO,
            count: 0,
        };
        while let Some(request) = replay.next() {
            times.first = times.first.min(request.arrival);
            times.last = request.arrival;
            times.count += 1;
        }
        Ok(times)
    }

    fn mean_rate(&self) -> Result<f64, WorkloadError> {
        if let Some(rate) = self.rate_rps {
            return Ok(rate.get());
        }
        let times = self.times()?;
        let span = times.last.saturating_since(times.first).as_secs_f64();
        if times.count < 2 || span <= 0.0 {
            let needed = "two requests at different times, or rate-rps";
            return Err(WorkloadError::missing("the rate of the trace", needed));
        }
        Ok((times.count - 1) as f64 / span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    fn spec(json: &str) -> WorkloadSpec {
        serde_json::from_str(json).expect("a workload")
    }

    fn drain(spec: &WorkloadSpec) -> Vec<Request> {
        let mut load = spec.build(&RngStreams::new(1, 0)).expect("a valid load");
        core::iter::from_fn(|| load.next()).collect()
    }

    fn seconds(value: f64) -> Seconds {
        Seconds::new(value).expect("positive")
    }

    fn synthetic(arrivals: &str) -> String {
        format!(
            r#"{{ "synthetic": {{ "arrivals": {arrivals}, "requests": 7,
                "prompt-tokens": {{ "uniform": {{ "min": 10, "max": 900 }} }},
                "output-tokens": {{ "uniform": {{ "min": 1, "max": 90 }} }} }} }}"#
        )
    }

    /// Open loops of every kind of arrivals, at 4 requests per second in the mean over 1000 seconds.
    fn loads() -> Vec<WorkloadSpec> {
        let mut loads: Vec<String> = [
            r#"{ "constant": { "rate-rps": 4 } }"#,
            r#"{ "poisson": { "rate-rps": 4 } }"#,
            r#"{ "gamma": { "rate-rps": 4, "cv": 2 } }"#,
            r#"{ "weibull": { "rate-rps": 4, "cv": 1.5 } }"#,
            r#"{ "stages": { "stages": [{ "rate-rps": 4, "duration-s": 3 }] } }"#,
            r#"{ "piecewise": { "after": "repeat", "pieces": [
                { "rate-rps": 2, "duration-s": 2.5 },
                { "rate-rps": 3, "to-rate-rps": 9, "duration-s": 2.5 }] } }"#,
            r#"{ "ramp": { "from-rps": 4, "to-rps": 4, "duration-s": 20 } }"#,
            r#"{ "diurnal": { "mean-rate-rps": 4, "amplitude": 0.8, "period-s": 10 } }"#,
            r#"{ "hourly": { "rates-rps": [2, 4, 6], "period-s": 10 } }"#,
            r#"{ "mmpp": { "states": [
                { "rate-rps": 2, "mean-sojourn-s": 2 }, { "rate-rps": 8, "mean-sojourn-s": 1 }] } }"#,
            r#"{ "spikes": { "base": { "poisson": { "rate-rps": 4 } }, "spikes": [] } }"#,
        ]
        .map(synthetic)
        .to_vec();
        let part = r#"{ "synthetic": { "arrivals": { "poisson": { "rate-rps": 2 } }, "requests": 1,
            "prompt-tokens": { "constant": { "tokens": 9 } },
            "output-tokens": { "constant": { "tokens": 9 } } } }"#;
        loads.extend([
            format!(r#"{{ "mix": [{part}, {part}] }}"#),
            r#"{ "shared-prefix": { "num-groups": 3, "prompts-per-group": 5,
                "system-prompt-tokens": 20, "question-tokens": 30, "output-tokens": 4,
                "stages": [{ "rate-rps": 4, "duration-s": 5 }] } }"#
                .to_owned(),
            r#"{ "clients": { "rates": { "zipf": { "clients": 9, "total-rate-rps": 4, "exponent": 1 } },
                "requests": 3, "prompt-tokens": { "constant": { "tokens": 9 } },
                "output-tokens": { "constant": { "tokens": 9 } } } }"#
                .to_owned(),
            r#"{ "clients": { "rates": { "listed": { "rates-rps": [1, 3] } },
                "requests": 3, "prompt-tokens": { "constant": { "tokens": 9 } },
                "output-tokens": { "constant": { "tokens": 9 } } } }"#
                .to_owned(),
            r#"{ "clients": { "rates": { "listed": { "rates-rps": [0.5, 1.5] } },
                "modulation": { "hourly": { "rates-rps": [1, 3], "period-s": 10 } },
                "requests": 3, "prompt-tokens": { "constant": { "tokens": 9 } },
                "output-tokens": { "constant": { "tokens": 9 } } } }"#
                .to_owned(),
            r#"{ "preset": { "name": "rag", "rate-rps": 4, "requests": 5 } }"#.to_owned(),
            r#"{ "sessions": {
                "start": { "arrivals": { "poisson": { "rate-rps": 4 } }, "sessions": 5 },
                "turns": { "constant": { "count": 1 } },
                "prompt-tokens": { "constant": { "tokens": 9 } },
                "output-tokens": { "constant": { "tokens": 9 } } } }"#
                .to_owned(),
        ]);
        loads.iter().map(|json| spec(json)).collect()
    }

    #[test]
    fn a_load_lasts_as_long_as_asked_at_the_rate_asked() {
        for load in loads() {
            assert!(
                (load.mean_rate().expect("open") - 4.0).abs() < 1e-9,
                "{load:?}"
            );
            let faster = load.at_rate(12.0).expect("open");
            assert!((faster.mean_rate().expect("open") - 12.0).abs() < 1e-9);
            let requests = drain(&faster.lasting(seconds(1_000.0)).expect("open"));
            let (count, last) = (requests.len(), requests.last().expect("thousands").arrival);
            assert!(
                (10_500..13_500).contains(&count),
                "{count} requests of {load:?}"
            );
            assert!(
                (990.0..=1_000.0).contains(&last.as_secs_f64()),
                "{last:?} of {load:?}"
            );
        }
    }

    #[test]
    fn a_load_at_another_rate_has_the_same_requests_in_the_same_order() {
        let load = &loads()[1].lasting(seconds(50.0)).expect("open");
        let (slow, fast) = (drain(load), drain(&load.faster(3.0).expect("open")));
        let described = |r: &Request| (r.id, r.prompt.clone(), r.output_tokens());
        assert!(
            slow.iter()
                .map(described)
                .eq(fast.iter().take(slow.len()).map(described))
        );
        for (slow, fast) in slow.iter().zip(&fast) {
            let thrice = 3.0 * fast.arrival.as_secs_f64();
            assert!((slow.arrival.as_secs_f64() - thrice).abs() < 1e-6);
        }
    }

    #[test]
    fn a_trace_is_replayed_faster_and_says_when_it_is_too_short() {
        let name = format!("foretoken-workload-rate-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let line = |i: u32| {
            format!(
                "{{\"timestamp\": {}, \"input_length\": 9, \"output_length\": 2, \"hash_ids\": []}}\n",
                i * 500
            )
        };
        let text: String = (0..101).map(line).collect();
        std::fs::write(&path, text).expect("a file in the temporary directory");
        let trace = WorkloadSpec::Trace(TraceSpec::new(&path));
        assert!((trace.mean_rate().expect("it has times") - 2.0).abs() < 1e-9);
        let faster = trace.at_rate(8.0).expect("it has times");
        assert!(faster.lasting(seconds(12.5)).is_ok());
        let error = faster
            .lasting(seconds(13.0))
            .expect_err("it ends after 12.5 s");
        assert_eq!(
            error.to_string(),
            "duration of the load is 13: allowed is at most the length of the trace at that rate"
        );
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn loads_without_one_rate_are_refused_by_name() {
        let users = spec(
            r#"{ "closed-loop": { "users": 3, "requests": 5,
                "prompt-tokens": { "constant": { "tokens": 9 } },
                "output-tokens": { "constant": { "tokens": 9 } } } }"#,
        );
        for error in [
            users.mean_rate().expect_err("it has users"),
            users.faster(2.0).expect_err("it has users"),
            users.lasting(seconds(1.0)).expect_err("it has users"),
        ] {
            assert!(
                error.to_string().starts_with("closed-loop is not allowed"),
                "{error}"
            );
        }
        let two = synthetic(
            r#"{ "stages": { "stages": [
                { "rate-rps": 4, "duration-s": 3 }, { "rate-rps": 5, "duration-s": 3 }] } }"#,
        );
        let error = spec(&two).lasting(seconds(9.0)).expect_err("two rates");
        assert!(
            error.to_string().starts_with("stages is not allowed"),
            "{error}"
        );
        let once =
            synthetic(r#"{ "piecewise": { "pieces": [{ "rate-rps": 2, "duration-s": 2.5 }] } }"#);
        assert!(spec(&once).lasting(seconds(2.5)).is_ok());
        assert!(spec(&once).lasting(seconds(2.6)).is_err());
        assert!(spec(&once).faster(-1.0).is_err());
    }
}

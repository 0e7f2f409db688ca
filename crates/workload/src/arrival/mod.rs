//! [`ArrivalProcess`]: when requests arrive.

mod curve;
mod gap;
mod intensity;
mod mmpp;
mod pieces;
mod spike;
mod staged;

use core::fmt;

use foretoken_des_kernel::{SimRng, SimTime};
use serde::{Deserialize, Serialize};

pub use gap::{GapSpec, Variation, Varied};
pub use mmpp::MmppState;
pub use pieces::{AfterPieces, Piece};
pub use spike::Spike;
pub use staged::{Stage, StagedArrivals};

use crate::error::WorkloadError;
use crate::quantity::{Rate, Seconds};
use curve::Sinusoid;
pub(crate) use gap::Gap;
pub(crate) use intensity::Modulated;
use intensity::{Intensity, Steady};
use mmpp::Mmpp;
use pieces::Pieces;
use spike::Spiked;

/// When the next request arrives.
///
/// The host calls [`next_after`](Self::next_after) with the arrival before (the start of the run at
/// first) and always with the same stream, which nobody else draws from. An answer before `now` is
/// taken as `now`. After `None` the process is not asked again.
///
/// ```
/// use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
/// use foretoken_workload::arrival::ArrivalProcess;
///
/// /// `size` requests at once, then a pause.
/// #[derive(Debug)]
/// struct Bursts { size: u32, sent: u32, pause: SimDuration }
///
/// impl ArrivalProcess for Bursts {
///     fn next_after(&mut self, now: SimTime, _rng: &mut SimRng) -> Option<SimTime> {
///         self.sent += 1;
///         if self.sent % self.size == 0 { now.checked_add(self.pause) } else { Some(now) }
///     }
/// }
/// # let _: Box<dyn ArrivalProcess> =
/// #     Box::new(Bursts { size: 3, sent: 0, pause: SimDuration::from_secs(1) });
/// ```
pub trait ArrivalProcess: fmt::Debug + Send {
    /// The arrival after the one at `now`, or `None` if there are no more.
    fn next_after(&mut self, now: SimTime, rng: &mut SimRng) -> Option<SimTime>;
}

impl<P: ArrivalProcess + ?Sized> ArrivalProcess for Box<P> {
    fn next_after(&mut self, now: SimTime, rng: &mut SimRng) -> Option<SimTime> {
        (**self).next_after(now, rng)
    }
}

/// A built-in arrival process, as configurations give it.
///
/// ```
/// use foretoken_workload::arrival::ArrivalSpec;
///
/// let spec: ArrivalSpec = serde_json::from_str(r#"{"gamma": {"rate-rps": 4.0, "cv": 2.0}}"#)?;
/// assert!(spec.build().is_ok());
/// assert!(serde_json::from_str::<ArrivalSpec>(r#"{"poisson": {"rate-rps": 0.0}}"#).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum ArrivalSpec {
    /// Equal gaps.
    Constant {
        /// Requests per second.
        #[serde(rename = "rate-rps")]
        rate: Rate,
    },
    /// Independent exponential gaps.
    Poisson {
        /// Requests per second.
        #[serde(rename = "rate-rps")]
        rate: Rate,
    },
    /// Independent gamma gaps; burstier than Poisson for a `cv` above 1.
    Gamma(Varied),
    /// Independent Weibull gaps; burstier than Poisson for a `cv` above 1, with a heavier tail than
    /// gamma gaps of the same `cv`.
    Weibull(Varied),
    /// Stages with a fixed number of requests each; see [`StagedArrivals`].
    Stages {
        /// One after the other, at least one.
        stages: Vec<Stage>,
    },
    /// Steps, ramps and pauses: pieces of a rate that is constant or changes linearly.
    Piecewise {
        /// One after the other, at least one, not all without requests.
        pieces: Vec<Piece>,
        /// What comes behind the last one (default: the end).
        #[serde(default)]
        after: AfterPieces,
        /// The family of the gaps (default: exponential).
        #[serde(default, skip_serializing_if = "GapSpec::is_default")]
        gaps: GapSpec,
    },
    /// From one rate to another in a straight line; then on at that rate.
    Ramp {
        /// Requests per second at the start, from 0.
        from_rps: f64,
        /// Requests per second at the end, from 0; one of both is above 0.
        to_rps: f64,
        /// How long it takes, in seconds.
        duration_s: Seconds,
        /// The family of the gaps (default: exponential).
        #[serde(default, skip_serializing_if = "GapSpec::is_default")]
        gaps: GapSpec,
    },
    /// A rate that swings about its mean: `mean × (1 + amplitude × cos(2π (t − peak) / period))`.
    Diurnal {
        /// Requests per second, over whole periods.
        mean_rate_rps: Rate,
        /// Relative to the mean, 0 to 1.
        amplitude: f64,
        /// When the rate is highest, in seconds (default 0: the start); finite.
        #[serde(default)]
        peak_s: f64,
        /// In seconds, at least 0.001 (default: a day).
        #[serde(default = "day")]
        period_s: Seconds,
        /// The family of the gaps (default: exponential).
        #[serde(default, skip_serializing_if = "GapSpec::is_default")]
        gaps: GapSpec,
    },
    /// A rate for each of several equal parts of a period, over and over: 24 for the hours of a day.
    Hourly {
        /// Requests per second, from 0, not all 0.
        rates_rps: Vec<f64>,
        /// The period that they divide, in seconds, at least 0.001 (default: a day).
        #[serde(default = "day")]
        period_s: Seconds,
        /// The family of the gaps (default: exponential).
        #[serde(default, skip_serializing_if = "GapSpec::is_default")]
        gaps: GapSpec,
    },
    /// Markov-modulated Poisson: in each state Poisson arrivals of its rate. A state lasts for an
    /// exponential time, then comes any of the others, all alike. The first one is drawn from the
    /// stationary distribution, so that the mean rate is the same at all times.
    Mmpp {
        /// At least two.
        states: Vec<MmppState>,
    },
    /// Another process, of which more (or less) comes at times.
    Spikes {
        /// Any process but `stages`.
        base: Box<ArrivalSpec>,
        /// Where they overlap, factors multiply.
        spikes: Vec<Spike>,
    },
}

fn day() -> Seconds {
    Seconds::new(86_400.0).expect("a day is above 0")
}

impl ArrivalSpec {
    /// The process described.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the field that is missing or out of range.
    pub fn build(&self) -> Result<Box<dyn ArrivalProcess>, WorkloadError> {
        let gap = self.gap()?;
        Ok(match self {
            Self::Constant { rate } | Self::Poisson { rate } => Box::new(gap.at_rate(rate.get())),
            Self::Gamma(Varied { rate, .. }) | Self::Weibull(Varied { rate, .. }) => {
                Box::new(gap.at_rate(rate.get()))
            }
            Self::Stages { stages } => Box::new(StagedArrivals::new(stages.clone())?),
            _ => Box::new(Modulated::new(self.intensity()?, gap)),
        })
    }

    /// Arrivals at this rate over time with gaps of another family.
    pub(crate) fn with_gaps(&self, gap: Gap) -> Result<Modulated, WorkloadError> {
        Ok(Modulated::new(self.intensity()?, gap))
    }

    /// The family of the gaps, in expected requests.
    fn gap(&self) -> Result<Gap, WorkloadError> {
        Ok(match self {
            Self::Constant { .. } => Gap::Equal,
            Self::Poisson { .. } | Self::Stages { .. } | Self::Mmpp { .. } => Gap::Exponential,
            Self::Gamma(varied) => Gap::gamma(varied.variation)?,
            Self::Weibull(varied) => Gap::weibull(varied.variation)?,
            Self::Piecewise { gaps, .. }
            | Self::Ramp { gaps, .. }
            | Self::Diurnal { gaps, .. }
            | Self::Hourly { gaps, .. } => gaps.build().map_err(|error| error.within("gaps"))?,
            Self::Spikes { base, .. } => base.gap().map_err(|error| error.within("base"))?,
        })
    }

    /// The rate over time.
    fn intensity(&self) -> Result<Box<dyn Intensity>, WorkloadError> {
        Ok(match self {
            Self::Constant { rate } | Self::Poisson { rate } => Box::new(Steady::new(*rate)),
            Self::Gamma(varied) | Self::Weibull(varied) => Box::new(Steady::new(varied.rate)),
            Self::Stages { .. } => {
                let allowed = "a process with a rate, such as piecewise";
                return Err(WorkloadError::not_allowed("stages", "here", allowed));
            }
            Self::Piecewise { pieces, after, .. } => Box::new(Pieces::new(pieces, *after)?),
            Self::Ramp {
                from_rps,
                to_rps,
                duration_s,
                ..
            } => Box::new(Pieces::ramp(*from_rps, *to_rps, *duration_s)?),
            Self::Diurnal {
                mean_rate_rps,
                amplitude,
                peak_s,
                period_s,
                ..
            } => Box::new(Sinusoid::new(
                *mean_rate_rps,
                *amplitude,
                *peak_s,
                *period_s,
            )?),
            Self::Hourly {
                rates_rps,
                period_s,
                ..
            } => Box::new(Pieces::hourly(rates_rps, *period_s)?),
            Self::Mmpp { states } => Box::new(Mmpp::new(states)?),
            Self::Spikes { base, spikes } => {
                let mut intensity = base.intensity().map_err(|error| error.within("base"))?;
                for (index, spike) in spikes.iter().enumerate() {
                    let spiked = Spiked::new(intensity, *spike);
                    intensity =
                        Box::new(spiked.map_err(|e| e.within(&format!("spikes[{index}]")))?);
                }
                intensity
            }
        })
    }

    /// The stages, if these are what describes the arrivals.
    pub fn stages(&self) -> &[Stage] {
        match self {
            Self::Stages { stages } => stages,
            _ => &[],
        }
    }

    /// Whether arrivals end by themselves.
    pub fn ends(&self) -> bool {
        match self {
            Self::Stages { stages } => !stages.is_empty(),
            Self::Piecewise { after, .. } => *after == AfterPieces::End,
            Self::Spikes { base, .. } => base.ends(),
            _ => false,
        }
    }

    /// When each of its parts ends, if it has parts that a report should tell apart: stages, or pieces
    /// that are not repeated. What comes after the last end belongs to the last part.
    pub fn stage_ends(&self) -> Vec<SimTime> {
        let durations: Vec<_> = match self {
            Self::Stages { stages } => stages.iter().map(|stage| stage.duration_s).collect(),
            Self::Piecewise { pieces, after, .. } if *after != AfterPieces::Repeat => {
                pieces.iter().map(|piece| piece.duration_s).collect()
            }
            Self::Spikes { base, .. } => return base.stage_ends(),
            _ => Vec::new(),
        };
        let mut end = SimTime::ZERO;
        let ends = durations.into_iter().map(|duration| {
            end = end
                .checked_add(duration.to_duration())
                .unwrap_or(SimTime::MAX);
            end
        });
        ends.collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;
    use crate::quantity::Positive;

    /// Gaps in seconds of the first `count` arrivals.
    pub(super) fn gaps(spec: &ArrivalSpec, count: usize) -> Vec<f64> {
        let mut process = spec.build().expect("a valid process");
        let mut rng = RngStreams::new(3, 0).stream("arrivals", 0);
        let mut now = SimTime::ZERO;
        (0..count)
            .map_while(|_| {
                let next = process.next_after(now, &mut rng)?;
                let gap = (next - now).as_secs_f64();
                now = next;
                Some(gap)
            })
            .collect()
    }

    pub(super) fn mean_and_cv(gaps: &[f64]) -> (f64, f64) {
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps
            .iter()
            .map(|gap| (gap - mean) * (gap - mean))
            .sum::<f64>()
            / n;
        (mean, variance.sqrt() / mean)
    }

    fn varied(family: fn(Varied) -> ArrivalSpec, cv: f64) -> ArrivalSpec {
        family(Varied {
            rate: Rate::new(4.0).expect("positive"),
            variation: Variation::Cv(Positive::new(cv).expect("positive")),
        })
    }

    #[test]
    fn gaps_have_the_rate_and_the_variation_asked_for() {
        let rate = Rate::new(4.0).expect("positive");
        for (spec, cv) in [
            (ArrivalSpec::Constant { rate }, 0.0),
            (ArrivalSpec::Poisson { rate }, 1.0),
            (varied(ArrivalSpec::Gamma, 0.5), 0.5),
            (varied(ArrivalSpec::Gamma, 2.0), 2.0),
            (varied(ArrivalSpec::Weibull, 0.5), 0.5),
            (varied(ArrivalSpec::Weibull, 1.5), 1.5),
        ] {
            let (mean, seen) = mean_and_cv(&gaps(&spec, 100_000));
            assert!((mean - 0.25).abs() < 0.25 * 0.02, "{spec:?}: mean {mean}");
            assert!((seen - cv).abs() <= 0.03 * cv, "{spec:?}: cv {seen}");
        }
    }

    #[test]
    fn a_gap_beyond_the_end_of_time_ends_the_arrivals() {
        let rate = Rate::new(1e-300).expect("positive");
        assert!(gaps(&ArrivalSpec::Constant { rate }, 1).is_empty());
    }

    #[test]
    fn no_stages_and_unknown_keys_are_refused() {
        let error = ArrivalSpec::Stages { stages: vec![] }
            .build()
            .expect_err("none");
        assert_eq!(
            error.to_string(),
            "stages is missing or empty: needed is at least one stage"
        );
        let unknown = r#"{"poisson": {"rate-rps": 1.0, "burst": 2}}"#;
        assert!(serde_json::from_str::<ArrivalSpec>(unknown).is_err());
        let wrong = r#"{"stages": {"stages": [{"rate-rps": 1.0, "duration-s": -5.0}]}}"#;
        let error = serde_json::from_str::<ArrivalSpec>(wrong).expect_err("negative");
        assert!(error.to_string().contains("duration is -5"), "{error}");
    }
}

//! [`ArrivalProcess`]: when requests arrive.

use core::fmt;

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use crate::dist;
use crate::error::WorkloadError;
use crate::quantity::{Positive, Rate, Seconds, round_u64};
use crate::request::StageId;

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
/// assert_eq!(spec, ArrivalSpec::Gamma { rate: 4.0.try_into()?, cv: 2.0.try_into()? });
/// assert!(serde_json::from_str::<ArrivalSpec>(r#"{"poisson": {"rate-rps": 0.0}}"#).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
    /// Independent gamma gaps; burstier than Poisson for `cv` above 1.
    Gamma {
        /// Requests per second.
        #[serde(rename = "rate-rps")]
        rate: Rate,
        /// Coefficient of variation of the gaps: standard deviation over mean.
        cv: Positive,
    },
    /// Independent Weibull gaps; burstier than Poisson for `cv` above 1, with a heavier tail than
    /// gamma gaps of the same `cv`.
    Weibull {
        /// Requests per second.
        #[serde(rename = "rate-rps")]
        rate: Rate,
        /// Coefficient of variation of the gaps, from 0.01 to 100.
        cv: Positive,
    },
    /// Stages with a fixed number of requests each; see [`StagedArrivals`].
    Stages {
        /// One after the other, at least one.
        stages: Vec<Stage>,
    },
}

impl ArrivalSpec {
    /// The process described.
    ///
    /// # Errors
    /// [`WorkloadError`] if there is no stage, or if no Weibull distribution has that `cv`.
    pub fn build(&self) -> Result<Box<dyn ArrivalProcess>, WorkloadError> {
        Ok(match self {
            Self::Constant { rate } => Box::new(Renewal {
                mean: 1.0 / rate.get(),
                gap: Gap::Equal,
            }),
            Self::Poisson { rate } => Box::new(Renewal {
                mean: 1.0 / rate.get(),
                gap: Gap::Exponential,
            }),
            Self::Gamma { rate, cv } => {
                let shape = Positive::new(1.0 / (cv.get() * cv.get()))
                    .map_err(|_| WorkloadError::out_of_range("cv", cv.get(), "1e-150 to 1e150"))?;
                Box::new(Renewal {
                    mean: 1.0 / rate.get(),
                    gap: Gap::Gamma { shape },
                })
            }
            Self::Weibull { rate, cv } => {
                let shape = weibull_shape(*cv)?;
                let unscaled_mean = libm::tgamma(1.0 + 1.0 / shape.get());
                let mean = 1.0 / rate.get() / unscaled_mean;
                Box::new(Renewal {
                    mean,
                    gap: Gap::Weibull { shape },
                })
            }
            Self::Stages { stages } => Box::new(StagedArrivals::new(stages.clone())?),
        })
    }

    /// The stages, if these are what describes the arrivals.
    pub fn stages(&self) -> &[Stage] {
        match self {
            Self::Stages { stages } => stages,
            _ => &[],
        }
    }
}

/// Independent gaps of one distribution.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    /// Seconds that a gap of 1 takes.
    mean: f64,
    gap: Gap,
}

/// Distribution of gaps, up to their scale.
#[derive(Debug, Clone, Copy)]
enum Gap {
    Equal,
    Exponential,
    Gamma { shape: Positive },
    Weibull { shape: Positive },
}

impl ArrivalProcess for Renewal {
    fn next_after(&mut self, now: SimTime, rng: &mut SimRng) -> Option<SimTime> {
        let gap = match self.gap {
            Gap::Equal => 1.0,
            Gap::Exponential => dist::exponential(rng),
            Gap::Gamma { shape } => dist::gamma(rng, shape) / shape.get(),
            Gap::Weibull { shape } => dist::weibull(rng, shape),
        };
        // A gap beyond the end of time is the end of arrivals.
        now.checked_add(SimDuration::try_from_secs_f64(gap * self.mean).ok()?)
    }
}

/// The shape of the Weibull distribution whose coefficient of variation is `cv`: the root of
/// `Γ(1 + 2/k) / Γ(1 + 1/k)^2 = 1 + cv^2`, which falls in `k`.
fn weibull_shape(cv: Positive) -> Result<Positive, WorkloadError> {
    if !(0.01..=100.0).contains(&cv.get()) {
        return Err(WorkloadError::out_of_range("cv", cv.get(), "0.01 to 100"));
    }
    let target = libm::log1p(cv.get() * cv.get());
    let excess = |shape: f64| {
        libm::lgamma(1.0 + 2.0 / shape) - 2.0 * libm::lgamma(1.0 + 1.0 / shape) - target
    };
    let (mut low, mut high) = (0.1_f64, 200.0_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if excess(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Positive::new(low)
}

/// Part of a load with a steady rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stage {
    /// Requests per second.
    pub rate_rps: Rate,
    /// How long, in seconds.
    pub duration_s: Seconds,
}

impl Stage {
    /// `rate_rps` requests per second for `duration_s` seconds.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] unless both are finite and above 0.
    pub fn new(rate_rps: f64, duration_s: f64) -> Result<Self, WorkloadError> {
        Ok(Self {
            rate_rps: Rate::new(rate_rps)?,
            duration_s: Seconds::new(duration_s)?,
        })
    }

    /// Requests sent: the product of rate and duration, rounded down.
    pub fn requests(&self) -> u64 {
        round_u64((self.rate_rps.get() * self.duration_s.get()).floor())
    }
}

/// The arrivals of inference-perf's Poisson load: a stage of rate `r` and duration `d` sends exactly
/// `⌊r·d⌋` requests, with exponential gaps that are scaled to sum to `d`.
///
/// Stages follow each other without a pause. The first request of a stage comes after its first
/// gap, the last one at the stage's end. A stage with a product below 1 sends nothing for its
/// duration.
///
/// Scaled exponential gaps are the gaps between ordered uniform points: of `k` gaps that share the
/// time `t`, the first is distributed as `t·(1 − U^(1/(k−1)))`, and what follows are `k − 1` gaps
/// that share the rest. Drawing them in that way needs neither a list of gaps nor their sum
/// beforehand.
///
/// ```
/// use foretoken_des_kernel::{RngStreams, SimTime};
/// use foretoken_workload::arrival::{ArrivalProcess, Stage, StagedArrivals};
///
/// let mut arrivals = StagedArrivals::new(vec![Stage::new(2.5, 2.0)?])?;
/// let mut rng = RngStreams::new(1, 0).stream("arrivals", 0);
/// let mut now = SimTime::ZERO;
/// let mut count = 0;
/// while let Some(next) = arrivals.next_after(now, &mut rng) {
///     (now, count) = (next, count + 1);
/// }
/// assert_eq!(count, 5);
/// assert_eq!(now, SimTime::from_nanos(2_000_000_000));
/// # Ok::<(), foretoken_workload::WorkloadError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StagedArrivals {
    stages: Vec<Stage>,
    /// Stages begun so far.
    begun: usize,
    /// Requests that the present stage has yet to send.
    remaining: u64,
    start: SimTime,
    end: SimTime,
}

impl StagedArrivals {
    /// One stage after the other, from the start of the run.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] if there is no stage.
    pub fn new(stages: Vec<Stage>) -> Result<Self, WorkloadError> {
        if stages.is_empty() {
            return Err(WorkloadError::missing("stages", "at least one stage"));
        }
        Ok(Self {
            stages,
            begun: 0,
            remaining: 0,
            start: SimTime::ZERO,
            end: SimTime::ZERO,
        })
    }

    /// The stage of the latest arrival.
    pub fn stage(&self) -> StageId {
        StageId::new(u32::try_from(self.begun.saturating_sub(1)).unwrap_or(u32::MAX))
    }

    /// Requests of all stages together.
    pub fn total(&self) -> u64 {
        self.stages
            .iter()
            .map(Stage::requests)
            .fold(0, u64::saturating_add)
    }
}

impl ArrivalProcess for StagedArrivals {
    fn next_after(&mut self, now: SimTime, rng: &mut SimRng) -> Option<SimTime> {
        while self.remaining == 0 {
            let stage = self.stages.get(self.begun)?;
            self.begun += 1;
            self.remaining = stage.requests();
            self.start = self.end;
            self.end = self.start.checked_add(stage.duration_s.to_duration())?;
        }
        let now = now.max(self.start);
        let left = self.end.saturating_since(now);
        self.remaining -= 1;
        if self.remaining == 0 {
            return Some(now + left);
        }
        let share = -libm::expm1(-dist::exponential(rng) / self.remaining as f64);
        let gap = round_u64(left.as_nanos() as f64 * share).min(left.as_nanos());
        Some(now + SimDuration::from_nanos(gap))
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    /// Gaps in seconds of the first `count` arrivals.
    fn gaps(spec: &ArrivalSpec, count: usize) -> Vec<f64> {
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

    fn mean_and_cv(gaps: &[f64]) -> (f64, f64) {
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps
            .iter()
            .map(|gap| (gap - mean) * (gap - mean))
            .sum::<f64>()
            / n;
        (mean, variance.sqrt() / mean)
    }

    fn positive(value: f64) -> Positive {
        Positive::new(value).expect("positive")
    }

    #[test]
    fn gaps_have_the_rate_and_the_variation_asked_for() {
        let rate = Rate::new(4.0).expect("positive");
        for (spec, cv) in [
            (ArrivalSpec::Constant { rate }, 0.0),
            (ArrivalSpec::Poisson { rate }, 1.0),
            (
                ArrivalSpec::Gamma {
                    rate,
                    cv: positive(0.5),
                },
                0.5,
            ),
            (
                ArrivalSpec::Gamma {
                    rate,
                    cv: positive(2.0),
                },
                2.0,
            ),
            (
                ArrivalSpec::Weibull {
                    rate,
                    cv: positive(0.5),
                },
                0.5,
            ),
            (
                ArrivalSpec::Weibull {
                    rate,
                    cv: positive(1.5),
                },
                1.5,
            ),
        ] {
            let (mean, seen) = mean_and_cv(&gaps(&spec, 100_000));
            assert!((mean - 0.25).abs() < 0.25 * 0.02, "{spec:?}: mean {mean}");
            assert!((seen - cv).abs() <= 0.03 * cv, "{spec:?}: cv {seen}");
        }
    }

    #[test]
    fn a_weibull_shape_of_one_is_exponential() {
        let shape = weibull_shape(positive(1.0)).expect("in range");
        assert!((shape.get() - 1.0).abs() < 1e-9, "{shape}");
        assert!(weibull_shape(positive(0.01)).expect("in range").get() < 200.0);
        assert!(weibull_shape(positive(100.0)).expect("in range").get() > 0.1);
        assert!(weibull_shape(positive(101.0)).is_err());
    }

    #[test]
    fn a_gap_beyond_the_end_of_time_ends_the_arrivals() {
        let rate = Rate::new(1e-300).expect("positive");
        assert!(gaps(&ArrivalSpec::Constant { rate }, 1).is_empty());
    }

    fn stage(rate: f64, duration: f64) -> Stage {
        Stage::new(rate, duration).expect("positive")
    }

    fn staged(stages: Vec<Stage>) -> Vec<(u64, u32)> {
        let mut process = StagedArrivals::new(stages).expect("stages");
        let mut rng = RngStreams::new(3, 0).stream("arrivals", 0);
        let mut now = SimTime::ZERO;
        core::iter::from_fn(|| {
            now = process.next_after(now, &mut rng)?;
            Some((now.as_nanos(), process.stage().get()))
        })
        .collect()
    }

    #[test]
    fn each_stage_sends_its_number_and_ends_with_an_arrival() {
        let arrivals = staged(vec![stage(2.5, 600.0), stage(6.0, 600.0)]);
        assert_eq!(arrivals.len(), 1500 + 3600);
        assert_eq!(arrivals[1499], (600_000_000_000, 0));
        assert_eq!(arrivals[1500].1, 1);
        assert_eq!(arrivals[5099], (1_200_000_000_000, 1));
        assert!(arrivals.is_sorted_by_key(|&(at, _)| at));
    }

    #[test]
    fn a_stage_of_less_than_one_request_is_a_pause() {
        let arrivals = staged(vec![stage(0.1, 5.0), stage(1.0, 1.0), stage(0.1, 5.0)]);
        assert_eq!(arrivals, [(6_000_000_000, 1)]);
    }

    #[test]
    fn gaps_of_a_stage_have_the_moments_of_scaled_exponentials() {
        // Gaps of a flat Dirichlet distribution: mean d/n, variance (d/n)^2 (n-1)/(n+1).
        let spec = ArrivalSpec::Stages {
            stages: vec![stage(10.0, 10_000.0)],
        };
        let gaps = gaps(&spec, usize::MAX);
        assert_eq!(gaps.len(), 100_000);
        let (mean, cv) = mean_and_cv(&gaps);
        assert!((mean - 0.1).abs() < 1e-9, "{mean}");
        assert!((cv - 1.0).abs() < 0.02, "{cv}");
        let (early, late) = gaps.split_at(50_000);
        let ratio = early.iter().sum::<f64>() / late.iter().sum::<f64>();
        assert!((ratio - 1.0).abs() < 0.03, "{ratio}");
    }

    #[test]
    fn the_gaps_of_a_stage_agree_with_scaling_a_list() {
        // Probability that the first of three scaled gaps is below a third: 1 - (2/3)^2.
        let below = (0..20_000)
            .filter(|&index| {
                let mut process = StagedArrivals::new(vec![stage(1.0, 3.0)]).expect("a stage");
                let mut rng = RngStreams::new(3, 0).stream("arrivals", index);
                let first = process
                    .next_after(SimTime::ZERO, &mut rng)
                    .expect("three arrivals");
                first < SimTime::from_nanos(1_000_000_000)
            })
            .count();
        assert!((10_900..11_320).contains(&below), "{below}");
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

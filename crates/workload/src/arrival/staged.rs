//! [`StagedArrivals`]: inference-perf's stages of exactly so many requests.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use super::ArrivalProcess;
use crate::dist;
use crate::error::WorkloadError;
use crate::quantity::{Rate, Seconds, round_u64};
use crate::request::StageId;

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

    use super::super::ArrivalSpec;
    use super::super::tests::{gaps, mean_and_cv};
    use super::*;

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
}

//! [`CountSpec`]: how many turns, steps, tool calls.

use foretoken_des_kernel::SimRng;
use serde::{Deserialize, Serialize};

use crate::dist;
use crate::error::WorkloadError;
use crate::quantity::round_u32;

/// A distribution of small counts, as configurations give it.
///
/// ```
/// use foretoken_workload::CountSpec;
///
/// let turns: CountSpec = serde_json::from_str(r#"{ "geometric": { "mean": 3.5, "max": 40 } }"#)?;
/// assert_eq!(turns.max(), 40);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum CountSpec {
    /// Always the same.
    Constant {
        /// At least 1.
        count: u32,
    },
    /// Every count from `min` to `max` alike.
    Uniform {
        /// The least, at least 1.
        min: u32,
        /// The most.
        max: u32,
    },
    /// Geometric on 1, 2, 3, …: after each one there is another with the same probability.
    Geometric {
        /// Mean before the limit; at least 1.
        mean: f64,
        /// The most (default 100).
        #[serde(default = "hundred")]
        max: u32,
    },
}

const fn hundred() -> u32 {
    100
}

impl CountSpec {
    /// Exactly one.
    pub const ONE: Self = Self::Constant { count: 1 };

    /// Checks that all counts lie in `1..=limit`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the field.
    pub fn check(&self, limit: u32) -> Result<(), WorkloadError> {
        let (min, max) = match *self {
            Self::Constant { count } => (("count", count), ("count", count)),
            Self::Uniform { min, max } => (("min", min), ("max", max)),
            Self::Geometric { mean, max } => {
                if !(mean >= 1.0 && mean.is_finite()) {
                    let allowed = "a finite number from 1";
                    return Err(WorkloadError::out_of_range("mean", mean, allowed));
                }
                (("max", max), ("max", max))
            }
        };
        if min.1 == 0 {
            return Err(WorkloadError::out_of_range(min.0, 0.0, "at least 1"));
        }
        if max.1 > limit {
            return Err(WorkloadError::TooMany {
                field: max.0.to_owned(),
                value: max.1,
                limit,
            });
        }
        if min.1 > max.1 {
            return Err(WorkloadError::Reversed {
                field: "count".to_owned(),
                min: min.1,
                max: max.1,
            });
        }
        Ok(())
    }

    /// The most it can be.
    pub const fn max(&self) -> u32 {
        match *self {
            Self::Constant { count } => count,
            Self::Uniform { max, .. } | Self::Geometric { max, .. } => max,
        }
    }

    /// One count.
    pub fn sample(&self, rng: &mut SimRng) -> u32 {
        match *self {
            Self::Constant { count } => count,
            Self::Uniform { min, max } => dist::uniform_u32(rng, min, max),
            Self::Geometric { mean, max } => {
                // The number of whole exponential spans of rate -ln(1 - 1/mean).
                let rate = -libm::log1p(-1.0 / mean);
                round_u32(1.0 + (dist::exponential(rng) / rate).floor()).clamp(1, max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    #[test]
    fn a_geometric_count_halves_from_one_to_the_next_if_its_mean_is_two() {
        let mut rng = RngStreams::new(1, 0).stream("turns", 0);
        let spec = CountSpec::Geometric { mean: 2.0, max: 50 };
        let mut seen = [0_u32; 51];
        for _ in 0..40_000 {
            seen[spec.sample(&mut rng) as usize] += 1;
        }
        for count in 1..6 {
            let expected = 40_000.0 * libm::pow(0.5, f64::from(count));
            let difference = f64::from(seen[usize::try_from(count).expect("small")]) - expected;
            assert!(
                difference.abs() < 4.0 * expected.sqrt(),
                "{count}: {difference}"
            );
        }
        let always = CountSpec::Geometric { mean: 1.0, max: 9 };
        assert!((0..100).all(|_| always.sample(&mut rng) == 1));
    }

    #[test]
    fn wrong_counts_are_refused_by_name() {
        for (spec, problem) in [
            (CountSpec::Constant { count: 0 }, "count is 0"),
            (CountSpec::Uniform { min: 3, max: 2 }, "min 3 above max 2"),
            (
                CountSpec::Uniform { min: 3, max: 200 },
                "max is 200: allowed is at most 100",
            ),
            (CountSpec::Geometric { mean: 0.5, max: 2 }, "mean is 0.5"),
        ] {
            let error = spec.check(100).expect_err("wrong").to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}

//! [`DelaySpec`]: how long clients think, and tools work.

use foretoken_des_kernel::{SimDuration, SimRng};
use serde::{Deserialize, Serialize};

use crate::dist;
use crate::error::WorkloadError;

/// The longest mean or end of a delay: about 30 years, in seconds.
const LONGEST: f64 = 1e9;

/// A distribution of delays in seconds, as configurations give it.
///
/// ```
/// use foretoken_workload::DelaySpec;
///
/// let think: DelaySpec = serde_json::from_str(r#"{ "exponential": { "mean-s": 5 } }"#)?;
/// assert_eq!(think, DelaySpec::Exponential { mean_s: 5.0 });
/// assert!(DelaySpec::Uniform { min_s: 5.0, max_s: 1.0 }.check().is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum DelaySpec {
    /// Always the same.
    Constant {
        /// From 0.
        seconds: f64,
    },
    /// Every delay from `min-s` to `max-s` alike.
    Uniform {
        /// The shortest, from 0.
        min_s: f64,
        /// The longest.
        max_s: f64,
    },
    /// Exponential: without memory.
    Exponential {
        /// Mean, above 0.
        mean_s: f64,
    },
    /// Log-normal; mean and standard deviation are those of the delays, not of their logarithm.
    Lognormal {
        /// Mean, above 0.
        mean_s: f64,
        /// Standard deviation, from 0.
        std_s: f64,
    },
}

impl Default for DelaySpec {
    fn default() -> Self {
        Self::NONE
    }
}

impl DelaySpec {
    /// No delay.
    pub const NONE: Self = Self::Constant { seconds: 0.0 };

    /// Checks the numbers; none may exceed 10^9 seconds.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] naming the field.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let from_zero = |field: &str, value: f64| {
            if (0.0..=LONGEST).contains(&value) {
                return Ok(());
            }
            Err(WorkloadError::out_of_range(
                field,
                value,
                "0 to 1e9 seconds",
            ))
        };
        let positive = |field: &str, value: f64| {
            if value > 0.0 && value <= LONGEST {
                return Ok(());
            }
            let allowed = "above 0 and at most 1e9 seconds";
            Err(WorkloadError::out_of_range(field, value, allowed))
        };
        match *self {
            Self::Constant { seconds } => from_zero("seconds", seconds),
            Self::Uniform { min_s, max_s } => {
                from_zero("min-s", min_s)?;
                from_zero("max-s", max_s)?;
                if min_s > max_s {
                    let allowed = "at most max-s";
                    return Err(WorkloadError::out_of_range("min-s", min_s, allowed));
                }
                Ok(())
            }
            Self::Exponential { mean_s } => positive("mean-s", mean_s),
            Self::Lognormal { mean_s, std_s } => {
                positive("mean-s", mean_s)?;
                from_zero("std-s", std_s)
            }
        }
    }

    /// Mean, in seconds.
    pub fn mean_s(&self) -> f64 {
        match *self {
            Self::Constant { seconds } => seconds,
            Self::Uniform { min_s, max_s } => 0.5 * (min_s + max_s),
            Self::Exponential { mean_s } | Self::Lognormal { mean_s, .. } => mean_s,
        }
    }

    /// One delay.
    pub fn sample(&self, rng: &mut SimRng) -> SimDuration {
        let seconds = match *self {
            Self::Constant { seconds } => seconds,
            Self::Uniform { min_s, max_s } => dist::uniform(rng, min_s, max_s),
            Self::Exponential { mean_s } => mean_s * dist::exponential(rng),
            Self::Lognormal { mean_s, std_s } => {
                let cv = std_s / mean_s;
                let variance = libm::log1p(cv * cv);
                dist::log_normal(rng, libm::log(mean_s) - 0.5 * variance, variance.sqrt())
            }
        };
        SimDuration::try_from_secs_f64(seconds).unwrap_or(SimDuration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    #[test]
    fn samples_have_the_mean_asked_for() {
        for spec in [
            DelaySpec::Constant { seconds: 3.0 },
            DelaySpec::Uniform {
                min_s: 1.0,
                max_s: 5.0,
            },
            DelaySpec::Exponential { mean_s: 3.0 },
            DelaySpec::Lognormal {
                mean_s: 3.0,
                std_s: 2.0,
            },
        ] {
            let mut rng = RngStreams::new(1, 0).stream("pauses", 0);
            let sum: f64 = (0..40_000)
                .map(|_| spec.sample(&mut rng).as_secs_f64())
                .sum();
            assert!(
                (sum / 40_000.0 - spec.mean_s()).abs() < 0.05,
                "{spec:?}: {sum}"
            );
        }
    }

    #[test]
    fn wrong_delays_are_refused_by_name() {
        for (spec, field) in [
            (DelaySpec::Constant { seconds: -1.0 }, "seconds is -1"),
            (
                DelaySpec::Uniform {
                    min_s: 2.0,
                    max_s: 1.0,
                },
                "min-s is 2",
            ),
            (DelaySpec::Exponential { mean_s: 0.0 }, "mean-s is 0"),
            (DelaySpec::Exponential { mean_s: f64::NAN }, "mean-s is NaN"),
            (
                DelaySpec::Lognormal {
                    mean_s: 1.0,
                    std_s: 1e10,
                },
                "std-s is 1",
            ),
        ] {
            let error = spec.check().expect_err("wrong").to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}

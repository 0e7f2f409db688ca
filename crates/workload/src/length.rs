//! [`LengthDistribution`]: how long prompts and outputs are.

use core::fmt;

use foretoken_des_kernel::SimRng;
use serde::{Deserialize, Serialize};

use crate::dist;
use crate::error::WorkloadError;
use crate::quantity::round_u32;

/// How many tokens.
///
/// The host draws once for each request, from a stream that nobody else draws from; it takes 0 as 1.
///
/// ```
/// use foretoken_des_kernel::SimRng;
/// use foretoken_workload::length::LengthDistribution;
///
/// /// Powers of two.
/// #[derive(Debug)]
/// struct Doubling;
///
/// impl LengthDistribution for Doubling {
///     fn sample(&self, rng: &mut SimRng) -> u32 {
///         1 << rng.below(12)
///     }
/// }
/// # let _: Box<dyn LengthDistribution> = Box::new(Doubling);
/// ```
pub trait LengthDistribution: fmt::Debug + Send {
    /// A number of tokens, at least 1.
    fn sample(&self, rng: &mut SimRng) -> u32;
}

impl<D: LengthDistribution + ?Sized> LengthDistribution for Box<D> {
    fn sample(&self, rng: &mut SimRng) -> u32 {
        (**self).sample(rng)
    }
}

const fn one() -> u32 {
    1
}

const fn unlimited() -> u32 {
    u32::MAX
}

/// A built-in distribution of lengths in tokens, as configurations give it.
///
/// Draws outside of `min..=max` become the nearer end (they are clipped, not drawn again, as
/// inference-perf does), so a `mean` is that of the distribution before clipping.
///
/// ```
/// use foretoken_workload::LengthSpec;
///
/// let text = r#"{"lognormal": {"mean": 500, "std": 300, "max": 4096}}"#;
/// let spec: LengthSpec = serde_json::from_str(text)?;
/// assert_eq!(spec, LengthSpec::Lognormal { mean: 500.0, std: 300.0, min: 1, max: 4096 });
/// assert!(LengthSpec::uniform(800, 200).build().is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum LengthSpec {
    /// Always the same.
    Constant {
        /// At least 1.
        tokens: u32,
    },
    /// Every length from `min` to `max` alike.
    Uniform {
        /// The shortest, at least 1.
        min: u32,
        /// The longest.
        max: u32,
    },
    /// Normal, rounded to whole tokens.
    Normal {
        /// Mean before clipping; finite and above 0.
        mean: f64,
        /// Standard deviation before clipping; finite, at least 0.
        std: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
    /// Log-normal, rounded to whole tokens. `mean` and `std` are those of the lengths themselves, not
    /// of their logarithm.
    Lognormal {
        /// Mean before clipping; finite and above 0.
        mean: f64,
        /// Standard deviation before clipping; finite, at least 0.
        std: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
}

impl LengthSpec {
    /// Always `tokens`.
    pub const fn constant(tokens: u32) -> Self {
        Self::Constant { tokens }
    }

    /// Every length from `min` to `max` alike.
    pub const fn uniform(min: u32, max: u32) -> Self {
        Self::Uniform { min, max }
    }

    /// Normal with `mean` and `std`, at least 1.
    pub const fn normal(mean: f64, std: f64) -> Self {
        Self::Normal {
            mean,
            std,
            min: one(),
            max: unlimited(),
        }
    }

    /// Log-normal with `mean` and `std` (of the lengths, not of their logarithm), at least 1.
    pub const fn lognormal(mean: f64, std: f64) -> Self {
        Self::Lognormal {
            mean,
            std,
            min: one(),
            max: unlimited(),
        }
    }

    /// The distribution described.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the field if a length could be 0, if `min` is above `max`, or if
    /// `mean` or `std` is out of range.
    pub fn build(&self) -> Result<Box<dyn LengthDistribution>, WorkloadError> {
        let (shape, min, max) = match *self {
            Self::Constant { tokens } => {
                if tokens == 0 {
                    return Err(WorkloadError::out_of_range("tokens", 0.0, "at least 1"));
                }
                (Shape::Uniform, tokens, tokens)
            }
            Self::Uniform { min, max } => (Shape::Uniform, min, max),
            Self::Normal {
                mean,
                std,
                min,
                max,
            } => {
                check_moments(mean, std)?;
                (Shape::Normal { mean, std }, min, max)
            }
            Self::Lognormal {
                mean,
                std,
                min,
                max,
            } => {
                check_moments(mean, std)?;
                let cv = std / mean;
                let variance = libm::log1p(cv * cv);
                let mu = libm::log(mean) - 0.5 * variance;
                (
                    Shape::Lognormal {
                        mu,
                        sigma: variance.sqrt(),
                    },
                    min,
                    max,
                )
            }
        };
        if min == 0 {
            return Err(WorkloadError::out_of_range("min", 0.0, "at least 1"));
        }
        if min > max {
            return Err(WorkloadError::Reversed {
                field: "length".to_owned(),
                min,
                max,
            });
        }
        Ok(Box::new(Clipped { shape, min, max }))
    }
}

fn check_moments(mean: f64, std: f64) -> Result<(), WorkloadError> {
    if !(mean > 0.0 && mean.is_finite()) {
        return Err(WorkloadError::out_of_range(
            "mean",
            mean,
            "a finite number above 0",
        ));
    }
    if !(std >= 0.0 && std.is_finite()) {
        return Err(WorkloadError::out_of_range(
            "std",
            std,
            "a finite number from 0",
        ));
    }
    Ok(())
}

/// What [`LengthSpec`] describes, checked: `1 <= min <= max`.
#[derive(Debug, Clone, Copy)]
struct Clipped {
    shape: Shape,
    min: u32,
    max: u32,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Uniform,
    Normal { mean: f64, std: f64 },
    Lognormal { mu: f64, sigma: f64 },
}

impl LengthDistribution for Clipped {
    fn sample(&self, rng: &mut SimRng) -> u32 {
        match self.shape {
            Shape::Uniform => dist::uniform_u32(rng, self.min, self.max),
            Shape::Normal { mean, std } => {
                round_u32(mean + std * dist::normal(rng)).clamp(self.min, self.max)
            }
            Shape::Lognormal { mu, sigma } => {
                round_u32(dist::log_normal(rng, mu, sigma)).clamp(self.min, self.max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    fn draws(spec: &LengthSpec, count: usize) -> Vec<u32> {
        let lengths = spec.build().expect("a valid distribution");
        let mut rng = RngStreams::new(5, 0).stream("prompt-lengths", 0);
        (0..count).map(|_| lengths.sample(&mut rng)).collect()
    }

    #[test]
    fn a_constant_length_never_varies() {
        assert!(
            draws(&LengthSpec::constant(17), 100)
                .iter()
                .all(|&n| n == 17)
        );
    }

    #[test]
    fn a_uniform_length_reaches_both_ends_and_no_further() {
        let seen = draws(&LengthSpec::uniform(3, 6), 200);
        assert_eq!(seen.iter().min(), Some(&3));
        assert_eq!(seen.iter().max(), Some(&6));
    }

    #[test]
    fn mean_and_std_are_those_of_the_lengths() {
        for spec in [
            LengthSpec::normal(500.0, 50.0),
            LengthSpec::lognormal(500.0, 50.0),
        ] {
            let seen = draws(&spec, 50_000);
            let mean = seen.iter().map(|&n| f64::from(n)).sum::<f64>() / 50_000.0;
            let square = seen
                .iter()
                .map(|&n| (f64::from(n) - mean) * (f64::from(n) - mean));
            let std = (square.sum::<f64>() / 50_000.0).sqrt();
            assert!((mean - 500.0).abs() < 1.0, "{spec:?}: {mean}");
            assert!((std - 50.0).abs() < 1.0, "{spec:?}: {std}");
        }
    }

    #[test]
    fn draws_are_clipped_and_never_zero() {
        let clipped = LengthSpec::Normal {
            mean: 10.0,
            std: 100.0,
            min: 5,
            max: 20,
        };
        assert!(draws(&clipped, 1_000).iter().all(|n| (5..=20).contains(n)));
        assert!(
            draws(&LengthSpec::normal(1.0, 100.0), 1_000)
                .iter()
                .all(|&n| n >= 1)
        );
    }

    #[test]
    fn wrong_parameters_are_refused_by_name() {
        for (spec, field) in [
            (LengthSpec::constant(0), "tokens is 0"),
            (LengthSpec::uniform(0, 5), "min is 0"),
            (LengthSpec::uniform(6, 5), "min 6 above max 5"),
            (LengthSpec::normal(f64::NAN, 1.0), "mean is NaN"),
            (LengthSpec::lognormal(0.0, 1.0), "mean is 0"),
            (LengthSpec::lognormal(5.0, -1.0), "std is -1"),
        ] {
            let error = spec.build().expect_err("wrong").to_string();
            assert!(error.contains(field), "{error}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        let text = r#"{"constant": {"tokens": 5, "max": 9}}"#;
        assert!(serde_json::from_str::<LengthSpec>(text).is_err());
    }
}

//! [`LengthDistribution`]: how long prompts and outputs are.

use core::fmt;

mod build;
mod shape;

use foretoken_des_kernel::SimRng;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::quantity::Positive;

pub(crate) use shape::Lengths;

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
/// Where a distribution has a `scale`, `shape` and `shift` are those of a fit with `scipy.stats` (its
/// `loc` is `shift`), and draws are `shift + scale × variate`, rounded to whole tokens.
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
    /// Log-normal by the mean and the standard deviation of the logarithm; the median is
    /// `shift + exp(mu)`.
    LognormalMuSigma {
        /// Mean of the logarithm; finite.
        mu: f64,
        /// Standard deviation of the logarithm; finite, at least 0.
        sigma: f64,
        /// Added to every draw; finite (default 0).
        #[serde(default)]
        shift: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
    /// Exponential.
    Exponential {
        /// Mean before the shift, and standard deviation.
        mean: Positive,
        /// Added to every draw; finite (default 0).
        #[serde(default)]
        shift: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
    /// Gamma; its mean is `shift + shape × scale`.
    Gamma {
        /// 1 is exponential; the coefficient of variation is `1 / √shape`.
        shape: Positive,
        /// Tokens.
        scale: Positive,
        /// Added to every draw; finite (default 0).
        #[serde(default)]
        shift: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
    /// Weibull; its mean is `shift + scale × Γ(1 + 1 / shape)`.
    Weibull {
        /// 1 is exponential; below 1 the tail is heavier.
        shape: Positive,
        /// Tokens.
        scale: Positive,
        /// Added to every draw; finite (default 0).
        #[serde(default)]
        shift: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
    /// Pareto: the share of lengths above `x` is `((x − shift) / scale)^−shape`.
    Pareto {
        /// The tail's exponent; the mean is infinite up to 1.
        shape: Positive,
        /// The smallest draw before the shift, in tokens.
        scale: Positive,
        /// The largest draw before the shift, above `scale`: a bounded Pareto distribution, which,
        /// unlike one that is clipped by `max`, has no mass of its own there (default: none).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bound: Option<Positive>,
        /// Added to every draw; finite (default 0).
        #[serde(default)]
        shift: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
    /// Generalised extreme values: Fréchet, Gumbel and reversed Weibull in one.
    Gev {
        /// Tokens; finite.
        location: f64,
        /// Tokens.
        scale: Positive,
        /// Finite; above 0 the upper tail is heavy, below 0 it ends. `scipy.stats.genextreme` has the
        /// opposite sign.
        shape: f64,
        /// The shortest, at least 1 (default 1).
        #[serde(default = "one")]
        min: u32,
        /// The longest (default: no limit).
        #[serde(default = "unlimited")]
        max: u32,
    },
    /// Given lengths.
    Empirical {
        /// At least one, each at least 1.
        values: Vec<u32>,
        /// A weight for each; finite, from 0, not all 0 (default: all alike).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        weights: Vec<f64>,
    },
    /// Ranges with weights; within a range all lengths are alike.
    Histogram {
        /// At least one.
        bins: Vec<LengthBin>,
    },
    /// One of several distributions, by weight.
    Mixture {
        /// At least one.
        parts: Vec<LengthPart>,
    },
}

/// A range of lengths in a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LengthBin {
    /// The shortest, at least 1.
    pub min: u32,
    /// The longest.
    pub max: u32,
    /// Share of all draws, relative to the other bins; finite, from 0.
    pub weight: f64,
}

/// A distribution in a mixture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LengthPart {
    /// Share of all draws, relative to the other parts; finite, from 0.
    pub weight: f64,
    /// The lengths of this part.
    pub tokens: LengthSpec,
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
    /// another number is out of range.
    pub fn build(&self) -> Result<Box<dyn LengthDistribution>, WorkloadError> {
        Ok(Box::new(self.lengths()?))
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

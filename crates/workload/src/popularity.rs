//! [`PopularitySpec`]: which of several, if not all alike.

use foretoken_des_kernel::SimRng;
use serde::{Deserialize, Serialize};

use crate::dist::{Empirical, Zipf};
use crate::error::WorkloadError;
use crate::quantity::Positive;

/// How often each of several things is asked for, as configurations give it. Things are numbered from
/// 0; under `zipf` in order of their popularity.
///
/// ```
/// use foretoken_workload::PopularitySpec;
///
/// let spec: PopularitySpec = serde_json::from_str(r#"{"zipf": {"exponent": 1.1}}"#)?;
/// assert_eq!(spec, PopularitySpec::Zipf { exponent: 1.1.try_into()? });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum PopularitySpec {
    /// All alike.
    Uniform {},
    /// The `k`-th has a share proportional to `k^-exponent`, counted from 1.
    Zipf {
        /// Above 0; about 1 for many kinds of content.
        exponent: Positive,
    },
    /// Shares proportional to `weights`.
    Weights {
        /// One for each thing; finite, from 0, not all 0.
        weights: Vec<f64>,
    },
}

impl Default for PopularitySpec {
    fn default() -> Self {
        Self::Uniform {}
    }
}

impl PopularitySpec {
    /// The popularity of `count` things; `field` is the key that gives their number.
    pub(crate) fn build(&self, count: u32, field: &str) -> Result<Popularity, WorkloadError> {
        if count == 0 {
            return Err(WorkloadError::out_of_range(field, 0.0, "at least 1"));
        }
        Ok(match self {
            Self::Uniform {} => Popularity::Uniform(count),
            Self::Zipf { exponent } => Popularity::Zipf(Zipf::new(count.into(), *exponent)?),
            Self::Weights { weights } => {
                if weights.len() != count as usize {
                    return Err(WorkloadError::out_of_range(
                        "popularity.weights",
                        weights.len() as f64,
                        "one weight for each",
                    ));
                }
                Popularity::Weights(
                    Empirical::weighted((0..).zip(weights.iter().copied()))
                        .map_err(|error| error.within("popularity"))?,
                )
            }
        })
    }
}

/// What [`PopularitySpec`] describes, checked.
#[derive(Debug, Clone)]
pub(crate) enum Popularity {
    Uniform(u32),
    Zipf(Zipf),
    Weights(Empirical<u32>),
}

impl Popularity {
    /// One of the things.
    pub(crate) fn sample(&self, rng: &mut SimRng) -> u32 {
        match self {
            Self::Uniform(count) => crate::dist::uniform_u32(rng, 0, count - 1),
            Self::Zipf(zipf) => u32::try_from(zipf.sample(rng) - 1)
                .expect("ranks are as many as a 32-bit number says"),
            Self::Weights(weights) => *weights.sample(rng),
        }
    }

    /// How many can be drawn at all: those with a weight above 0.
    pub(crate) fn support(&self) -> usize {
        match self {
            Self::Uniform(count) => *count as usize,
            Self::Zipf(zipf) => usize::try_from(zipf.ranks()).unwrap_or(usize::MAX),
            Self::Weights(weights) => weights.shares().count(),
        }
    }

    /// The first `count` of those that can be drawn, the most popular one first; of equally popular ones the first.
    pub(crate) fn favourites(&self, count: u32) -> Vec<u32> {
        match self {
            Self::Uniform(_) | Self::Zipf(_) => {
                let support = u32::try_from(self.support()).unwrap_or(u32::MAX);
                (0..count.min(support)).collect()
            }
            Self::Weights(weights) => {
                let mut shares: Vec<_> = weights.shares().collect();
                // Stable, so that equally popular ones stay in order.
                shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
                let favourites = shares.into_iter().map(|(&thing, _)| thing);
                favourites.take(count as usize).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_popularities_are_refused_by_name() {
        let weights = |weights: &[f64]| PopularitySpec::Weights {
            weights: weights.to_vec(),
        };
        for (spec, count, message) in [
            (PopularitySpec::default(), 0, "groups is 0"),
            (weights(&[1.0]), 2, "popularity.weights is 1"),
            (weights(&[1.0, -2.0]), 2, "popularity.weights is -2"),
            (weights(&[0.0, 0.0]), 2, "popularity.weights is missing"),
            (weights(&[1.0, f64::NAN]), 2, "popularity.weights is NaN"),
            (
                weights(&[f64::MAX, f64::MAX]),
                2,
                "popularity.weights is inf",
            ),
        ] {
            let error = spec.build(count, "groups").expect_err("wrong").to_string();
            assert!(error.contains(message), "{error}");
        }
        assert!(serde_json::from_str::<PopularitySpec>(r#"{"uniform": {"x": 1}}"#).is_err());
    }

    #[test]
    fn favourites_have_weight_and_come_by_it() {
        let weights = vec![0.0, 2.0, 0.0, 5.0, 2.0, 1e-9];
        let spec = PopularitySpec::Weights { weights };
        let weighted = spec.build(6, "documents").expect("possible");
        assert_eq!(weighted.favourites(3), [3, 1, 4]);
        assert_eq!(weighted.favourites(9), [3, 1, 4, 5]);
        let alike = PopularitySpec::default().build(3, "documents");
        assert_eq!(alike.expect("possible").favourites(9), [0, 1, 2]);
    }
}

//! [`SpreadSpec`]: how a quantity differs from client to client.

use foretoken_des_kernel::SimRng;
use serde::{Deserialize, Serialize};

use crate::dist::{self, Empirical};
use crate::error::WorkloadError;
use crate::quantity::Positive;

/// How a quantity above 0 differs from client to client, as configurations give it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum SpreadSpec {
    /// Not at all.
    Constant {
        /// Of all clients.
        value: Positive,
    },
    /// Uniform.
    Uniform {
        /// The lowest.
        min: Positive,
        /// The highest, from `min` on.
        max: Positive,
    },
    /// Log-normal.
    Lognormal {
        /// The mean.
        mean: Positive,
        /// Standard deviation over mean.
        cv: Positive,
    },
    /// Gamma.
    Gamma {
        /// The mean.
        mean: Positive,
        /// Standard deviation over mean; 0.01 to 10.
        cv: Positive,
    },
    /// Given values.
    Values {
        /// At least one.
        values: Vec<Positive>,
        /// A weight for each; finite, from 0, not all 0 (default: all alike).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        weights: Vec<f64>,
    },
}

impl Default for SpreadSpec {
    fn default() -> Self {
        Self::Constant {
            value: Positive::new(1.0).expect("1 is above 0"),
        }
    }
}

/// Bounds of what is drawn, so that no product of draws gets out of hand.
const SPREAD: (f64, f64) = (1e-6, 1e6);
impl SpreadSpec {
    /// One client's value.
    pub(crate) fn draw(&self, rng: &mut SimRng) -> Result<f64, WorkloadError> {
        let drawn = match self {
            Self::Constant { value } => value.get(),
            Self::Uniform { min, max } => {
                if min > max {
                    return Err(WorkloadError::out_of_range("max", max.get(), "from min on"));
                }
                dist::uniform(rng, min.get(), max.get())
            }
            Self::Lognormal { mean, cv } => mean.get() * unit_lognormal(rng, cv.get()),
            Self::Gamma { mean, cv } => {
                if !(0.01..=10.0).contains(&cv.get()) {
                    return Err(WorkloadError::out_of_range("cv", cv.get(), "0.01 to 10"));
                }
                let shape = Positive::new(1.0 / (cv.get() * cv.get()))?;
                mean.get() * dist::gamma(rng, shape) / shape.get()
            }
            Self::Values { values, weights } => {
                if !weights.is_empty() && weights.len() != values.len() {
                    let allowed = "one weight for each value";
                    let count = weights.len() as f64;
                    return Err(WorkloadError::out_of_range("weights", count, allowed));
                }
                let weights = weights.iter().copied().chain(core::iter::repeat(1.0));
                let values = Empirical::weighted(values.iter().zip(weights))?;
                values.sample(rng).get()
            }
        };
        Ok(drawn.clamp(SPREAD.0, SPREAD.1))
    }
}

/// Log-normal with mean 1.
pub(crate) fn unit_lognormal(rng: &mut SimRng, cv: f64) -> f64 {
    let variance = libm::log1p(cv * cv);
    dist::log_normal(rng, -0.5 * variance, variance.sqrt())
}

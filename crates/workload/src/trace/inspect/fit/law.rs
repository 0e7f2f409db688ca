//! [`Law`]: a distribution with its parameters.

use core::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::special::{gamma_p, normal_cdf};
use crate::arrival::ArrivalSpec;
use crate::length::LengthSpec;

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// A distribution of gaps in seconds, or of lengths in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Law {
    /// Density `exp(-x / mean) / mean`: gaps of Poisson arrivals.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Gamma: mean `shape * scale`.
    Gamma {
        /// Above 0; 1 is exponential, below 1 burstier.
        shape: f64,
        /// Above 0.
        scale: f64,
    },
    /// Weibull: survival `exp(-(x / scale)^shape)`.
    Weibull {
        /// Above 0; 1 is exponential, below 1 burstier.
        shape: f64,
        /// Above 0.
        scale: f64,
    },
    /// Log-normal.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Pareto: survival `(min / x)^shape` from `min` on.
    Pareto {
        /// The least value, above 0.
        min: f64,
        /// Above 0; the mean is infinite up to 1.
        shape: f64,
    },
    /// Generalised extreme values.
    Gev {
        /// Location.
        location: f64,
        /// Above 0.
        scale: f64,
        /// Above 0 the tail is heavy, below 0 it ends.
        shape: f64,
    },
}

impl Law {
    /// The name of the family.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exponential { .. } => "exponential",
            Self::Gamma { .. } => "gamma",
            Self::Weibull { .. } => "Weibull",
            Self::Lognormal { .. } => "lognormal",
            Self::Normal { .. } => "normal",
            Self::Pareto { .. } => "Pareto",
            Self::Gev { .. } => "GEV",
        }
    }

    /// How many parameters were chosen.
    pub const fn parameters(self) -> u32 {
        match self {
            Self::Exponential { .. } => 1,
            Self::Gev { .. } => 3,
            _ => 2,
        }
    }

    /// The mean; infinite where the tail is too heavy for one.
    pub fn mean(self) -> f64 {
        match self {
            Self::Exponential { mean } | Self::Normal { mean, .. } => mean,
            Self::Gamma { shape, scale } => shape * scale,
            Self::Weibull { shape, scale } => scale * libm::tgamma(1.0 + 1.0 / shape),
            Self::Lognormal { mu, sigma } => libm::exp(mu + 0.5 * sigma * sigma),
            Self::Pareto { min, shape } if shape > 1.0 => min * shape / (shape - 1.0),
            Self::Gev {
                location,
                scale,
                shape,
            } if shape < 1.0 => {
                if shape.abs() < 1e-9 {
                    location + EULER * scale
                } else {
                    location + scale * (libm::tgamma(1.0 - shape) - 1.0) / shape
                }
            }
            Self::Pareto { .. } | Self::Gev { .. } => f64::INFINITY,
        }
    }

    /// The standard deviation; infinite where the tail is too heavy for one.
    pub fn std(self) -> f64 {
        match self {
            Self::Exponential { mean } => mean,
            Self::Normal { std, .. } => std,
            Self::Gamma { shape, scale } => shape.sqrt() * scale,
            Self::Weibull { shape, scale } => {
                let first = libm::tgamma(1.0 + 1.0 / shape);
                scale
                    * (libm::tgamma(1.0 + 2.0 / shape) - first * first)
                        .max(0.0)
                        .sqrt()
            }
            Self::Lognormal { sigma, .. } => self.mean() * libm::expm1(sigma * sigma).sqrt(),
            Self::Pareto { shape, .. } if shape > 2.0 => {
                self.mean() / (shape * (shape - 2.0)).sqrt()
            }
            Self::Gev { scale, shape, .. } if shape < 0.5 => {
                if shape.abs() < 1e-6 {
                    scale * core::f64::consts::PI / 6.0_f64.sqrt()
                } else {
                    let first = libm::tgamma(1.0 - shape);
                    let second = libm::tgamma(1.0 - 2.0 * shape);
                    scale * (second - first * first).max(0.0).sqrt() / shape.abs()
                }
            }
            Self::Pareto { .. } | Self::Gev { .. } => f64::INFINITY,
        }
    }

    /// The share of values up to `x`.
    pub fn cdf(self, x: f64) -> f64 {
        match self {
            Self::Exponential { mean } => -libm::expm1(-x.max(0.0) / mean),
            Self::Gamma { shape, scale } => gamma_p(shape, x / scale),
            Self::Weibull { shape, scale } => -libm::expm1(-libm::pow(x.max(0.0) / scale, shape)),
            Self::Lognormal { mu, sigma } if x > 0.0 => normal_cdf((libm::log(x) - mu) / sigma),
            Self::Normal { mean, std } => normal_cdf((x - mean) / std),
            Self::Pareto { min, shape } if x > min => -libm::expm1(-shape * libm::log(x / min)),
            Self::Lognormal { .. } | Self::Pareto { .. } => 0.0,
            Self::Gev {
                location,
                scale,
                shape,
            } => libm::exp(-libm::exp(-reduced(x, location, scale, shape))),
        }
    }

    /// The logarithm of the density at `x`; minus infinity where there is none.
    pub fn ln_pdf(self, x: f64) -> f64 {
        let positive = |value: f64| if x > 0.0 { value } else { f64::NEG_INFINITY };
        match self {
            Self::Exponential { mean } => positive(-x / mean - libm::log(mean)),
            Self::Gamma { shape, scale } => positive(
                (shape - 1.0) * libm::log(x)
                    - x / scale
                    - shape * libm::log(scale)
                    - libm::lgamma(shape),
            ),
            Self::Weibull { shape, scale } => {
                let log = libm::log(x / scale);
                positive(libm::log(shape / scale) + (shape - 1.0) * log - libm::exp(shape * log))
            }
            Self::Lognormal { mu, sigma } => {
                let z = (libm::log(x) - mu) / sigma;
                positive(-0.5 * z * z - libm::log(x * sigma) - LN_ROOT_TAU)
            }
            Self::Normal { mean, std } => {
                let z = (x - mean) / std;
                -0.5 * z * z - libm::log(std) - LN_ROOT_TAU
            }
            Self::Pareto { min, shape } if x >= min => {
                libm::log(shape / x) - shape * libm::log(x / min)
            }
            Self::Pareto { .. } => f64::NEG_INFINITY,
            Self::Gev {
                location,
                scale,
                shape,
            } => {
                let y = reduced(x, location, scale, shape);
                if y.is_finite() {
                    -libm::log(scale) - (1.0 + shape) * y - libm::exp(-y)
                } else {
                    f64::NEG_INFINITY
                }
            }
        }
    }

    /// The same as a description of lengths within `min..=max`, if there is one of this family.
    pub fn to_lengths(self, min: u32, max: u32) -> Option<LengthSpec> {
        let parameters = match self {
            Self::Exponential { mean } => json!({ "mean": rounded(mean) }),
            Self::Gamma { shape, scale } | Self::Weibull { shape, scale } => {
                json!({ "shape": rounded(shape), "scale": rounded(scale) })
            }
            Self::Lognormal { .. } | Self::Normal { .. } => {
                json!({ "mean": rounded(self.mean()), "std": rounded(self.std()) })
            }
            Self::Pareto { min, shape } => {
                json!({ "shape": rounded(shape), "scale": rounded(min) })
            }
            Self::Gev {
                location,
                scale,
                shape,
            } => json!({
                "location": rounded(location), "scale": rounded(scale), "shape": rounded(shape)
            }),
        };
        let mut parameters = parameters;
        parameters["min"] = min.into();
        parameters["max"] = max.into();
        let spec: LengthSpec = described(self.name(), &parameters)?;
        spec.build().is_ok().then_some(spec)
    }

    /// The same as a description of arrivals of `rate` requests per second, if there is one of this family.
    pub fn to_arrivals(self, rate: f64) -> Option<ArrivalSpec> {
        let (rate, cv) = (rounded(rate), rounded(self.std() / self.mean()));
        let spec: ArrivalSpec = match self {
            Self::Exponential { .. } => described("poisson", &json!({ "rate-rps": rate })),
            _ => described(self.name(), &json!({ "rate-rps": rate, "cv": cv })),
        }?;
        spec.build().is_ok().then_some(spec)
    }
}

/// A description as files write it, if there is one of this name with these keys.
fn described<T: DeserializeOwned>(name: &str, parameters: &Value) -> Option<T> {
    serde_json::from_value(json!({ name.to_ascii_lowercase(): parameters })).ok()
}

/// ½ ln 2π.
const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_8;

/// To five digits: a fit knows no more.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = libm::pow(10.0, 4.0 - libm::floor(libm::log10(value.abs())));
    (value * scale).round() / scale
}

/// The Gumbel variate that corresponds to `x`: -ln of `(1 + shape * z)^(-1/shape)`, infinite beyond an end.
fn reduced(x: f64, location: f64, scale: f64, shape: f64) -> f64 {
    let z = (x - location) / scale;
    if shape.abs() < 1e-9 {
        return z;
    }
    let inside = shape * z;
    if inside <= -1.0 {
        return if shape > 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    libm::log1p(inside) / shape
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match *self {
            Self::Exponential { mean } => write!(f, "{name}, mean {}", rounded(mean)),
            Self::Gamma { shape, scale } | Self::Weibull { shape, scale } => {
                write!(
                    f,
                    "{name}, shape {} scale {}",
                    rounded(shape),
                    rounded(scale)
                )
            }
            Self::Lognormal { mu, sigma } => {
                write!(f, "{name}, mu {} sigma {}", rounded(mu), rounded(sigma))
            }
            Self::Normal { mean, std } => {
                write!(f, "{name}, mean {} std {}", rounded(mean), rounded(std))
            }
            Self::Pareto { min, shape } => {
                write!(f, "{name}, min {} shape {}", rounded(min), rounded(shape))
            }
            Self::Gev {
                location,
                scale,
                shape,
            } => write!(
                f,
                "{name}, location {} scale {} shape {}",
                rounded(location),
                rounded(scale),
                rounded(shape)
            ),
        }
    }
}

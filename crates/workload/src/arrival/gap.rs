//! Gaps between arrivals, up to their scale.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use serde::{Deserialize, Serialize};

use super::ArrivalProcess;
use crate::dist;
use crate::error::WorkloadError;
use crate::quantity::{Positive, Rate};

/// How irregular gaps of a family are: by their coefficient of variation or by the parameter of the
/// family.
///
/// ```
/// use foretoken_workload::arrival::Variation;
///
/// let spec: Variation = serde_json::from_str(r#"{"shape": 0.5}"#)?;
/// assert_eq!(spec, Variation::Shape(0.5.try_into()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variation {
    /// Standard deviation over mean, 0.01 to 100.
    Cv(Positive),
    /// The shape: 1 is exponential, below 1 burstier. For gamma gaps from 0.0001 to 10000, for Weibull gaps from 0.1
    /// to 200.
    Shape(Positive),
}

/// A rate with a [`Variation`], as configurations give it: `rate-rps` and one of `cv` and `shape`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "VariedForm", into = "VariedForm")]
pub struct Varied {
    /// Requests per second.
    pub rate: Rate,
    /// How irregular the gaps are.
    pub variation: Variation,
}

/// How [`Varied`] is written.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct VariedForm {
    rate_rps: Rate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cv: Option<Positive>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Positive>,
}

impl TryFrom<VariedForm> for Varied {
    type Error = WorkloadError;
    fn try_from(form: VariedForm) -> Result<Self, WorkloadError> {
        let variation = match (form.cv, form.shape) {
            (Some(cv), None) => Variation::Cv(cv),
            (None, Some(shape)) => Variation::Shape(shape),
            (None, None) => return Err(WorkloadError::missing("cv", "either cv or shape")),
            (Some(_), Some(_)) => {
                let allowed = "only one of both";
                return Err(WorkloadError::not_allowed(
                    "cv",
                    "together with shape",
                    allowed,
                ));
            }
        };
        Ok(Self {
            rate: form.rate_rps,
            variation,
        })
    }
}

impl From<Varied> for VariedForm {
    fn from(varied: Varied) -> Self {
        let (cv, shape) = match varied.variation {
            Variation::Cv(cv) => (Some(cv), None),
            Variation::Shape(shape) => (None, Some(shape)),
        };
        Self {
            rate_rps: varied.rate,
            cv,
            shape,
        }
    }
}

/// The family of the gaps of a process whose rate is said elsewhere, as configurations give it.
///
/// Where the rate varies, gaps are counted in expected requests: a gap of 1 ends when the integral of
/// the rate since the last arrival is 1. With exponential gaps that is the inhomogeneous Poisson
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GapSpec {
    /// Equal gaps.
    Constant {},
    /// Exponential gaps.
    Poisson {},
    /// Gamma gaps.
    Gamma(Variation),
    /// Weibull gaps.
    Weibull(Variation),
}

impl Default for GapSpec {
    fn default() -> Self {
        Self::Poisson {}
    }
}

impl GapSpec {
    /// Whether gaps are exponential, which is the default.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn build(&self) -> Result<Gap, WorkloadError> {
        Ok(match self {
            Self::Constant {} => Gap::Equal,
            Self::Poisson {} => Gap::Exponential,
            Self::Gamma(variation) => Gap::gamma(*variation)?,
            Self::Weibull(variation) => Gap::weibull(*variation)?,
        })
    }
}

/// Distribution of gaps, up to their scale.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Gap {
    Equal,
    Exponential,
    Gamma { shape: Positive },
    Weibull { shape: Positive },
}

impl Gap {
    pub(crate) fn gamma(variation: Variation) -> Result<Self, WorkloadError> {
        let shape = match variation {
            Variation::Cv(cv) => {
                let cv = possible_cv(cv)?;
                Positive::new(1.0 / (cv * cv))?
            }
            // 1 over the square of the coefficient of variation, which is 100 to 0.01.
            Variation::Shape(shape) if (1e-4..=1e4).contains(&shape.get()) => shape,
            Variation::Shape(shape) => {
                let allowed = "0.0001 to 10000";
                return Err(WorkloadError::out_of_range("shape", shape.get(), allowed));
            }
        };
        Ok(Self::Gamma { shape })
    }

    pub(crate) fn weibull(variation: Variation) -> Result<Self, WorkloadError> {
        let shape = match variation {
            Variation::Cv(cv) => weibull_shape(cv)?,
            Variation::Shape(shape) if (0.1..=200.0).contains(&shape.get()) => shape,
            Variation::Shape(shape) => {
                return Err(WorkloadError::out_of_range(
                    "shape",
                    shape.get(),
                    "0.1 to 200",
                ));
            }
        };
        Ok(Self::Weibull { shape })
    }

    fn sample(self, rng: &mut SimRng) -> f64 {
        match self {
            Self::Equal => 1.0,
            Self::Exponential => dist::exponential(rng),
            Self::Gamma { shape } => dist::gamma(rng, shape) / shape.get(),
            Self::Weibull { shape } => dist::weibull(rng, shape),
        }
    }

    fn mean(self) -> f64 {
        match self {
            Self::Equal | Self::Exponential | Self::Gamma { .. } => 1.0,
            Self::Weibull { shape } => libm::tgamma(1.0 + 1.0 / shape.get()),
        }
    }

    /// Gaps with mean `1 / rate`.
    pub(crate) fn at_rate(self, rate: f64) -> Renewal {
        Renewal {
            scale: 1.0 / rate / self.mean(),
            gap: self,
        }
    }
}

/// Independent gaps of one distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renewal {
    /// What a draw is multiplied by.
    scale: f64,
    gap: Gap,
}

impl Renewal {
    /// One gap.
    pub(super) fn gap(&self, rng: &mut SimRng) -> f64 {
        self.gap.sample(rng) * self.scale
    }
}

impl ArrivalProcess for Renewal {
    fn next_after(&mut self, now: SimTime, rng: &mut SimRng) -> Option<SimTime> {
        // A gap beyond the end of time is the end of arrivals.
        now.checked_add(SimDuration::try_from_secs_f64(self.gap(rng)).ok()?)
    }
}

/// A coefficient of variation of gaps: above 100 nearly all of them are 0, millions of requests at one instant.
fn possible_cv(cv: Positive) -> Result<f64, WorkloadError> {
    if (0.01..=100.0).contains(&cv.get()) {
        Ok(cv.get())
    } else {
        Err(WorkloadError::out_of_range("cv", cv.get(), "0.01 to 100"))
    }
}

/// The shape of the Weibull distribution whose coefficient of variation is `cv`: the root of
/// `Γ(1 + 2/k) / Γ(1 + 1/k)^2 = 1 + cv^2`, which falls in `k`.
fn weibull_shape(cv: Positive) -> Result<Positive, WorkloadError> {
    let cv = possible_cv(cv)?;
    let target = libm::log1p(cv * cv);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn positive(value: f64) -> Positive {
        Positive::new(value).expect("positive")
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
    fn a_variation_is_a_cv_or_a_shape() {
        let parse = serde_json::from_str::<Varied>;
        let shape = parse(r#"{"rate-rps": 2, "shape": 0.5}"#).expect("a shape");
        assert_eq!(shape.variation, Variation::Shape(positive(0.5)));
        let text = serde_json::to_string(&shape).expect("plain data");
        assert_eq!(parse(&text).expect("just written"), shape);
        for (wrong, message) in [
            (
                r#"{"rate-rps": 2}"#,
                "cv is missing or empty: needed is either cv or shape",
            ),
            (
                r#"{"rate-rps": 2, "cv": 1, "shape": 1}"#,
                "cv is not allowed together with shape: allowed is only one of both",
            ),
            (
                r#"{"rate-rps": 2, "cv": 1, "burst": 1}"#,
                "unknown field `burst`",
            ),
        ] {
            let error = parse(wrong).expect_err(wrong).to_string();
            assert!(error.contains(message), "{error}");
        }
        assert!(Gap::weibull(Variation::Shape(positive(300.0))).is_err());
    }

    #[test]
    fn gamma_gaps_have_the_limits_of_weibull_gaps() {
        let message = |variation| {
            let gap = Gap::gamma(variation);
            gap.map_err(|error| error.to_string()).err()
        };
        for cv in [0.01, 100.0] {
            assert_eq!(message(Variation::Cv(positive(cv))), None);
            assert_eq!(message(Variation::Shape(positive(cv * cv))), None);
        }
        for (cv, shape) in [(1e6, 1e-12), (0.001, 1e6)] {
            let seen = message(Variation::Cv(positive(cv)));
            assert_eq!(seen, Some(format!("cv is {cv}: allowed is 0.01 to 100")));
            let seen = message(Variation::Shape(positive(shape)));
            let wanted = format!("shape is {shape}: allowed is 0.0001 to 10000");
            assert_eq!(seen, Some(wanted));
        }
    }
}

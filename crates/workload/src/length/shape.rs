//! [`Lengths`]: distributions of lengths as they are drawn from.

use std::sync::Arc;

use foretoken_des_kernel::SimRng;

use super::LengthDistribution;
use crate::dist::{self, Empirical, gamma_cdf, normal_cdf, quantile};
use crate::quantity::{Positive, round_u32};

/// What [`LengthSpec`](super::LengthSpec) describes, checked: `1 <= min <= max`. Cloning shares lists.
#[derive(Debug, Clone)]
pub(crate) struct Lengths {
    shape: Arc<Shape>,
    /// What a draw is multiplied by before it is rounded and clipped.
    factor: f64,
    min: u32,
    max: u32,
}

/// A distribution before it is clipped.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// Ranges of whole lengths, all alike within a range.
    Bins(Empirical<(u32, u32)>),
    Range(u32, u32),
    Normal {
        mean: f64,
        std: f64,
    },
    /// `shift + scale × variate`.
    Scaled {
        variate: Variate,
        scale: f64,
        shift: f64,
    },
    /// Parts with limits of their own, to be scaled like the whole.
    Mixture(Empirical<Lengths>),
}

/// A distribution up to its scale.
#[derive(Debug, Clone, Copy)]
pub(super) enum Variate {
    Lognormal { mu: f64, sigma: f64 },
    Exponential,
    Gamma(Positive),
    Weibull(Positive),
    Pareto(Positive),
    BoundedPareto { shape: Positive, bound: f64 },
    Extreme(f64),
}

impl Shape {
    pub(super) const fn lognormal(mu: f64, sigma: f64, shift: f64) -> Self {
        let variate = Variate::Lognormal { mu, sigma };
        Self::scaled(variate, 1.0, shift)
    }

    pub(super) const fn exponential(mean: Positive, shift: f64) -> Self {
        Self::scaled(Variate::Exponential, mean.get(), shift)
    }

    pub(super) const fn gamma(shape: Positive, scale: Positive, shift: f64) -> Self {
        Self::scaled(Variate::Gamma(shape), scale.get(), shift)
    }

    pub(super) const fn weibull(shape: Positive, scale: Positive, shift: f64) -> Self {
        Self::scaled(Variate::Weibull(shape), scale.get(), shift)
    }

    pub(super) fn pareto(
        shape: Positive,
        scale: Positive,
        bound: Option<Positive>,
        shift: f64,
    ) -> Self {
        let variate = match bound {
            None => Variate::Pareto(shape),
            Some(bound) => Variate::BoundedPareto {
                shape,
                bound: bound.get() / scale.get(),
            },
        };
        Self::scaled(variate, scale.get(), shift)
    }

    pub(super) const fn extreme(shape: f64, scale: Positive, location: f64) -> Self {
        Self::scaled(Variate::Extreme(shape), scale.get(), location)
    }

    const fn scaled(variate: Variate, scale: f64, shift: f64) -> Self {
        Self::Scaled {
            variate,
            scale,
            shift,
        }
    }
}

impl Variate {
    fn sample(self, rng: &mut SimRng) -> f64 {
        match self {
            Self::Lognormal { mu, sigma } => dist::log_normal(rng, mu, sigma),
            Self::Exponential => dist::exponential(rng),
            Self::Gamma(shape) => dist::gamma(rng, shape),
            Self::Weibull(shape) => dist::weibull(rng, shape),
            Self::Pareto(shape) => dist::pareto(rng, shape),
            Self::BoundedPareto { shape, bound } => dist::bounded_pareto(rng, shape, bound),
            Self::Extreme(shape) => dist::extreme(rng, shape),
        }
    }

    /// The probability of a variate of at most `x`.
    fn cdf(self, x: f64) -> f64 {
        match self {
            Self::Extreme(shape) => {
                let t = if shape.abs() < 1e-12 {
                    libm::exp(-x)
                } else {
                    // Beyond its end the distribution is 0 or 1, as the power says.
                    libm::pow((1.0 + shape * x).max(0.0), -1.0 / shape)
                };
                libm::exp(-t)
            }
            _ if x <= 0.0 => 0.0,
            Self::Lognormal { mu, sigma } => {
                let distance = libm::log(x) - mu;
                if sigma > 0.0 {
                    normal_cdf(distance / sigma)
                } else {
                    step(distance)
                }
            }
            Self::Exponential => -libm::expm1(-x),
            Self::Gamma(shape) => gamma_cdf(x, shape),
            Self::Weibull(shape) => -libm::expm1(-libm::pow(x, shape.get())),
            Self::Pareto(shape) => 1.0 - libm::pow(x.max(1.0), -shape.get()),
            Self::BoundedPareto { shape, bound } => {
                let beyond = |x: f64| libm::pow(x, -shape.get());
                (1.0 - beyond(x.clamp(1.0, bound))) / (1.0 - beyond(bound))
            }
        }
    }

    /// The value at the same quantile as `z` among standard normal variates.
    fn at_normal(self, z: f64) -> Quantile {
        let exceeded = normal_cdf(-z).clamp(f64::MIN_POSITIVE, 1.0);
        Quantile::Exact(match self {
            Self::Lognormal { mu, sigma } => libm::exp(mu + sigma * z),
            Self::Exponential => quantile::exponential(exceeded),
            Self::Weibull(shape) => quantile::weibull(exceeded, shape),
            Self::Pareto(shape) => quantile::pareto(exceeded, shape),
            Self::BoundedPareto { shape, bound } => {
                quantile::bounded_pareto(exceeded, shape, bound)
            }
            Self::Extreme(shape) => quantile::extreme(exceeded, shape),
            // The cube root is nearly normal (Wilson and Hilferty 1931).
            Self::Gamma(shape) => {
                let ninth = 1.0 / (9.0 * shape.get());
                let root = (1.0 - ninth + z * ninth.sqrt()).max(0.0);
                return Quantile::Near(shape.get() * root * root * root);
            }
        })
    }
}

/// An inverse of a distribution function.
enum Quantile {
    Exact(f64),
    /// An approximation, where there is no closed form.
    Near(f64),
}

/// The distribution function of a value that never varies, at a `distance` from it.
fn step(distance: f64) -> f64 {
    if distance >= 0.0 { 1.0 } else { 0.0 }
}

impl Lengths {
    pub(super) fn new(shape: Shape, min: u32, max: u32) -> Self {
        Self {
            shape: Arc::new(shape),
            factor: 1.0,
            min,
            max,
        }
    }

    /// The same with every draw multiplied by `factor` before it is rounded and clipped. The limits
    /// stay, except those of `uniform` and of bins, which are parts of the shape.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        Self {
            factor: self.factor * factor,
            ..self.clone()
        }
    }

    /// A draw of the shape, scaled, rounded and clipped.
    fn finish(&self, value: f64) -> u32 {
        round_u32(value * self.factor).clamp(self.min, self.max)
    }

    /// The same of a whole draw, of a shape without limits of its own: mostly it is the length.
    fn finish_whole(&self, tokens: u32) -> u32 {
        if (self.factor - 1.0).abs() > 0.0 {
            self.finish(tokens.into())
        } else {
            tokens
        }
    }

    /// The length at the same quantile as `z` among standard normal variates.
    pub(crate) fn at_normal(&self, z: f64) -> u32 {
        match *self.shape {
            Shape::Normal { mean, std } => self.finish(mean + std * z),
            Shape::Scaled {
                variate,
                scale,
                shift,
            } => {
                let length = |variate| self.finish(shift + scale * variate);
                match variate.at_normal(z) {
                    Quantile::Exact(value) => length(value),
                    Quantile::Near(value) => self.search(normal_cdf(z), length(value)),
                }
            }
            Shape::Bins(_) | Shape::Range(..) | Shape::Mixture(_) => {
                self.search(normal_cdf(z), self.min)
            }
        }
    }

    /// The shortest length that at least the share `below` of all lengths do not exceed, which may be
    /// near the one given.
    fn search(&self, below: f64, near: u32) -> u32 {
        // It is above `low` and up to `high`; steps away from where it may be double.
        let (mut low, mut high) = (self.min - 1, self.max);
        let mut step = 1;
        let mut probe = near.clamp(self.min, self.max);
        while high - low > 1 {
            if probe <= low || probe >= high {
                probe = low + (high - low) / 2;
            }
            if self.cdf(probe) < below {
                low = probe;
                probe = probe.saturating_add(step);
            } else {
                high = probe;
                probe = probe.saturating_sub(step);
            }
            step = step.saturating_mul(2);
        }
        high
    }

    /// The probability of a length of at most `tokens`.
    pub(crate) fn cdf(&self, tokens: u32) -> f64 {
        if tokens < self.min {
            return 0.0;
        }
        if tokens >= self.max {
            return 1.0;
        }
        // Draws below this are rounded to `tokens` or less.
        let below = (f64::from(tokens) + 0.5) / self.factor;
        match &*self.shape {
            Shape::Mixture(parts) => parts
                .shares()
                .map(|(part, share)| share * part.scaled(self.factor).cdf(tokens))
                .sum(),
            Shape::Bins(bins) => bins
                .shares()
                .map(|(&(low, high), share)| share * share_below(low, high, below))
                .sum(),
            &Shape::Range(low, high) => share_below(low, high, below),
            &Shape::Normal { mean, std } if std > 0.0 => normal_cdf((below - mean) / std),
            Shape::Normal { mean, .. } => step(below - mean),
            Shape::Scaled {
                variate,
                scale,
                shift,
            } => variate.cdf((below - shift) / scale),
        }
    }
}

/// Share of the whole numbers in `low..=high` that are at most `x`.
fn share_below(low: u32, high: u32, x: f64) -> f64 {
    let (low, high) = (f64::from(low), f64::from(high));
    ((x.floor() - low + 1.0) / (high - low + 1.0)).clamp(0.0, 1.0)
}

impl LengthDistribution for Lengths {
    fn sample(&self, rng: &mut SimRng) -> u32 {
        match &*self.shape {
            Shape::Bins(bins) => {
                let &(low, high) = bins.sample(rng);
                self.finish_whole(dist::uniform_u32(rng, low, high))
            }
            &Shape::Range(low, high) => self.finish_whole(dist::uniform_u32(rng, low, high)),
            &Shape::Normal { mean, std } => self.finish(mean + std * dist::normal(rng)),
            &Shape::Scaled {
                variate,
                scale,
                shift,
            } => self.finish(shift + scale * variate.sample(rng)),
            Shape::Mixture(parts) => parts.sample(rng).scaled(self.factor).sample(rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LengthBin, LengthPart, LengthSpec};
    use super::*;

    fn every_family() -> Vec<LengthSpec> {
        let texts = [
            r#"{"constant": {"tokens": 9}}"#,
            r#"{"uniform": {"min": 3, "max": 90}}"#,
            r#"{"normal": {"mean": 50, "std": 20, "max": 80}}"#,
            r#"{"lognormal": {"mean": 50, "std": 20, "min": 30}}"#,
            r#"{"lognormal-mu-sigma": {"mu": 4, "sigma": 1, "shift": 5}}"#,
            r#"{"exponential": {"mean": 40, "shift": 2}}"#,
            r#"{"gamma": {"shape": 0.7, "scale": 60}}"#,
            r#"{"weibull": {"shape": 0.7, "scale": 60}}"#,
            r#"{"pareto": {"shape": 1.2, "scale": 20}}"#,
            r#"{"pareto": {"shape": 1.2, "scale": 20, "bound": 100}}"#,
            r#"{"gev": {"location": 40, "scale": 10, "shape": 0.2}}"#,
            r#"{"gev": {"location": 40, "scale": 10, "shape": -0.2}}"#,
        ];
        let mut specs: Vec<LengthSpec> = texts
            .iter()
            .map(|text| serde_json::from_str(text).expect(text))
            .collect();
        specs.push(LengthSpec::Empirical {
            values: vec![90, 7, 20],
            weights: vec![1.0, 2.0, 3.0],
        });
        let bin = |min, max, weight| LengthBin { min, max, weight };
        specs.push(LengthSpec::Histogram {
            bins: vec![bin(1, 10, 1.0), bin(50, 60, 2.0)],
        });
        let parts = specs[3..6].iter().cloned();
        specs.push(LengthSpec::Mixture {
            parts: parts
                .map(|tokens| LengthPart {
                    weight: 0.7,
                    tokens,
                })
                .collect(),
        });
        specs
    }

    #[test]
    fn the_distribution_function_and_its_inverse_agree() {
        for spec in every_family() {
            for factor in [1.0, 0.3, 4.5] {
                let lengths = spec.lengths().expect("valid").scaled(factor);
                for z in [-6.0, -1.3, -0.1, 0.0, 0.4, 2.0, 3.5] {
                    let length = lengths.at_normal(z);
                    let below = normal_cdf(z);
                    assert!(
                        lengths.cdf(length) >= below - 1e-12,
                        "{spec:?} × {factor} at {z}: {length}"
                    );
                    assert!(
                        lengths.cdf(length - 1) <= below + 1e-12,
                        "{spec:?} × {factor} at {z}: {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_factor_scales_lengths_but_not_their_limits() {
        let spec = LengthSpec::Normal {
            mean: 100.0,
            std: 0.0,
            min: 1,
            max: 150,
        };
        for (factor, expected) in [(1.0, 100), (1.4, 140), (2.0, 150), (1e-9, 1)] {
            assert_eq!(
                spec.lengths().expect("valid").scaled(factor).at_normal(0.7),
                expected
            );
        }
    }
}

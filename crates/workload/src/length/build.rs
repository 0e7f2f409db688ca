//! From a [`LengthSpec`] to [`Lengths`].

use super::shape::{Lengths, Shape};
use super::{LengthSpec, one, unlimited};
use crate::dist::Empirical;
use crate::error::WorkloadError;

impl LengthSpec {
    /// The distribution described.
    pub(crate) fn lengths(&self) -> Result<Lengths, WorkloadError> {
        let shape = self.shape()?;
        let (min, max) = self.limits();
        check_range(min, max)?;
        Ok(Lengths::new(shape, min, max))
    }

    /// What draws are clipped to.
    const fn limits(&self) -> (u32, u32) {
        match *self {
            Self::Normal { min, max, .. }
            | Self::Lognormal { min, max, .. }
            | Self::LognormalMuSigma { min, max, .. }
            | Self::Exponential { min, max, .. }
            | Self::Gamma { min, max, .. }
            | Self::Weibull { min, max, .. }
            | Self::Pareto { min, max, .. }
            | Self::Gev { min, max, .. } => (min, max),
            Self::Constant { .. }
            | Self::Uniform { .. }
            | Self::Empirical { .. }
            | Self::Histogram { .. }
            | Self::Mixture { .. } => (one(), unlimited()),
        }
    }

    /// The shape before it is clipped.
    fn shape(&self) -> Result<Shape, WorkloadError> {
        Ok(match self {
            &Self::Constant { tokens } => {
                if tokens == 0 {
                    return Err(WorkloadError::out_of_range("tokens", 0.0, "at least 1"));
                }
                Shape::Range(tokens, tokens)
            }
            &Self::Uniform { min, max } => {
                check_range(min, max)?;
                Shape::Range(min, max)
            }
            &Self::Normal { mean, std, .. } => {
                check_moments(mean, std)?;
                Shape::Normal { mean, std }
            }
            Self::Empirical { values, weights } => Shape::Bins(given(values, weights)?),
            Self::Histogram { bins } => {
                for (index, bin) in bins.iter().enumerate() {
                    check_range(bin.min, bin.max)
                        .map_err(|error| error.within(&format!("bins[{index}]")))?;
                }
                let bins = bins.iter().map(|bin| ((bin.min, bin.max), bin.weight));
                Shape::Bins(Empirical::weighted(bins)?)
            }
            Self::Mixture { parts } => {
                let mut built = Vec::with_capacity(parts.len());
                for (index, part) in parts.iter().enumerate() {
                    let lengths = part
                        .tokens
                        .lengths()
                        .map_err(|error| error.within(&format!("parts[{index}].tokens")))?;
                    built.push((lengths, part.weight));
                }
                Shape::Mixture(Empirical::weighted(built)?)
            }
            _ => return self.continuous(),
        })
    }

    /// The shape, if it is a variate with a scale and a shift.
    fn continuous(&self) -> Result<Shape, WorkloadError> {
        if let Self::LognormalMuSigma { shift, .. }
        | Self::Exponential { shift, .. }
        | Self::Gamma { shift, .. }
        | Self::Weibull { shift, .. }
        | Self::Pareto { shift, .. } = *self
        {
            check_finite("shift", shift)?;
        }
        Ok(match *self {
            Self::Lognormal { mean, std, .. } => {
                check_moments(mean, std)?;
                let cv = std / mean;
                let variance = libm::log1p(cv * cv);
                let mu = libm::log(mean) - 0.5 * variance;
                Shape::lognormal(mu, variance.sqrt(), 0.0)
            }
            Self::LognormalMuSigma {
                mu, sigma, shift, ..
            } => {
                check_finite("mu", mu)?;
                check_from_zero("sigma", sigma)?;
                Shape::lognormal(mu, sigma, shift)
            }
            Self::Exponential { mean, shift, .. } => Shape::exponential(mean, shift),
            Self::Gamma {
                shape,
                scale,
                shift,
                ..
            } => Shape::gamma(shape, scale, shift),
            Self::Weibull {
                shape,
                scale,
                shift,
                ..
            } => Shape::weibull(shape, scale, shift),
            Self::Pareto {
                shape,
                scale,
                bound,
                shift,
                ..
            } => {
                if let Some(bound) = bound.filter(|&bound| bound <= scale) {
                    let allowed = "above scale";
                    return Err(WorkloadError::out_of_range("bound", bound.get(), allowed));
                }
                Shape::pareto(shape, scale, bound, shift)
            }
            Self::Gev {
                location,
                scale,
                shape,
                ..
            } => {
                check_finite("location", location)?;
                check_finite("shape", shape)?;
                Shape::extreme(shape, scale, location)
            }
            Self::Constant { .. }
            | Self::Uniform { .. }
            | Self::Normal { .. }
            | Self::Empirical { .. }
            | Self::Histogram { .. }
            | Self::Mixture { .. } => unreachable!("these are no variates with a scale"),
        })
    }
}

/// Single lengths as bins of one.
fn given(values: &[u32], weights: &[f64]) -> Result<Empirical<(u32, u32)>, WorkloadError> {
    if values.contains(&0) {
        return Err(WorkloadError::out_of_range("values", 0.0, "at least 1"));
    }
    if !weights.is_empty() && weights.len() != values.len() {
        let allowed = "one weight for each value";
        return Err(WorkloadError::out_of_range(
            "weights",
            weights.len() as f64,
            allowed,
        ));
    }
    if values.is_empty() {
        return Err(WorkloadError::missing("values", "at least one length"));
    }
    let weights = weights.iter().copied().chain(core::iter::repeat(1.0));
    Empirical::weighted(values.iter().map(|&value| (value, value)).zip(weights))
}

fn check_range(min: u32, max: u32) -> Result<(), WorkloadError> {
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
    Ok(())
}

fn check_moments(mean: f64, std: f64) -> Result<(), WorkloadError> {
    if !(mean > 0.0 && mean.is_finite()) {
        return Err(WorkloadError::out_of_range(
            "mean",
            mean,
            "a finite number above 0",
        ));
    }
    check_from_zero("std", std)
}

fn check_from_zero(field: &str, value: f64) -> Result<(), WorkloadError> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(WorkloadError::out_of_range(
        field,
        value,
        "a finite number from 0",
    ))
}

fn check_finite(field: &str, value: f64) -> Result<(), WorkloadError> {
    if value.is_finite() {
        return Ok(());
    }
    Err(WorkloadError::out_of_range(field, value, "a finite number"))
}

//! Fits: which known distribution comes nearest to what a trace has.
//!
//! Parameters are those of greatest likelihood (closed forms, or Newton's method), but for GEV, whose L-moments are
//! matched (Hosking, Wallis and Wood 1985). Values that are recorded in steps, as tokens always are and times
//! often, count as their cell: the likelihood of 7 tokens is that of the interval from 6.5 to 7.5. Families are ranked by AIC;
//! whether the best of them is any good is said by the greatest distance between its distribution and that of the
//! trace (Kolmogorov and Smirnov), not by a test: with many rows every test refuses every family.

mod law;
mod special;

use core::fmt;

use serde::Serialize;

pub use law::Law;
use special::{digamma, trigamma};

use crate::arrival::ArrivalSpec;
use crate::length::LengthSpec;

/// Fewer values are fitted by anything.
const FEW: u64 = 20;

/// A difference of AIC from which the worse one has no support.
const DECISIVE: f64 = 10.0;

/// How near a fit comes, by its distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goodness {
    /// Up to 0.02: the two are hard to tell apart.
    Close,
    /// Up to 0.05: good for most questions.
    Fair,
    /// Up to 0.1: the middle agrees, tails may not.
    Rough,
    /// Beyond: the trace is something else; replay it.
    Poor,
}

impl Goodness {
    fn of(distance: f64) -> Self {
        match distance {
            d if d <= 0.02 => Self::Close,
            d if d <= 0.05 => Self::Fair,
            d if d <= 0.1 => Self::Rough,
            _ => Self::Poor,
        }
    }
}

impl fmt::Display for Goodness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Close => "close",
            Self::Fair => "fair",
            Self::Rough => "rough",
            Self::Poor => "poor",
        })
    }
}

/// One family, fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// The family with its parameters.
    pub law: Law,
    /// Greatest distance between its distribution and that of the trace, 0 to 1.
    pub ks: f64,
    /// Akaike's criterion: twice the parameters less twice the logarithm of the likelihood. Only differences mean
    /// anything; less is better.
    pub aic: f64,
    /// What the distance comes to.
    pub goodness: Goodness,
}

/// Fits of gaps or of lengths, the best one first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fits {
    /// Values that were fitted.
    pub values: u64,
    /// First the one with the fewest parameters among those whose AIC is not decisively worse than the least, by 10 or
    /// more (Burnham and Anderson 2004); then the others by their AIC.
    pub fits: Vec<Fit>,
}

impl Fits {
    /// Gaps in seconds: exponential, gamma and Weibull.
    pub(super) fn of_gaps(data: &Data) -> Self {
        Self::of(data, &[exponential, gamma, weibull])
    }

    /// Lengths in tokens, all families.
    pub(super) fn of_lengths(data: &Data) -> Self {
        Self::of(
            data,
            &[exponential, gamma, weibull, lognormal, normal, pareto, gev],
        )
    }

    fn of(data: &Data, families: &[fn(&Data) -> Option<Law>]) -> Self {
        let mut fits: Vec<_> = families
            .iter()
            .filter_map(|family| family(data))
            .map(|law| data.judge(law))
            .filter(|fit| fit.aic.is_finite())
            .collect();
        fits.sort_by(|a, b| a.aic.total_cmp(&b.aic));
        let simplest = fits
            .iter()
            .enumerate()
            .take_while(|(_, fit)| fit.aic - fits[0].aic <= DECISIVE)
            .min_by_key(|(_, fit)| fit.law.parameters())
            .map_or(0, |(place, _)| place);
        if let Some(ahead) = fits.get_mut(..=simplest) {
            ahead.rotate_right(1);
        }
        Self {
            values: data.count,
            fits,
        }
    }

    /// The best.
    pub fn best(&self) -> Option<&Fit> {
        self.fits.first()
    }

    /// The best that configurations can express, as lengths within `min..=max`.
    pub fn lengths(&self, min: u32, max: u32) -> Option<(&Fit, LengthSpec)> {
        let mut fits = self.fits.iter();
        fits.find_map(|fit| Some((fit, fit.law.to_lengths(min, max)?)))
    }

    /// The best that configurations can express, as arrivals of `rate` requests per second.
    pub fn arrivals(&self, rate: f64) -> Option<(&Fit, ArrivalSpec)> {
        let mut fits = self.fits.iter();
        fits.find_map(|fit| Some((fit, fit.law.to_arrivals(rate)?)))
    }
}

/// Values with how often each occurs, in order, and the sums that fits need.
pub(super) struct Data {
    /// Distinct, rising, above 0; with their logarithms and counts.
    values: Vec<Value>,
    count: u64,
    half_cell: f64,
    mean: f64,
    mean_log: f64,
}

struct Value {
    /// As it was recorded: the middle of its cell.
    middle: f64,
    x: f64,
    log: f64,
    weight: f64,
}

impl Data {
    /// Values in rising order with their counts, recorded in cells of `2 * half_cell`. What is not above 0 counts as
    /// half of the first cell. `None` if they are fewer than 20, or all equal.
    pub(super) fn new(sorted: impl Iterator<Item = (f64, u64)>, half_cell: f64) -> Option<Self> {
        let floor = if half_cell > 0.0 {
            half_cell * 0.5
        } else {
            0.5e-9
        };
        let mut values: Vec<Value> = Vec::new();
        let mut count = 0;
        for (middle, weight) in sorted {
            let x = middle.max(floor);
            count += weight;
            match values.last_mut() {
                Some(last) if last.x >= x => last.weight += weight as f64,
                _ => values.push(Value {
                    middle,
                    x,
                    log: libm::log(x),
                    weight: weight as f64,
                }),
            }
        }
        if values.len() < 2 || count < FEW {
            return None;
        }
        let total = count as f64;
        let mean = values.iter().map(|v| v.weight * v.x).sum::<f64>() / total;
        let mean_log = values.iter().map(|v| v.weight * v.log).sum::<f64>() / total;
        Some(Self {
            values,
            count,
            half_cell,
            mean,
            mean_log,
        })
    }

    fn total(&self) -> f64 {
        self.count as f64
    }

    /// Mean of squares of the distance from `mean` of what `of` says.
    fn variance(&self, mean: f64, of: impl Fn(&Value) -> f64) -> f64 {
        let squares = self
            .values
            .iter()
            .map(|v| v.weight * (of(v) - mean) * (of(v) - mean));
        squares.sum::<f64>() / self.total()
    }

    /// Distance and likelihood of a law.
    fn judge(&self, law: Law) -> Fit {
        let h = self.half_cell;
        let (mut below, mut ks, mut likelihood) = (0.0_f64, 0.0_f64, 0.0_f64);
        let (mut edge, mut at_edge) = (f64::NAN, 0.0);
        for value in &self.values {
            let upto = below + value.weight / self.total();
            if h > 0.0 {
                // Cells that touch share an edge, which is worth an evaluation of the distribution.
                let low = if edge.to_bits() == (value.middle - h).to_bits() {
                    at_edge
                } else {
                    law.cdf(value.middle - h)
                };
                let high = law.cdf(value.middle + h);
                (edge, at_edge) = (value.middle + h, high);
                ks = ks.max((high - upto).abs()).max((low - below).abs());
                let cell = high - low;
                likelihood += value.weight
                    * if cell > 1e-9 {
                        libm::log(cell)
                    } else {
                        // Differences of numbers near 1 have no digits left.
                        (law.ln_pdf(value.x) + libm::log(2.0 * h)).max(UNLIKELY)
                    };
            } else {
                let cdf = law.cdf(value.x);
                ks = ks.max((cdf - upto).abs()).max((cdf - below).abs());
                likelihood += value.weight * law.ln_pdf(value.x).max(UNLIKELY);
            }
            below = upto;
        }
        Fit {
            law,
            ks,
            aic: 2.0 * f64::from(law.parameters()) - 2.0 * likelihood,
            goodness: Goodness::of(ks),
        }
    }
}

/// The logarithm of a likelihood that is as good as none.
const UNLIKELY: f64 = -700.0;

fn exponential(data: &Data) -> Option<Law> {
    (data.mean > 0.0).then_some(Law::Exponential { mean: data.mean })
}

fn gamma(data: &Data) -> Option<Law> {
    // Positive unless all values are equal: a mean is above a geometric mean.
    let excess = libm::log(data.mean) - data.mean_log;
    if excess <= 1e-12 {
        return None;
    }
    let root = ((excess - 3.0) * (excess - 3.0) + 24.0 * excess).sqrt();
    let mut shape = (3.0 - excess + root) / (12.0 * excess);
    for _ in 0..50 {
        let slope = 1.0 / shape - trigamma(shape);
        let step = (libm::log(shape) - digamma(shape) - excess) / slope;
        let next = (shape - step).max(shape * 0.1);
        let done = (next - shape).abs() < shape * 1e-12;
        shape = next;
        if done {
            break;
        }
    }
    Some(Law::Gamma {
        shape,
        scale: data.mean / shape,
    })
}

fn weibull(data: &Data) -> Option<Law> {
    let spread = data.variance(data.mean_log, |v| v.log).sqrt();
    if spread <= 1e-9 {
        return None;
    }
    // The greatest value is the unit, so that no power overflows.
    let unit = data.values.last()?.log;
    let mut shape = 1.2 / spread;
    let mut powers = 0.0;
    for _ in 0..60 {
        let (mut zeroth, mut first, mut second) = (0.0, 0.0, 0.0);
        for value in &data.values {
            let log = value.log - unit;
            let power = value.weight * libm::exp(shape * log);
            zeroth += power;
            first += power * log;
            second += power * log * log;
        }
        powers = zeroth / data.total();
        let mean = first / zeroth;
        let excess = mean - 1.0 / shape - (data.mean_log - unit);
        let slope = second / zeroth - mean * mean + 1.0 / (shape * shape);
        let next = (shape - excess / slope).clamp(shape * 0.3, shape * 3.0);
        let done = (next - shape).abs() < shape * 1e-10;
        shape = next;
        if done {
            break;
        }
    }
    let scale = libm::exp(unit + libm::log(powers) / shape);
    (shape.is_finite() && scale.is_finite()).then_some(Law::Weibull { shape, scale })
}

fn lognormal(data: &Data) -> Option<Law> {
    let sigma = data.variance(data.mean_log, |v| v.log).sqrt();
    (sigma > 0.0).then_some(Law::Lognormal {
        mu: data.mean_log,
        sigma,
    })
}

fn normal(data: &Data) -> Option<Law> {
    let std = data.variance(data.mean, |v| v.x).sqrt();
    (std > 0.0).then_some(Law::Normal {
        mean: data.mean,
        std,
    })
}

fn pareto(data: &Data) -> Option<Law> {
    let min = (data.values.first()?.x - data.half_cell).max(data.half_cell);
    let excess = data.mean_log - libm::log(min);
    (min > 0.0 && excess > 0.0).then_some(Law::Pareto {
        min,
        shape: 1.0 / excess,
    })
}

/// GEV by L-moments, from the weighted sums of the values in order.
fn gev(data: &Data) -> Option<Law> {
    let n = data.total();
    if n < 10.0 {
        return None;
    }
    let (mut ranks, mut first, mut second) = (0.0, 0.0, 0.0);
    for value in &data.values {
        // Sums of i and of i(i - 1) over the ranks from `ranks` up to `end`.
        let end = ranks + value.weight;
        let linear = |m: f64| m * (m - 1.0) / 2.0;
        let square = |m: f64| m * (m - 1.0) * (m - 2.0) / 3.0;
        first += value.x * (linear(end) - linear(ranks));
        second += value.x * (square(end) - square(ranks));
        ranks = end;
    }
    let b1 = first / (n * (n - 1.0));
    let b2 = second / (n * (n - 1.0) * (n - 2.0));
    let (l1, l2, l3) = (
        data.mean,
        2.0 * b1 - data.mean,
        6.0 * b2 - 6.0 * b1 + data.mean,
    );
    if l2 <= 0.0 {
        return None;
    }
    let c = 2.0 / (3.0 + l3 / l2) - core::f64::consts::LN_2 / libm::log(3.0);
    let k = 7.8590 * c + 2.9554 * c * c;
    if k.abs() < 1e-6 {
        let scale = l2 / core::f64::consts::LN_2;
        let location = l1 - 0.577_215_664_901_532_9 * scale;
        return Some(Law::Gev {
            location,
            scale,
            shape: 0.0,
        });
    }
    let gamma = libm::tgamma(1.0 + k);
    let scale = l2 * k / (-libm::expm1(-k * core::f64::consts::LN_2) * gamma);
    let location = l1 - scale * (1.0 - gamma) / k;
    (scale > 0.0 && location.is_finite()).then_some(Law::Gev {
        location,
        scale,
        shape: -k,
    })
}

#[cfg(test)]
mod tests;

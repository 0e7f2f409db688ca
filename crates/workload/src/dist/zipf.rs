//! [`Zipf`]: few that are popular, many that are not.

use foretoken_des_kernel::SimRng;

use crate::error::WorkloadError;
use crate::quantity::{Positive, round_u64};

/// Zipf on the ranks `1..=n`: rank `k` has a probability proportional to `k^-exponent`.
///
/// Rejection-inversion (Hörmann and Derflinger 1996): constant time and memory for every `n`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipf {
    ranks: u64,
    exponent: f64,
    /// The integral of the hat up to the left end, the right end, and the width of the part that is
    /// accepted without evaluating the density.
    low: f64,
    high: f64,
    squeeze: f64,
}

impl Zipf {
    /// Ranks `1..=ranks`.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] if there is no rank.
    pub fn new(ranks: u64, exponent: Positive) -> Result<Self, WorkloadError> {
        if ranks == 0 {
            return Err(WorkloadError::out_of_range("ranks", 0.0, "at least 1"));
        }
        let mut zipf = Self {
            ranks,
            exponent: exponent.get(),
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(ranks as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        Ok(zipf)
    }

    /// How many ranks there are.
    pub const fn ranks(&self) -> u64 {
        self.ranks
    }

    /// A rank, from 1.
    pub fn sample(&self, rng: &mut SimRng) -> u64 {
        loop {
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = round_u64(x).clamp(1, self.ranks);
            let k = rank as f64;
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.density(k) {
                return rank;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// `(x^(1-s) - 1) / (1 - s)`, or the logarithm where s is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.exponent) * log;
        // Close to 1 the quotient is its series: t is too small to divide by.
        if t.abs() > 1e-8 {
            log * libm::expm1(t) / t
        } else {
            log * (1.0 + 0.5 * t)
        }
    }

    fn inverse(&self, y: f64) -> f64 {
        // Rounding may leave the domain at its end.
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        let ratio = if t.abs() > 1e-8 {
            libm::log1p(t) / t
        } else {
            1.0 - 0.5 * t
        };
        libm::exp(y * ratio)
    }
}

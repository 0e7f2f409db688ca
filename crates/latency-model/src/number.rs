//! Numbers of parameter files whose range is checked when they are read.

use serde::{Deserialize, Serialize};

use crate::error::LatencyError;

/// A share of a peak: more than 0, at most 1.
///
/// No kernel beats the datasheet, so a fit that wants more than 1 is wrong, not lucky.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

impl Share {
    /// The whole of it.
    pub const ONE: Self = Self(1.0);

    /// A share.
    ///
    /// # Errors
    ///
    /// [`LatencyError::Number`] unless `0 < value <= 1`.
    pub fn new(value: f64) -> Result<Self, LatencyError> {
        if value > 0.0 && value <= 1.0 {
            Ok(Self(value))
        } else {
            Err(LatencyError::Number {
                value,
                expected: "a share, above 0 and at most 1",
            })
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Share {
    type Error = LatencyError;
    fn try_from(value: f64) -> Result<Self, LatencyError> {
        Self::new(value)
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        share.0
    }
}

/// A cost or count that is not negative and at most 10^9.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Amount(f64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);

    /// An amount.
    ///
    /// # Errors
    ///
    /// [`LatencyError::Number`] unless `0 <= value <= 1e9`.
    pub fn new(value: f64) -> Result<Self, LatencyError> {
        if (0.0..=1e9).contains(&value) {
            Ok(Self(value))
        } else {
            Err(LatencyError::Number {
                value,
                expected: "an amount from 0 to 1e9",
            })
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Amount {
    type Error = LatencyError;
    fn try_from(value: f64) -> Result<Self, LatencyError> {
        Self::new(value)
    }
}

impl From<Amount> for f64 {
    fn from(amount: Amount) -> Self {
        amount.0
    }
}

/// How softly a kernel moves from memory-bound to compute-bound: the `p` of
/// `(compute^p + memory^p)^(1/p)`.
///
/// At the balance point the kernel takes `2^(1/p)` times either bound: 41 %, 19 %, 9 %, 4 % more.
/// Powers of two only, so that a step needs multiplications and square roots, which are exact on
/// every machine and quick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub enum Blend {
    /// `p = 2`.
    Two,
    /// `p = 4`.
    Four,
    /// `p = 8`.
    Eight,
    /// `p = 16`.
    Sixteen,
}

impl Blend {
    const fn squarings(self) -> u32 {
        match self {
            Self::Two => 1,
            Self::Four => 2,
            Self::Eight => 3,
            Self::Sixteen => 4,
        }
    }

    /// The smooth maximum of two times that are not negative: at least the larger, at most
    /// `2^(1/p)` times it, and increasing in both.
    #[inline]
    pub fn max(self, a: f64, b: f64) -> f64 {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        if high <= 0.0 {
            return 0.0;
        }
        let mut ratio = low / high;
        for _ in 0..self.squarings() {
            ratio *= ratio;
        }
        let mut root = 1.0 + ratio;
        // The smaller one is lost in rounding, and the roots of 1 are 1.
        if root <= 1.0 {
            return high;
        }
        for _ in 0..self.squarings() {
            root = root.sqrt();
        }
        high * root
    }
}

impl TryFrom<f64> for Blend {
    type Error = LatencyError;
    fn try_from(value: f64) -> Result<Self, LatencyError> {
        [Self::Two, Self::Four, Self::Eight, Self::Sixteen]
            .into_iter()
            .find(|&blend| f64::from(blend).total_cmp(&value).is_eq())
            .ok_or(LatencyError::Number {
                value,
                expected: "one of 2, 4, 8, 16",
            })
    }
}

impl From<Blend> for f64 {
    fn from(blend: Blend) -> Self {
        f64::from(1_u32 << blend.squarings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_above_zero_and_at_most_one() {
        assert!(Share::new(1.0).is_ok());
        for wrong in [0.0, -0.1, 1.01, f64::NAN, f64::INFINITY] {
            assert!(Share::new(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            Share::new(1.5).expect_err("too much").to_string(),
            "1.5 is not a share, above 0 and at most 1"
        );
    }

    #[test]
    fn an_amount_is_finite_and_not_negative() {
        assert!(Amount::new(0.0).is_ok());
        for wrong in [-1.0, 2e9, f64::NAN, f64::INFINITY] {
            assert!(Amount::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_smooth_maximum_lies_between_the_maximum_and_its_bound() {
        for blend in [Blend::Two, Blend::Four, Blend::Eight, Blend::Sixteen] {
            let limit = libm::pow(2.0, 1.0 / f64::from(blend));
            for (a, b) in [(1.0, 1.0), (3.0, 1.0), (0.0, 2.0), (1e-9, 1e9)] {
                let smooth = blend.max(a, b);
                let hard = f64::max(a, b);
                assert!(
                    smooth >= hard && smooth <= hard * limit * (1.0 + 1e-12),
                    "{a} {b}"
                );
                assert!((smooth - blend.max(b, a)).abs() < 1e-12 * hard);
            }
            assert!(blend.max(0.0, 0.0).abs() < f64::MIN_POSITIVE);
        }
    }

    #[test]
    fn what_is_lost_in_rounding_changes_nothing() {
        for blend in [Blend::Two, Blend::Four, Blend::Eight, Blend::Sixteen] {
            for exponent in 0..60 {
                let low =
                    1.3 / f64::from(1_u32 << (exponent / 2)) / f64::from(1_u32 << (exponent % 2));
                let mut ratio = low / 3.7;
                (0..blend.squarings()).for_each(|_| ratio *= ratio);
                let root = (0..blend.squarings()).fold(1.0 + ratio, |root, _| root.sqrt());
                assert_eq!(blend.max(low, 3.7).to_bits(), (3.7 * root).to_bits());
            }
        }
    }

    #[test]
    fn only_powers_of_two_blend() {
        assert_eq!(Blend::try_from(4.0), Ok(Blend::Four));
        assert!(Blend::try_from(3.0).is_err());
    }
}

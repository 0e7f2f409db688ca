//! A 192-bit integer: wide enough for 2^64 squares of 64-bit values.

use core::ops::{AddAssign, Sub};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct U192 {
    high: u64,
    low: u128,
}

impl U192 {
    /// The exact product.
    pub(super) const fn product(a: u128, b: u64) -> Self {
        let b = b as u128;
        let lower = (a & u64::MAX as u128) * b;
        let upper = (a >> 64) * b;
        let (low, carry) = lower.overflowing_add(upper << 64);
        Self {
            high: (upper >> 64) as u64 + carry as u64,
            low,
        }
    }

    /// The nearest float, or one beside it.
    pub(super) fn to_f64(self) -> f64 {
        const TWO_TO_128: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;
        self.high as f64 * TWO_TO_128 + self.low as f64
    }
}

impl AddAssign for U192 {
    fn add_assign(&mut self, other: Self) {
        let (low, carry) = self.low.overflowing_add(other.low);
        self.low = low;
        self.high += other.high + u64::from(carry);
    }
}

impl Sub for U192 {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Self {
            high: self.high - other.high - u64::from(borrow),
            low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_carry_into_the_high_word() {
        // (2^128 - 1)(2^64 - 1) = 2^192 - 2^128 - 2^64 + 1
        let product = U192::product(u128::MAX, u64::MAX);
        let expected = U192 {
            high: u64::MAX - 1,
            low: u128::MAX - u128::from(u64::MAX) + 1,
        };
        assert_eq!(product, expected);
        assert_eq!(U192::product(1 << 127, 6), U192 { high: 3, low: 0 });
    }

    #[test]
    fn sums_carry_and_differences_borrow() {
        let mut sum = U192 {
            high: 1,
            low: u128::MAX,
        };
        sum += U192 { high: 0, low: 1 };
        assert_eq!(sum, U192 { high: 2, low: 0 });
        assert_eq!(
            sum - U192 { high: 0, low: 1 },
            U192 {
                high: 1,
                low: u128::MAX
            }
        );
    }
}

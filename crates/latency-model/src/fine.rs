//! [`Fine`]: nanoseconds with 32 fractional bits, the only fixed-point type of the workspace.
//!
//! Step times are sums of many small terms, and a run of decode steps is summed in closed form.
//! With fixed-point numbers that closed form *is* the sum, by integer algebra; with floats it would
//! differ in the last bits, and in the nanosecond often enough to matter.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, Sub};

use foretoken_des_kernel::SimDuration;

/// A span of time in nanoseconds with 32 fractional bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fine(u128);

const ONE_NS: f64 = 4_294_967_296.0;

impl Fine {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// The nearest representable span to `nanos` nanoseconds; `None` for NaN, negative values and
    /// values from 2^63 ns on.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked first"
    )]
    #[inline]
    pub fn from_nanos_f64(nanos: f64) -> Option<Self> {
        let bits = nanos * ONE_NS + 0.5;
        if (0.0..2_147_483_648.0).contains(&nanos) {
            // The same number: conversions to 64 bits are several times faster.
            Some(Self(u128::from(bits as u64)))
        } else if (0.0..9_223_372_036_854_775_808.0).contains(&nanos) {
            Some(Self(bits as u128))
        } else {
            None
        }
    }

    /// The same in seconds.
    pub fn from_secs_f64(seconds: f64) -> Option<Self> {
        Self::from_nanos_f64(seconds * 1e9)
    }

    /// The raw fixed-point number, in units of 2^-32 ns.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// From the raw fixed-point number, in units of 2^-32 ns.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Whole nanoseconds, rounded down.
    ///
    /// # Panics
    /// If the span exceeds the range of 64-bit nanoseconds.
    #[inline]
    pub fn floor(self) -> SimDuration {
        let nanos = u64::try_from(self.0 >> 32).expect("a span fits in 64 bits of nanoseconds");
        SimDuration::from_nanos(nanos)
    }

    /// In nanoseconds, for printing and statistics.
    pub fn as_nanos_f64(self) -> f64 {
        self.0 as f64 / ONE_NS
    }

    /// In microseconds, for printing and statistics.
    pub fn as_micros_f64(self) -> f64 {
        self.as_nanos_f64() / 1e3
    }

    /// This less `other`, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<SimDuration> for Fine {
    fn from(span: SimDuration) -> Self {
        Self(u128::from(span.as_nanos()) << 32)
    }
}

impl Add for Fine {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Fine {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Fine {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<u128> for Fine {
    type Output = Self;
    #[inline]
    fn mul(self, factor: u128) -> Self {
        // Nearly all products are of two words, whose product cannot overflow: no check, one
        // instruction.
        match (u64::try_from(self.0), u64::try_from(factor)) {
            (Ok(span), Ok(factor)) => Self(u128::from(span) * u128::from(factor)),
            _ => Self(self.0 * factor),
        }
    }
}

impl Sum for Fine {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Fine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}us", self.as_micros_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nanosecond_has_32_fractional_bits() {
        assert_eq!(Fine::from_nanos_f64(1.5).map(Fine::bits), Some(3 << 31));
        assert_eq!(Fine::from_secs_f64(1e-9).map(Fine::bits), Some(1 << 32));
        assert_eq!(Fine::from(SimDuration::from_nanos(7)).bits(), 7 << 32);
    }

    #[test]
    fn short_and_long_spans_convert_alike() {
        for nanos in [0.0, 0.3, 1e3, 2_147_483_647.9, 2_147_483_648.0, 1e12, 9e18] {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "in range"
            )]
            let expected = (nanos * ONE_NS + 0.5) as u128;
            assert_eq!(
                Fine::from_nanos_f64(nanos).map(Fine::bits),
                Some(expected),
                "{nanos}"
            );
        }
    }

    #[test]
    fn what_is_no_span_is_none() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e19] {
            assert_eq!(Fine::from_nanos_f64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn it_rounds_down_to_whole_nanoseconds_and_prints_microseconds() {
        let span = Fine::from_nanos_f64(1_999.9).expect("a span");
        assert_eq!(span.floor(), SimDuration::from_nanos(1_999));
        assert_eq!(span.to_string(), "2.000us");
    }

    #[test]
    fn subtraction_saturates_where_asked() {
        let (one, two) = (Fine::from_bits(1), Fine::from_bits(2));
        assert_eq!(one.saturating_sub(two), Fine::ZERO);
        assert_eq!((two - one) + one, one * 2);
    }
}

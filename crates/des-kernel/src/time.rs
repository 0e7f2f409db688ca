//! Simulated time: integer nanoseconds, as instants ([`SimTime`]) and spans ([`SimDuration`]).
//!
//! Integers, because a simulation that promises the same bytes on every machine cannot let the
//! order of additions decide a bit. An instant minus an instant is a span; an instant plus an
//! instant does not exist.
//!
//! Both are read from a decimal number and a unit (`ns`, `us` or `µs`, `ms`, `s`), exactly, and
//! printed with three decimals of the largest unit that fits.
//!
//! ```
//! use foretoken_des_kernel::{SimDuration, SimTime};
//!
//! let span: SimDuration = "12.5ms".parse()?;
//! assert_eq!(span, SimDuration::from_micros(12_500));
//!
//! let start: SimTime = "3s".parse()?;
//! let end = start + span * 2;
//! assert_eq!(end - start, SimDuration::from_millis(25));
//! assert_eq!(end.to_string(), "3.025s");
//! # Ok::<(), foretoken_des_kernel::TimeError>(())
//! ```

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::str::FromStr;

const NANOS_PER_SEC: f64 = 1e9;

/// A span or an instant that cannot be expressed in integer nanoseconds.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// Not a number, negative, or beyond the range of 64-bit nanoseconds (about 584 years).
    #[error("{seconds} s is not a time: allowed are finite values from 0 to 1.8e10 s")]
    OutOfRange {
        /// The offending value, in seconds.
        seconds: f64,
    },
    /// Not a decimal number followed by a unit.
    #[error("`{text}` is not a time: write a decimal number and ns, us, ms or s, as in `12.5ms`")]
    Malformed {
        /// What was to be read.
        text: String,
    },
    /// Has digits below one nanosecond.
    #[error("`{text}` is too fine: times are whole nanoseconds")]
    TooFine {
        /// What was to be read.
        text: String,
    },
    /// Beyond the range of 64-bit nanoseconds.
    #[error("`{text}` is too long: the longest time is 18446744073.709551615s")]
    TooLong {
        /// What was to be read.
        text: String,
    },
}

/// Rounds seconds to the nearest nanosecond.
fn nanos_from_secs(seconds: f64) -> Result<u64, TimeError> {
    let nanos = seconds * NANOS_PER_SEC;
    // 2^64 as f64; the comparison is false for NaN.
    if (0.0..18_446_744_073_709_551_615.0).contains(&nanos) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked above"
        )]
        Ok(libm::round(nanos) as u64)
    } else {
        Err(TimeError::OutOfRange { seconds })
    }
}

/// Reads a decimal number and a unit, without ever touching a float.
fn parse(text: &str) -> Result<u64, TimeError> {
    let malformed = || TimeError::Malformed {
        text: text.to_owned(),
    };
    let too_long = || TimeError::TooLong {
        text: text.to_owned(),
    };

    let unit_start = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(malformed)?;
    let (number, unit) = text.split_at(unit_start);
    let decimals = match unit {
        "ns" => 0,
        // Both characters look the same: the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 3,
        "ms" => 6,
        "s" => 9,
        _ => return Err(malformed()),
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && !fraction.contains('.') => {
            (whole, fraction.trim_end_matches('0'))
        }
        Some(_) => return Err(malformed()),
        None => (number, ""),
    };
    if whole.is_empty() {
        return Err(malformed());
    }
    if fraction.len() > decimals {
        return Err(TimeError::TooFine {
            text: text.to_owned(),
        });
    }
    // `12.5ms` is 12 and the fraction padded to all decimals of the unit, 500000, in nanoseconds.
    format!("{whole}{fraction:0<decimals$}")
        .parse()
        .map_err(|_| too_long())
}

/// A count of larger units in nanoseconds.
const fn scale(count: u64, unit: u64) -> u64 {
    match count.checked_mul(unit) {
        Some(nanos) => nanos,
        None => panic!("a span fits in 64 bits of nanoseconds"),
    }
}

/// An instant of simulated time, in nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

impl SimTime {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// The last instant that can be expressed; used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant nearest to `seconds` after the start.
    ///
    /// # Errors
    /// [`TimeError::OutOfRange`] for NaN, negative or too large values.
    pub fn try_from_secs_f64(seconds: f64) -> Result<Self, TimeError> {
        nanos_from_secs(seconds).map(Self)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for printing and statistics.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC
    }

    /// The span since `earlier`, or `None` if `earlier` is later.
    pub const fn checked_since(self, earlier: Self) -> Option<SimDuration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(SimDuration(nanos)),
            None => None,
        }
    }

    /// The first whole multiple of `period` after this instant: the next tick of a clock that started at
    /// zero. The end of time if there is none before it.
    ///
    /// # Panics
    /// If `period` is zero.
    ///
    /// ```
    /// use foretoken_des_kernel::{SimDuration, SimTime};
    ///
    /// let second = SimDuration::from_secs(1);
    /// assert_eq!(SimTime::from_nanos(1_500_000_000).next_tick(second), SimTime::from_nanos(2_000_000_000));
    /// assert_eq!(SimTime::from_nanos(2_000_000_000).next_tick(second), SimTime::from_nanos(3_000_000_000));
    /// ```
    #[must_use]
    pub fn next_tick(self, period: SimDuration) -> Self {
        let next = (self.0 / period.0 + 1).checked_mul(period.0);
        next.map_or(Self::MAX, Self)
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }

    /// This instant plus a span, or `None` beyond [`SimTime::MAX`].
    pub const fn checked_add(self, span: SimDuration) -> Option<Self> {
        match self.0.checked_add(span.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }
}

/// A span of simulated time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimDuration(u64);

impl SimDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span that can be expressed.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    ///
    /// # Panics
    /// If the span exceeds the range of 64-bit nanoseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(scale(micros, 1_000))
    }

    /// A span of `millis` milliseconds.
    ///
    /// # Panics
    /// If the span exceeds the range of 64-bit nanoseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(scale(millis, 1_000_000))
    }

    /// A span of `seconds` seconds.
    ///
    /// # Panics
    /// If the span exceeds the range of 64-bit nanoseconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(scale(seconds, 1_000_000_000))
    }

    /// The span nearest to `seconds`.
    ///
    /// # Errors
    /// [`TimeError::OutOfRange`] for NaN, negative or too large values.
    pub fn try_from_secs_f64(seconds: f64) -> Result<Self, TimeError> {
        nanos_from_secs(seconds).map(Self)
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span in microseconds, for printing and statistics.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span in milliseconds, for printing and statistics.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span in seconds, for printing and statistics.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC
    }

    /// `true` for the empty span.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// This span plus another, or `None` on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// This span less another, or zero if the other is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;
    #[inline]
    fn add(self, span: SimDuration) -> Self {
        Self(
            self.0
                .checked_add(span.0)
                .expect("simulated time fits in 64 bits of nanoseconds"),
        )
    }
}

impl AddAssign<SimDuration> for SimTime {
    #[inline]
    fn add_assign(&mut self, span: SimDuration) {
        *self = *self + span;
    }
}

impl Sub for SimTime {
    type Output = SimDuration;
    /// # Panics
    /// If `earlier` is later than `self`: clocks are monotone.
    #[inline]
    fn sub(self, earlier: Self) -> SimDuration {
        self.checked_since(earlier)
            .expect("an earlier instant is subtracted from a later one")
    }
}

impl Add for SimDuration {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        self.checked_add(other)
            .expect("a span fits in 64 bits of nanoseconds")
    }
}

impl AddAssign for SimDuration {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for SimDuration {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(
            self.0
                .checked_sub(other.0)
                .expect("a shorter span is subtracted from a longer one"),
        )
    }
}

impl SubAssign for SimDuration {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for SimDuration {
    type Output = Self;
    #[inline]
    fn mul(self, factor: u64) -> Self {
        Self(
            self.0
                .checked_mul(factor)
                .expect("a span fits in 64 bits of nanoseconds"),
        )
    }
}

impl Div<u64> for SimDuration {
    type Output = Self;
    #[inline]
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl Sum for SimDuration {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

/// Prints nanoseconds in the largest unit that keeps at least one digit before the point.
fn print(nanos: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (unit, divisor) = match nanos {
        0..1_000 => return write!(f, "{nanos}ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let thousandths = (nanos % divisor) * 1_000 / divisor;
    write!(f, "{}.{thousandths:03}{unit}", nanos / divisor)
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, f)
    }
}

impl fmt::Display for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, f)
    }
}

impl FromStr for SimTime {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        parse(text).map(Self)
    }
}

impl FromStr for SimDuration {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        parse(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_exactly() {
        let readings = [
            ("0s", 0),
            ("10ns", 10),
            ("250us", 250_000),
            ("250\u{b5}s", 250_000),
            ("250\u{3bc}s", 250_000),
            ("12.5ms", 12_500_000),
            ("3s", 3_000_000_000),
            ("007s", 7_000_000_000),
            ("0.000000001s", 1),
            ("1.000ns", 1),
            ("18446744073.709551615s", u64::MAX),
        ];
        for (text, nanos) in readings {
            assert_eq!(text.parse(), Ok(SimTime::from_nanos(nanos)), "{text}");
            assert_eq!(text.parse(), Ok(SimDuration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_times_are_refused() {
        for text in [
            "", "s", "12", ".5s", "5.s", "1.2.3s", "-1s", "+1s", "1 s", "1e3s", "1h", "1S", ".",
        ] {
            let expected = TimeError::Malformed {
                text: text.to_owned(),
            };
            assert_eq!(text.parse::<SimDuration>(), Err(expected));
        }
        for text in ["0.5ns", "1.0000000001s", "1.2345us"] {
            let expected = TimeError::TooFine {
                text: text.to_owned(),
            };
            assert_eq!(text.parse::<SimDuration>(), Err(expected));
        }
        for text in [
            "18446744073.709551616s",
            "99999999999999999999999999999999999999999ns",
        ] {
            let expected = TimeError::TooLong {
                text: text.to_owned(),
            };
            assert_eq!(text.parse::<SimTime>(), Err(expected));
        }
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let error = "5 min"
            .parse::<SimTime>()
            .expect_err("minutes are not read");
        assert_eq!(
            error.to_string(),
            "`5 min` is not a time: write a decimal number and ns, us, ms or s, as in `12.5ms`"
        );
    }

    #[test]
    fn seconds_become_the_nearest_nanosecond() {
        let nanos = |seconds| SimDuration::try_from_secs_f64(seconds).map(SimDuration::as_nanos);
        assert_eq!(nanos(0.0), Ok(0));
        assert_eq!(nanos(1e-9), Ok(1));
        assert_eq!(nanos(1.4e-9), Ok(1));
        assert_eq!(nanos(0.1), Ok(100_000_000));
        assert_eq!(
            SimTime::try_from_secs_f64(2.5),
            Ok(SimTime::from_nanos(2_500_000_000))
        );
    }

    #[test]
    fn seconds_out_of_range_are_refused() {
        for seconds in [-1e-9, f64::INFINITY, 1.9e10] {
            let expected = Err(TimeError::OutOfRange { seconds });
            assert_eq!(SimDuration::try_from_secs_f64(seconds), expected);
        }
        assert!(SimTime::try_from_secs_f64(f64::NAN).is_err());
    }

    #[test]
    fn printing_uses_the_largest_unit_that_fits() {
        let prints = [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.000us"),
            (12_345_678, "12.345ms"),
            (999_999_999, "999.999ms"),
            (61_002_003_004, "61.002s"),
        ];
        for (nanos, text) in prints {
            assert_eq!(SimTime::from_nanos(nanos).to_string(), text);
            assert_eq!(SimDuration::from_nanos(nanos).to_string(), text);
        }
    }

    #[test]
    fn differences_are_checked_or_saturate() {
        let (early, late) = (SimTime::from_nanos(3), SimTime::from_nanos(8));
        assert_eq!(late.checked_since(early), Some(SimDuration::from_nanos(5)));
        assert_eq!(early.checked_since(late), None);
        assert_eq!(early.saturating_since(late), SimDuration::ZERO);
        assert_eq!(SimTime::MAX.checked_add(SimDuration::from_nanos(1)), None);
        assert_eq!(
            SimDuration::MAX.checked_add(SimDuration::from_nanos(1)),
            None
        );
        assert_eq!(
            SimDuration::ZERO.saturating_sub(SimDuration::MAX),
            SimDuration::ZERO
        );
    }

    #[test]
    fn spans_add_scale_and_divide() {
        let mut span: SimDuration = [1, 2, 3].map(SimDuration::from_millis).into_iter().sum();
        assert_eq!(span / 4, SimDuration::from_micros(1_500));
        assert_eq!(span * 500, SimDuration::from_secs(3));
        span += SimDuration::from_millis(1);
        span -= SimDuration::from_millis(7);
        assert!(span.is_zero());
        let mut time = SimTime::ZERO;
        time += SimDuration::from_secs(1);
        assert_eq!(time.as_nanos(), 1_000_000_000);
    }

    #[test]
    fn views_as_floats_agree() {
        let span = SimDuration::from_micros(1_500);
        assert_eq!(
            [
                span.as_micros_f64(),
                span.as_millis_f64(),
                span.as_secs_f64()
            ]
            .map(f64::to_bits),
            [1_500.0, 1.5, 0.0015].map(f64::to_bits)
        );
        assert_eq!(
            SimTime::from_nanos(500_000_000).as_secs_f64().to_bits(),
            0.5_f64.to_bits()
        );
    }

    #[test]
    #[should_panic(expected = "simulated time fits in 64 bits of nanoseconds")]
    fn time_does_not_wrap_around() {
        let _ = SimTime::MAX + SimDuration::from_nanos(1);
    }

    #[test]
    #[should_panic(expected = "a span fits in 64 bits of nanoseconds")]
    fn larger_units_do_not_wrap_around() {
        let _ = SimDuration::from_secs(u64::MAX);
    }
}

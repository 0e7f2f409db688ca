//! Count, mean, variance and range.

use core::ops::RangeInclusive;

use super::wide::U192;

/// Moments of 64-bit values, exact.
///
/// Kept are the count, the sum and the sum of squares, as integers wide enough for 2^64 values of
/// any size. Order and grouping therefore leave no trace: merging the tallies of the parts gives
/// the tally of the whole, bit for bit. Means and variances become floats only when asked for.
///
/// ```
/// use foretoken_des_kernel::stats::Tally;
///
/// let mut tally: Tally = [2, 4, 4, 4, 5, 5, 7, 9].into_iter().collect();
/// assert_eq!(tally.mean(), Some(5.0));
/// assert_eq!(tally.variance(), Some(32.0 / 7.0));
/// tally.record_n(5, 92);
/// assert_eq!((tally.count(), tally.min(), tally.max()), (100, Some(2), Some(9)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    count: u64,
    sum: u128,
    squares: U192,
    min: u64,
    max: u64,
}

impl Tally {
    /// No values.
    pub const fn new() -> Self {
        let squares = U192::product(0, 0);
        Self {
            count: 0,
            sum: 0,
            squares,
            min: u64::MAX,
            max: 0,
        }
    }

    /// The tally of values that somebody else added up; `range` is from the least to the greatest.
    pub(super) const fn of_sums(
        count: u64,
        sum: u128,
        squares: u128,
        range: RangeInclusive<u64>,
    ) -> Self {
        Self {
            count,
            sum,
            squares: U192::product(squares, 1),
            min: *range.start(),
            max: *range.end(),
        }
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Adds the same value `times` times; zero times is nothing.
    ///
    /// # Panics
    /// If more than 2^64 values are recorded in all.
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let wide = u128::from(value);
        self.merge(&Self {
            count: times,
            sum: wide * u128::from(times),
            squares: U192::product(wide * wide, times),
            min: value,
            max: value,
        });
    }

    /// Adds all values of `other`.
    ///
    /// # Panics
    /// If more than 2^64 values are recorded in all.
    pub fn merge(&mut self, other: &Self) {
        self.count = self
            .count
            .checked_add(other.count)
            .expect("a tally holds below 2^64 values");
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The number of values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// `true` without values.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sum of the values.
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The least value.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }

    /// The greatest value.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// The mean.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.count as f64)
    }

    /// The sample variance (divisor `count - 1`), or `None` below two values.
    ///
    /// Accurate to a few units in the last place however large the mean is beside the spread: the
    /// subtraction that cancels is done in integers.
    pub fn variance(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let (mean, rest) = self.rounded_mean();
        // With m the rounded mean and r = sum - count m, the sum of (x - m)^2 is
        // squares - m (sum + r), and the rounding has added r^2 / count to it.
        // Rounding to the *nearest* integer keeps that below half of the sum.
        // Neither zero nor 2^128 is within reach: |r| is below the sum and below 2^64.
        let shifted = self.sum.wrapping_add_signed(rest);
        let spread = (self.squares - U192::product(shifted, mean)).to_f64();
        let rest = rest as f64;
        Some((spread - rest * rest / self.count as f64) / (self.count - 1) as f64)
    }

    /// The square root of the [variance](Self::variance).
    pub fn std_dev(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The standard error of the mean, if the values are independent.
    pub fn std_error(&self) -> Option<f64> {
        self.variance()
            .map(|variance| (variance / self.count as f64).sqrt())
    }

    /// The integer nearest to the mean, and what it leaves of the sum.
    fn rounded_mean(&self) -> (u64, i128) {
        let count = u128::from(self.count);
        let (below, rest) = (self.sum / count, self.sum % count);
        let (mean, rest) = if 2 * rest > count {
            (below + 1, -signed(count - rest))
        } else {
            (below, signed(rest))
        };
        (
            u64::try_from(mean).expect("a mean of 64-bit values fits in 64 bits"),
            rest,
        )
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Extend<u64> for Tally {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<u64> for Tally {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut tally = Self::new();
        tally.extend(values);
        tally
    }
}

fn signed(remainder: u128) -> i128 {
    i128::try_from(remainder).expect("a remainder of a 64-bit divisor fits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_tally_has_no_moments() {
        let tally = Tally::new();
        assert_eq!((tally.count(), tally.sum()), (0, 0));
        assert_eq!((tally.mean(), tally.variance()), (None, None));
        assert_eq!((tally.min(), tally.max()), (None, None));
    }

    #[test]
    fn one_value_has_a_mean_but_no_variance() {
        let tally = Tally::from_iter([7]);
        assert_eq!((tally.mean(), tally.variance()), (Some(7.0), None));
    }

    #[test]
    fn a_huge_mean_does_not_swallow_a_small_spread() {
        let base = u64::MAX - 10;
        let tally = Tally::from_iter([base, base + 1, base + 2]);
        assert_eq!(tally.variance(), Some(1.0));
    }

    #[test]
    fn one_odd_value_among_a_billion_is_seen() {
        let mut tally = Tally::new();
        tally.record_n(8, 999_999_999);
        tally.record(7);
        // (n - 1) / n / (n - 1) = 1 / n
        let error = tally.variance().expect("two values and more") * 1e9 - 1.0;
        assert!(error.abs() < 1e-9, "relative error {error}");
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let mut tally = Tally::new();
        tally.record_n(u64::MAX, 1 << 40);
        tally.record_n(0, 1 << 40);
        let half = u64::MAX as f64 / 2.0;
        let ratio = tally.std_dev().expect("many values") / half;
        assert!((ratio - 1.0).abs() < 1e-12, "ratio {ratio}");
    }

    #[test]
    fn equal_values_have_no_spread() {
        let mut tally = Tally::new();
        tally.record_n(u64::MAX, 12_345);
        assert_eq!(
            (tally.variance(), tally.std_error()),
            (Some(0.0), Some(0.0))
        );
    }

    #[test]
    fn recording_zero_times_is_nothing() {
        let mut tally = Tally::new();
        tally.record_n(5, 0);
        assert_eq!(tally, Tally::new());
    }
}

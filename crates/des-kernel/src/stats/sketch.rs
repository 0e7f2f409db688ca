//! Approximate quantiles in constant memory.

use super::tally::Tally;
use super::{closest_ranks, interpolate};

/// Each power of two is split into 2^7 buckets of equal width.
const SPLIT_BITS: u32 = 7;

/// A histogram whose buckets grow with the value, for quantiles within 0.4 %.
///
/// Every octave is split linearly into 128 buckets, and values below 256 have a bucket each; a
/// bucket is found by shifts, without logarithms. Count, sum, mean, variance and range are exact.
///
/// Merging is exact: the sketch of a whole equals the merged sketches of its parts, in any order.
///
/// ```
/// use foretoken_des_kernel::stats::Sketch;
///
/// let (mut even, mut odd, mut all) = (Sketch::new(), Sketch::new(), Sketch::new());
/// for value in 0..100_000 {
///     all.record(value);
///     if value % 2 == 0 { even.record(value) } else { odd.record(value) }
/// }
/// even.merge(&odd);
/// assert_eq!(even, all);
///
/// let p99 = all.quantile(0.99).unwrap();
/// assert!((p99 / 98_999.01 - 1.0).abs() <= Sketch::RELATIVE_ERROR);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sketch {
    tally: Tally,
    /// How many values fell into each bucket, up to the last that has any.
    buckets: Vec<u64>,
}

impl Sketch {
    /// No quantile is off by more than this share of its value.
    ///
    /// A bucket is at most 1/128 of its lowest value wide, and its middle stands for it.
    pub const RELATIVE_ERROR: f64 = 1.0 / 256.0;

    /// No values.
    pub const fn new() -> Self {
        Self {
            tally: Tally::new(),
            buckets: Vec::new(),
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
        self.tally.record_n(value, times);
        let bucket = bucket_of(value);
        self.grow(bucket + 1);
        self.buckets[bucket] += times;
    }

    /// Adds all values of `other`.
    ///
    /// # Panics
    /// If more than 2^64 values are recorded in all.
    pub fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.grow(other.buckets.len());
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// The number of values.
    pub const fn count(&self) -> u64 {
        self.tally.count()
    }

    /// `true` without values.
    pub const fn is_empty(&self) -> bool {
        self.tally.is_empty()
    }

    /// The mean, exact.
    pub fn mean(&self) -> Option<f64> {
        self.tally.mean()
    }

    /// Count, sum, mean, variance and range, all exact.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The value that a share `q` of all values does not exceed, within
    /// [`RELATIVE_ERROR`](Self::RELATIVE_ERROR) of what [`Quantiles`](super::Quantiles) would give;
    /// `None` without values and for `q` outside `[0, 1]`.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let (below, above, fraction) = closest_ranks(q, self.count())?;
        Some(interpolate(
            self.value_at(below),
            self.value_at(above),
            fraction,
        ))
    }

    fn grow(&mut self, len: usize) {
        if self.buckets.len() < len {
            self.buckets.resize(len, 0);
        }
    }

    fn value_at(&self, rank: u64) -> f64 {
        let mut up_to = 0;
        let bucket = self.buckets.iter().position(|&times| {
            up_to += times;
            rank < up_to
        });
        let middle = middle_of(bucket.expect("a rank is below the count"));
        // The range is known exactly; no answer lies outside of it.
        middle.clamp(
            self.tally.min().unwrap_or(0) as f64,
            self.tally.max().unwrap_or(0) as f64,
        )
    }
}

impl Extend<u64> for Sketch {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<u64> for Sketch {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut sketch = Self::new();
        sketch.extend(values);
        sketch
    }
}

/// Values of one octave are cut to their leading eight bits; each octave adds 128 buckets.
fn bucket_of(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(SPLIT_BITS + 1);
    let bucket = (u64::from(shift) << SPLIT_BITS) + (value >> shift);
    usize::try_from(bucket).expect("there are fewer than 2^13 buckets")
}

/// The middle of the values that fall into a bucket.
fn middle_of(bucket: usize) -> f64 {
    let shift = (bucket >> SPLIT_BITS).saturating_sub(1);
    let leading = (bucket - (shift << SPLIT_BITS)) as u64;
    let (lowest, width) = (leading << shift, 1_u64 << shift);
    lowest as f64 + (width - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap_or_overlap() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), 7_423);
        let mut last = 0;
        for shift in 0..57 {
            for leading in 128..256_u64 {
                let lowest = leading << shift;
                let highest = lowest + ((1 << shift) - 1);
                assert_eq!(bucket_of(lowest), bucket_of(highest));
                assert_eq!(bucket_of(lowest), bucket_of(lowest - 1) + 1);
                last = bucket_of(highest);
            }
        }
        assert_eq!(last, 7_423);
    }

    #[test]
    fn small_values_are_exact() {
        for value in 0..256 {
            assert_eq!(Sketch::from_iter([value]).quantile(0.5), Some(value as f64));
            assert_eq!(
                middle_of(bucket_of(value)).to_bits(),
                (value as f64).to_bits()
            );
        }
    }

    #[test]
    fn the_ends_are_exact() {
        let sketch = Sketch::from_iter([12_345, 1_000_003]);
        assert_eq!(sketch.tally().max(), Some(1_000_003));
        let low = sketch.quantile(0.0).expect("there are values");
        let high = sketch.quantile(1.0).expect("there are values");
        assert!((12_345.0..=1_000_003.0).contains(&low));
        assert!((12_345.0..=1_000_003.0).contains(&high));
    }

    #[test]
    fn extremes_have_a_bucket() {
        let sketch = Sketch::from_iter([0, u64::MAX]);
        assert_eq!(sketch.quantile(0.0), Some(0.0));
        let top = sketch.quantile(1.0).expect("there are values");
        assert!((top / u64::MAX as f64 - 1.0).abs() <= Sketch::RELATIVE_ERROR);
    }

    #[test]
    fn recording_zero_times_is_nothing() {
        let mut sketch = Sketch::new();
        sketch.record_n(1 << 40, 0);
        assert_eq!(sketch, Sketch::new());
        assert_eq!(sketch.quantile(0.5), None);
    }
}

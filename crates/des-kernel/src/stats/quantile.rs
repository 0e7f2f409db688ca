//! Exact quantiles.

use super::tally::Tally;
use super::{closest_ranks, interpolate};

/// All values, for exact quantiles.
///
/// Equal values share one entry of 16 bytes, so that memory follows the number of *distinct*
/// values (at most twice that many entries are held). Values are sorted when a quantile is asked
/// for, or when the unsorted ones outgrow the sorted; ten million are no trouble. Beyond that, or
/// in constant memory, use a [`Sketch`](super::Sketch).
///
/// Quantiles follow the "linear" definition: between the two closest ranks, as `NumPy` does by
/// default.
///
/// ```
/// use foretoken_des_kernel::stats::Quantiles;
///
/// let mut latencies = Quantiles::new();
/// for value in [40, 10, 20] {
///     latencies.record(value);
/// }
/// latencies.record_n(30, 2);
/// assert_eq!(latencies.quantile(0.5), Some(30.0));
/// assert_eq!(latencies.quantile(0.9), Some(36.0)); // numpy.quantile([10, 20, 30, 30, 40], 0.9)
/// assert_eq!(latencies.fraction_at_most(20), Some(0.4));
/// assert_eq!(latencies.tally().mean(), Some(26.0));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Quantiles {
    tally: Tally,
    /// The first `sorted` are strictly increasing in value.
    runs: Vec<Run>,
    sorted: usize,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    value: u64,
    times: u64,
}

/// Unsorted entries below this number are not worth compacting.
const SMALL: usize = 4_096;

impl Quantiles {
    /// No values.
    pub const fn new() -> Self {
        Self {
            tally: Tally::new(),
            runs: Vec::new(),
            sorted: 0,
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
        self.push(Run { value, times });
    }

    /// Adds all values of `other`.
    ///
    /// # Panics
    /// If more than 2^64 values are recorded in all.
    pub fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        for &run in &other.runs {
            self.push(run);
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

    /// The mean.
    pub fn mean(&self) -> Option<f64> {
        self.tally.mean()
    }

    /// Count, sum, mean, variance and range.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The value that a share `q` of all values does not exceed, interpolated between the two
    /// closest ranks; `None` without values and for `q` outside `[0, 1]`.
    ///
    /// Sorts what came since the last call.
    pub fn quantile(&mut self, q: f64) -> Option<f64> {
        let (below, above, fraction) = closest_ranks(q, self.count())?;
        self.compact();
        Some(interpolate(
            self.value_at(below),
            self.value_at(above),
            fraction,
        ))
    }

    /// The share of values that are `limit` or less; `None` without values.
    pub fn fraction_at_most(&mut self, limit: u64) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let within: u64 = self
            .runs()
            .take_while(|run| run.0 <= limit)
            .map(|run| run.1)
            .sum();
        Some(within as f64 / self.count() as f64)
    }

    /// The distinct values in increasing order, each with its multiplicity.
    pub fn runs(&mut self) -> impl Iterator<Item = (u64, u64)> {
        self.compact();
        self.runs.iter().map(|run| (run.value, run.times))
    }

    fn push(&mut self, run: Run) {
        let all_sorted = self.sorted == self.runs.len();
        match self.runs.last_mut() {
            Some(last) if last.value == run.value => last.times += run.times,
            // Keeps what comes in order sorted, at no cost.
            Some(last) if all_sorted && last.value < run.value => {
                self.runs.push(run);
                self.sorted += 1;
            }
            _ => {
                self.runs.push(run);
                // Sorting only when the entries have doubled makes it cheap on average.
                if self.runs.len() - self.sorted > self.sorted.max(SMALL) {
                    self.compact();
                }
            }
        }
    }

    /// Sorts all runs and joins those of equal value.
    fn compact(&mut self) {
        if self.sorted == self.runs.len() {
            return;
        }
        // The stable sort finds the sorted prefix and merges; nothing else depends on stability.
        self.runs.sort_by_key(|run| run.value);
        self.runs.dedup_by(|next, kept| {
            let equal = next.value == kept.value;
            if equal {
                kept.times += next.times;
            }
            equal
        });
        self.sorted = self.runs.len();
    }

    /// The value of the given zero-based rank; the runs are sorted.
    fn value_at(&self, rank: u64) -> f64 {
        // Without duplicates the rank is the index.
        if self.runs.len() as u64 == self.count() {
            let index = usize::try_from(rank).expect("a rank below a length fits in usize");
            return self.runs[index].value as f64;
        }
        let mut up_to = 0;
        let run = self.runs.iter().find(|run| {
            up_to += run.times;
            rank < up_to
        });
        run.expect("a rank is below the count").value as f64
    }
}

impl Extend<u64> for Quantiles {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<u64> for Quantiles {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut quantiles = Self::new();
        quantiles.extend(values);
        quantiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_quantiles() {
        let mut empty = Quantiles::new();
        empty.record_n(3, 0);
        assert_eq!((empty.quantile(0.5), empty.mean()), (None, None));
        assert_eq!(empty.fraction_at_most(3), None);
    }

    #[test]
    fn impossible_quantiles_are_refused() {
        let mut one = Quantiles::from_iter([1]);
        assert_eq!((one.quantile(-0.01), one.quantile(1.01)), (None, None));
        assert_eq!(one.quantile(f64::NAN), None);
    }

    #[test]
    fn a_lone_value_is_every_quantile() {
        let mut one = Quantiles::from_iter([42]);
        for q in [0.0, 0.3, 1.0] {
            assert_eq!(one.quantile(q), Some(42.0));
        }
    }

    #[test]
    fn quantiles_equal_those_of_numpy() {
        // numpy.quantile([3, 1, 4, 1, 5, 9, 2, 6], [0, .1, .25, .5, .77, .99, 1])
        let mut digits = Quantiles::from_iter([3, 1, 4, 1, 5, 9, 2, 6]);
        let expected = [
            (0.0, 1.0),
            (0.1, 1.0),
            (0.25, 1.75),
            (0.5, 3.5),
            (0.77, 5.39),
            (0.99, 8.79),
        ];
        for (q, value) in expected {
            let got = digits.quantile(q).expect("there are values");
            assert!(
                (got - value).abs() < 1e-12,
                "quantile {q} is {got}, expected {value}"
            );
        }
        assert_eq!(digits.quantile(1.0), Some(9.0));
    }

    #[test]
    fn recording_goes_on_after_a_question() {
        let mut values = Quantiles::from_iter([5, 3]);
        assert_eq!(values.quantile(1.0), Some(5.0));
        values.record(1);
        values.record(5);
        assert_eq!(values.quantile(0.0), Some(1.0));
        assert_eq!(values.runs().collect::<Vec<_>>(), [(1, 1), (3, 1), (5, 2)]);
    }

    #[test]
    fn memory_follows_the_distinct_values() {
        let mut values = Quantiles::new();
        for number in 0..1_000_000_u64 {
            values.record(number * 7_919 % 1_000);
        }
        assert!(
            values.runs.len() <= 2 * SMALL,
            "{} entries",
            values.runs.len()
        );
        assert_eq!(values.quantile(0.5), Some(499.5));
        assert_eq!(values.runs.len(), 1_000);
    }

    #[test]
    fn a_merge_equals_recording_everything() {
        let mut left = Quantiles::from_iter([5, 1, 1]);
        let right = Quantiles::from_iter([1, 9]);
        left.merge(&right);
        assert_eq!(left.runs().collect::<Vec<_>>(), [(1, 3), (5, 1), (9, 1)]);
        assert_eq!(left.tally(), &Tally::from_iter([1, 1, 1, 5, 9]));
    }
}

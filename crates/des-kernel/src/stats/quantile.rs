//! Exact quantiles.

use std::sync::Arc;

use super::ranks::Ranks;
use super::run::{Packed, Run, merged, tally_of};
use super::tally::Tally;
use super::window::Window;
use super::{closest_ranks, interpolate};
use crate::digits::sort_by_digits;

/// All values, for exact quantiles; or, [beyond a limit](Self::limited), for close ones.
///
/// Equal values share one entry of 16 bytes, so that memory follows the number of *distinct*
/// values; unsorted ones take as much again at most, or 2 MB, and three times that while they are sorted. Values
/// are sorted when a quantile is asked for, or when the unsorted ones outgrow the sorted. If most of many values
/// lie close together and come again, these are counted in the meantime, in 4 bytes for each number between the least and
/// the greatest of them: 256 bytes for a distinct value at most, and 16 MB in all. Who asks often pays for that with
/// up to twice the time. For quantiles in constant memory from the first value on use a [`Sketch`](super::Sketch).
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
    /// Of all values but the `recent` ones from `tallied` on: those are tallied together, so that recording one
    /// is little more than a push.
    tally: Tally,
    tallied: usize,
    /// Strictly increasing in value; shared with copies, of which reports make some.
    sorted: Arc<Vec<Run>>,
    /// Counts most of them while nobody asks.
    window: Window,
    /// In the order in which they came, and as they came, even if all are rounded in the end. The first of them may be
    /// left over from the counting of others.
    recent: Vec<Packed>,
    /// More distinct values than this are rounded.
    limit: Option<usize>,
    rounded: bool,
    ranks: Ranks,
}

/// Unsorted entries below this number are not worth sorting.
const SMALL: usize = 1 << 18;

/// A merged collection with so many times fewer runs waits among the recent values, to be sorted with them; a larger
/// one is merged at once.
const FAR_FEWER: usize = 4;

/// Rounded values keep so many bits after the first, and stand in the middle of those that share them.
const ROUNDED_BITS: u32 = 10;

impl Quantiles {
    /// No value is rounded by more than this share of it.
    pub const ROUNDING_ERROR: f64 = 1.0 / (2_u32 << ROUNDED_BITS) as f64;

    /// No values.
    pub fn new() -> Self {
        Self {
            tally: Tally::new(),
            tallied: 0,
            sorted: Arc::default(),
            window: Window::new(),
            recent: Vec::new(),
            limit: None,
            rounded: false,
            ranks: Ranks::new(),
        }
    }

    /// No values. With more than `distinct` different ones all are rounded, by
    /// [`ROUNDING_ERROR`](Self::ROUNDING_ERROR) at most, as a [`Sketch`](super::Sketch) does with
    /// buckets of that width: at most 56 thousand can be told apart from then on. Count, sum, mean,
    /// variance and range stay exact.
    ///
    /// ```
    /// use foretoken_des_kernel::stats::Quantiles;
    ///
    /// let (mut exact, mut close) = (Quantiles::new(), Quantiles::limited(10_000));
    /// for value in 1_000_000..1_100_000 {
    ///     exact.record(value);
    ///     close.record(value);
    /// }
    /// assert!(exact.is_exact() && !close.is_exact());
    /// let (exact, close) = (exact.quantile(0.9).unwrap(), close.quantile(0.9).unwrap());
    /// assert!((close / exact - 1.0).abs() <= Quantiles::ROUNDING_ERROR);
    /// ```
    pub fn limited(distinct: usize) -> Self {
        Self {
            limit: Some(distinct),
            ..Self::new()
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
    #[inline]
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        if let Some(packed) = Packed::new(value, times) {
            // What is always the same takes one entry.
            let untallied = self.recent.get_mut(self.tallied..);
            if let Some(last) = untallied.and_then(<[_]>::last_mut)
                && let Some(both) = last.and(packed)
            {
                *last = both;
                return;
            }
            self.recent.push(packed);
            self.compact_if_many();
        } else {
            self.tally.record_n(value, times);
            self.insert(Run { value, times });
        }
    }

    /// Adds each of `values` as often as `times` says. They should be few: all are kept until the last has come.
    ///
    /// # Panics
    /// If more than 2^64 values are recorded in all.
    pub fn record_each(&mut self, values: impl IntoIterator<Item = u64>, times: u64) {
        if times == 0 {
            return;
        }
        let untallied = self.recent.get(self.tallied..);
        let mut last = untallied.and_then(<[_]>::last).map(|run| run.value());
        for value in values {
            match Packed::new(value, times) {
                Some(packed) if last != Some(value) => self.recent.push(packed),
                _ => self.record_n(value, times),
            }
            last = Some(value);
        }
        self.compact_if_many();
    }

    /// Adds all values of `other`. If nobody has asked `other` lately it is copied for that.
    ///
    /// # Panics
    /// If more than 2^64 values are recorded in all.
    pub fn merge(&mut self, other: &Self) {
        if other.window.is_open() {
            let mut other = other.clone();
            other.close_window();
            return self.merge(&other);
        }
        // What is merged is tallied already, before it was rounded.
        self.tally = self.tally();
        self.tally.merge(&other.tally());
        if other.rounded && !self.rounded {
            self.round();
        }
        if self.sorted.is_empty() && !self.rounded {
            self.sorted.clone_from(&other.sorted);
            self.round_if_many();
        } else if other.sorted.len() >= self.sorted.len() / FAR_FEWER && !self.rounded {
            self.sorted = Arc::new(merged(&self.sorted, &other.sorted));
            self.round_if_many();
        } else {
            for &run in &*other.sorted {
                match Packed::new(run.value, run.times) {
                    Some(packed) => self.recent.push(packed),
                    None => self.insert(run),
                }
            }
        }
        self.recent.extend_from_slice(&other.recent);
        self.tallied = self.recent.len();
        self.compact_if_many();
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        let untallied = self.recent[self.tallied..].iter();
        self.tally.count() + untallied.map(|run| run.times()).sum::<u64>()
    }

    /// `true` without values.
    pub const fn is_empty(&self) -> bool {
        self.tally.is_empty() && self.recent.is_empty()
    }

    /// The mean.
    pub fn mean(&self) -> Option<f64> {
        self.tally().mean()
    }

    /// Count, sum, mean, variance and range, all exact.
    ///
    /// Looks at what came since the values were last counted or sorted.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally;
        for some in self.recent[self.tallied..].chunks(SMALL) {
            tally.merge(&tally_of(some));
        }
        tally
    }

    /// Whether no value had to be rounded.
    ///
    /// Sorts what came since the last call.
    pub fn is_exact(&mut self) -> bool {
        self.compact();
        !self.rounded
    }

    /// Sorts what came since the last question, so that the next one, to a copy as well, need not.
    pub fn sort(&mut self) {
        self.compact();
    }

    /// The value that a share `q` of all values does not exceed, interpolated between the two
    /// closest ranks; `None` without values and for `q` outside `[0, 1]`.
    ///
    /// Sorts what came since the last call.
    pub fn quantile(&mut self, q: f64) -> Option<f64> {
        self.compact();
        let (below, above, fraction) = closest_ranks(q, self.count())?;
        if self.ranks.count() != self.count() {
            self.ranks = Ranks::of(&self.sorted);
        }
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
        self.sorted.iter().map(|run| (run.value, run.times))
    }

    /// Sorting only when the entries have grown by a multiple makes it cheap on average.
    #[inline]
    fn compact_if_many(&mut self) {
        if self.recent.len() > SMALL.max(2 * self.sorted.len()) {
            self.make_room();
        }
    }

    /// Counts what came as far as there are counters, or sorts it.
    #[cold]
    fn make_room(&mut self) {
        self.tally_recent();
        if self.window.is_open() {
            self.window.count_most(&mut self.recent);
            self.tallied = self.recent.len();
        }
        let (entries, distinct) = (self.recent.len(), self.sorted.len());
        if entries > SMALL / 2 {
            self.sort_recent();
            // Counting is worth it for values that come again.
            let new = self.sorted.len() - distinct;
            if new < entries / 2 && !self.window.is_open() && !self.rounded {
                self.open_window();
            }
        }
        let distinct = self.sorted.len() + self.window.distinct();
        if self.limit.is_some_and(|limit| distinct > limit) {
            self.compact();
        }
    }

    /// Counts from now on, if most values lie close together.
    fn open_window(&mut self) {
        let mut window = Window::over(&self.sorted);
        if window.is_open() {
            let sorted = Arc::make_mut(&mut self.sorted);
            sorted.retain(|run| !window.count(run.value, run.times));
            sorted.shrink_to_fit();
            self.window = window;
        }
    }

    /// Puts a run in its place: at the end, or it is one of the few that cannot be packed.
    #[cold]
    fn insert(&mut self, mut run: Run) {
        if self.rounded {
            run.value = rounded(run.value);
        }
        let sorted = Arc::make_mut(&mut self.sorted);
        match sorted.last_mut() {
            Some(last) if last.value == run.value => last.times += run.times,
            Some(last) if last.value > run.value => {
                let place = sorted.binary_search_by_key(&run.value, |run| run.value);
                match place {
                    Ok(place) => sorted[place].times += run.times,
                    Err(place) => sorted.insert(place, run),
                }
            }
            _ => sorted.push(run),
        }
        self.round_if_many();
    }

    /// Sorts all runs and joins those of equal value; rounds them if they are too many.
    fn compact(&mut self) {
        self.close_window();
        if !self.recent.is_empty() {
            self.tally_recent();
            self.sort_recent();
            self.recent = Vec::new();
        }
        self.round_if_many();
    }

    fn tally_recent(&mut self) {
        self.tally = self.tally();
        self.tallied = self.recent.len();
    }

    fn sort_recent(&mut self) {
        if self.rounded {
            for run in &mut self.recent {
                *run = run.map(rounded);
            }
        }
        sort_by_digits(&mut self.recent, Packed::value);
        self.sorted = Arc::new(merged(&self.sorted, &self.recent));
        self.recent.clear();
        self.tallied = 0;
    }

    fn close_window(&mut self) {
        if self.window.is_open() {
            self.sorted = Arc::new(merged(&self.sorted, &self.window.close()));
        }
    }

    fn round_if_many(&mut self) {
        if !self.rounded && self.limit.is_some_and(|limit| self.sorted.len() > limit) {
            self.round();
        }
    }

    /// Rounds the sorted values, and all that will be sorted.
    fn round(&mut self) {
        self.close_window();
        self.rounded = true;
        self.ranks = Ranks::new();
        for &run in &*core::mem::take(&mut self.sorted) {
            // Rounding keeps their order.
            self.insert(run);
        }
    }

    /// The value of the given zero-based rank; all are sorted and indexed.
    fn value_at(&self, rank: u64) -> f64 {
        let value = self.sorted[self.ranks.place(rank, &self.sorted)].value;
        // The range is known exactly, whatever was rounded.
        let (low, high) = self.tally.min().zip(self.tally.max()).unwrap_or_default();
        let value = match rank {
            0 => low,
            rank if rank + 1 == self.count() => high,
            _ => value.clamp(low, high),
        };
        value as f64
    }
}

/// The middle of the values that begin with the same bits.
fn rounded(value: u64) -> u64 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(ROUNDED_BITS + 1);
    let width = 1_u64 << shift;
    value / width * width + (width - 1) / 2
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
mod tests;

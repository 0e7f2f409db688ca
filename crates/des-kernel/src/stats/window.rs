//! [`Window`]: counters of values that lie close together.

use super::run::{Packed, Run};

/// Counts the values of a range in which most of them lie: cheaper than sorting them, again and again the same.
///
/// Step times of an engine are such values: millions of them within a few milliseconds, counted in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    from: u64,
    /// How often each value came, from `from` on. A full counter takes no more.
    counts: Vec<u32>,
    /// How many of them are not zero.
    distinct: usize,
}

/// Most counters: they take 16 MB.
const WIDEST: usize = 1 << 22;

/// So many neighbours among the distinct values are looked at together.
const NEIGHBOURS: usize = 256;

/// Neighbours are close if there is one among so many numbers.
const SPARSEST: u64 = 64;

impl Window {
    /// Without counters.
    pub(super) const fn new() -> Self {
        Self {
            from: 0,
            counts: Vec::new(),
            distinct: 0,
        }
    }

    /// From the first to the last of the sorted values that lie close together, if there are such; it has not counted
    /// any.
    pub(super) fn over(sorted: &[Run]) -> Self {
        let is_close = |some: &&[Run]| match some {
            [first, .., last] => last.value - first.value < SPARSEST * some.len() as u64,
            _ => false,
        };
        let mut close = sorted.chunks_exact(NEIGHBOURS).filter(is_close);
        let Some(first) = close.next() else {
            return Self::new();
        };
        let last = close.next_back().unwrap_or(first);
        let from = first[0].value;
        let width = last[last.len() - 1].value - from + 1;
        Self {
            from,
            counts: vec![0; usize::try_from(width).map_or(WIDEST, |width| width.min(WIDEST))],
            distinct: 0,
        }
    }

    /// How many different values it has counted.
    pub(super) const fn distinct(&self) -> usize {
        self.distinct
    }

    /// Whether it counts at all.
    pub(super) const fn is_open(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Counts a value that came so many times; `false` if it has no counter or that one is full.
    #[inline]
    pub(super) fn count(&mut self, value: u64, times: u64) -> bool {
        // What is below the window ends up far above it.
        let place = usize::try_from(value.wrapping_sub(self.from)).unwrap_or(usize::MAX);
        let Some(count) = self.counts.get_mut(place) else {
            return false;
        };
        let Ok(more) = u32::try_from(u64::from(*count) + times) else {
            return false;
        };
        self.distinct += usize::from(*count == 0);
        *count = more;
        true
    }

    /// Counts those that have a counter, and leaves the others.
    pub(super) fn count_most(&mut self, runs: &mut Vec<Packed>) {
        runs.retain(|run| !self.count(run.value(), run.times()));
    }

    /// What was counted, in the order of value; the window is closed.
    pub(super) fn close(&mut self) -> Vec<Run> {
        let mut counted = Vec::with_capacity(self.distinct);
        for (value, times) in (self.from..).zip(core::mem::take(self).counts) {
            if times > 0 {
                let times = times.into();
                counted.push(Run { value, times });
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: impl IntoIterator<Item = u64>) -> Vec<Run> {
        let runs = values.into_iter().map(|value| Run { value, times: 1 });
        runs.collect()
    }

    #[test]
    fn a_window_spans_what_lies_close_together() {
        let far = (0..1_000).map(|number| number * 1_000_000);
        let close = (0..1_024).map(|number| 2_000_000_000 + number * 3);
        let sorted = runs(far.chain(close));
        let mut window = Window::over(&sorted);
        assert!(window.is_open());
        assert!(!window.count(5_000_000, 1) && !window.count(3_000_000_000, 1));
        assert!(window.count(2_000_001_000, 2) && window.count(2_000_001_000, 3));
        assert_eq!(window.distinct(), 1);
        let [counted] = window.close()[..] else {
            panic!("one value was counted")
        };
        assert_eq!((counted.value, counted.times), (2_000_001_000, 5));
        assert!(!window.is_open() && !window.count(2_000_001_000, 1));
    }

    #[test]
    fn values_that_lie_far_apart_have_no_window() {
        let far = runs((0..10_000).map(|number| number * 1_000));
        assert!(!Window::over(&far).is_open());
        assert!(!Window::over(&runs(0..100)).is_open());
    }

    #[test]
    fn a_full_counter_takes_no_more() {
        let mut window = Window::over(&runs(7..7 + 256));
        assert!(window.count(9, u32::MAX.into()));
        assert!(!window.count(9, 1));
        assert!(!window.count(10, 1 << 32));
        assert_eq!(window.close().len(), 1);
    }

    #[test]
    fn a_window_is_not_wider_than_memory_allows() {
        let sorted = runs((0..1 << 18).map(|number| number * 32));
        let mut window = Window::over(&sorted);
        assert!(window.count(0, 1) && window.count((1 << 22) - 1, 1));
        assert!(!window.count(1 << 22, 1));
    }
}

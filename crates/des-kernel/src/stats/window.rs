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

/// Values are close if there is one among so many numbers.
const SPARSEST: usize = 64;

impl Window {
    /// Without counters.
    pub(super) const fn new() -> Self {
        Self {
            from: 0,
            counts: Vec::new(),
            distinct: 0,
        }
    }

    /// From the first to the last of the sorted values that lie close together, if there are such and all between are
    /// close, too; it has not counted any.
    pub(super) fn over(sorted: &[Run]) -> Self {
        let mut chunks = sorted.chunks_exact(NEIGHBOURS);
        let first = chunks.clone().position(is_close);
        let last = chunks.rposition(is_close);
        let Some((first, last)) = first.zip(last) else {
            return Self::new();
        };
        let from = sorted[first * NEIGHBOURS].value;
        let furthest = sorted[(last + 1) * NEIGHBOURS - 1].value - from;
        let width =
            usize::try_from(furthest).map_or(WIDEST, |furthest| furthest.min(WIDEST - 1) + 1);
        let beyond = sorted.partition_point(|run| {
            let place = run.value.saturating_sub(from);
            usize::try_from(place).is_ok_and(|place| place < width)
        });
        if beyond - first * NEIGHBOURS < width / SPARSEST {
            return Self::new();
        }
        Self {
            from,
            counts: vec![0; width],
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
        let Self { from, counts, .. } = core::mem::take(self);
        for (place, times) in (0_u64..).zip(counts) {
            if times > 0 {
                counted.push(Run {
                    value: from + place,
                    times: times.into(),
                });
            }
        }
        counted
    }
}

fn is_close(neighbours: &[Run]) -> bool {
    match neighbours {
        [first, .., last] => last.value - first.value < (SPARSEST * neighbours.len()) as u64,
        _ => false,
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
    fn clusters_far_from_each_other_have_no_window() {
        let clusters = (0..256).chain(4_000_000..4_000_256);
        assert!(!Window::over(&runs(clusters)).is_open());
        let ends = (0..256).chain(u64::MAX - 255..=u64::MAX);
        assert!(!Window::over(&runs(ends)).is_open());
    }

    #[test]
    fn the_largest_values_are_counted_like_others() {
        let mut window = Window::over(&runs(u64::MAX - 255..=u64::MAX));
        assert!(window.count(u64::MAX, 2) && window.count(u64::MAX - 255, 1));
        let counted: Vec<_> = window
            .close()
            .iter()
            .map(|run| (run.value, run.times))
            .collect();
        assert_eq!(counted, [(u64::MAX - 255, 1), (u64::MAX, 2)]);
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

//! A time series that thins itself out, so that its size does not depend on the length of a run.

use foretoken_des_kernel::SimTime;

/// At most so many intervals are kept.
pub(crate) const MAX_INTERVALS: usize = 200;

/// Width of an interval at first.
const FIRST_WIDTH: u64 = 1_000_000;

/// Integrals of `N` quantities over intervals of equal width.
///
/// The width is a millisecond at first. When the intervals become too many, each two are joined, so
/// that between half of [`MAX_INTERVALS`] and all of them are in use, at any length of a run.
#[derive(Debug, Clone)]
pub(crate) struct Series<const N: usize> {
    width: u64,
    integrals: Vec<[u128; N]>,
    /// The interval that each quantity was added to last: most often the next one, too.
    current: [Interval; N],
}

/// An interval and its bounds; at first one that contains nothing.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    index: usize,
    start: u64,
    end: u64,
}

impl<const N: usize> Series<N> {
    pub(crate) fn new() -> Self {
        Self {
            width: FIRST_WIDTH,
            integrals: Vec::new(),
            current: [Interval::default(); N],
        }
    }

    /// A quantity stood at `value` between two instants; called in any order, what it adds adds up.
    #[inline]
    pub(crate) fn add(&mut self, quantity: usize, from: SimTime, to: SimTime, value: u64) {
        let (from, to) = (from.as_nanos(), to.as_nanos());
        if from >= to {
            return;
        }
        let Interval { index, start, end } = self.current[quantity];
        if start <= from && to <= end {
            self.integrals[index][quantity] += u128::from(value) * u128::from(to - from);
        } else {
            self.share_out(quantity, from, to, value);
        }
    }

    /// The integral over an interval that contains an instant, or ends at it, and when that ends; `None` if there is
    /// no such interval yet. For those who add up what begins at that instant or later and ends by then.
    #[inline]
    pub(crate) fn integral(
        &mut self,
        quantity: usize,
        from: SimTime,
    ) -> Option<(&mut u128, SimTime)> {
        let from = from.as_nanos();
        let mut interval = self.current[quantity];
        if from < interval.start || interval.end < from {
            let number = from / self.width;
            interval = Interval {
                index: usize::try_from(number).ok()?,
                start: number * self.width,
                end: number.checked_add(1)?.checked_mul(self.width)?,
            };
            if self.integrals.len() <= interval.index {
                return None;
            }
            self.current[quantity] = interval;
        }
        let integrals = self.integrals.get_mut(interval.index)?;
        Some((&mut integrals[quantity], SimTime::from_nanos(interval.end)))
    }

    /// Adds to each interval between two instants, making as many as it takes.
    #[cold]
    fn share_out(&mut self, quantity: usize, mut from: u64, to: u64, value: u64) {
        while (to - 1) / self.width >= MAX_INTERVALS as u64 {
            self.join_pairs();
        }
        let mut interval = from / self.width;
        while from < to {
            let (start, end) = (interval * self.width, (interval + 1) * self.width);
            let index = usize::try_from(interval).expect("an interval is below MAX_INTERVALS");
            if self.integrals.len() <= index {
                self.integrals.resize(index + 1, [0; N]);
            }
            let until = to.min(end);
            self.integrals[index][quantity] += u128::from(value) * u128::from(until - from);
            self.current[quantity] = Interval { index, start, end };
            from = until;
            interval += 1;
        }
    }

    /// Width of the intervals, in nanoseconds.
    pub(crate) const fn width(&self) -> u64 {
        self.width
    }

    /// The integrals of each interval that begins before `end`, and the width of the interval up to
    /// `end`, in nanoseconds.
    pub(crate) fn intervals(&self, end: SimTime) -> impl Iterator<Item = ([u128; N], u64)> {
        let end = end.as_nanos();
        (0..)
            .map(|index| index * self.width)
            .take_while(move |&start| start < end)
            .zip(
                self.integrals
                    .iter()
                    .copied()
                    .chain(core::iter::repeat([0; N])),
            )
            .map(move |(start, integrals)| (integrals, self.width.min(end - start)))
    }

    fn join_pairs(&mut self) {
        self.width *= 2;
        self.current = [Interval::default(); N];
        for index in 0..self.integrals.len().div_ceil(2) {
            let mut sum = self.integrals[2 * index];
            if let Some(second) = self.integrals.get(2 * index + 1) {
                add_each(&mut sum, second);
            }
            self.integrals[index] = sum;
        }
        self.integrals.truncate(self.integrals.len().div_ceil(2));
    }
}

fn add_each<const N: usize>(sums: &mut [u128; N], more: &[u128; N]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The integrals over all time.
    fn totals<const N: usize>(series: &Series<N>) -> [u128; N] {
        let mut totals = [0; N];
        for integrals in &series.integrals {
            add_each(&mut totals, integrals);
        }
        totals
    }

    const fn ms(millis: u64) -> SimTime {
        SimTime::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_span_is_shared_out_among_its_intervals() {
        let mut series = Series::new();
        series.add(
            0,
            SimTime::from_nanos(500_000),
            SimTime::from_nanos(2_250_000),
            4,
        );
        let got: Vec<_> = series.intervals(SimTime::from_nanos(3_500_000)).collect();
        let million = 1_000_000;
        assert_eq!(
            got,
            [
                ([2 * million], 1_000_000),
                ([4 * million], 1_000_000),
                ([million], 1_000_000),
                ([0], 500_000)
            ]
        );
    }

    #[test]
    fn joining_intervals_keeps_the_totals() {
        let mut series = Series::new();
        for step in 0..12_345 {
            series.add(0, ms(step), ms(step + 1), step);
            series.add(1, ms(step), ms(step + 1), 1);
        }
        assert!(series.integrals.len() <= MAX_INTERVALS);
        assert!(series.integrals.len() >= MAX_INTERVALS / 2);
        assert_eq!(
            totals(&series),
            [12_345 * 12_344 / 2 * 1_000_000, 12_345 * 1_000_000]
        );
        assert_eq!(
            series.intervals(ms(12_345)).map(|each| each.1).sum::<u64>(),
            12_345_000_000
        );
    }

    #[test]
    fn the_order_of_what_is_added_does_not_matter() {
        let spans = [
            (0, 7, 2),
            (3, 4, 9),
            (350, 380, 1),
            (5, 9, 3),
            (8, 500, 1),
            (2, 4, 6),
        ];
        let fill = |spans: &mut dyn Iterator<Item = &(u64, u64, u64)>| {
            let mut series = Series::<1>::new();
            spans.for_each(|&(from, to, value)| series.add(0, ms(from), ms(to), value));
            series.intervals(ms(500)).collect::<Vec<_>>()
        };
        assert_eq!(fill(&mut spans.iter()), fill(&mut spans.iter().rev()));
    }

    #[test]
    fn an_empty_span_adds_nothing() {
        let mut series = Series::new();
        series.add(0, ms(3), ms(3), 1);
        assert_eq!(totals(&series), [0]);
        assert_eq!(series.intervals(SimTime::ZERO).count(), 0);
    }
}

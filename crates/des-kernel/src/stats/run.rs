//! Values and how often they came.

use super::tally::Tally;

/// A value, and how often it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) value: u64,
    pub(super) times: u64,
}

/// A run in one word: such are sorted in half the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed(u64);

/// The bits of a packed run that say how often. The others have room for nanoseconds of five hours.
const TIMES_BITS: u32 = 20;

impl Packed {
    /// `None` if value or multiplicity is too large.
    #[inline]
    pub(super) const fn new(value: u64, times: u64) -> Option<Self> {
        if value >> (u64::BITS - TIMES_BITS) == 0 && times >> TIMES_BITS == 0 {
            Some(Self(value << TIMES_BITS | times))
        } else {
            None
        }
    }

    #[inline]
    pub(super) const fn value(self) -> u64 {
        self.0 >> TIMES_BITS
    }

    #[inline]
    pub(super) const fn times(self) -> u64 {
        self.0 & ((1 << TIMES_BITS) - 1)
    }

    /// Of a value that is not larger by bits than this one, as often.
    #[inline]
    pub(super) fn map(self, value: impl FnOnce(u64) -> u64) -> Self {
        Self(value(self.value()) << TIMES_BITS | self.times())
    }

    /// Both in one, if they are of one value.
    #[inline]
    pub(super) fn and(self, other: Self) -> Option<Self> {
        (self.value() == other.value())
            .then(|| Self::new(self.value(), self.times() + other.times()))
            .flatten()
    }
}

impl From<Packed> for Run {
    #[inline]
    fn from(packed: Packed) -> Self {
        Self {
            value: packed.value(),
            times: packed.times(),
        }
    }
}

/// The tally of so few runs that the sum of their squares fits in 128 bits: 2^20 of them, as times the square of a
/// value is below 2^108.
pub(super) fn tally_of(runs: &[Packed]) -> Tally {
    let (mut count, mut sum, mut squares) = (0, 0, 0);
    let (mut min, mut max) = (u64::MAX, 0);
    for run in runs {
        let (value, times) = (run.value(), run.times());
        // Below 2^64, as both together have so many bits.
        let product = value * times;
        count += times;
        sum += u128::from(product);
        squares += u128::from(product) * u128::from(value);
        (min, max) = (min.min(value), max.max(value));
    }
    Tally::of_sums(count, sum, squares, min..=max)
}

/// Both in order of value, with one entry for each.
pub(super) fn merged<R: Copy + Into<Run>>(left: &[Run], right: &[R]) -> Vec<Run> {
    let mut all = Vec::<Run>::with_capacity(left.len() + right.len());
    let mut add = |run: Run| match all.last_mut() {
        Some(last) if last.value == run.value => last.times += run.times,
        _ => all.push(run),
    };
    let (mut lefts, mut rights) = (0, 0);
    // Which side comes next is as good as random: it is chosen without a branch.
    while let (Some(&left), Some(&right)) = (left.get(lefts), right.get(rights)) {
        let right: Run = right.into();
        let first = left.value <= right.value;
        add(if first { left } else { right });
        lefts += usize::from(first);
        rights += usize::from(!first);
    }
    left[lefts..].iter().for_each(|&run| add(run));
    right[rights..].iter().for_each(|&run| add(run.into()));
    all
}

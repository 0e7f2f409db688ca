//! [`Timeline`]: a fingerprint of the times of a request's tokens that takes many of them at once.

use foretoken_des_kernel::SimDuration;

/// A Mersenne prime: remainders take shifts and additions.
const PRIME: u64 = (1 << 61) - 1;

/// Any large number below the prime.
const BASE: u64 = 0x0a5f_4c3b_1d79_e862;

/// A polynomial fingerprint of a sequence of gaps: the value at a fixed point of the polynomial whose
/// coefficients are the gaps.
///
/// Unlike a chain of mixing steps it can be extended by a whole sequence whose own fingerprint is known:
/// all sequences of a batch share the gaps of a run of steps, which are hashed once. How a sequence is
/// cut into runs makes no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Timeline(u64);

/// The fingerprint of a sequence of gaps, and how far it moves what comes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extension {
    value: Timeline,
    /// `BASE` to the power of its length.
    shift: u64,
}

impl Default for Extension {
    /// By nothing.
    fn default() -> Self {
        Self {
            value: Timeline::default(),
            shift: 1,
        }
    }
}

impl Extension {
    /// Appends a gap.
    pub(crate) fn push(&mut self, gap: SimDuration) {
        self.value.push(gap);
        self.shift = multiply(self.shift, BASE);
    }
}

impl Timeline {
    /// Appends a gap.
    pub(crate) fn push(&mut self, gap: SimDuration) {
        self.0 = add(multiply(self.0, BASE), coefficient(gap));
    }

    /// Appends a sequence of gaps.
    pub(crate) fn extend(&mut self, by: &Extension) {
        self.0 = add(multiply(self.0, by.shift), by.value.0);
    }

    /// The sequence of the last `count` gaps, if without them it was `earlier`.
    pub(crate) fn since(self, earlier: Self, count: u64) -> Extension {
        let shift = power(count);
        let before = multiply(earlier.0, shift);
        Extension {
            value: Self(add(self.0, PRIME - before)),
            shift,
        }
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

/// Never 0, so that a gap of nothing counts.
fn coefficient(gap: SimDuration) -> u64 {
    let nanos = gap.as_nanos();
    // Only a gap of 73 years takes a division.
    if nanos < PRIME - 1 {
        nanos + 1
    } else {
        nanos % (PRIME - 1) + 1
    }
}

/// `BASE` to the powers of 1, 2, 4 and so on.
const SQUARES: [u64; u64::BITS as usize] = {
    let mut squares = [BASE; u64::BITS as usize];
    let mut bit = 1;
    while bit < squares.len() {
        squares[bit] = multiply(squares[bit - 1], squares[bit - 1]);
        bit += 1;
    }
    squares
};

/// `BASE` to the power of `exponent`.
fn power(mut exponent: u64) -> u64 {
    let mut power = 1;
    while exponent > 0 {
        power = multiply(power, SQUARES[exponent.trailing_zeros() as usize]);
        exponent &= exponent - 1;
    }
    power
}

const fn multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both factors are below 2^61, so the product's two parts are, too"
    )]
    let (low, high) = ((product as u64) & PRIME, (product >> 61) as u64);
    add(low, high)
}

const fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(gaps: &[u64]) -> Timeline {
        let mut timeline = Timeline::default();
        for &gap in gaps {
            timeline.push(SimDuration::from_nanos(gap));
        }
        timeline
    }

    fn extension(gaps: &[u64]) -> Extension {
        let mut extension = Extension::default();
        for &gap in gaps {
            extension.push(SimDuration::from_nanos(gap));
        }
        extension
    }

    #[test]
    fn how_gaps_are_cut_into_runs_makes_no_difference() {
        let gaps = [7, 0, u64::MAX, 123_456_789, 1 << 61, 7];
        for cut in 0..=gaps.len() {
            let mut parts = timeline(&gaps[..cut]);
            parts.extend(&extension(&gaps[cut..]));
            assert_eq!(parts, timeline(&gaps));
        }
    }

    #[test]
    fn the_end_of_a_sequence_follows_from_two_values() {
        let gaps = [7, 0, u64::MAX, 123_456_789, 1 << 61, 7];
        for cut in 0..=gaps.len() {
            let (before, after) = gaps.split_at(cut);
            let since = timeline(&gaps).since(timeline(before), after.len() as u64);
            assert_eq!(since, extension(after));
        }
    }

    #[test]
    fn order_length_and_zeros_count() {
        let different = [
            timeline(&[]),
            timeline(&[0]),
            timeline(&[0, 0]),
            timeline(&[1, 2]),
            timeline(&[2, 1]),
            timeline(&[3]),
        ];
        for (index, one) in different.iter().enumerate() {
            assert!(!different[..index].contains(one));
        }
    }

    #[test]
    fn a_value_is_the_same_in_every_build() {
        assert_eq!(timeline(&[5, 10]).value(), multiply(6, BASE) + 11);
    }
}

//! [`DecodeLaw`]: a run of decode steps in closed form.

use crate::fine::Fine;

/// The time of consecutive decode steps of a fixed batch, affine in the summed context.
///
/// Step `k` (from 0) takes `first + k * increment`: between two changes of the batch each context
/// grows by one token a step, so the summed context grows by the batch size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLaw {
    first: Fine,
    increment: Fine,
    steps: u64,
}

impl DecodeLaw {
    /// The law whose first step takes `first`, each later one `increment` more, for `steps` steps.
    pub const fn new(first: Fine, increment: Fine, steps: u64) -> Self {
        Self {
            first,
            increment,
            steps,
        }
    }

    /// For how many steps the law holds.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The same law, held to at most `steps` steps.
    #[must_use]
    pub fn limited(self, steps: u64) -> Self {
        Self {
            steps: self.steps.min(steps),
            ..self
        }
    }

    /// The law of the steps after the first `steps`.
    ///
    /// # Panics
    /// If it has fewer steps than that.
    #[must_use]
    pub fn after(self, steps: u64) -> Self {
        Self {
            first: self.step(steps),
            steps: self.steps - steps,
            ..self
        }
    }

    /// By how much each step is longer than the one before.
    pub const fn increment(&self) -> Fine {
        self.increment
    }

    /// Time of step `k`, counted from 0.
    #[inline]
    pub fn step(&self, k: u64) -> Fine {
        self.first + self.increment * u128::from(k)
    }

    /// Time of the first `m` steps together.
    #[inline]
    pub fn sum(&self, m: u64) -> Fine {
        let m = u128::from(m);
        self.first * m + self.increment * (m * m.saturating_sub(1) / 2)
    }

    /// The least number of steps whose sum reaches `span`, or `None` if all steps of the law end
    /// before.
    pub fn steps_to_reach(&self, span: Fine) -> Option<u64> {
        // Each step takes at least `first`, and at most what the last one that may be needed does: that
        // bounds the search.
        let enough =
            quotient(span, self.first).map_or(self.steps, |m| m.saturating_add(1).min(self.steps));
        if !self.reaches(enough, span) {
            return None;
        }
        let grown = self.increment.bits().checked_mul(enough.into());
        let longest = grown.and_then(|grown| grown.checked_add(self.first.bits()));
        let least = longest.and_then(|longest| quotient(span, Fine::from_bits(longest)));
        let (mut low, mut high) = (least.unwrap_or(0).min(enough), enough);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.reaches(middle, span) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }

    /// Whether the first `m` steps together reach `span`; a sum beyond the range of [`Fine`] does.
    fn reaches(&self, m: u64, span: Fine) -> bool {
        let m = u128::from(m);
        let flat = self.first.bits().checked_mul(m);
        let grown = self
            .increment
            .bits()
            .checked_mul(m * m.saturating_sub(1) / 2);
        let sum = flat
            .zip(grown)
            .and_then(|(flat, grown)| flat.checked_add(grown));
        sum.is_none_or(|sum| sum >= span.bits())
    }
}

/// How many times `part` goes into `span`; `None` if endlessly often.
fn quotient(span: Fine, part: Fine) -> Option<u64> {
    match (u64::try_from(span.bits()), u64::try_from(part.bits())) {
        // A division of 64 bits is several times faster.
        (Ok(span), Ok(part)) => span.checked_div(part),
        _ => u64::try_from(span.bits().checked_div(part.bits())?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(first: u128, increment: u128, steps: u64) -> DecodeLaw {
        DecodeLaw::new(Fine::from_bits(first), Fine::from_bits(increment), steps)
    }

    #[test]
    fn steps_grow_by_the_increment() {
        let law = law(10, 3, 100);
        assert_eq!([0, 1, 5].map(|k| law.step(k).bits()), [10, 13, 25]);
        assert_eq!([0, 1, 2, 6].map(|m| law.sum(m).bits()), [0, 10, 23, 105]);
    }

    #[test]
    fn it_finds_the_step_that_ends_at_or_after_a_span() {
        let law = law(10, 3, 4);
        let reach = |bits| law.steps_to_reach(Fine::from_bits(bits));
        assert_eq!(
            [0, 1, 10, 11, 23, 58].map(reach),
            [0, 1, 1, 2, 2, 4].map(Some)
        );
        assert_eq!(reach(59), None);
    }

    #[test]
    fn a_limit_only_shortens() {
        assert_eq!(law(1, 1, 10).limited(3).steps(), 3);
        assert_eq!(law(1, 1, 10).limited(30).steps(), 10);
    }

    #[test]
    fn the_rest_of_a_law_goes_on_where_its_first_steps_end() {
        let (all, rest) = (law(10, 3, 100), law(10, 3, 100).after(40));
        assert_eq!((rest.steps(), rest.increment()), (60, all.increment()));
        assert_eq!([0, 59].map(|k| rest.step(k)), [40, 99].map(|k| all.step(k)));
    }

    #[test]
    fn an_endless_law_does_not_overflow() {
        let law = law(1 << 60, 1 << 40, u64::MAX);
        assert_eq!(law.steps_to_reach(Fine::from_bits(3 << 60)), Some(3));
    }
}

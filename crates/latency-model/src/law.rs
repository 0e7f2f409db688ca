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

    /// Time of step `k`, counted from 0.
    pub fn step(&self, k: u64) -> Fine {
        self.first + self.increment * u128::from(k)
    }

    /// Time of the first `m` steps together.
    pub fn sum(&self, m: u64) -> Fine {
        let m = u128::from(m);
        self.first * m + self.increment * (m * m.saturating_sub(1) / 2)
    }

    /// The least number of steps whose sum reaches `span`, or `None` if all steps of the law end
    /// before.
    pub fn steps_to_reach(&self, span: Fine) -> Option<u64> {
        if self.sum(self.steps) < span {
            return None;
        }
        let (mut low, mut high) = (0, self.steps);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.sum(middle) >= span {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }
}

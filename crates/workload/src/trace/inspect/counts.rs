//! [`Counts`]: how often each number occurred.

use std::collections::BTreeMap;

/// Numbers below this are counted one by one.
const DENSE: u64 = 1 << 17;

/// Larger ones are rounded to so many bits.
const BITS: u32 = 11;

/// How often each number occurred: exact below 131072, rounded to one part in 2048 above. Memory depends on the
/// largest number alone, and stays below 3 MiB.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    dense: Vec<u64>,
    sparse: BTreeMap<u64, u64>,
    count: u64,
    sum: u128,
    squares: f64,
    max: u64,
}

impl Counts {
    pub(super) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.squares += value as f64 * value as f64;
        self.max = self.max.max(value);
        match usize::try_from(value) {
            Ok(index) if value < DENSE => {
                if index >= self.dense.len() {
                    self.dense.resize(index + 1 + index / 2, 0);
                }
                self.dense[index] += 1;
            }
            _ => {
                let drop = 64 - BITS - value.leading_zeros();
                *self.sparse.entry(value >> drop << drop).or_default() += 1;
            }
        }
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) const fn max(&self) -> u64 {
        self.max
    }

    pub(super) fn is_exact(&self) -> bool {
        self.sparse.is_empty()
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    pub(super) fn std(&self) -> f64 {
        let mean = self.mean();
        (self.squares / self.count.max(1) as f64 - mean * mean)
            .max(0.0)
            .sqrt()
    }

    /// Distinct numbers in rising order, with how often each occurred.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        let dense = self.dense.iter().enumerate();
        dense
            .map(|(value, &count)| (value as u64, count))
            .filter(|&(_, count)| count > 0)
            .chain(self.sparse.iter().map(|(&value, &count)| (value, count)))
    }

    /// The least number that a share of at least `share` does not exceed, for each share of a rising list.
    pub(super) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [u64; N] {
        let mut numbers = self.iter();
        let (mut upto, mut last) = (0_u64, 0);
        shares.map(|share| {
            let wanted = share * self.count as f64;
            while (upto as f64) < wanted || upto == 0 {
                let Some((value, count)) = numbers.next() else {
                    break;
                };
                (upto, last) = (upto + count, value);
            }
            last
        })
    }

    /// The number that occurred most often, and how often.
    pub(super) fn mode(&self) -> Option<(u64, u64)> {
        // The least of several.
        self.iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_list(mut values in prop::collection::vec(0_u64..3_000, 1..200)) {
            let mut counts = Counts::default();
            for &value in &values {
                counts.add(value);
            }
            values.sort_unstable();
            let shares = [0.01, 0.25, 0.5, 0.9, 0.999, 1.0];
            for (share, seen) in shares.into_iter().zip(counts.quantiles(shares)) {
                let rank = (share * values.len() as f64).ceil().max(1.0);
                let expected = values.iter().enumerate().find(|(i, _)| (i + 1) as f64 >= rank);
                prop_assert_eq!(Some(seen), expected.map(|(_, &value)| value));
            }
        }

        #[test]
        fn large_numbers_are_near(value in DENSE..u64::MAX) {
            let mut counts = Counts::default();
            counts.add(value);
            let seen = counts.iter().next().map_or(0, |(value, _)| value);
            prop_assert!(seen <= value && (value - seen) as f64 <= value as f64 / 1024.0);
        }
    }

    #[test]
    fn nothing_has_no_mode() {
        assert_eq!(Counts::default().mode(), None);
        assert_eq!(Counts::default().quantiles([0.5]), [0]);
    }
}

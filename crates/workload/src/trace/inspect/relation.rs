//! [`Relation`]: whether long prompts have long answers.

use foretoken_des_kernel::SimRng;
use serde::Serialize;

use super::reservoir::Reservoir;

/// Rows of which ranks are compared.
const SAMPLE: usize = 20_000;

/// Correlation of input and output lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Relation {
    /// Of the lengths themselves (Pearson), over all rows.
    pub pearson: f64,
    /// Of their ranks (Spearman), which a few long rows do not sway.
    pub spearman: f64,
    /// Rows whose ranks were compared: a sample, beyond 20000.
    pub sampled: u64,
}

#[derive(Debug)]
pub(super) struct Pairs {
    count: f64,
    /// Means, and sums of squares and products about them.
    mean: [f64; 2],
    squares: [f64; 2],
    products: f64,
    sample: Reservoir<(u64, u64)>,
}

impl Pairs {
    pub(super) const fn new(rng: SimRng) -> Self {
        Self {
            count: 0.0,
            mean: [0.0; 2],
            squares: [0.0; 2],
            products: 0.0,
            sample: Reservoir::new(SAMPLE, rng),
        }
    }

    pub(super) fn add(&mut self, input: u64, output: u64) {
        self.count += 1.0;
        let (x, y) = (input as f64 - self.mean[0], output as f64 - self.mean[1]);
        self.mean[0] += x / self.count;
        self.mean[1] += y / self.count;
        self.squares[0] += x * (input as f64 - self.mean[0]);
        self.squares[1] += y * (output as f64 - self.mean[1]);
        self.products += x * (output as f64 - self.mean[1]);
        self.sample.add((input, output));
    }

    /// Different pairs in the sample, and its size.
    pub(super) fn distinct(&self) -> (u64, u64) {
        let mut pairs = self.sample.items().to_vec();
        let all = pairs.len() as u64;
        pairs.sort_unstable();
        pairs.dedup();
        (pairs.len() as u64, all)
    }

    /// `None` if either length is always the same.
    pub(super) fn finish(&self) -> Option<Relation> {
        let scale = (self.squares[0] * self.squares[1]).sqrt();
        if scale <= 0.0 {
            return None;
        }
        let sample = self.sample.items();
        let inputs = ranks(sample.iter().map(|pair| pair.0));
        let outputs = ranks(sample.iter().map(|pair| pair.1));
        let middle = (sample.len() as f64 - 1.0) / 2.0;
        let sum = |a: &[f64], b: &[f64]| -> f64 {
            a.iter()
                .zip(b)
                .map(|(x, y)| (x - middle) * (y - middle))
                .sum()
        };
        let scale_of_ranks = (sum(&inputs, &inputs) * sum(&outputs, &outputs)).sqrt();
        let spearman = if scale_of_ranks > 0.0 {
            sum(&inputs, &outputs) / scale_of_ranks
        } else {
            0.0
        };
        Some(Relation {
            pearson: (self.products / scale).clamp(-1.0, 1.0),
            spearman: spearman.clamp(-1.0, 1.0),
            sampled: sample.len() as u64,
        })
    }
}

/// The rank of each value from 0; equal ones share the mean of theirs.
fn ranks(values: impl Iterator<Item = u64>) -> Vec<f64> {
    let mut order: Vec<_> = values.enumerate().collect();
    order.sort_unstable_by_key(|&(_, value)| value);
    let mut ranks = vec![0.0; order.len()];
    let mut start = 0;
    for equal in order.chunk_by(|a, b| a.1 == b.1) {
        let rank = start as f64 + (equal.len() as f64 - 1.0) / 2.0;
        for &(index, _) in equal {
            ranks[index] = rank;
        }
        start += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    fn relation(pairs: impl IntoIterator<Item = (u64, u64)>) -> Option<Relation> {
        let mut all = Pairs::new(RngStreams::new(1, 0).stream("sample", 0));
        pairs
            .into_iter()
            .for_each(|(input, output)| all.add(input, output));
        all.finish()
    }

    #[test]
    fn ranks_see_what_lengths_hide() {
        let seen = relation((1..100).map(|n| (n, n * n * n))).expect("they differ");
        assert!(
            (seen.spearman - 1.0).abs() < 1e-12 && seen.pearson < 0.95,
            "{seen:?}"
        );
        let seen = relation((1..100).map(|n| (n, 1_000 - n))).expect("they differ");
        assert!((seen.pearson + 1.0).abs() < 1e-12, "{seen:?}");
    }

    #[test]
    fn equal_values_share_a_rank() {
        let seen = ranks([5, 1, 5, 9].into_iter());
        assert!(
            seen.iter()
                .zip([1.5, 0.0, 1.5, 3.0])
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
        assert_eq!(relation([(1, 5), (2, 5)]), None);
    }
}

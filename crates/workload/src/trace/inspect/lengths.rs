//! [`Lengths`]: how long prompts and answers are.

use serde::Serialize;

use super::counts::Counts;
use super::fit::{Data, Fits};

/// A distribution of lengths, in tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lengths {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// Quantiles.
    pub quantiles: Quantiles,
    /// Rows of length 0.
    pub zeros: u64,
    /// The most frequent length and its share of all rows.
    pub most_frequent: (u64, f64),
    /// Different lengths.
    pub distinct: u64,
    /// The tail, where 1 in 100 rows are enough, and differ enough, to say something of it.
    pub tail: Option<Tail>,
    /// Whether all of this is exact: if a length is 131072 or more, such lengths are rounded to one part in 1024 in
    /// quantiles, histogram and fits.
    pub exact: bool,
    /// Rows by length, in bins whose edges are a factor of √2 apart.
    pub histogram: Vec<Bin>,
    /// Families of distributions, the best one first; empty where fewer than two lengths differ.
    pub fits: Option<Fits>,
}

/// Lengths that a share of the rows does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it: p999 is 99.9 %")]
pub struct Quantiles {
    pub p5: u64,
    pub p25: u64,
    pub p50: u64,
    pub p75: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
}

/// How heavy a tail is: Hill's estimate on the longest hundredth of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tail {
    /// The tail falls as length to the power of minus this. Up to 2 the variance is that of a few rows; beyond 5 the
    /// tail is as good as none.
    pub index: f64,
    /// Where the tail begins, in tokens.
    pub from: u64,
}

/// Rows in a range of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The shortest, in tokens.
    pub from: u64,
    /// The first length beyond.
    pub to: u64,
    /// Rows.
    pub rows: u64,
}

impl Lengths {
    pub(super) fn of(counts: &Counts) -> Self {
        let [p5, p25, p50, p75, p90, p95, p99, p999] =
            counts.quantiles([0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]);
        let all = counts.count().max(1) as f64;
        let (frequent, times) = counts.mode().unwrap_or_default();
        let positive = counts.iter().filter(|&(value, _)| value > 0);
        let data = Data::new(positive.map(|(value, count)| (value as f64, count)), 0.5);
        let mut numbers = counts.iter();
        let first = numbers.next();
        Self {
            mean: counts.mean(),
            std: counts.std(),
            min: first.map_or(0, |(value, _)| value),
            max: counts.max(),
            quantiles: Quantiles {
                p5,
                p25,
                p50,
                p75,
                p90,
                p95,
                p99,
                p999,
            },
            zeros: first
                .filter(|&(value, _)| value == 0)
                .map_or(0, |(_, count)| count),
            most_frequent: (frequent, times as f64 / all),
            distinct: counts.iter().count() as u64,
            tail: tail(counts),
            exact: counts.is_exact(),
            histogram: histogram(counts),
            fits: data.as_ref().map(Fits::of_lengths),
        }
    }
}

/// Different lengths in a tail below which they are those of a list, and no tail.
const TAIL_LENGTHS: u32 = 10;

/// Hill's estimate from the longest hundredth, of at least 50 rows and 10 different lengths.
fn tail(counts: &Counts) -> Option<Tail> {
    let wanted = counts.count() / 100;
    if wanted < 50 {
        return None;
    }
    let (mut rows, mut lengths, mut logs, mut from) = (0, 0, 0.0, 0);
    for (value, count) in counts.iter().rev() {
        from = value;
        if rows >= wanted || value == 0 {
            break;
        }
        rows += count;
        lengths += 1;
        logs += count as f64 * libm::log(value as f64);
    }
    if lengths < TAIL_LENGTHS {
        return None;
    }
    // The mean excess of the logarithm over that of the first length below.
    let excess = logs / rows as f64 - libm::log(from.max(1) as f64);
    (excess > 1e-9).then_some(Tail {
        index: 1.0 / excess,
        from,
    })
}

/// Bins whose edges are a factor of √2 apart, rounded up, without empty ones at either end.
fn histogram(counts: &Counts) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    let mut half_octaves = 0_u32;
    let mut bin = Bin {
        from: 0,
        to: 1,
        rows: 0,
    };
    for (value, count) in counts.iter() {
        while value >= bin.to && bin.to < u64::MAX {
            if bin.rows > 0 || !bins.is_empty() {
                bins.push(bin);
            }
            half_octaves += 1;
            let edge = libm::ceil(libm::pow(2.0, f64::from(half_octaves) / 2.0) - 1e-9);
            bin = Bin {
                from: bin.to,
                to: crate::quantity::round_u64(edge).max(bin.to + 1),
                rows: 0,
            };
        }
        bin.rows += count;
    }
    if bin.rows > 0 {
        bins.push(bin);
    }
    bins
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;
    use crate::dist;
    use crate::quantity::{Positive, round_u64};

    #[test]
    fn a_histogram_holds_every_row_once() {
        let mut counts = Counts::default();
        for value in [0, 1, 2, 3, 100, 100, 5_000, 900_000] {
            counts.add(value);
        }
        let bins = histogram(&counts);
        assert_eq!(bins.iter().map(|bin| bin.rows).sum::<u64>(), 8);
        assert!(
            bins.windows(2).all(|pair| pair[0].to == pair[1].from),
            "{bins:?}"
        );
    }

    #[test]
    fn hills_estimate_finds_the_index_of_a_pareto_tail() {
        let mut rng = RngStreams::new(5, 0).stream("tail", 0);
        let shape = Positive::new(1.8).expect("positive");
        let mut counts = Counts::default();
        for _ in 0..100_000 {
            counts.add(round_u64(100.0 * dist::pareto(&mut rng, shape)));
        }
        let seen = tail(&counts).expect("enough rows");
        assert!((seen.index - 1.8).abs() < 0.15, "{seen:?}");
    }

    #[test]
    fn few_lengths_have_no_tail() {
        let mut counts = Counts::default();
        (0..10_000).for_each(|row| counts.add([10, 20, 70][row % 3]));
        assert_eq!(tail(&counts), None);
        // Short ones of all kinds, and a limit that the longest hundredth has in common.
        let mut limited = Counts::default();
        (0..10_000).for_each(|row| limited.add(if row % 50 == 0 { 4_096 } else { row % 1_000 }));
        assert_eq!(tail(&limited), None);
    }

    #[test]
    fn one_length_has_neither_tail_nor_fit() {
        let mut counts = Counts::default();
        (0..10_000).for_each(|_| counts.add(7));
        let lengths = Lengths::of(&counts);
        assert_eq!((lengths.tail, lengths.fits.is_none()), (None, true));
        assert_eq!(lengths.most_frequent, (7, 1.0));
    }
}

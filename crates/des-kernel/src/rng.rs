//! Chance: named, indexed, replicable random streams derived from one master seed.
//!
//! A stream belongs to the thing that draws from it. Its state depends only on (seed, replication,
//! name, index), so that adding a stream never moves the draws of another.
//!
//! The key of a stream is a `SplitMix64` chain over these four, expanded to all 256 bits of state and
//! increment of a PCG64 generator (O'Neill, 2014: PCG XSL RR 128/64). Streams that differ in the
//! increment only may be correlated; streams with unrelated state are not.
//!
//! # Stability
//!
//! The bits of a stream are part of the results of a simulation and are treated as such: they are
//! the same on every platform, and a release that changes them says so as a value-breaking change.
//! Literal first draws in the tests hold the promise. It covers [`SimRng::bits`], and the bits that
//! the other methods consume: one draw for [`unit`](SimRng::unit), one for
//! [`below`](SimRng::below) unless it is rejected, which happens with probability `bound / 2^64` at
//! most; [`pass_shuffle`](SimRng::pass_shuffle) passes over one for each item but the first.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::mix::{fnv1a, split_mix};

/// Derives independent [`SimRng`] streams from one experiment seed.
///
/// `seed` names the experiment, `replication` the repetition of it. Two variants of a simulation that
/// share both see the same chance wherever they draw from the same streams (common random numbers),
/// which makes their difference far less noisy than either result.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
///
/// let streams = RngStreams::new(42, 0);
/// let mut arrivals = streams.stream("arrivals", 0);
/// let mut service = streams.stream("service", 0); // leaves the arrivals as they are
/// assert_ne!(arrivals.bits(), service.bits());
///
/// // A stream is a value: asked for again, it starts anew.
/// let first = streams.stream("arrivals", 0).bits();
/// assert_eq!(first, RngStreams::new(42, 0).stream("arrivals", 0).bits());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RngStreams {
    seed: u64,
    replication: u64,
}

impl RngStreams {
    /// The streams of repetition `replication` of experiment `seed`.
    pub const fn new(seed: u64, replication: u64) -> Self {
        Self { seed, replication }
    }

    /// The stream called `name`, number `index` of its kind.
    pub fn stream(&self, name: &str, index: u64) -> SimRng {
        let mut key = 0;
        for part in [self.seed, self.replication, fnv1a(name.as_bytes()), index] {
            key = split_mix(key ^ part);
        }
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            key = split_mix(key);
            chunk.copy_from_slice(&key.to_le_bytes());
        }
        SimRng(Pcg64::from_seed(bytes))
    }
}

/// One random stream. A newtype, so that the generator can be replaced in one place.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
///
/// let mut rng = RngStreams::new(1, 0).stream("dice", 0);
/// let throw = 1 + rng.below(6);
/// assert!((1..=6).contains(&throw));
/// assert!((0.0..1.0).contains(&rng.unit()));
/// assert!(rng.choose(&["head", "tail"]).is_some());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimRng(Pcg64);

impl SimRng {
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform float in `[0, 1)`, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A uniform integer in `0..bound`, without bias (Lemire's method).
    ///
    /// # Panics
    /// If `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a uniform draw needs at least one outcome");
        let mut wide = u128::from(self.bits()) * u128::from(bound);
        if low(wide) < bound {
            // The first 2^64 mod `bound` low halves would come up once too often.
            let threshold = bound.wrapping_neg() % bound;
            while low(wide) < threshold {
                wide = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (wide >> 64) as u64
    }

    /// A uniform element, or `None` of an empty slice (no bits are drawn then).
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() {
            return None;
        }
        let index = self.index(items.len());
        items.get(index)
    }

    /// Puts `items` in uniformly random order (Fisher-Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Passes over what [`shuffle`](Self::shuffle) draws for `len` items, for whom their order does not matter:
    /// in one jump. A draw that [`below`](Self::below) would have rejected is not seen, so that the stream is then one
    /// draw behind.
    pub fn pass_shuffle(&mut self, len: usize) {
        self.0.advance(len.saturating_sub(1) as u128);
    }

    /// A uniform index into `len` items.
    #[inline]
    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("an index below a length fits in usize")
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
const fn low(wide: u128) -> u64 {
    wide as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_that_is_passed_over_draws_as_much() {
        for len in 0..20 {
            let stream = RngStreams::new(3, 0).stream("shuffle", len);
            let (mut one, mut other) = (stream.clone(), stream);
            let mut items: Vec<u64> = (0..len).collect();
            one.shuffle(&mut items);
            other.pass_shuffle(items.len());
            assert_eq!(one, other);
        }
    }

    fn rng(name: &str) -> SimRng {
        RngStreams::new(7, 0).stream(name, 0)
    }

    #[test]
    fn the_first_draws_of_streams_are_pinned() {
        // Computed by an independent implementation of key and generator.
        let pinned: [(u64, u64, &str, u64, [u64; 3]); 6] = [
            (
                0,
                0,
                "",
                0,
                [
                    0xc424_8a2d_c78d_e80d,
                    0xd8b3_16e4_3ac2_e2c6,
                    0x05dd_7c4f_647a_c8de,
                ],
            ),
            (
                1,
                0,
                "arrivals",
                0,
                [
                    0x9ce0_8935_fbbb_a120,
                    0x594b_5889_8fab_18ff,
                    0x78f0_b4e9_a7a5_efad,
                ],
            ),
            (
                1,
                0,
                "arrivals",
                1,
                [
                    0x4535_faaf_91a9_539b,
                    0x1ea9_e01b_1c7d_b643,
                    0x9071_4cfd_cde8_8be6,
                ],
            ),
            (
                1,
                1,
                "arrivals",
                0,
                [
                    0xb8c7_48f8_2369_7e1b,
                    0x815f_94a0_c099_4beb,
                    0xcb00_8b03_d991_4385,
                ],
            ),
            (
                2,
                0,
                "arrivals",
                0,
                [
                    0x7e1e_ee68_91d2_6345,
                    0x309c_d640_1976_7432,
                    0x58f6_1bab_b35a_edaa,
                ],
            ),
            (
                u64::MAX,
                u64::MAX,
                "service",
                u64::MAX,
                [
                    0x380d_e6b7_d37e_3dff,
                    0xb505_8931_6598_3e98,
                    0xc3ac_920b_e7a5_616b,
                ],
            ),
        ];
        for (seed, replication, name, index, expected) in pinned {
            let mut rng = RngStreams::new(seed, replication).stream(name, index);
            let drawn = [(); 3].map(|()| rng.bits());
            assert_eq!(
                drawn, expected,
                "({seed}, {replication}, {name:?}, {index})"
            );
        }
    }

    #[test]
    fn every_part_of_the_key_makes_another_stream() {
        let mut firsts: Vec<u64> = Vec::new();
        for seed in 0..4 {
            for replication in 0..4 {
                for name in ["", "a", "b", "ab", "ba"] {
                    for index in 0..4 {
                        firsts.push(
                            RngStreams::new(seed, replication)
                                .stream(name, index)
                                .bits(),
                        );
                    }
                }
            }
        }
        let all = firsts.len();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), all);
    }

    #[test]
    fn adding_a_stream_never_disturbs_another() {
        let streams = RngStreams::new(11, 3);
        let mut alone = streams.stream("arrivals", 0);
        let alone: Vec<_> = (0..100).map(|_| alone.bits()).collect();

        let mut arrivals = streams.stream("arrivals", 0);
        let mut together = Vec::new();
        for index in 0..100 {
            streams.stream("newcomer", index).shuffle(&mut [1, 2, 3]);
            together.push(arrivals.bits());
        }
        assert_eq!(together, alone);
    }

    #[test]
    fn streams_of_neighbouring_indices_are_uncorrelated() {
        let streams = RngStreams::new(1, 0);
        let (mut a, mut b) = (streams.stream("noise", 0), streams.stream("noise", 1));
        let draws = 100_000;
        let covariance = (0..draws)
            .map(|_| (a.unit() - 0.5) * (b.unit() - 0.5))
            .sum::<f64>()
            / f64::from(draws);
        // The standard deviation of a product is 1/12, so five standard errors are 0.0013.
        assert!(covariance.abs() < 0.0013, "covariance {covariance}");
    }

    #[test]
    fn unit_draws_are_uniform_on_the_half_open_interval() {
        let mut rng = rng("unit");
        let mut bins = [0_u32; 100];
        for _ in 0..100_000 {
            let draw = rng.unit();
            assert!((0.0..1.0).contains(&draw));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the draw lies in 0..1"
            )]
            let bin = (draw * 100.0) as usize;
            bins[bin] += 1;
        }
        assert_uniform(&bins);
    }

    #[test]
    fn bounded_draws_are_uniform() {
        let mut rng = rng("below");
        let mut bins = [0_u32; 7];
        for _ in 0..70_000 {
            bins[usize::try_from(rng.below(7)).expect("below seven")] += 1;
        }
        assert_uniform(&bins);
    }

    #[test]
    fn bounded_draws_have_no_bias_where_multiplication_alone_has() {
        // Scaled down by 3/4 without rejection, multiples of three would come up twice as often.
        let bound = 3 << 62;
        let mut rng = rng("bias");
        let mut bins = [0_u32; 3];
        for _ in 0..60_000 {
            let draw = rng.below(bound);
            assert!(draw < bound);
            bins[usize::try_from(draw % 3).expect("below three")] += 1;
        }
        assert_uniform(&bins);
    }

    #[test]
    fn one_outcome_needs_no_luck() {
        assert_eq!(rng("one").below(1), 0);
    }

    #[test]
    #[should_panic(expected = "a uniform draw needs at least one outcome")]
    fn no_outcome_is_refused() {
        rng("none").below(0);
    }

    #[test]
    fn choosing_from_nothing_draws_nothing() {
        let mut rng = rng("choose");
        let before = rng.clone();
        assert_eq!(rng.choose::<u8>(&[]), None);
        assert_eq!(rng, before);
        assert_eq!(rng.choose(&[5]), Some(&5));
        assert_ne!(rng, before);
    }

    #[test]
    fn all_orders_are_equally_likely() {
        let mut rng = rng("shuffle");
        let mut bins = [0_u32; 27];
        for _ in 0..60_000 {
            let mut order = [0, 1, 2];
            rng.shuffle(&mut order);
            bins[order[0] * 9 + order[1] * 3 + order[2]] += 1;
        }
        let orders: Vec<_> = bins.into_iter().filter(|&count| count > 0).collect();
        assert_eq!(orders.len(), 6);
        assert_uniform(&orders);
    }

    /// Chi-squared below its mean plus five standard deviations.
    fn assert_uniform(bins: &[u32]) {
        let expected = f64::from(bins.iter().sum::<u32>()) / bins.len() as f64;
        let excess = |&bin: &u32| (f64::from(bin) - expected) * (f64::from(bin) - expected);
        let chi_squared = bins.iter().map(excess).sum::<f64>() / expected;
        let freedom = (bins.len() - 1) as f64;
        let limit = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(
            chi_squared < limit,
            "chi-squared {chi_squared} exceeds {limit}"
        );
    }
}

//! Random variates on `libm` and integer draws, so that they have the same bits on every platform.
//!
//! Samplers of other crates change with the cargo features of unrelated packages (their logarithm
//! comes from the standard library or from `libm`, as features decide). These do not. Each test
//! below pins the first outputs of one variate: a change there changes every result.
//!
//! [`quantile`] has the inverses of the distribution functions where they exist in closed form; the
//! variates are these, at uniform probabilities. Normal and gamma variates are made otherwise.
//!
//! Scale-free forms where a scale exists: multiply by the mean or the scale. Parameters are
//! [`Positive`], so no draw can fail. Turn a variate into integers (nanoseconds, tokens) at once.

mod cdf;
mod empirical;
pub mod quantile;
mod zipf;

use foretoken_des_kernel::SimRng;

pub use cdf::{gamma_cdf, normal_cdf};
pub use empirical::Empirical;
pub use zipf::Zipf;

use crate::quantity::Positive;

/// Uniform in `(0, 1]`: a number whose logarithm is finite.
fn open_unit(rng: &mut SimRng) -> f64 {
    1.0 - rng.unit()
}

/// Uniform in `[low, high)`; `low` itself if the interval is empty.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::dist;
///
/// let mut rng = RngStreams::new(1, 0).stream("example", 0);
/// assert!((2.0..3.0).contains(&dist::uniform(&mut rng, 2.0, 3.0)));
/// ```
pub fn uniform(rng: &mut SimRng, low: f64, high: f64) -> f64 {
    low + (high - low).max(0.0) * rng.unit()
}

/// Uniform integer in `low..=high`; `low` if the interval is empty.
#[expect(clippy::missing_panics_doc, reason = "the draw is below the span")]
pub fn uniform_u32(rng: &mut SimRng, low: u32, high: u32) -> u32 {
    let span = u64::from(high.saturating_sub(low)) + 1;
    low + u32::try_from(rng.below(span)).expect("a draw below a span of 32-bit numbers fits")
}

/// Exponential with mean 1.
pub fn exponential(rng: &mut SimRng) -> f64 {
    quantile::exponential(open_unit(rng))
}

/// Normal with mean 0 and variance 1 (Box and Muller 1958, the cosine of each pair: two draws for
/// each variate and no state).
pub fn normal(rng: &mut SimRng) -> f64 {
    let radius = (-2.0 * libm::log(open_unit(rng))).sqrt();
    radius * libm::cos(core::f64::consts::TAU * rng.unit())
}

/// Log-normal: the exponential of a normal variate with mean `mu` and standard deviation `sigma`.
/// Its median is `exp(mu)`.
pub fn log_normal(rng: &mut SimRng, mu: f64, sigma: f64) -> f64 {
    libm::exp(mu + sigma * normal(rng))
}

/// Gamma with scale 1: mean and variance are `shape` (Marsaglia and Tsang 2000).
pub fn gamma(rng: &mut SimRng, shape: Positive) -> f64 {
    let shape = shape.get();
    if shape < 1.0 {
        // Gamma(a) = Gamma(a + 1) * U^(1/a).
        let boost = libm::pow(open_unit(rng), 1.0 / shape);
        return boost * gamma_from_one(rng, shape + 1.0);
    }
    gamma_from_one(rng, shape)
}

/// Gamma of a shape of at least 1.
fn gamma_from_one(rng: &mut SimRng, shape: f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        if libm::log(open_unit(rng)) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
            return d * v;
        }
    }
}

/// Weibull with scale 1: survival `exp(-x^shape)`, mean `Γ(1 + 1/shape)`.
pub fn weibull(rng: &mut SimRng, shape: Positive) -> f64 {
    quantile::weibull(open_unit(rng), shape)
}

/// Pareto with minimum 1: survival `x^-shape`; the mean is infinite for shapes up to 1.
pub fn pareto(rng: &mut SimRng, shape: Positive) -> f64 {
    quantile::pareto(open_unit(rng), shape)
}

/// Pareto between 1 and `bound` (1 if that is smaller): [`pareto`], given that it is at most `bound`.
pub fn bounded_pareto(rng: &mut SimRng, shape: Positive, bound: f64) -> f64 {
    quantile::bounded_pareto(open_unit(rng), shape, bound)
}

/// Generalised extreme values with location 0 and scale 1, of any finite `shape`: Fréchet above 0
/// (a heavy upper tail), Gumbel at 0, reversed Weibull below (bounded above).
///
/// The sign of `shape` is that of hydrology and of Coles' book; `scipy.stats.genextreme` has the
/// opposite one.
pub fn extreme(rng: &mut SimRng, shape: f64) -> f64 {
    quantile::extreme(open_unit(rng), shape)
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    /// The first outputs as text that reads back to the same bits.
    fn first(mut draw: impl FnMut(&mut SimRng) -> f64) -> String {
        let mut rng = RngStreams::new(1, 0).stream("dist", 0);
        let outputs: [f64; 4] = core::array::from_fn(|_| draw(&mut rng));
        format!("{outputs:?}")
    }

    fn positive(value: f64) -> Positive {
        Positive::new(value).expect("tests use positive numbers")
    }

    #[test]
    fn first_outputs_are_the_same_in_every_build() {
        let two = positive(2.0);
        let zipf = Zipf::new(1000, positive(1.1)).expect("ranks");
        let near_one = Zipf::new(1000, positive(1.0)).expect("ranks");
        let pinned = [
            (
                "uniform",
                first(|rng| uniform(rng, -1.0, 3.0)),
                "[1.3167916579321939, 0.6575569633639997, 0.7400730326825982, 0.6139607747636724]",
            ),
            (
                "exponential",
                first(exponential),
                "[0.8655926614945125, 0.5350999436230084, 0.5709618637041305, 0.5166595978323034]",
            ),
            (
                "normal",
                first(normal),
                "[-1.129938575965062, -0.8780875217096339, -0.24578564569259786, -1.8997470923509476]",
            ),
            (
                "log-normal",
                first(|rng| log_normal(rng, 1.0, 0.5)),
                "[1.5450105086124275, 1.7523473625280706, 2.4039354786615634, 1.0514040420323407]",
            ),
            (
                "gamma 2",
                first(|rng| gamma(rng, two)),
                "[0.5921211158030231, 0.7033158057356264, 2.5184974955539996, 2.0550687575922844]",
            ),
            (
                "gamma 0.25",
                first(|rng| gamma(rng, positive(0.25))),
                "[0.008622893815387701, 0.14001988803465226, 1.158301407831562, 0.24134623929997426]",
            ),
            (
                "weibull",
                first(|rng| weibull(rng, two)),
                "[0.930372324123258, 0.731505258780146, 0.7556201848178293, 0.7187903712712792]",
            ),
            (
                "pareto",
                first(|rng| pareto(rng, two)),
                "[1.5415622199001786, 1.306758929315405, 1.3304017068450713, 1.2947657605623775]",
            ),
            (
                "bounded pareto",
                first(|rng| bounded_pareto(rng, two, 1.5)),
                "[1.2142654031917568, 1.1397658203535093, 1.1483461836622162, 1.1353094628133775]",
            ),
            (
                "heavy extreme",
                first(|rng| extreme(rng, 0.3)),
                "[0.6633014037214503, 0.12919577954622943, 0.18862526116201675, 0.09837172502510479]",
            ),
            (
                "gumbel",
                first(|rng| extreme(rng, 0.0)),
                "[0.6049329565098109, 0.1267549173467757, 0.18348149810400685, 0.09694811633362939]",
            ),
            (
                "light extreme",
                first(|rng| extreme(rng, -0.3)),
                "[0.5532165995987023, 0.12437515597646061, 0.1785230727932926, 0.09555184507625981]",
            ),
            (
                "zipf 1.1",
                first(|rng| zipf.sample(rng) as f64),
                "[7.0, 22.0, 19.0, 24.0]",
            ),
            (
                "zipf 1",
                first(|rng| near_one.sample(rng) as f64),
                "[13.0, 45.0, 38.0, 48.0]",
            ),
            (
                "uniform integer",
                first(|rng| uniform_u32(rng, 5, 500).into()),
                "[292.0, 210.0, 220.0, 205.0]",
            ),
        ];
        for (name, seen, expected) in pinned {
            assert_eq!(seen, expected, "{name}");
        }
    }

    #[test]
    fn an_empty_interval_is_its_low_end() {
        let mut rng = RngStreams::new(1, 0).stream("dist", 0);
        assert_eq!(uniform_u32(&mut rng, 7, 3), 7);
        assert_eq!(uniform(&mut rng, 7.0, 3.0).to_bits(), 7.0_f64.to_bits());
    }

    #[test]
    fn uniform_integers_reach_both_ends() {
        let mut rng = RngStreams::new(1, 0).stream("dist", 0);
        let draws: Vec<_> = (0..100).map(|_| uniform_u32(&mut rng, 2, 4)).collect();
        assert!([2, 3, 4].iter().all(|n| draws.contains(n)));
        assert!(draws.iter().all(|n| (2..=4).contains(n)));
    }

    #[test]
    fn an_empirical_distribution_needs_a_weight() {
        assert!(Empirical::new([(1, 0), (2, 0)]).is_err());
        assert!(Empirical::new([(1, u64::MAX), (2, 1)]).is_err());
        assert!(Zipf::new(0, positive(1.0)).is_err());
    }

    #[test]
    fn an_empirical_distribution_keeps_its_proportions() {
        let mut rng = RngStreams::new(1, 0).stream("dist", 0);
        let coin = Empirical::new([(0, 1), (9, 0), (1, 3)]).expect("weights");
        let ones: u32 = (0..40_000).map(|_| *coin.sample(&mut rng)).sum();
        assert!((29_700..30_300).contains(&ones), "{ones}");
    }

    #[test]
    fn zipf_has_the_right_shares() {
        for exponent in [0.5, 1.0, 2.0] {
            let zipf = Zipf::new(5, positive(exponent)).expect("five ranks");
            let mut rng = RngStreams::new(1, 0).stream("dist", 0);
            let mut seen = [0_u32; 5];
            for _ in 0..50_000 {
                seen[usize::try_from(zipf.sample(&mut rng)).expect("small") - 1] += 1;
            }
            let weights: Vec<_> = (1..=5)
                .map(|k| libm::pow(f64::from(k), -exponent))
                .collect();
            let total: f64 = weights.iter().sum();
            for (count, weight) in seen.iter().zip(&weights) {
                let expected = 50_000.0 * weight / total;
                assert!(
                    (f64::from(*count) - expected).abs() < 4.0 * expected.sqrt(),
                    "{seen:?}"
                );
            }
        }
    }

    #[test]
    fn zipf_over_one_rank_is_that_rank() {
        let zipf = Zipf::new(1, positive(1.2)).expect("one rank");
        let mut rng = RngStreams::new(1, 0).stream("dist", 0);
        assert!((0..100).all(|_| zipf.sample(&mut rng) == 1));
    }
}

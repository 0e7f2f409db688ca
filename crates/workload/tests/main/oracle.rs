//! The variates have the distributions that `rand_distr` gives to the same names.

use foretoken_des_kernel::{RngStreams, SimRng};
use foretoken_workload::{Positive, dist};
use rand_core::SeedableRng;
use rand_distr::Distribution;
use rand_pcg::Pcg64;

const DRAWS: usize = 40_000;

/// Kolmogorov's and Smirnov's largest distance between two samples, times the square root of half
/// their size: above 1.95 once in a thousand for equal distributions.
fn distance(mut left: Vec<f64>, mut right: Vec<f64>) -> f64 {
    left.sort_by(f64::total_cmp);
    right.sort_by(f64::total_cmp);
    let below = |sample: &[f64], x: f64| sample.partition_point(|&y| y <= x) as f64;
    let largest = left
        .iter()
        .chain(&right)
        .map(|&x| (below(&left, x) - below(&right, x)).abs())
        .fold(0.0, f64::max);
    largest / (2.0 * DRAWS as f64).sqrt()
}

fn assert_same(
    name: &str,
    mut ours: impl FnMut(&mut SimRng) -> f64,
    oracle: impl Distribution<f64>,
) {
    let mut rng = RngStreams::new(11, 0).stream("oracle", 0);
    let sample = (0..DRAWS).map(|_| ours(&mut rng)).collect();
    let reference = oracle
        .sample_iter(Pcg64::seed_from_u64(11))
        .take(DRAWS)
        .collect();
    let distance = distance(sample, reference);
    assert!(distance < 1.95, "{name}: {distance}");
}

fn positive(value: f64) -> Positive {
    Positive::new(value).expect("tests use positive numbers")
}

#[test]
fn variates_without_shape_agree_with_the_oracle() {
    let uniform = rand_distr::Uniform::new(2.0, 5.0).expect("an interval");
    assert_same("uniform", |rng| dist::uniform(rng, 2.0, 5.0), uniform);
    assert_same("exponential", dist::exponential, rand_distr::Exp1);
    assert_same("normal", dist::normal, rand_distr::StandardNormal);
    let log_normal = rand_distr::LogNormal::new(1.0, 0.7).expect("a deviation");
    assert_same(
        "log-normal",
        |rng| dist::log_normal(rng, 1.0, 0.7),
        log_normal,
    );
}

#[test]
fn variates_with_a_shape_agree_with_the_oracle() {
    for shape in [0.3, 1.0, 4.5] {
        let gamma = rand_distr::Gamma::new(shape, 1.0).expect("a shape");
        assert_same("gamma", |rng| dist::gamma(rng, positive(shape)), gamma);
        let weibull = rand_distr::Weibull::new(1.0, shape).expect("a shape");
        assert_same(
            "weibull",
            |rng| dist::weibull(rng, positive(shape)),
            weibull,
        );
        let pareto = rand_distr::Pareto::new(1.0, shape).expect("a shape");
        assert_same("pareto", |rng| dist::pareto(rng, positive(shape)), pareto);
    }
}

#[test]
fn ranks_agree_with_the_oracle() {
    for exponent in [0.6, 1.0, 1.8] {
        let oracle = rand_distr::Zipf::new(1000.0, exponent).expect("an exponent");
        let zipf = dist::Zipf::new(1000, positive(exponent)).expect("ranks");
        assert_same("zipf", |rng| zipf.sample(rng) as f64, oracle);
    }
}

#[test]
fn the_distance_tells_distributions_apart() {
    let mut rng = RngStreams::new(11, 0).stream("oracle", 0);
    let [normal, shifted] = [0.0, 0.05].map(|shift| {
        (0..DRAWS)
            .map(|_| shift + dist::normal(&mut rng))
            .collect::<Vec<_>>()
    });
    assert!(distance(normal, shifted) > 1.95);
}

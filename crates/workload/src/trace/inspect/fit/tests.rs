//! Fits find what samples were drawn from.

use foretoken_des_kernel::{RngStreams, SimRng};

use super::law::rounded;
use super::*;
use crate::dist;
use crate::quantity::{Positive, round_u64};

fn positive(value: f64) -> Positive {
    Positive::new(value).expect("positive")
}

fn data(half_cell: f64, mut draw: impl FnMut(&mut SimRng) -> f64) -> Data {
    let mut rng = RngStreams::new(11, 0).stream("fits", 0);
    let mut values: Vec<f64> = (0..20_000).map(|_| draw(&mut rng)).collect();
    if half_cell > 0.0 {
        for value in &mut values {
            *value = round_u64(*value).max(1) as f64;
        }
    }
    values.sort_by(f64::total_cmp);
    Data::new(values.into_iter().map(|value| (value, 1)), half_cell).expect("values differ")
}

fn assert_near(seen: f64, expected: f64, tolerance: f64) {
    let error = (seen - expected).abs() / expected.abs();
    assert!(error < tolerance, "{seen} is not {expected}");
}

#[test]
fn gaps_are_told_apart_and_their_parameters_are_found() {
    let poisson = Fits::of_gaps(&data(0.0, |rng| 0.25 * dist::exponential(rng)));
    let Some(Law::Exponential { mean }) = poisson.best().map(|fit| fit.law) else {
        // The other two contain it, and may win by a hair.
        panic!("{poisson:?}");
    };
    assert_near(mean, 0.25, 0.02);

    let gamma = Fits::of_gaps(&data(0.0, |rng| 2.0 * dist::gamma(rng, positive(0.4))));
    let Some(Law::Gamma { shape, scale }) = gamma.best().map(|fit| fit.law) else {
        panic!("{gamma:?}");
    };
    assert_near(shape, 0.4, 0.03);
    assert_near(scale, 2.0, 0.05);

    let weibull = Fits::of_gaps(&data(0.0, |rng| 3.0 * dist::weibull(rng, positive(0.6))));
    let Some(Law::Weibull { shape, scale }) = weibull.best().map(|fit| fit.law) else {
        panic!("{weibull:?}");
    };
    assert_near(shape, 0.6, 0.03);
    assert_near(scale, 3.0, 0.05);
    assert_eq!(
        weibull.best().map(|fit| fit.goodness),
        Some(Goodness::Close)
    );
}

#[test]
fn lengths_are_told_apart_and_their_parameters_are_found() {
    let lognormal = Fits::of_lengths(&data(0.5, |rng| dist::log_normal(rng, 6.0, 0.8)));
    let Some(Law::Lognormal { mu, sigma }) = lognormal.best().map(|fit| fit.law) else {
        panic!("{lognormal:?}");
    };
    assert_near(mu, 6.0, 0.01);
    assert_near(sigma, 0.8, 0.02);

    let pareto = Fits::of_lengths(&data(0.5, |rng| 200.0 * dist::pareto(rng, positive(1.5))));
    let Some(Law::Pareto { min, shape }) = pareto.best().map(|fit| fit.law) else {
        panic!("{pareto:?}");
    };
    assert_near(min, 199.5, 0.01);
    assert_near(shape, 1.5, 0.03);

    let normal = Fits::of_lengths(&data(0.5, |rng| 500.0 + 80.0 * dist::normal(rng)));
    assert_near(normal.best().map_or(0.0, |fit| fit.law.mean()), 500.0, 0.01);
    assert!(matches!(
        normal.best().map(|fit| fit.law),
        Some(Law::Normal { .. } | Law::Gev { .. })
    ));

    let exponential = Fits::of_lengths(&data(0.5, |rng| 300.0 * dist::exponential(rng)));
    assert_near(
        exponential.best().map_or(0.0, |fit| fit.law.mean()),
        300.0,
        0.02,
    );
    assert_near(
        exponential.best().map_or(0.0, |fit| fit.law.std()),
        300.0,
        0.03,
    );

    let gamma = Fits::of_lengths(&data(0.5, |rng| 100.0 * dist::gamma(rng, positive(3.0))));
    let Some(Law::Gamma { shape, .. }) = gamma.best().map(|fit| fit.law) else {
        panic!("{gamma:?}");
    };
    assert_near(shape, 3.0, 0.03);
}

#[test]
fn extreme_values_are_found_by_their_l_moments() {
    // Drawn by inversion: location 400, scale 120, shape 0.2.
    let fits = Fits::of_lengths(&data(0.5, |rng| {
        let inner = libm::pow(dist::exponential(rng), -0.2);
        400.0 + 120.0 * (inner - 1.0) / 0.2
    }));
    let Some(Law::Gev {
        location,
        scale,
        shape,
    }) = fits.best().map(|fit| fit.law)
    else {
        panic!("{fits:?}");
    };
    assert_near(location, 400.0, 0.01);
    assert_near(scale, 120.0, 0.03);
    assert_near(shape, 0.2, 0.15);
}

#[test]
fn a_mixture_fits_nothing_and_says_so() {
    let mut odd = false;
    let fits = Fits::of_lengths(&data(0.5, |rng| {
        odd = !odd;
        let middle = if odd { 100.0 } else { 8_000.0 };
        middle + 3.0 * dist::normal(rng)
    }));
    assert_eq!(
        fits.best().map(|fit| fit.goodness),
        Some(Goodness::Poor),
        "{fits:?}"
    );
}

#[test]
fn equal_values_have_no_fit() {
    assert!(Data::new([(5.0, 1_000)].into_iter(), 0.5).is_none());
    assert!(Data::new(core::iter::empty(), 0.5).is_none());
}

#[test]
fn coarse_times_are_fitted_as_cells() {
    // Gaps of a Poisson process, recorded to the second: three of four round to a multiple that ties.
    let coarse = data(0.0, dist::exponential)
        .values
        .iter()
        .map(|v| v.x.round())
        .collect::<Vec<_>>();
    let data = Data::new(coarse.into_iter().map(|x| (x, 1)), 0.5).expect("values differ");
    let best = *Fits::of_gaps(&data).best().expect("a fit");
    assert!(best.ks < 0.05, "{best:?}");
}

#[test]
fn what_is_fitted_can_be_built() {
    for law in [
        Law::Lognormal {
            mu: 6.0,
            sigma: 1.0,
        },
        Law::Normal {
            mean: 200.0,
            std: 30.0,
        },
    ] {
        assert!(
            law.to_lengths(1, 4096)
                .expect("expressible")
                .build()
                .is_ok()
        );
    }
    let law = Law::Weibull {
        shape: 0.7,
        scale: 0.3,
    };
    assert!(law.to_arrivals(5.0).expect("expressible").build().is_ok());
    assert_eq!(rounded(123_456.7).to_bits(), 123_460.0_f64.to_bits());
}

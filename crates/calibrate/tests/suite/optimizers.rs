//! Optimizers on functions whose minimum is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foretoken_calibrate::CalibrateError;
use foretoken_calibrate::optimizer::{
    Best, CmaEs, GoldenSection, Optimizer, Parameter, Search, Space, Tpe, minimise,
};
use foretoken_calibrate::progress::Log;
use proptest::prelude::*;

/// `n` parameters from -5 to 10 that start at `start`.
fn space(n: usize, start: f64) -> Space {
    let parameter = |i| Parameter::new(format!("x{i}"), -5.0, 10.0, start, "");
    let parameters = (0..n).map(|i| parameter(i).expect("a valid range"));
    Space::new(parameters.collect()).expect("names differ")
}

fn sphere(x: &[f64]) -> f64 {
    x.iter().map(|x| (x - 1.0) * (x - 1.0)).sum()
}

fn rosenbrock(x: &[f64]) -> f64 {
    let term = |w: &[f64]| {
        let (slope, off) = (w[1] - w[0] * w[0], 1.0 - w[0]);
        100.0 * slope * slope + off * off
    };
    x.windows(2).map(term).sum()
}

/// The sphere with noise of up to a tenth that is a function of the point.
fn noisy(x: &[f64]) -> f64 {
    let bits = x.iter().fold(0_u64, |hash, x| {
        (hash ^ x.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    let noise = f64::from((bits >> 40) as u32) / f64::from(1_u32 << 24);
    sphere(x) + 0.1 * noise
}

/// The loss is known everywhere.
fn exact(
    function: impl Fn(&[f64]) -> f64 + Sync,
) -> impl Fn(&[f64]) -> Result<f64, CalibrateError> + Sync {
    move |x| Ok(function(x))
}

fn run(
    optimizer: &mut dyn Optimizer,
    function: impl Fn(&[f64]) -> f64 + Sync,
    evaluations: usize,
) -> Best {
    let search = Search::new(evaluations);
    minimise(optimizer, &exact(function), &search).expect("enough evaluations")
}

#[test]
fn cma_es_finds_the_centre_of_a_sphere() {
    let best = run(&mut CmaEs::new(space(8, 7.0), 1), sphere, 3_000);
    assert!(best.loss < 1e-8, "{best:?}");
}

#[test]
fn cma_es_follows_a_curved_valley() {
    let best = run(&mut CmaEs::new(space(4, -3.0), 1), rosenbrock, 8_000);
    assert!(best.loss < 1e-6, "{best:?}");
}

#[test]
fn cma_es_finds_a_minimum_on_the_bounds() {
    // Downhill to a corner of the space.
    let slope = |x: &[f64]| x.iter().sum::<f64>();
    let best = run(&mut CmaEs::new(space(5, 5.0), 1), slope, 2_000);
    assert!(best.loss < -24.9, "{best:?}");
}

#[test]
fn noise_does_not_lead_cma_es_astray() {
    let best = run(&mut CmaEs::new(space(6, 8.0), 1), noisy, 2_000);
    assert!(sphere(&best.values) < 0.3, "{best:?}");
}

#[test]
fn cma_es_survives_candidates_that_cannot_be_evaluated() {
    let partly = |x: &[f64]| {
        if x[0] > 4.0 { f64::NAN } else { sphere(x) }
    };
    let best = run(&mut CmaEs::new(space(3, 3.9), 1), partly, 2_000);
    assert!(best.loss < 1e-6, "{best:?}");
}

#[test]
fn tpe_comes_near_in_a_wide_space() {
    let best = run(&mut Tpe::new(space(3, 9.0), 1), sphere, 400);
    assert!(best.loss < 1.0, "{best:?}");
}

#[test]
fn golden_section_polishes_a_separable_function() {
    let mut polish = GoldenSection::new(space(4, 1.6))
        .with_rounds(3)
        .with_probes(8);
    let best = run(&mut polish, sphere, 200);
    assert!(best.loss < 1e-3, "{best:?}");
}

#[test]
fn golden_section_never_returns_less_than_its_start() {
    let best = run(&mut GoldenSection::new(space(4, 1.0)), sphere, 200);
    assert!(best.loss < 1e-20, "{best:?}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("threads start");
        pool.install(|| {
            let mut all: [Box<dyn Optimizer>; 3] = [
                Box::new(CmaEs::new(space(5, 4.0), 3)),
                Box::new(Tpe::new(space(5, 4.0), 3)),
                Box::new(GoldenSection::new(space(5, 4.0))),
            ];
            all.each_mut().map(|o| run(o.as_mut(), rosenbrock, 300))
        })
    };
    assert_eq!(on(1), on(2));
}

#[test]
fn another_seed_is_another_search() {
    let with = |seed| run(&mut CmaEs::new(space(3, 4.0), seed), sphere, 100);
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn a_search_that_was_interrupted_ends_as_if_it_had_not_been() {
    let path = std::env::temp_dir().join(format!("foretoken-resume-{}.jsonl", std::process::id()));
    let evaluated = AtomicUsize::new(0);
    let counted = |x: &[f64]| {
        evaluated.fetch_add(1, Ordering::Relaxed);
        Ok(rosenbrock(x))
    };
    let run = |evaluations, log| {
        evaluated.store(0, Ordering::Relaxed);
        let search = Search::new(evaluations).with_log(Arc::new(log), 5);
        let best = minimise(&mut CmaEs::new(space(4, 0.0), 9), &counted, &search);
        (best.expect("enough"), evaluated.load(Ordering::Relaxed))
    };
    let (whole, all) = run(400, Log::default());
    let open = || Log::open(&path).expect("a log");
    let (_, first) = run(150, open());
    let (resumed, second) = run(400, open());
    let (again, third) = run(400, open());
    assert_eq!(resumed, whole);
    assert_eq!(again, whole);
    assert_eq!((first + second, third), (all, 0));
    std::fs::remove_file(path).expect("it exists");
}

#[test]
fn a_budget_below_one_batch_is_refused() {
    let error = minimise(
        &mut CmaEs::new(space(2, 0.0), 1),
        &exact(sphere),
        &Search::new(3),
    );
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("evaluations is 3"), "{error}");
}

#[test]
fn an_error_ends_the_search() {
    let failing = |_: &[f64]| Space::new(Vec::new()).map(|_| 0.0);
    let search = Search::new(100);
    assert!(minimise(&mut CmaEs::new(space(2, 0.0), 1), &failing, &search).is_err());
}

proptest! {
    #[test]
    fn no_candidate_leaves_the_bounds(
        seed in 0_u64..1_000,
        low in -10.0_f64..10.0,
        width in 0.001_f64..100.0,
        at in 0.0_f64..=1.0,
        digits in proptest::option::of(1_u32..5),
    ) {
        let high = low + width;
        let start = (low + at * width).clamp(low, high);
        let parameter = |name: &str| Parameter::new(name, low, high, start, "");
        let mut space = Space::new(vec![parameter("x")?, parameter("y")?])?;
        if let Some(digits) = digits {
            space = space.rounded(digits);
        }
        let mut all: [Box<dyn Optimizer>; 3] = [
            Box::new(CmaEs::new(space.clone(), seed).with_width(1.0)),
            Box::new(Tpe::new(space.clone(), seed)),
            Box::new(GoldenSection::new(space).with_radius(1.0)),
        ];
        for optimizer in &mut all {
            for _ in 0..12 {
                let batch = optimizer.ask();
                for candidate in &batch {
                    prop_assert_eq!(candidate.len(), 2);
                    prop_assert!(candidate.iter().all(|x| (low..=high).contains(x)), "{candidate:?}");
                }
                // Downhill beyond the bounds.
                let losses: Vec<f64> = batch.iter().map(|x| x[0] - x[1]).collect();
                optimizer.tell(&losses);
            }
        }
    }
}

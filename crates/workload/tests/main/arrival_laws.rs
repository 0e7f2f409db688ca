//! Arrival processes have the laws that they are named after.
//!
//! Gaps at a rate that changes are tested on the clock that shows the rate's integral, where they
//! must be those of the same process at rate 1 (the time-rescaling theorem). The integrals here are
//! closed forms of their own.

use core::f64::consts::TAU;

use foretoken_des_kernel::{RngStreams, SimTime};
use foretoken_workload::{ArrivalSpec, Positive, dist};

use crate::statistics::{assert_law, assert_shares, mean, variance};

fn spec(text: &str) -> ArrivalSpec {
    serde_json::from_str(text).expect(text)
}

/// The first arrivals in seconds, up to `until`.
fn arrivals(text: &str, until: f64) -> Vec<f64> {
    let mut process = spec(text).build().expect(text);
    let mut rng = RngStreams::new(17, 0).stream("arrivals", 0);
    let mut now = SimTime::ZERO;
    core::iter::from_fn(|| {
        now = process.next_after(now, &mut rng)?;
        Some(now.as_secs_f64())
    })
    .take_while(|&at| at <= until)
    .collect()
}

/// Gaps between arrivals on the clock that shows `integral`, the first one included.
fn gaps(arrivals: &[f64], integral: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut before = 0.0;
    let gaps = arrivals.iter().map(|&at| {
        let now = integral(at);
        now - core::mem::replace(&mut before, now)
    });
    gaps.collect()
}

fn exponential_cdf(x: f64) -> f64 {
    -libm::expm1(-x)
}

/// Of gamma gaps with mean 1.
fn gamma_cdf(shape: f64) -> impl Fn(f64) -> f64 {
    let positive = Positive::new(shape).expect("a shape");
    move |x| dist::gamma_cdf(x * shape, positive)
}

#[test]
fn renewal_gaps_have_their_distributions() {
    for (text, cdf) in [
        (
            r#"{"poisson": {"rate-rps": 4}}"#,
            Box::new(exponential_cdf) as Box<dyn Fn(f64) -> f64>,
        ),
        (
            r#"{"gamma": {"rate-rps": 4, "cv": 2}}"#,
            Box::new(gamma_cdf(0.25)),
        ),
        (
            r#"{"gamma": {"rate-rps": 4, "shape": 3}}"#,
            Box::new(gamma_cdf(3.0)),
        ),
        (
            r#"{"weibull": {"rate-rps": 4, "shape": 0.6}}"#,
            Box::new(|x| {
                let scaled = x * libm::tgamma(1.0 + 1.0 / 0.6);
                -libm::expm1(-libm::pow(scaled, 0.6))
            }),
        ),
    ] {
        let arrivals = arrivals(text, 10_000.0);
        assert_law(text, gaps(&arrivals, |t| 4.0 * t), cdf);
    }
}

#[test]
fn a_gamma_process_has_the_variation_of_its_shape() {
    let arrivals = arrivals(r#"{"gamma": {"rate-rps": 10, "shape": 0.25}}"#, 10_000.0);
    let gaps = gaps(&arrivals, |t| t);
    let cv = variance(&gaps).sqrt() / mean(&gaps);
    assert!((cv - 2.0).abs() < 0.03, "{cv}");
}

#[test]
fn the_most_likely_weibull_shape_is_the_one_asked_for() {
    let arrivals = arrivals(r#"{"weibull": {"rate-rps": 10, "shape": 0.7}}"#, 5_000.0);
    let gaps = gaps(&arrivals, |t| t);
    let logs: Vec<_> = gaps.iter().map(|&x| libm::log(x)).collect();
    // Maximum likelihood: Σ x^k ln x / Σ x^k - 1/k = mean of ln x; the left side rises in k.
    let (mut low, mut high) = (0.1, 5.0);
    for _ in 0..50 {
        let k = 0.5 * (low + high);
        let powers: Vec<_> = logs.iter().map(|log| libm::exp(k * log)).collect();
        let weighted: f64 = powers.iter().zip(&logs).map(|(p, log)| p * log).sum();
        if weighted / powers.iter().sum::<f64>() - 1.0 / k > mean(&logs) {
            high = k;
        } else {
            low = k;
        }
    }
    // The estimate's standard deviation is 0.78 k / √n, here 0.0024.
    assert!((low - 0.7).abs() < 0.01, "{low}");
}

#[test]
fn a_diurnal_rate_is_followed() {
    let text =
        r#"{"diurnal": {"mean-rate-rps": 5, "amplitude": 0.8, "peak-s": 300, "period-s": 1000}}"#;
    let arrivals = arrivals(text, 8_000.0);
    let turn = TAU / 1_000.0;
    let integral = |t: f64| {
        let swing = libm::sin(turn * (t - 300.0)) + libm::sin(turn * 300.0);
        5.0 * (t + 0.8 / turn * swing)
    };
    assert_law(text, gaps(&arrivals, integral), exponential_cdf);
    // The integral over whole periods is the mean rate's; within them, each tenth has its own.
    let expected = integral(8_000.0);
    assert!((expected - 40_000.0).abs() < 1e-6);
    assert!((arrivals.len() as f64 - expected).abs() < 3.3 * expected.sqrt());
    let mut tenths = [0; 10];
    for at in &arrivals {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below ten"
        )]
        let tenth = (at % 1_000.0 / 100.0) as usize;
        tenths[tenth.min(9)] += 1;
    }
    let share = |k: f64| integral(100.0 * (k + 1.0)) - integral(100.0 * k);
    let shares: Vec<_> = (0..10).map(|k| share(f64::from(k))).collect();
    assert_shares(text, &tenths, &shares);
}

#[test]
fn gaps_at_a_changing_rate_may_be_of_any_family() {
    let text = r#"{"diurnal": {"mean-rate-rps": 5, "amplitude": 1, "period-s": 100,
        "gaps": {"gamma": {"shape": 0.5}}}}"#;
    let arrivals = arrivals(text, 4_000.0);
    let turn = TAU / 100.0;
    let integral = |t: f64| 5.0 * (t + libm::sin(turn * t) / turn);
    assert_law(text, gaps(&arrivals, integral), gamma_cdf(0.5));
}

#[test]
fn equal_gaps_at_an_hourly_rate_are_exact() {
    let text = r#"{"hourly": {"rates-rps": [1, 0, 4], "period-s": 30, "gaps": {"constant": {}}}}"#;
    let arrivals = arrivals(text, 60.0);
    let mut expected: Vec<f64> = (1..=10).map(f64::from).collect();
    expected.extend((1..=40).map(|k| 20.0 + 0.25 * f64::from(k)));
    let again: Vec<_> = expected.iter().map(|at| at + 30.0).collect();
    expected.extend(again);
    assert_eq!(arrivals.len(), expected.len());
    for (seen, expected) in arrivals.iter().zip(&expected) {
        assert!((seen - expected).abs() < 1e-6, "{seen} for {expected}");
    }
}

#[test]
fn hourly_rates_are_followed_day_after_day() {
    let rates: Vec<f64> = (0..24).map(|hour| f64::from((hour * 7) % 11)).collect();
    let text = format!(r#"{{"hourly": {{"rates-rps": {rates:?}, "period-s": 240}}}}"#);
    let arrivals = arrivals(&text, 9_600.0);
    let mut counts = [0; 24];
    for at in arrivals {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below 24"
        )]
        let hour = (at % 240.0 / 10.0) as usize;
        counts[hour.min(23)] += 1;
    }
    assert_shares("hourly", &counts, &rates);
}

#[test]
fn a_ramp_has_linear_rates() {
    let text = r#"{"ramp": {"from-rps": 0, "to-rps": 50, "duration-s": 1000}}"#;
    let arrivals = arrivals(text, 1_200.0);
    let integral = |t: f64| {
        let ramp = t.min(1_000.0);
        0.025 * ramp * ramp + 50.0 * (t - ramp)
    };
    assert_law(text, gaps(&arrivals, integral), exponential_cdf);
}

#[test]
fn pieces_have_their_rates_and_end() {
    let text = r#"{"piecewise": {
        "pieces": [
            {"rate-rps": 20, "duration-s": 500},
            {"rate-rps": 0, "duration-s": 100},
            {"rate-rps": 40, "to-rate-rps": 10, "duration-s": 400}
        ],
        "gaps": {"weibull": {"shape": 2}}
    }}"#;
    let arrivals = arrivals(text, f64::MAX);
    let integral = |t: f64| {
        let falling = (t - 600.0).max(0.0);
        20.0 * t.min(500.0) + falling * (40.0 - 0.0375 * falling)
    };
    let weibull = |x: f64| {
        let scaled = x * libm::tgamma(1.5);
        -libm::expm1(-scaled * scaled)
    };
    assert_law(text, gaps(&arrivals, integral), weibull);
    assert!(arrivals.iter().all(|&t| t <= 1_000.0));
    assert!(!arrivals.iter().any(|&t| t > 500.0 && t < 600.0));
    assert_eq!(spec(text).stage_ends().len(), 3);
    assert!(spec(text).ends());
}

#[test]
fn a_spike_multiplies_the_rate_of_any_base() {
    type Curve = Box<dyn Fn(f64) -> f64>;
    let diurnal = |t: f64| 5.0 * (t + 700.0 / TAU * libm::sin(TAU / 700.0 * t));
    let bases: [(_, Curve, Curve); 3] = [
        (
            r#"{"poisson": {"rate-rps": 5}}"#,
            Box::new(|t| 5.0 * t),
            Box::new(exponential_cdf),
        ),
        (
            r#"{"gamma": {"rate-rps": 8, "cv": 0.5}}"#,
            Box::new(|t| 8.0 * t),
            Box::new(gamma_cdf(4.0)),
        ),
        (
            r#"{"diurnal": {"mean-rate-rps": 5, "amplitude": 1, "period-s": 700}}"#,
            Box::new(diurnal),
            Box::new(exponential_cdf),
        ),
    ];
    for (base, integral, cdf) in bases {
        let text = format!(
            r#"{{"spikes": {{"base": {base}, "spikes": [
                {{"at-s": 50, "duration-s": 10, "factor": 6, "every-s": 100}},
                {{"at-s": 1000, "duration-s": 200, "factor": 0}}
            ]}}}}"#
        );
        let arrivals = arrivals(&text, 3_000.0);
        assert!(!arrivals.iter().any(|&t| t > 1_000.0 && t < 1_200.0));
        // Five times the base comes on top in the spikes, and nothing during the outage.
        let spiked = |t: f64| {
            let starts = (0..30).map(|k| 50.0 + 100.0 * f64::from(k));
            let extra = starts.map(|at| integral(t.clamp(at, at + 10.0)) - integral(at));
            integral(t) + 5.0 * extra.sum::<f64>()
        };
        let all = |t: f64| spiked(t) - spiked(t.clamp(1_000.0, 1_200.0)) + spiked(1_000.0);
        assert_law(&text, gaps(&arrivals, all), cdf);
    }
}

#[test]
fn a_spike_on_random_bursts_multiplies_their_mean() {
    let text = format!(
        r#"{{"spikes": {{"base": {BURSTS}, "spikes": [
            {{"at-s": 0, "duration-s": 20, "factor": 3, "every-s": 40}}]}}}}"#
    );
    let arrivals = arrivals(&text, 40_000.0);
    let inside = arrivals.iter().filter(|&&at| at % 40.0 < 20.0).count() as f64;
    let outside = arrivals.len() as f64 - inside;
    assert!((inside / outside - 3.0).abs() < 0.15, "{inside}, {outside}");
    assert!((outside / 20_000.0 - 5.6).abs() < 0.25, "{outside}");
}

const BURSTS: &str = r#"{"mmpp": {"states": [
    {"rate-rps": 2, "mean-sojourn-s": 8}, {"rate-rps": 20, "mean-sojourn-s": 2}
]}}"#;

#[test]
fn a_modulated_process_has_the_dispersion_of_its_closed_form() {
    let windows = 40_000_u32;
    let arrivals = arrivals(BURSTS, f64::from(windows));
    let mut counts = vec![0.0; windows as usize];
    for at in arrivals {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index"
        )]
        let window = at as usize;
        if let Some(count) = counts.get_mut(window) {
            *count += 1.0;
        }
    }
    // Mean (2·8 + 20·2) / 10.
    let rate = mean(&counts);
    assert!((rate - 5.6).abs() < 0.15, "{rate}");
    // Fischer and Meier-Hellstern's cookbook: with rates of leaving s, t and of arrivals a, b,
    // I(T) = 1 + 2 s t (a-b)² / ((s+t)² (a t + b s)) · (1 - (1 - e^-(s+t)T) / ((s+t)T)).
    let (s, t) = (1.0 / 8.0, 1.0 / 2.0);
    let whole = 2.0 * s * t * 18.0 * 18.0 / ((s + t) * (s + t) * (2.0 * t + 20.0 * s));
    for length in [1, 10, 50] {
        let sums: Vec<f64> = counts
            .chunks(length)
            .map(|chunk| chunk.iter().sum())
            .collect();
        let seen = variance(&sums) / mean(&sums);
        let elapsed = (s + t) * length as f64;
        let expected = 1.0 + whole * (1.0 + libm::expm1(-elapsed) / elapsed);
        assert!(
            seen > 1.0 && (seen / expected - 1.0).abs() < 0.1,
            "{seen} for {expected}"
        );
    }
}

#[test]
fn an_interrupted_process_has_hyperexponential_gaps() {
    // Arrivals of rate a while on, leaving on at rate s and off at rate t: a mixture of two
    // exponentials (Kuczura 1973).
    let text = r#"{"mmpp": {"states": [
        {"rate-rps": 10, "mean-sojourn-s": 2}, {"rate-rps": 0, "mean-sojourn-s": 4}
    ]}}"#;
    let (a, s, t) = (10.0, 0.5, 0.25);
    let root = ((a + s + t) * (a + s + t) - 4.0_f64 * a * t).sqrt();
    let (fast, slow) = (0.5 * (a + s + t + root), 0.5 * (a + s + t - root));
    let share = (a - slow) / (fast - slow);
    let arrivals = arrivals(text, 20_000.0);
    // The first gap begins at any time, not at an arrival.
    let gaps = gaps(&arrivals, |t| t).split_off(1);
    assert_law(text, gaps, |x| {
        1.0 - share * libm::exp(-fast * x) - (1.0 - share) * libm::exp(-slow * x)
    });
}

#[test]
fn three_states_have_the_mean_rate_from_the_start() {
    let text = r#"{"mmpp": {"states": [
        {"rate-rps": 1, "mean-sojourn-s": 10}, {"rate-rps": 5, "mean-sojourn-s": 4},
        {"rate-rps": 30, "mean-sojourn-s": 1}
    ]}}"#;
    let spec = spec(text);
    // In the first second of many runs.
    let runs = 20_000;
    let first = |run| {
        let mut process = spec.build().expect("states");
        let mut rng = RngStreams::new(17, run).stream("arrivals", 0);
        let mut now = SimTime::ZERO;
        let arrivals = core::iter::from_fn(|| {
            now = process.next_after(now, &mut rng)?;
            (now <= SimTime::from_nanos(1_000_000_000)).then_some(())
        });
        arrivals.count() as f64
    };
    let counts: Vec<f64> = (0..runs).map(first).collect();
    let (seen, expected) = (mean(&counts), (10.0 + 20.0 + 30.0) / 15.0);
    let deviation = (variance(&counts) / counts.len() as f64).sqrt();
    assert!(
        (seen - expected).abs() < 3.3 * deviation,
        "{seen} for {expected}"
    );
}

#[test]
fn first_arrivals_are_the_same_in_every_build() {
    for (text, expected) in [
        (BURSTS, [474_408_443, 558_957_922, 1_048_573_553]),
        (
            r#"{"diurnal": {"mean-rate-rps": 5, "amplitude": 0.8, "peak-s": 300, "period-s": 1000}}"#,
            [251_879_821, 365_619_368, 535_026_233],
        ),
        (
            r#"{"hourly": {"rates-rps": [0, 1, 2], "period-s": 3}}"#,
            [1_948_816_886, 2_188_882_233, 2_508_612_358],
        ),
        (
            r#"{"ramp": {"from-rps": 0, "to-rps": 50, "duration-s": 1000, "gaps": {"gamma": {"cv": 2}}}}"#,
            [1_023_416_366, 2_104_297_944, 2_108_651_587],
        ),
        (
            r#"{"spikes": {"base": {"weibull": {"rate-rps": 1, "shape": 0.5}},
                "spikes": [{"at-s": 1, "duration-s": 1, "factor": 5, "every-s": 4}]}}"#,
            [450_126_742, 542_124_755, 746_579_460],
        ),
    ] {
        let mut process = spec(text).build().expect(text);
        let mut rng = RngStreams::new(1, 0).stream("arrivals", 0);
        let mut now = SimTime::ZERO;
        let seen = [(); 3].map(|()| {
            now = process.next_after(now, &mut rng).expect("endless");
            now.as_nanos()
        });
        assert_eq!(seen, expected, "{text}");
    }
}

#[test]
fn wrong_processes_are_refused_by_the_path_to_the_field() {
    for (text, message) in [
        (
            r#"{"mmpp": {"states": [{"rate-rps": 1, "mean-sojourn-s": 1}]}}"#,
            "states is missing or empty: needed is at least two states",
        ),
        (
            r#"{"mmpp": {"states": [{"rate-rps": -1, "mean-sojourn-s": 1}, {"rate-rps": 1, "mean-sojourn-s": 1}]}}"#,
            "states[0].rate-rps is -1",
        ),
        (
            r#"{"mmpp": {"states": [{"rate-rps": 0, "mean-sojourn-s": 1}, {"rate-rps": 0, "mean-sojourn-s": 1}]}}"#,
            "at least one rate above 0",
        ),
        (
            r#"{"mmpp": {"states": [{"rate-rps": 1e-9, "mean-sojourn-s": 1}, {"rate-rps": 0, "mean-sojourn-s": 1}]}}"#,
            "a million visits",
        ),
        (
            r#"{"diurnal": {"mean-rate-rps": 1, "amplitude": 1.5}}"#,
            "amplitude is 1.5: allowed is 0 to 1",
        ),
        (
            r#"{"diurnal": {"mean-rate-rps": 1, "amplitude": 1, "period-s": 1e-6}}"#,
            "period-s is 0.000001",
        ),
        (
            r#"{"hourly": {"rates-rps": []}}"#,
            "rates-rps is missing or empty",
        ),
        (
            r#"{"hourly": {"rates-rps": [1, 1e7]}}"#,
            "rates-rps[1] is 10000000: allowed is 0 to 1e6",
        ),
        (
            r#"{"hourly": {"rates-rps": [1], "period-s": 1e-6}}"#,
            "period-s is 0.000001",
        ),
        (
            r#"{"piecewise": {"pieces": []}}"#,
            "pieces is missing or empty",
        ),
        (
            r#"{"piecewise": {"pieces": [{"rate-rps": 1, "to-rate-rps": -1, "duration-s": 1}]}}"#,
            "pieces[0].to-rate-rps is -1",
        ),
        (
            r#"{"piecewise": {"pieces": [{"rate-rps": 1, "duration-s": 1.5e10}, {"rate-rps": 1, "duration-s": 1.5e10}]}}"#,
            "pieces.duration-s is 15000000000",
        ),
        (
            r#"{"ramp": {"from-rps": 0, "to-rps": 0, "duration-s": 1}}"#,
            "from-rps is missing or empty",
        ),
        (
            r#"{"ramp": {"from-rps": 0, "to-rps": -2, "duration-s": 1}}"#,
            "to-rps is -2",
        ),
        (
            r#"{"spikes": {"base": {"stages": {"stages": [{"rate-rps": 1, "duration-s": 1}]}}, "spikes": []}}"#,
            "base.stages is not allowed here: allowed is a process with a rate, such as piecewise",
        ),
        (
            r#"{"spikes": {"base": {"poisson": {"rate-rps": 1}}, "spikes": [{"at-s": -1, "duration-s": 1, "factor": 2}]}}"#,
            "spikes[0].at-s is -1",
        ),
        (
            r#"{"spikes": {"base": {"poisson": {"rate-rps": 1}}, "spikes": [{"at-s": 1, "duration-s": 5, "factor": 2, "every-s": 5}]}}"#,
            "spikes[0].every-s is 5",
        ),
        (
            r#"{"spikes": {"base": {"poisson": {"rate-rps": 1}}, "spikes": [{"at-s": 1, "duration-s": 5, "factor": -1}]}}"#,
            "spikes[0].factor is -1",
        ),
        (
            r#"{"ramp": {"from-rps": 0, "to-rps": 1, "duration-s": 1, "gaps": {"weibull": {"cv": 500}}}}"#,
            "gaps.cv is 500",
        ),
        (
            r#"{"gamma": {"rate-rps": 1, "cv": 1e6}}"#,
            "cv is 1000000: allowed is 0.01 to 100",
        ),
        (
            r#"{"ramp": {"from-rps": 0, "to-rps": 1, "duration-s": 1, "gaps": {"gamma": {"shape": 1e-12}}}}"#,
            "gaps.shape is 0.000000000001: allowed is 0.0001 to 10000",
        ),
    ] {
        let error = spec(text).build().expect_err(text).to_string();
        assert!(error.contains(message), "{error}");
    }
    for unknown in [
        r#"{"ramp": {"from-rps": 0, "to-rps": 1, "duration-s": 1, "shape": 1}}"#,
        r#"{"poisson": {"rate-rps": 1, "shape": 1}}"#,
        r#"{"ramp": {"from-rps": 0, "to-rps": 1, "duration-s": 1, "gaps": {"gamma": {"cv": 1, "shape": 1}}}}"#,
        r#"{"ramp": {"from-rps": 0, "to-rps": 1, "duration-s": 1, "gaps": {"poisson": {"cv": 1}}}}"#,
    ] {
        assert!(
            serde_json::from_str::<ArrivalSpec>(unknown).is_err(),
            "{unknown}"
        );
    }
}

#[test]
fn extreme_settings_neither_panic_nor_hang() {
    for text in [
        r#"{"hourly": {"rates-rps": [1e-300], "period-s": 0.001}}"#,
        r#"{"hourly": {"rates-rps": [1e6, 0], "period-s": 0.001}}"#,
        r#"{"diurnal": {"mean-rate-rps": 1e-300, "amplitude": 1, "peak-s": -1e300, "period-s": 0.001}}"#,
        r#"{"diurnal": {"mean-rate-rps": 1e6, "amplitude": 1, "period-s": 1.8e10}}"#,
        r#"{"ramp": {"from-rps": 1e6, "to-rps": 0, "duration-s": 1e-10}}"#,
        r#"{"piecewise": {"pieces": [{"rate-rps": 1e-9, "duration-s": 1.8e10}], "after": "hold"}}"#,
        r#"{"spikes": {"base": {"poisson": {"rate-rps": 1e6}}, "spikes": [
            {"at-s": 0, "duration-s": 1.8e10, "factor": 1e6}]}}"#,
        r#"{"gamma": {"rate-rps": 1e-300, "shape": 1e-4}}"#,
        r#"{"spikes": {"base": {"poisson": {"rate-rps": 1e-9}}, "spikes": [
            {"at-s": 0, "duration-s": 0.5, "factor": 2, "every-s": 1}]}}"#,
        r#"{"spikes": {"base": {"ramp": {"from-rps": 1, "to-rps": 0, "duration-s": 1}}, "spikes": [
            {"at-s": 0, "duration-s": 0.5, "factor": 0, "every-s": 1}]}}"#,
        r#"{"spikes": {"base": {"diurnal": {"mean-rate-rps": 1e-10, "amplitude": 1}}, "spikes": [
            {"at-s": 0, "duration-s": 0.5, "factor": 2, "every-s": 1},
            {"at-s": 0, "duration-s": 0.5, "factor": 2, "every-s": 1.5}]}}"#,
        r#"{"spikes": {"base": {"mmpp": {"states": [{"rate-rps": 1e6, "mean-sojourn-s": 1e-9},
            {"rate-rps": 0, "mean-sojourn-s": 1e-9}]}}, "spikes": [
            {"at-s": 0, "duration-s": 86400, "factor": 0}]}}"#,
        r#"{"spikes": {"base": {"mmpp": {"states": [{"rate-rps": 1, "mean-sojourn-s": 1},
            {"rate-rps": 0, "mean-sojourn-s": 1}]}}, "spikes": [
            {"at-s": 0, "duration-s": 1e10, "factor": 1e-300}]}}"#,
        r#"{"piecewise": {"pieces": [{"rate-rps": 1e-300, "duration-s": 0.001}], "after": "repeat"}}"#,
    ] {
        let mut process = spec(text).build().expect(text);
        let mut rng = RngStreams::new(1, 0).stream("arrivals", 0);
        let mut now = SimTime::ZERO;
        for _ in 0..1_000 {
            let Some(next) = process.next_after(now, &mut rng) else {
                break;
            };
            assert!(next >= now, "{text}");
            now = next;
        }
    }
}

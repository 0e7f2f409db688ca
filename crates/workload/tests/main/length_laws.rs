//! Length distributions have the laws that they are named after, alone, in mixtures and coupled.

use foretoken_des_kernel::RngStreams;
use foretoken_workload::{LengthSpec, Request, SyntheticSpec, Workload, dist};
use rand_core::SeedableRng;
use rand_distr::Distribution;
use rand_pcg::Pcg64;

use crate::statistics::{assert_law, assert_shares, distance_to, rank_correlation};

const DRAWS: usize = 40_000;

fn spec(text: &str) -> LengthSpec {
    serde_json::from_str(text).expect(text)
}

fn draws(text: &str) -> Vec<f64> {
    let lengths = spec(text).build().expect(text);
    let mut rng = RngStreams::new(23, 0).stream("prompt-lengths", 0);
    (0..DRAWS)
        .map(|_| lengths.sample(&mut rng).into())
        .collect()
}

type Law = Box<dyn Fn(f64) -> f64>;

/// The distribution functions, before rounding, of descriptions.
fn laws() -> Vec<(&'static str, Law)> {
    fn law(cdf: impl Fn(f64) -> f64 + 'static) -> Law {
        Box::new(cdf)
    }
    let gev = |shape: f64| {
        move |x: f64| {
            let base = (1.0 + shape * (x - 900.0) / 200.0).max(0.0);
            libm::exp(-libm::pow(base, -1.0 / shape))
        }
    };
    vec![
        (
            r#"{"normal": {"mean": 1000, "std": 200}}"#,
            law(|x| dist::normal_cdf((x - 1000.0) / 200.0)),
        ),
        (
            r#"{"lognormal": {"mean": 1000, "std": 1000}}"#,
            law(|x| {
                let sigma = libm::log(2.0).sqrt();
                let mu = libm::log(1000.0) - 0.5 * sigma * sigma;
                dist::normal_cdf((libm::log(x) - mu) / sigma)
            }),
        ),
        (
            r#"{"lognormal-mu-sigma": {"mu": 6.5, "sigma": 0.9, "shift": 30}}"#,
            law(|x| dist::normal_cdf((libm::log((x - 30.0).max(1e-9)) - 6.5) / 0.9)),
        ),
        (
            r#"{"exponential": {"mean": 700, "shift": 100}}"#,
            law(|x| -libm::expm1(-((x - 100.0).max(0.0) / 700.0))),
        ),
        (
            r#"{"weibull": {"shape": 0.8, "scale": 900}}"#,
            law(|x| -libm::expm1(-libm::pow(x / 900.0, 0.8))),
        ),
        (
            r#"{"pareto": {"shape": 1.5, "scale": 300}}"#,
            law(|x| 1.0 - libm::pow((x / 300.0).max(1.0), -1.5)),
        ),
        (
            r#"{"pareto": {"shape": 0.7, "scale": 100, "bound": 8000, "shift": 50}}"#,
            law(|x| {
                let below = |x: f64| 1.0 - libm::pow(x / 100.0, -0.7);
                below((x - 50.0).clamp(100.0, 8000.0)) / below(8000.0)
            }),
        ),
        (
            r#"{"gev": {"location": 900, "scale": 200, "shape": 0.25}}"#,
            law(gev(0.25)),
        ),
        (
            r#"{"gev": {"location": 900, "scale": 200, "shape": -0.2}}"#,
            law(gev(-0.2)),
        ),
        (
            r#"{"gev": {"location": 900, "scale": 200, "shape": 0}}"#,
            law(|x| libm::exp(-libm::exp((900.0 - x) / 200.0))),
        ),
        (
            r#"{"uniform": {"min": 200, "max": 1199}}"#,
            law(|x| ((x + 0.5).floor() - 200.0) / 1000.0),
        ),
        (
            r#"{"histogram": {"bins": [
                {"min": 1, "max": 100, "weight": 0.25}, {"min": 1001, "max": 2000, "weight": 0.75}]}}"#,
            law(|x| {
                let whole = x.floor();
                0.25 * (whole / 100.0).min(1.0) + 0.75 * ((whole - 1000.0) / 1000.0).clamp(0.0, 1.0)
            }),
        ),
        (
            r#"{"mixture": {"parts": [
                {"weight": 95, "tokens": {"exponential": {"mean": 400}}},
                {"weight": 5, "tokens": {"uniform": {"min": 2000, "max": 7999}}}]}}"#,
            law(|x| {
                let uniform = ((x.floor() - 1999.0) / 6000.0).clamp(0.0, 1.0);
                -0.95 * libm::expm1(-x / 400.0) + 0.05 * uniform
            }),
        ),
    ]
}

/// The law of whole lengths, at least 1, whose reals have `cdf`.
fn rounded(cdf: impl Fn(f64) -> f64) -> impl Fn(f64) -> f64 {
    move |tokens| cdf(tokens + 0.5)
}

#[test]
fn lengths_have_their_distributions() {
    for (text, cdf) in laws() {
        assert_law(text, draws(text), rounded(cdf));
    }
}

/// Two samples of `DRAWS`, as in `oracle`.
fn assert_oracle(text: &str, oracle: impl Distribution<f64>) {
    let reference = oracle.sample_iter(Pcg64::seed_from_u64(23)).take(DRAWS);
    let mut reference: Vec<f64> = reference.map(|x| x.round().max(1.0)).collect();
    reference.sort_by(f64::total_cmp);
    let below = |x: f64| reference.partition_point(|&y| y <= x) as f64 / DRAWS as f64;
    // The other sample's noise is as large as ours.
    let distance = distance_to(draws(text), below) / 2.0_f64.sqrt();
    assert!(distance < 1.95, "{text}: {distance}");
}

#[test]
fn lengths_agree_with_the_oracle() {
    let gamma = rand_distr::Gamma::new(0.7, 900.0).expect("a shape");
    assert_oracle(r#"{"gamma": {"shape": 0.7, "scale": 900}}"#, gamma);
    let gamma = rand_distr::Gamma::new(4.0, 250.0).expect("a shape");
    assert_oracle(r#"{"gamma": {"shape": 4, "scale": 250}}"#, gamma);
    let weibull = rand_distr::Weibull::new(600.0, 1.7).expect("a shape");
    assert_oracle(r#"{"weibull": {"shape": 1.7, "scale": 600}}"#, weibull);
    let pareto = rand_distr::Pareto::new(200.0, 1.1).expect("a shape");
    assert_oracle(r#"{"pareto": {"shape": 1.1, "scale": 200}}"#, pareto);
    let gumbel = rand_distr::Gumbel::new(900.0, 150.0).expect("a scale");
    assert_oracle(
        r#"{"gev": {"location": 900, "scale": 150, "shape": 0}}"#,
        gumbel,
    );
    // Fréchet of shape 4, location 0 and scale 800 is this one.
    let frechet = rand_distr::Frechet::new(0.0, 800.0, 4.0).expect("a shape");
    assert_oracle(
        r#"{"gev": {"location": 800, "scale": 200, "shape": 0.25}}"#,
        frechet,
    );
}

#[test]
fn quantiles_of_extreme_values_are_recovered() {
    for shape in [-0.3, 0.3_f64] {
        let text = format!(r#"{{"gev": {{"location": 5000, "scale": 1000, "shape": {shape}}}}}"#);
        let mut sample = draws(&text);
        sample.sort_by(f64::total_cmp);
        for (index, below) in [(4_000, 0.1), (20_000, 0.5), (36_000, 0.9), (39_600, 0.99)] {
            let quantile = |below: f64| {
                let power = libm::pow(-libm::log(below), -shape);
                5000.0 + 1000.0 / shape * (power - 1.0)
            };
            // Four standard errors of an order statistic, by the slope of the quantile function.
            let error = 4.0 * (below * (1.0 - below) / DRAWS as f64).sqrt();
            let (low, high) = (quantile(below - error), quantile(below + error));
            let seen = sample[index];
            assert!(low < seen && seen < high, "{text} at {below}: {seen}");
        }
    }
}

#[test]
fn given_lengths_have_their_weights() {
    let text = r#"{"empirical": {"values": [10, 500, 20], "weights": [1, 2.5, 0]}}"#;
    let mut counts = [0; 3];
    for tokens in draws(text) {
        let index = [10.0, 500.0, 20.0]
            .iter()
            .position(|&v: &f64| v.total_cmp(&tokens).is_eq());
        counts[index.expect("a given length")] += 1;
    }
    assert_shares(text, &counts, &[1.0, 2.5, 0.0]);
}

/// Requests of two distributions with a rank correlation.
fn coupled(prompt: &LengthSpec, output: &LengthSpec, rank: f64) -> Vec<Request> {
    let text = format!(
        r#"{{"arrivals": {{"poisson": {{"rate-rps": 10}}}}, "requests": {DRAWS},
            "prompt-tokens": {prompt}, "output-tokens": {output}, "length-correlation": {rank}}}"#,
        prompt = serde_json::to_string(prompt).expect("plain data"),
        output = serde_json::to_string(output).expect("plain data"),
    );
    let spec: SyntheticSpec = serde_json::from_str(&text).expect("a load");
    let mut load = spec.build(&RngStreams::new(29, 0)).expect("a valid load");
    core::iter::from_fn(|| load.next()).collect()
}

fn lengths(requests: &[Request]) -> (Vec<f64>, Vec<f64>) {
    requests
        .iter()
        .map(|r| (f64::from(r.prompt.tokens()), f64::from(r.output_tokens())))
        .unzip()
}

#[test]
fn coupled_lengths_keep_their_distributions() {
    for (text, cdf) in laws() {
        let requests = coupled(&spec(text), &spec(text), 0.5);
        let (prompts, outputs) = lengths(&requests);
        let cdf = rounded(cdf);
        assert_law(&format!("prompts, {text}"), prompts, &cdf);
        assert_law(&format!("outputs, {text}"), outputs, &cdf);
    }
}

#[test]
fn coupled_lengths_have_the_rank_correlation_asked_for() {
    let prompt = spec(r#"{"lognormal": {"mean": 2000, "std": 3000}}"#);
    let output = spec(r#"{"gamma": {"shape": 2, "scale": 1000}}"#);
    for rank in [-0.9, -0.3, 0.2, 0.6, 0.95] {
        let (prompts, outputs) = lengths(&coupled(&prompt, &output, rank));
        let seen = rank_correlation(&prompts, &outputs);
        // Its standard error is below 1.1 / √n.
        assert!((seen - rank).abs() < 0.018, "{seen} for {rank}");
    }
    for rank in [-1.0, 1.0] {
        let (prompts, outputs) = lengths(&coupled(&prompt, &output, rank));
        let seen = rank_correlation(&prompts, &outputs);
        assert!((seen - rank).abs() < 1e-3, "{seen} for {rank}");
    }
}

#[test]
fn coupling_moves_no_prompt_length_with_the_outputs() {
    let prompt = spec(r#"{"exponential": {"mean": 2000}}"#);
    let short = spec(r#"{"exponential": {"mean": 10}}"#);
    let [one, other] = [&prompt, &short].map(|output| coupled(&prompt, output, 0.7));
    let prompts = |requests: &[Request]| lengths(requests).0;
    assert_eq!(prompts(&one), prompts(&other));
}

#[test]
fn wrong_lengths_are_refused_by_the_path_to_the_field() {
    for (text, message) in [
        (
            r#"{"lognormal-mu-sigma": {"mu": 1, "sigma": -1}}"#,
            "sigma is -1: allowed is a finite number from 0",
        ),
        (
            r#"{"pareto": {"shape": 1, "scale": 10, "bound": 10}}"#,
            "bound is 10: allowed is above scale",
        ),
        (
            r#"{"gamma": {"shape": 1, "scale": 10, "min": 0}}"#,
            "min is 0",
        ),
        (
            r#"{"gev": {"location": 1, "scale": 10, "shape": 0, "min": 9, "max": 8}}"#,
            "min 9 above max 8",
        ),
        (
            r#"{"empirical": {"values": []}}"#,
            "values is missing or empty",
        ),
        (r#"{"empirical": {"values": [0]}}"#, "values is 0"),
        (
            r#"{"empirical": {"values": [1, 2], "weights": [1]}}"#,
            "weights is 1: allowed is one weight for each value",
        ),
        (
            r#"{"empirical": {"values": [1, 2], "weights": [1, -1]}}"#,
            "weights is -1",
        ),
        (
            r#"{"histogram": {"bins": []}}"#,
            "weights is missing or empty",
        ),
        (
            r#"{"histogram": {"bins": [{"min": 5, "max": 4, "weight": 1}]}}"#,
            "bins[0].length has min 5 above max 4",
        ),
        (
            r#"{"mixture": {"parts": [{"weight": 1, "tokens": {"constant": {"tokens": 0}}}]}}"#,
            "parts[0].tokens.tokens is 0",
        ),
    ] {
        let error = spec(text).build().expect_err(text).to_string();
        assert!(error.contains(message), "{error}");
    }
    for wrong in [
        r#"{"gamma": {"shape": -1, "scale": 10}}"#,
        r#"{"gamma": {"shape": 1, "scale": 10, "mean": 4}}"#,
        r#"{"mixture": {"parts": [{"weight": 1, "tokens": {"constant": {"tokens": 1}}, "min": 1}]}}"#,
    ] {
        assert!(
            serde_json::from_str::<LengthSpec>(wrong).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn extreme_lengths_neither_panic_nor_hang() {
    for text in [
        r#"{"lognormal-mu-sigma": {"mu": 1e308, "sigma": 1e308, "shift": -1e308}}"#,
        r#"{"lognormal-mu-sigma": {"mu": -1e308, "sigma": 0}}"#,
        r#"{"exponential": {"mean": 1e308, "shift": 1e308}}"#,
        r#"{"gamma": {"shape": 1e-300, "scale": 1e300}}"#,
        r#"{"gamma": {"shape": 1e300, "scale": 1e-300}}"#,
        r#"{"weibull": {"shape": 1e-300, "scale": 1}}"#,
        r#"{"pareto": {"shape": 1e-300, "scale": 1e-300}}"#,
        r#"{"pareto": {"shape": 1e300, "scale": 1, "bound": 1e300}}"#,
        r#"{"pareto": {"shape": 1e-300, "scale": 1, "bound": 2}}"#,
        r#"{"gev": {"location": 1e308, "scale": 1e308, "shape": 1e308}}"#,
        r#"{"gev": {"location": -1e308, "scale": 1e308, "shape": -1e308}}"#,
        r#"{"uniform": {"min": 1, "max": 4294967295}}"#,
        r#"{"constant": {"tokens": 4294967295}}"#,
    ] {
        let spec = spec(text);
        let lengths = spec.build().expect(text);
        let mut rng = RngStreams::new(1, 0).stream("prompt-lengths", 0);
        assert!((0..100).all(|_| lengths.sample(&mut rng) >= 1), "{text}");
        let text = format!(
            r#"{{"arrivals": {{"poisson": {{"rate-rps": 10}}}}, "requests": 20,
                "prompt-tokens": {text}, "output-tokens": {text}, "length-correlation": 0.5}}"#
        );
        let load: SyntheticSpec = serde_json::from_str(&text).expect("a load");
        let mut load = load.build(&RngStreams::new(1, 0)).expect("a valid load");
        assert_eq!(core::iter::from_fn(|| load.next()).count(), 20);
    }
}

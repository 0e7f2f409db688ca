//! Clients: rates as asked for, habits of their own, and nobody disturbed by a newcomer.

use std::collections::BTreeSet;

use foretoken_des_kernel::RngStreams;
use foretoken_workload::{ClientsSpec, Request, Workload, WorkloadSpec};

use crate::statistics::{assert_law, assert_shares, mean, variance};

/// Clients of these `rates` with `more` fields.
fn spec(rates: &str, more: &str) -> ClientsSpec {
    let text = format!(
        r#"{{"rates": {rates}, "prompt-tokens": {{"lognormal": {{"mean": 500, "std": 400}}}},
            "output-tokens": {{"exponential": {{"mean": 200}}}} {more}}}"#
    );
    serde_json::from_str(&text).expect(&text)
}

fn drain(spec: &ClientsSpec) -> Vec<Request> {
    let mut load = spec.build(&RngStreams::new(37, 0)).expect("valid clients");
    core::iter::from_fn(|| load.next()).collect()
}

fn of_flow(requests: &[Request], flow: u32) -> impl Iterator<Item = &Request> {
    requests.iter().filter(move |r| r.flow.get() == flow)
}

fn per_flow(requests: &[Request], clients: u32) -> Vec<u64> {
    (0..clients)
        .map(|flow| of_flow(requests, flow).count() as u64)
        .collect()
}

/// Everything that varies from client to client.
const HABITS: &str = r#", "duration-s": 300,
    "gaps": {"gamma": {"cv": {"lognormal": {"mean": 1.5, "cv": 0.5}}}},
    "prompt-scale": {"lognormal": {"mean": 1, "cv": 1}},
    "output-scale": {"gamma": {"mean": 1, "cv": 0.5}},
    "system-prompt-tokens": {"uniform": {"min": 10, "max": 900}},
    "length-correlation": 0.4,
    "classes": [{"class": "critical", "weight": 1}, {"class": "batch", "weight": 1}],
    "adapters": {"count": 9, "popularity": {"zipf": {"exponent": 1}}}"#;

#[test]
fn another_client_changes_no_other() {
    let few = drain(&spec(r#"{"listed": {"rates-rps": [3, 0.5, 8]}}"#, HABITS));
    let more = drain(&spec(
        r#"{"listed": {"rates-rps": [3, 0.5, 8, 20, 1]}}"#,
        HABITS,
    ));
    assert!(of_flow(&more, 3).count() > 1_000);
    for flow in 0..3 {
        // All but the number of a request among those of all clients.
        let seen = |r: &Request| {
            let system = r.prompt.segments()[0];
            let what = (r.arrival, r.prompt.tokens(), system, r.output_tokens());
            (what, r.class, r.objective, r.model.clone(), r.flow)
        };
        let before: Vec<_> = of_flow(&few, flow).map(seen).collect();
        let after: Vec<_> = of_flow(&more, flow).map(seen).collect();
        assert!(!before.is_empty());
        assert_eq!(before, after, "client {flow}");
    }
}

#[test]
fn requests_are_numbered_in_order_of_arrival_and_the_same_every_time() {
    let spec = spec(
        r#"{"lognormal": {"clients": 40, "total-rate-rps": 20, "cv": 2}}"#,
        HABITS,
    );
    let requests = drain(&spec);
    assert!(requests.iter().enumerate().all(|(k, r)| r.id.index() == k));
    assert!(requests.is_sorted_by_key(|r| r.arrival));
    assert!(requests.iter().all(|r| r.arrival.as_secs_f64() <= 300.0));
    assert_eq!(requests, drain(&spec));
}

#[test]
fn rates_follow_their_law() {
    let limit = r#", "requests": 30000"#;
    let requests = drain(&spec(
        r#"{"zipf": {"clients": 30, "total-rate-rps": 50, "exponent": 1.2}}"#,
        limit,
    ));
    assert_eq!(requests.len(), 30_000);
    let weights: Vec<_> = (1..=30).map(|k| libm::pow(f64::from(k), -1.2)).collect();
    assert_shares("zipf", &per_flow(&requests, 30), &weights);
    let last = requests[29_999].arrival.as_secs_f64();
    assert!(
        (last - 600.0).abs() < 3.3 * 600.0 / 30_000.0_f64.sqrt(),
        "{last}"
    );

    let requests = drain(&spec(r#"{"listed": {"rates-rps": [1, 4, 9]}}"#, limit));
    assert_shares("listed", &per_flow(&requests, 3), &[1.0, 4.0, 9.0]);
    let requests = drain(&spec(
        r#"{"equal": {"clients": 7, "total-rate-rps": 9}}"#,
        limit,
    ));
    assert_shares("equal", &per_flow(&requests, 7), &[1.0; 7]);
}

#[test]
fn log_normal_shares_are_log_normal() {
    // Counts over a long time stand for the rates; their noise is small against the law's spread.
    let requests = drain(&spec(
        r#"{"lognormal": {"clients": 1000, "total-rate-rps": 1000, "cv": 1.5}}"#,
        r#", "requests": 1000000"#,
    ));
    let mut counts = vec![0.0_f64; 1_000];
    for request in &requests {
        counts[request.flow.get() as usize] += 1.0;
    }
    let logs: Vec<f64> = counts.iter().map(|&n| libm::log(n)).collect();
    let (centre, spread) = (mean(&logs), variance(&logs).sqrt());
    // √ln(1 + cv²) = 1.086, with a standard error of 0.024.
    assert!((spread - 1.086).abs() < 0.08, "{spread}");
    assert_law("shares", logs, |x| {
        foretoken_workload::dist::normal_cdf((x - centre) / spread)
    });
}

#[test]
fn the_gaps_of_a_client_are_of_its_family() {
    let requests = drain(&spec(
        r#"{"listed": {"rates-rps": [5, 5]}}"#,
        r#", "requests": 20000, "gaps": {"weibull": {"cv": {"constant": {"value": 2.236_067_977}}}}"#
            .replace('_', "")
            .as_str(),
    ));
    // Of shape 1/2 the coefficient of variation is √5, and the mean twice the scale.
    let mut before = 0.0;
    let gaps = of_flow(&requests, 1).map(|r| {
        let now = r.arrival.as_secs_f64();
        now - core::mem::replace(&mut before, now)
    });
    assert_law("gaps", gaps.collect(), |x| {
        -libm::expm1(-(2.0 * 5.0 * x).sqrt())
    });
}

#[test]
fn a_modulation_multiplies_the_rate_of_every_client() {
    let requests = drain(&spec(
        r#"{"listed": {"rates-rps": [2, 6]}}"#,
        r#", "duration-s": 4000, "modulation": {"hourly": {"rates-rps": [0, 3, 0.5, 0.5], "period-s": 400}}"#,
    ));
    for (flow, rate) in [(0, 2.0), (1, 6.0)] {
        let mut quarters = [0; 4];
        for request in of_flow(&requests, flow) {
            let within = request.arrival.as_nanos() / 100_000_000_000 % 4;
            quarters[usize::try_from(within).expect("below four")] += 1;
        }
        assert_shares("quarters", &quarters, &[0.0, 3.0, 0.5, 0.5]);
        let (all, expected) = (of_flow(&requests, flow).count() as f64, 4_000.0 * rate);
        assert!((all - expected).abs() < 3.3 * expected.sqrt(), "{all}");
    }
}

#[test]
fn clients_with_equal_gaps_do_not_ask_at_once() {
    let requests = drain(&spec(
        r#"{"equal": {"clients": 50, "total-rate-rps": 50}}"#,
        r#", "requests": 500, "gaps": {"constant": {}}"#,
    ));
    let times: BTreeSet<_> = requests.iter().map(|r| r.arrival).collect();
    assert_eq!(times.len(), 500);
    let first = of_flow(&requests, 4).map(|r| r.arrival.as_secs_f64());
    let first: Vec<_> = first.collect();
    assert!(first[0] < 1.0);
    assert!(
        first
            .windows(2)
            .all(|pair| (pair[1] - pair[0] - 1.0).abs() < 1e-6)
    );
}

#[test]
fn mean_lengths_differ_from_client_to_client_as_asked_for() {
    let requests = drain(&spec(
        r#"{"equal": {"clients": 400, "total-rate-rps": 400}}"#,
        r#", "requests": 200000, "prompt-scale": {"lognormal": {"mean": 1, "cv": 0.5}}"#,
    ));
    let (mut prompts, mut outputs) = (vec![(0.0, 0.0); 400], vec![(0.0, 0.0); 400]);
    for request in &requests {
        let index = request.flow.get() as usize;
        prompts[index].0 += f64::from(request.prompt.tokens());
        prompts[index].1 += 1.0;
        outputs[index].0 += f64::from(request.output_tokens());
        outputs[index].1 += 1.0;
    }
    let means = |sums: &[(f64, f64)]| sums.iter().map(|(s, n)| s / n).collect::<Vec<_>>();
    let (prompts, outputs) = (means(&prompts), means(&outputs));
    let cv = |sample: &[f64]| variance(sample).sqrt() / mean(sample);
    // Within a client the standard error of a mean is a few percent of it.
    assert!((mean(&prompts) - 500.0).abs() < 45.0, "{}", mean(&prompts));
    assert!((cv(&prompts) - 0.5).abs() < 0.1, "{}", cv(&prompts));
    assert!((mean(&outputs) - 200.0).abs() < 3.0, "{}", mean(&outputs));
    assert!(cv(&outputs) < 0.06, "{}", cv(&outputs));
}

#[test]
fn a_client_has_one_class_one_adapter_and_one_system_prompt() {
    let requests = drain(&spec(
        r#"{"equal": {"clients": 200, "total-rate-rps": 100}}"#,
        HABITS,
    ));
    let mut classes = BTreeSet::new();
    let mut systems = BTreeSet::new();
    for flow in 0..200 {
        let habits: Vec<_> = of_flow(&requests, flow)
            .map(|r| (r.class, r.model.clone(), r.prompt.segments()[0]))
            .collect();
        assert!(habits.windows(2).all(|pair| pair[0] == pair[1]));
        classes.extend(habits.first().map(|habit| habit.0));
        systems.extend(habits.first().map(|habit| habit.2.content));
    }
    assert_eq!((classes.len(), systems.len()), (2, 200));
}

#[test]
fn clients_in_a_mix_share_no_draw_with_other_parts() {
    let clients = spec(
        r#"{"listed": {"rates-rps": [1, 1, 1]}}"#,
        r#", "requests": 50"#,
    );
    let plain = crate::mixes::load(50, "");
    let mix = WorkloadSpec::Mix(vec![clients.clone().into(), plain.into(), clients.into()]);
    let mut load = mix.build(&RngStreams::new(1, 0)).expect("a valid mix");
    let requests: Vec<_> = core::iter::from_fn(|| load.next()).collect();
    let times: BTreeSet<_> = requests.iter().map(|r| r.arrival).collect();
    let texts: BTreeSet<_> = requests
        .iter()
        .map(|r| r.prompt.segments()[0].content)
        .collect();
    assert_eq!((requests.len(), times.len(), texts.len()), (150, 150, 150));
    let stages: BTreeSet<_> = requests.iter().map(|r| r.stage.get()).collect();
    assert_eq!(stages, [0, 1, 2].into());
}

#[test]
fn first_requests_are_the_same_in_every_build() {
    let requests = drain(&spec(
        r#"{"zipf": {"clients": 5, "total-rate-rps": 20, "exponent": 1}}"#,
        HABITS,
    ));
    let seen = requests[..3].iter().map(|r| {
        let at = (r.flow.get(), r.arrival.as_nanos());
        (at, r.prompt.tokens(), r.output_tokens(), r.class.name())
    });
    let seen: Vec<_> = seen.collect();
    let expected = [
        ((0, 20_473_552), 610, 74, "critical"),
        ((0, 20_473_553), 775, 163, "critical"),
        ((0, 20_473_574), 841, 286, "critical"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn wrong_clients_are_refused_by_the_path_to_the_field() {
    let limit = r#", "requests": 5"#;
    let equal = r#"{"equal": {"clients": 2, "total-rate-rps": 1}}"#;
    for (rates, more, message) in [
        (equal, "", "requests is missing or empty"),
        (
            r#"{"equal": {"clients": 0, "total-rate-rps": 1}}"#,
            limit,
            "rates.clients is 0: allowed is 1 to 1048576",
        ),
        (
            r#"{"listed": {"rates-rps": []}}"#,
            limit,
            "rates.rates-rps is 0",
        ),
        (
            equal,
            r#", "requests": 5, "prompt-scale": {"uniform": {"min": 2, "max": 1}}"#,
            "prompt-scale.max is 1",
        ),
        (
            equal,
            r#", "requests": 5, "output-scale": {"values": {"values": []}}"#,
            "output-scale.weights is missing",
        ),
        (
            equal,
            r#", "requests": 5, "gaps": {"gamma": {"cv": {"gamma": {"mean": 1, "cv": 50}}}}"#,
            "gaps.cv.cv is 50",
        ),
        (
            equal,
            r#", "requests": 5, "system-prompt-tokens": {"constant": {"tokens": 0}}"#,
            "system-prompt-tokens.tokens is 0",
        ),
        (
            equal,
            r#", "requests": 5, "modulation": {"hourly": {"rates-rps": [0]}}"#,
            "modulation.rates-rps is missing",
        ),
        (
            equal,
            r#", "requests": 5, "max-tokens": 0"#,
            "max-tokens is 0",
        ),
        (
            equal,
            r#", "requests": 5, "adapters": {"count": 0}"#,
            "adapters.count is 0",
        ),
    ] {
        let wrong = WorkloadSpec::from(spec(rates, more));
        let error = wrong.build(&RngStreams::new(1, 0)).err().expect(more);
        let error = error.to_string();
        assert!(error.contains(&format!("clients.{message}")), "{error}");
    }
}

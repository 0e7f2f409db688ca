//! Classes, adapters and popularity: shares, and streams of their own.

use foretoken_des_kernel::RngStreams;
use foretoken_workload::{Request, SloClass, SyntheticSpec, Workload};

use crate::statistics::assert_shares;

/// A load of `requests` with `more` fields.
pub(crate) fn load(requests: u32, more: &str) -> SyntheticSpec {
    let text = format!(
        r#"{{"arrivals": {{"poisson": {{"rate-rps": 10}}}}, "requests": {requests},
            "prompt-tokens": {{"uniform": {{"min": 10, "max": 90}}}},
            "output-tokens": {{"uniform": {{"min": 1, "max": 50}}}} {more}}}"#
    );
    serde_json::from_str(&text).expect(&text)
}

pub(crate) fn drain(spec: &SyntheticSpec) -> Vec<Request> {
    let mut load = spec.build(&RngStreams::new(31, 0)).expect("a valid load");
    core::iter::from_fn(|| load.next()).collect()
}

/// How often each of `kinds` is found.
pub(crate) fn count<T: PartialEq>(
    requests: &[Request],
    kinds: &[T],
    kind: impl Fn(&Request) -> T,
) -> Vec<u64> {
    let mut counts = vec![0; kinds.len()];
    for request in requests {
        let kind = kind(request);
        let index = kinds.iter().position(|other| *other == kind);
        counts[index.expect("a known kind")] += 1;
    }
    counts
}

const CLASSES: &str = r#", "classes": [
    {"class": "critical", "weight": 2, "priority": -1, "headers": {"x-slo": "200"}},
    {"class": "standard", "weight": 5, "objective-priority": 7},
    {"class": "batch", "weight": 3}
]"#;

#[test]
fn classes_have_their_weights_and_what_belongs_to_them() {
    let requests = drain(&load(30_000, CLASSES));
    let classes = [SloClass::Critical, SloClass::Standard, SloClass::Batch];
    let counts = count(&requests, &classes, |r| r.class);
    assert_shares("classes", &counts, &[2.0, 5.0, 3.0]);
    for request in &requests {
        let expected = match request.class {
            SloClass::Critical => (100, -1, Some("200")),
            SloClass::Standard => (7, 0, None),
            _ => (-20, 0, None),
        };
        let seen = (
            request.objective.get(),
            request.priority.get(),
            request.headers.get("x-slo"),
        );
        assert_eq!(seen, expected);
    }
}

#[test]
fn adapters_have_their_popularity() {
    let adapters = r#", "client": {"model": "tuned"}, "adapters":
        {"count": 6, "popularity": {"zipf": {"exponent": 1.3}}, "base-share": 0.4}"#;
    let requests = drain(&load(30_000, adapters));
    let mut names: Vec<_> = (0..6).map(|k| format!("adapter-{k}")).collect();
    names.push("tuned".to_owned());
    let name = |r: &Request| r.model.as_deref().expect("a name").to_owned();
    let mut weights: Vec<_> = (1..=6).map(|k| libm::pow(f64::from(k), -1.3)).collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight *= 0.6 / sum;
    }
    weights.push(0.4);
    assert_shares("adapters", &count(&requests, &names, name), &weights);
}

#[test]
fn adapters_may_be_named_and_weighted() {
    let adapters = r#", "adapters":
        {"names": ["sql", "chat"], "popularity": {"weights": {"weights": [1, 9]}}}"#;
    let requests = drain(&load(10_000, adapters));
    let name = |r: &Request| r.model.as_deref().map(str::to_owned);
    let names = ["sql", "chat"].map(|name| Some(name.to_owned()));
    assert_shares("names", &count(&requests, &names, name), &[1.0, 9.0]);
}

#[test]
fn mixes_and_prefixes_move_no_other_draw() {
    let plain = drain(&load(500, ""));
    for more in [
        CLASSES,
        r#", "adapters": {"count": 3}"#,
        r#", "prefix": {"groups": {"groups": 5, "tokens": {"constant": {"tokens": 9}}}}"#,
        r#", "length-correlation": 0"#,
    ] {
        let mixed = drain(&load(500, more));
        assert!(plain.iter().zip(&mixed).all(|(a, b)| {
            let own = |r: &Request| r.prompt.segments().last().copied();
            (a.arrival, a.output_tokens(), own(a)) == (b.arrival, b.output_tokens(), own(b))
        }));
    }
}

#[test]
fn what_is_not_asked_for_is_not_written() {
    let text = serde_json::to_string(&load(5, "")).expect("plain data");
    for key in ["prefix", "classes", "adapters", "length-correlation"] {
        assert!(!text.contains(key), "{text}");
    }
}

#[test]
fn first_requests_are_the_same_in_every_build() {
    let more = r#", "length-correlation": -0.5, "adapters": {"count": 5},
        "classes": [{"class": "critical", "weight": 1}, {"class": "batch", "weight": 1}],
        "prefix": {"documents": {"documents": 100, "per-request": 2, "order": "random",
            "popularity": {"zipf": {"exponent": 1}}, "tokens": {"gamma": {"shape": 2, "scale": 300}}}}"#;
    let requests = drain(&load(3, more));
    let seen = requests.iter().map(|r| {
        let segments: Vec<_> = r.prompt.segments().iter().map(|s| s.len).collect();
        let model = r.model.as_deref().expect("an adapter");
        format!("{segments:?} {} {} {model}", r.output_tokens(), r.class)
    });
    let seen: Vec<_> = seen.collect();
    let expected = [
        "[631, 99, 49] 3 critical adapter-4",
        "[190, 824, 40] 31 critical adapter-0",
        "[1206, 190, 30] 33 batch adapter-1",
    ];
    assert_eq!(seen, expected);
}

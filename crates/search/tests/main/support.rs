//! A small search that all tests vary.

use foretoken::Scenario;
use foretoken_search::{
    Constraint, Environment, Method, Metric, Objective, Search, SearchResult, SearchSpec, Space,
};
use serde_json::{Value, json};

pub(crate) fn scenario() -> Value {
    json!({
        "deployment": { "model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "H100-SXM-80GB" },
        "workload": { "synthetic": {
            "arrivals": { "poisson": { "rate-rps": 24 } }, "requests": 60,
            "prompt-tokens": { "constant": { "tokens": 800 } },
            "output-tokens": { "constant": { "tokens": 60 } }
        } }
    })
}

pub(crate) fn base() -> Scenario {
    serde_json::from_value(scenario()).expect("a scenario")
}

pub(crate) fn metric(name: &str) -> Metric {
    name.parse().expect("a metric")
}

/// 96 candidates with a front of several.
pub(crate) fn spec(method: Method) -> SearchSpec {
    let space = Space::default()
        .values("tensor-parallel", [1, 2, 4])
        .gpu_budget(4)
        .values("max-num-seqs", [2, 8, 64, 256])
        .values("max-num-batched-tokens", [512, 2048, 8192])
        .values("async-scheduling", [false, true]);
    let objectives = [
        Objective::minimise(Metric::Gpus),
        Objective::minimise(metric("itl-mean-ms")),
        Objective::minimise(metric("ttft-p99-ms")).with_resolution(5.0),
    ];
    SearchSpec {
        constraints: vec![Constraint::at_most(metric("ttft-p99-ms"), 400.0)],
        report: vec![metric("completed-share")],
        method,
        seed: 3,
        ..SearchSpec::new(base(), space, objectives)
    }
}

pub(crate) fn run(spec: &SearchSpec) -> SearchResult {
    let environment = Environment::builtin();
    let search = Search::new(spec, &environment).expect("a search");
    search.run().expect("it is run")
}

pub(crate) fn json(result: &SearchResult) -> String {
    serde_json::to_string(result).expect("plain data")
}

pub(crate) const ALL_METHODS: [Method; 6] = [
    Method::Grid {},
    Method::Random { candidates: 20 },
    Method::NsgaIi {
        population: 12,
        generations: 5,
    },
    Method::Tpe { candidates: 40 },
    Method::SuccessiveHalving {
        candidates: None,
        first_share: 0.3,
        factor: 2,
    },
    Method::SuccessiveHalving {
        candidates: Some(20),
        first_share: 0.2,
        factor: 4,
    },
];

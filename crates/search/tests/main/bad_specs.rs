//! What makes no sense is refused before the first run, by name.

use foretoken_search::{Environment, Search, SearchSpec};
use serde_json::{Value, json};

use crate::support::scenario;

fn spec() -> Value {
    json!({
        "scenario": scenario(),
        "space": { "tensor-parallel": [1, 2] },
        "objectives": [{ "minimise": "gpus" }],
    })
}

/// What is said of a search with one key changed.
fn problem(key: &str, value: Value) -> String {
    let mut spec = spec();
    spec[key] = value;
    let spec: SearchSpec = match serde_path_to_error::deserialize(spec) {
        Ok(spec) => spec,
        Err(error) => return error.to_string(),
    };
    let environment = Environment::builtin();
    match Search::new(&spec, &environment) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn refused(key: &str, value: Value, expected: &str) {
    let problem = problem(key, value);
    assert!(problem.contains(expected), "{problem}");
}

#[test]
fn a_space_that_is_empty_or_has_empty_or_double_knobs() {
    refused(
        "space",
        json!({}),
        "space is empty: allowed is at least one knob",
    );
    refused(
        "space",
        json!({ "max-num-seqs": [] }),
        "space.max-num-seqs is empty: allowed is at least one value",
    );
    refused(
        "space",
        json!({ "max-num-seqs": [8, 16, 8] }),
        "space.max-num-seqs is 8 twice: allowed is every value once",
    );
    refused(
        "space",
        json!({ "policy": { "choices": {} } }),
        "space.policy is empty",
    );
    refused(
        "space",
        json!({ "max-num-seqs": 8 }),
        "allowed is a list of values",
    );
    refused(
        "space",
        json!({ "max-num-seqs": { "from": 1, "to": 8 } }),
        "space.max-num-seqs.step is missing",
    );
}

#[test]
fn a_knob_that_no_scenario_has() {
    refused(
        "space",
        json!({ "max-num-seq": [8] }),
        "space.max-num-seq: 8: no such setting; allowed is max-model-len, max-num-batched-tokens, max-num-seqs",
    );
    refused(
        "space",
        json!({ "deployment.engine.speed": [1] }),
        "space.deployment.engine.speed: 1: ",
    );
    refused(
        "space",
        json!({ "policy": { "choices": { "urgent": { "scheduling-polici": "priority" } } } }),
        "space.policy: urgent: scheduling-polici: no such setting",
    );
}

#[test]
fn a_level_of_the_wrong_type_or_of_a_name_that_nobody_knows() {
    refused(
        "space",
        json!({ "tensor-parallel": [1, "two"] }),
        "space.tensor-parallel: two: invalid type",
    );
    refused(
        "space",
        json!({ "scheduling-policy": ["fcfs", "lifo"] }),
        "space.scheduling-policy: lifo: unknown variant",
    );
    refused(
        "space",
        json!({ "gpu": ["H100-SXM-80GB", "H900"] }),
        "space.gpu: H900: ",
    );
    refused(
        "space",
        json!({ "model": ["no/model"] }),
        "space.model: no/model: ",
    );
    refused(
        "space",
        json!({ "router-config": ["optimized-baseline", "nowhere.yaml"] }),
        "space.router-config: nowhere.yaml: ",
    );
    refused(
        "space",
        json!({ "workload.synthetic.arrivals.poisson.rate-rps": [5, -1] }),
        "poisson.rate-rps: -1: ",
    );
}

#[test]
fn two_knobs_for_one_key() {
    let choices = json!({ "choices": { "few": { "max-num-seqs": 8 } } });
    refused(
        "space",
        json!({ "max-num-seqs": [8], "policy": choices }),
        "space.policy: space.max-num-seqs sets `deployment.engine.max-num-seqs` too",
    );
    refused(
        "space",
        json!({ "replicas": { "gpu-budget": 8 }, "deployment.replicas": [1] }),
        "space.replicas: space.deployment.replicas sets `deployment.replicas` too",
    );
}

#[test]
fn a_budget_for_nobody() {
    refused(
        "space",
        json!({ "tensor-parallel": [4, 8], "replicas": { "gpu-budget": 2 } }),
        "space.replicas.gpu-budget is 2: allowed is at least 4",
    );
    refused(
        "space",
        json!({ "max-num-seqs": { "gpu-budget": 2 } }),
        "space.max-num-seqs is gpu-budget: allowed is for `replicas` only",
    );
}

#[test]
fn replications_beyond_the_last_number() {
    let mut spec = spec();
    spec["scenario"]["replication"] = json!(u64::MAX);
    spec["replications"] = json!(2);
    let spec: SearchSpec = serde_json::from_value(spec).expect("it can be read");
    let problem = Search::new(&spec, &Environment::builtin()).expect_err("there is no such number");
    let expected = "scenario.replication is 18446744073709551615: allowed is at most";
    assert!(problem.to_string().starts_with(expected), "{problem}");
}

#[test]
fn constraints_that_exclude_each_other_or_everybody() {
    let at = |metric: &str, key: &str, bound: f64| json!({ "metric": metric, key: bound });
    refused(
        "constraints",
        json!([
            at("ttft-p99-ms", "at-most", 100.0),
            at("ttft-p99-ms", "at-least", 200.0)
        ]),
        "constraints[1] is ttft-p99-ms >= 200: allowed is what goes together with ttft-p99-ms <= 100",
    );
    refused(
        "constraints",
        json!([at("gpus", "at-most", 0.0)]),
        "constraints[0] is gpus <= 0: allowed is at least 1",
    );
    refused(
        "constraints",
        json!([at("latency", "at-most", 1.0)]),
        "constraints[0].metric: metric is latency: allowed is",
    );
    refused(
        "constraints",
        json!([{ "metric": "gpus" }]),
        "constraints[0]: a constraint has one of at-most and at-least",
    );
}

#[test]
fn objectives_that_are_none_or_come_twice() {
    refused(
        "objectives",
        json!([]),
        "objectives is empty: allowed is at least one",
    );
    refused(
        "objectives",
        json!([{ "minimise": "gpus" }, { "maximise": "gpus" }]),
        "objectives[1] is gpus: allowed is every metric once",
    );
    refused(
        "objectives",
        json!([{ "minimise": "gpus", "resolution": 0 }]),
        "objectives[0].resolution is 0: allowed is 1e-12 to 1e12",
    );
    refused(
        "objectives",
        json!([{ "minimise": "speed" }]),
        "objectives[0].minimise: metric is speed",
    );
    refused(
        "objectives",
        json!([{ "minimize": "gpus" }]),
        "unknown field `minimize`",
    );
}

#[test]
fn methods_without_a_budget() {
    refused(
        "method",
        json!({ "random": { "candidates": 0 } }),
        "method.random.candidates is 0: allowed is 1 to 1000000",
    );
    refused(
        "method",
        json!({ "random": { "candidates": 4_294_967_295_u32 } }),
        "method.random.candidates is 4294967295: allowed is 1 to 1000000",
    );
    refused(
        "method",
        json!({ "tpe": { "candidates": 0 } }),
        "method.tpe.candidates is 0",
    );
    refused(
        "method",
        json!({ "nsga-ii": { "population": 2, "generations": 5 } }),
        "method.nsga-ii.population is 2",
    );
    refused(
        "method",
        json!({ "nsga-ii": { "population": 8, "generations": 0 } }),
        "method.nsga-ii.generations is 0",
    );
    refused(
        "method",
        json!({ "nsga-ii": { "population": 4_294_967_295_u32, "generations": 5 } }),
        "method.nsga-ii.population is 4294967295: allowed is 4 to 10000",
    );
    refused(
        "method",
        json!({ "nsga-ii": { "population": 8, "generations": 4_294_967_295_u32 } }),
        "method.nsga-ii.generations is 4294967295: allowed is 1 to 10000",
    );
    refused(
        "method",
        json!({ "successive-halving": { "first-share": 1.0, "factor": 3 } }),
        "method.successive-halving.first-share is 1",
    );
    refused(
        "method",
        json!({ "successive-halving": { "first-share": 0.1, "factor": 1 } }),
        "method.successive-halving.factor is 1",
    );
    refused(
        "replications",
        json!(0),
        "replications is 0: allowed is 1 to 1000",
    );
    refused(
        "replications",
        json!(1001),
        "replications is 1001: allowed is 1 to 1000",
    );
    refused(
        "space",
        json!({ "seed": { "from": 1, "to": 9000, "step": 1 }, "max-num-seqs": { "from": 1, "to": 9000, "step": 1 } }),
        "space is 81000000 candidates: allowed is up to 1000000",
    );
}

#[test]
fn a_number_that_no_run_of_the_scenario_has() {
    refused(
        "objectives",
        json!([{ "maximise": "slo-attainment" }]),
        "metric is slo-attainment: allowed is another metric, or `slos`",
    );
    refused(
        "objectives",
        json!([{ "minimise": "gpus", "resolution": 1e-300 }]),
        "1e-12 to 1e12",
    );
}

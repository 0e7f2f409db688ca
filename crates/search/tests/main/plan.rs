//! Plans whose answers follow from how they are made.

use foretoken_search::plan::Bottleneck;
use foretoken_search::{CapacityPlan, Environment, PlanSpec};

/// A plan for Qwen2.5-7B on H100 with changes to the engine, the lengths and the objectives.
fn spec(engine: &str, prompt: u32, output: u32, slo: &str, rate: f64) -> PlanSpec {
    let text = format!(
        r#"{{ "model": "Qwen/Qwen2.5-7B-Instruct",
            "workload": {{ "synthetic": {{
                "arrivals": {{ "poisson": {{ "rate-rps": {rate} }} }}, "requests": 1,
                "prompt-tokens": {{ "constant": {{ "tokens": {prompt} }} }},
                "output-tokens": {{ "constant": {{ "tokens": {output} }} }} }} }},
            "slos": {{ "standard": {slo} }}, "share": 0.9, "window-s": 20,
            "gpus": ["H100-SXM-80GB"], "tensor-parallel": [1], "engine": {engine} }}"#
    );
    serde_json::from_str(&text).expect("a plan")
}

fn plan(spec: &PlanSpec) -> CapacityPlan {
    spec.plan(&Environment::builtin()).expect("a plan")
}

#[test]
fn each_bottleneck_is_named_where_nothing_else_can_be() {
    for (engine, lengths, slo, rate, expected) in [
        (
            r#"{ "num-gpu-blocks-override": 300, "max-model-len": 2048 }"#,
            (500, 200),
            r#"{ "ttft-ms": 1000 }"#,
            3.0,
            Bottleneck::KvMemory,
        ),
        (
            r#"{ "max-num-seqs": 4 }"#,
            (500, 100),
            r#"{ "ttft-ms": 1000 }"#,
            3.0,
            Bottleneck::BatchLimit,
        ),
        (
            "{}",
            (6000, 2),
            r#"{ "ttft-ms": 1000 }"#,
            3.0,
            Bottleneck::PrefillCompute,
        ),
        (
            "{}",
            (50, 400),
            r#"{ "tpot-ms": 12 }"#,
            5.0,
            Bottleneck::DecodeBandwidth,
        ),
    ] {
        let plan = plan(&spec(engine, lengths.0, lengths.1, slo, rate));
        let found = plan.options.first().and_then(|option| option.breaks_first);
        assert_eq!(found, Some(expected), "{plan}");
    }
}

#[test]
fn as_many_replicas_as_hold_and_no_fewer() {
    let slo = r#"{ "ttft-ms": 500, "tpot-ms": 30 }"#;
    let asked = PlanSpec {
        headroom: 0.2,
        ..spec("{}", 1000, 100, slo, 60.0)
    };
    let plan = plan(&asked);
    let option = plan.options.first().expect("H100 holds");
    assert!(
        option.replicas > 1 && option.gpus == option.replicas,
        "{plan}"
    );
    assert!((plan.required_rate - 72.0).abs() < 1e-9);
    assert!(
        option.goodput >= plan.required_rate && option.margin >= 1.2,
        "{plan}"
    );
    let band = option.uncertainty.expect("the latency model states a band");
    assert!(band.low < 1.0 && band.high > 1.0);
    assert!(band.replicas_at_low <= Some(option.replicas), "{plan}");
    assert!(band.replicas_at_high >= Some(option.replicas), "{plan}");
    assert_eq!(
        band.holds_at_high,
        band.replicas_at_high <= Some(option.replicas)
    );
    // With one accelerator less there is no plan.
    let fewer = PlanSpec {
        max_gpus: option.replicas - 1,
        ..asked
    };
    let refused = fewer.plan(&Environment::builtin()).expect("a plan");
    assert!(
        refused.options.is_empty() && refused.excluded.len() == 1,
        "{refused}"
    );
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let good = spec("{}", 100, 10, r#"{ "ttft-ms": 500 }"#, 1.0);
    for (spec, expected) in [
        (
            PlanSpec {
                gpus: vec![],
                ..good.clone()
            },
            "gpus is empty",
        ),
        (
            PlanSpec {
                tensor_parallel: vec![0],
                ..good.clone()
            },
            "tensor-parallel is [0]",
        ),
        (
            PlanSpec {
                headroom: -1.0,
                ..good.clone()
            },
            "headroom is -1",
        ),
        (
            PlanSpec {
                growth_factor: 0.0,
                ..good.clone()
            },
            "growth-factor is 0",
        ),
        (
            PlanSpec {
                max_gpus: 0,
                ..good.clone()
            },
            "max-gpus is 0",
        ),
        (
            PlanSpec {
                share: 0.0,
                ..good.clone()
            },
            "share is 0",
        ),
    ] {
        let error = spec
            .plan(&Environment::builtin())
            .expect_err("it makes no sense");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

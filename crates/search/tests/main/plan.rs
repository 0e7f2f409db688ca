//! Plans whose answers follow from how they are made.

use foretoken::latency_model::Level;
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
        // Memory is reserved for sequences of 2048 tokens: for four of them.
        (
            r#"{ "kv-allocation": "reserved", "num-gpu-blocks-override": 513, "max-model-len": 2048 }"#,
            (500, 100),
            r#"{ "ttft-ms": 1000 }"#,
            3.0,
            Bottleneck::KvMemory,
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
fn prices_have_any_name_that_the_catalog_knows() {
    let slo = r#"{ "ttft-ms": 500 }"#;
    let priced = |name: &str, price| PlanSpec {
        prices: [(name.to_owned(), price)].into_iter().collect(),
        ..spec("{}", 100, 10, slo, 1.0)
    };
    let option = &plan(&priced("H100", 1.5)).options[0];
    assert_eq!((option.gpus, option.usd_per_hour), (1, Some(1.5)));
    // Those of the environment come first.
    let mut environment = Environment::builtin();
    environment.prices = [("H100-SXM-80GB".to_owned(), 0.5)].into_iter().collect();
    let found = priced("H100", 1.5).plan(&environment).expect("a plan");
    assert_eq!(found.options[0].usd_per_hour, Some(0.5));
    for (name, price, expected) in [
        ("H1OO", 1.0, "prices.H1OO: "),
        ("H100", -1.0, "prices.H100 is -1: allowed is 0 to 1e6"),
        ("H100", f64::NAN, "prices.H100 is NaN: allowed is 0 to 1e6"),
    ] {
        let error = priced(name, price).plan(&Environment::builtin());
        let error = error.expect_err("no price").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_load_that_changes_over_time_needs_a_window_of_whole_periods() {
    let mut asked = spec("{}", 100, 10, r#"{ "ttft-ms": 500 }"#, 1.0);
    let changing = r#"{ "synthetic": { "requests": 1,
        "arrivals": { "hourly": { "rates-rps": [1, 1, 1, 9], "period-s": 80 } },
        "prompt-tokens": { "constant": { "tokens": 100 } },
        "output-tokens": { "constant": { "tokens": 10 } } } }"#;
    asked.workload = serde_json::from_str(changing).expect("a workload");
    let error = asked.plan(&Environment::builtin());
    let error = error.expect_err("20 s of 80").to_string();
    assert!(
        error.starts_with("window-s is 20: allowed is a window"),
        "{error}"
    );
    asked.window_s = Some(80.0);
    assert!((plan(&asked).rate - 3.0).abs() < 1e-9);
}

#[test]
fn a_plan_knows_how_far_its_load_reaches() {
    let slo = r#"{ "ttft-ms": 5000 }"#;
    let engine = r#"{ "max-num-batched-tokens": 32768 }"#;
    let of = |prompt| {
        let plan = plan(&spec(engine, prompt, 10, slo, 1.0));
        plan.options.first().map(|option| option.confidence)
    };
    // Kernels of H100 were measured up to 16384 new tokens in a step.
    assert_eq!(of(100), Some(Level::Full));
    assert_eq!(of(30_000), Some(Level::Reduced));
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

//! Scenarios as files: the examples load, mistakes are refused by name, YAML and JSON agree.

use foretoken::prelude::*;

fn example(name: &str) -> String {
    let path = format!("{}/examples/scenarios/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the example is there")
}

fn from_yaml(text: &str) -> Result<Scenario, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

const EXAMPLES: [&str; 5] = [
    "agents-and-chats-llama-8b.yaml",
    "chat-llama-8b.yaml",
    "codegen-llama-70b.yaml",
    "disaggregated-llama-8b.yaml",
    "three-classes-flow-control.yaml",
];

#[test]
fn every_example_is_tested_here() {
    let path = format!("{}/examples/scenarios", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<_> = std::fs::read_dir(path)
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").file_name())
        .collect();
    names.sort();
    assert_eq!(names, EXAMPLES);
}

#[test]
fn the_examples_build_and_run_for_a_while() {
    for name in EXAMPLES {
        let mut scenario = from_yaml(&example(name)).expect(name);
        scenario.horizon_s = Some(10.0);
        let report = scenario
            .run(&Catalog::builtin(), &Physics::default())
            .expect(name);
        assert!(report.overall.counts.finished > 10, "{name}: {report}");
        assert_eq!(report.seed, 1);
    }
}

#[test]
fn yaml_and_json_say_the_same() {
    for name in EXAMPLES {
        let scenario = from_yaml(&example(name)).expect(name);
        let json = serde_json::to_string(&scenario).expect("plain data");
        assert_eq!(
            serde_json::from_str::<Scenario>(&json).expect("just written"),
            scenario
        );
        // JSON is YAML, too.
        assert_eq!(from_yaml(&json).expect("just written"), scenario);
    }
}

#[test]
fn unknown_keys_are_refused_by_name_at_every_level() {
    let chat = example("chat-llama-8b.yaml");
    let misspelt = [
        ("deployment:", "deploiment:"),
        ("gpu:", "gpus:"),
        ("engine:", "engines:"),
        ("max-model-len:", "max-model-length:"),
        ("synthetic:", "synthetik:"),
        ("arrivals:", "arrival:"),
        ("rate-rps:", "rate:"),
        ("requests:", "request:"),
        ("std:", "sigma:"),
        ("seed:", "sead:"),
    ];
    for (right, wrong) in misspelt {
        let text = chat.replacen(right, wrong, 1);
        assert_ne!(text, chat, "{right} occurs in the example");
        let error = from_yaml(&text).expect_err(wrong);
        assert!(
            error.contains(wrong.trim_end_matches(':')),
            "{wrong}: {error}"
        );
    }
}

#[test]
fn a_mistake_names_its_line() {
    let text = example("chat-llama-8b.yaml").replace("rate-rps: 12", "rate-rps: -12");
    let error = from_yaml(&text).expect_err("a negative rate");
    assert!(error.contains("rate is -12"), "{error}");
    assert!(error.contains("line"), "{error}");
}

#[test]
fn values_that_make_no_sense_are_refused_by_key_value_and_range() {
    type Change = fn(&mut Scenario);
    let changes: [(Change, &str); 8] = [
        (
            |s| s.horizon_s = Some(-1.0),
            "horizon-s is -1: allowed is 0",
        ),
        (|s| s.horizon_s = Some(f64::NAN), "horizon-s is NaN"),
        (
            |s| s.deployment.tensor_parallel = 0,
            "tensor-parallel is 0: allowed is 1 or more",
        ),
        (
            |s| s.deployment.replicas = 0,
            "replicas is 0: allowed is 1 to 4096",
        ),
        (|s| s.deployment.engine.block_size = 0, "block-size"),
        (
            |s| s.deployment.engine.gpu_memory_utilization = 1.5,
            "gpu-memory-utilization",
        ),
        (
            |s| s.deployment.engine.max_num_seqs = Some(0),
            "max-num-seqs is 0",
        ),
        (
            |s| s.deployment.engine.num_gpu_blocks_override = Some(3),
            "num_gpu_blocks is 3",
        ),
    ];
    let chat = from_yaml(&example("chat-llama-8b.yaml")).expect("valid");
    for (change, message) in changes {
        let mut scenario = chat.clone();
        change(&mut scenario);
        let error = scenario
            .run(&Catalog::builtin(), &Physics::default())
            .expect_err(message)
            .to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn a_scenario_in_code_is_the_one_in_the_file() {
    let file = from_yaml(
        "deployment: { model: Qwen/Qwen2.5-7B-Instruct, gpu: H100 }
workload:
  synthetic:
    arrivals: { poisson: { rate-rps: 4 } }
    requests: 100
    prompt-tokens: { constant: { tokens: 500 } }
    output-tokens: { constant: { tokens: 100 } }
",
    );
    let (prompts, outputs) = (LengthSpec::constant(500), LengthSpec::constant(100));
    let load = Synthetic::poisson(4.0, 100, prompts, outputs).expect("valid");
    let code = Scenario::new(Deployment::new("Qwen/Qwen2.5-7B-Instruct", "H100", 1), load);
    assert_eq!(file, Ok(code));
}

#[test]
fn objectives_of_classes_are_part_of_a_scenario() {
    let slos = "slos:\n  standard: { ttft-ms: 500, tpot-ms: 50 }\n  critical: { e2e-ms: 60000 }\n";
    let chat = example("chat-llama-8b.yaml");
    let plain = from_yaml(&chat).expect("an example");
    let scenario = Scenario {
        horizon_s: Some(10.0),
        ..from_yaml(&format!("{chat}{slos}")).expect("valid objectives")
    };
    assert_eq!(
        serde_json::to_value(&plain)
            .expect("plain data")
            .get("slos"),
        None
    );
    let report = scenario
        .run(&Catalog::builtin(), &Physics::default())
        .expect("valid");
    let [critical, standard] = &report.slo[..] else {
        panic!("two classes have objectives: {:?}", report.slo)
    };
    assert_eq!(
        (critical.goodput.arrived, critical.goodput.share),
        (0, None)
    );
    assert_eq!(standard.goodput.arrived, report.overall.counts.arrived);
    assert!((1..=report.overall.counts.finished).contains(&standard.goodput.met));

    for (wrong, named) in [
        ("vital: {}", "vital"),
        ("batch: { ttft: 5 }", "ttft"),
        ("batch: { ttft-ms: -5 }", "ttft-ms is -5"),
    ] {
        let error = from_yaml(&format!("{chat}slos:\n  {wrong}\n")).expect_err(wrong);
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn engines_of_a_pool_may_differ_in_accelerator_and_role() {
    let mut scenario = from_yaml(&example("disaggregated-llama-8b.yaml")).expect("it is valid");
    scenario.horizon_s = Some(20.0);
    let report = scenario
        .run(&Catalog::builtin(), &Physics::default())
        .expect("it is valid");
    // Three that only prefill, two that only answer.
    let served: Vec<_> = report.endpoints.iter().map(|e| e.served > 0).collect();
    assert_eq!(served, [false, false, false, true, true]);
    assert!(report.overall.kv_transfer_ms.is_some());
}

#[test]
fn a_gateway_says_what_is_wrong_with_its_settings() {
    let base = example("disaggregated-llama-8b.yaml");
    let refused = |from: &str, to: &str| {
        let scenario = from_yaml(&base.replacen(from, to, 1)).expect("it is well-formed");
        let error = scenario
            .run(&Catalog::builtin(), &Physics::default())
            .expect_err(to);
        error.to_string()
    };
    for (from, to, message) in [
        (
            "network-delay-ms: 0.2",
            "network-delay-ms: -1",
            "gateway.network-delay-ms is -1: allowed is 0 to a day",
        ),
        (
            "network-delay-ms: 0.2",
            "replicas: 0",
            "gateway.replicas is 0: allowed is 1 to 64",
        ),
        (
            "bandwidth-gbps: 400",
            "bandwidth-gbps: 0",
            "gateway.kv-link.bandwidth-gbps is 0: allowed is finite, above 0",
        ),
        (
            "network-delay-ms: 0.2",
            "outages: [{ engine: 9, from-s: 1 }]",
            "gateway.outages.engine is 9: allowed is 0 to 4",
        ),
        (
            "network-delay-ms: 0.2",
            "outages: [{ engine: 0, from-s: 3, to-s: 1 }]",
            "gateway.outages.to-s of engine 0 is 1: allowed is after from-s, 3",
        ),
        (
            "network-delay-ms: 0.2",
            "outages: [{ engine: 0, from-s: 1, to-s: 8 }, { engine: 0, from-s: 2, to-s: 3 }]",
            "gateway.outages.from-s of engine 0 is 2: allowed is after the end of the outage",
        ),
        (
            "model: meta-llama/Llama-3.1-8B-Instruct",
            "model: Qwen/Qwen2.5-7B-Instruct",
            "other-deployments[0].model is meta-llama/Llama-3.1-8B-Instruct: allowed is Qwen",
        ),
        (
            "router-config: disaggregated-uncached",
            "router-config: no-such-file.yaml",
            "no-such-file.yaml: No such file or directory",
        ),
    ] {
        let error = refused(from, to);
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn the_generators_of_the_manual_are_loads() {
    let path = format!("{}/docs/workload-generators.md", env!("CARGO_MANIFEST_DIR"));
    let manual = std::fs::read_to_string(path).expect("the manual is there");
    let examples: Vec<_> = manual.split("```yaml\n").skip(1).collect();
    assert!(examples.len() > 8);
    for example in examples {
        let (text, _) = example.split_once("```").expect("a block ends");
        let spec: WorkloadSpec = serde_saphyr::from_str(text).expect(text);
        let mut load = spec.build(&RngStreams::new(1, 0)).expect(text);
        assert!(load.next().is_some(), "{text}");
        let json = serde_json::to_string(&spec.expand()).expect("plain data");
        let read: WorkloadSpec = serde_json::from_str(&json).expect("just written");
        assert_eq!(read, spec.expand());
    }
}

#[test]
fn engines_as_before_vllm_take_no_role() {
    let example = example("disaggregated-llama-8b.yaml");
    let plain = "engine: { max-model-len: 16384 }";
    let first = example.replacen(plain, "engine: { batching: static }", 1);
    let place = example.rfind(plain).expect("both deployments have it");
    let (before, after) = example.split_at(place);
    let second = format!(
        "{before}{}",
        after.replace("max-model-len: 16384", "kv-allocation: reserved")
    );
    for (text, expected) in [
        (
            first,
            "deployment.engine.batching is static: allowed is continuous",
        ),
        (
            second,
            "other-deployments[0].engine.kv-allocation is reserved: allowed is paged",
        ),
    ] {
        let scenario = from_yaml(&text).expect("it can be read");
        let error = scenario.build(&Catalog::builtin(), &Physics::default());
        let error = error.expect_err("it exchanges KV").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

//! Every mistake ends with exit code 2 and a message that names what is wrong, its value and what is
//! allowed; never with a panic.

use crate::support::{
    EXPERIMENTS, FLAGS, SCENARIO, SCENARIO_JSON, fails, file, foretoken, refuses,
};

#[test]
fn names_that_are_not_in_the_catalog() {
    refuses(
        "run --model meta-llama/Llama-3.1-8B-Instuct --gpu H100 --rate 1",
        &[
            "meta-llama/Llama-3.1-8B-Instuct",
            "meta-llama/Llama-3.1-8B-Instruct",
        ],
    );
    refuses(
        "plan --model meta-llama/Llama-3.1-8B-Instruct --gpu H1000",
        &["H1000", "H100"],
    );
}

#[test]
fn parts_that_are_missing() {
    refuses("run --gpu H100 --rate 1", &["--model"]);
    refuses(
        "run --model meta-llama/Llama-3.1-8B-Instruct --rate 1",
        &["--gpu"],
    );
    refuses(
        "run --model meta-llama/Llama-3.1-8B-Instruct --gpu H100",
        &["--rate"],
    );
}

#[test]
fn rates_that_are_none() {
    for (rate, value) in [
        ("-1", "-1"),
        ("NaN", "NaN"),
        ("0", "0"),
        ("inf", "inf"),
        ("-inf", "-inf"),
    ] {
        let line = format!("{FLAGS} --rate={rate}").replacen("--rate 5 ", "", 1);
        refuses(
            &line,
            &[&format!(
                "rate is {value}: allowed is above 0 and at most 1e6"
            )],
        );
    }
    // As people type it: a negative number after a space is a value, not a flag.
    let line = FLAGS.replacen("--rate 5", "--rate -1", 1);
    refuses(&line, &["rate", "-1"]);
    refuses(
        &FLAGS.replacen("--rate 5", "--rate fast", 1),
        &["--rate", "fast"],
    );
}

#[test]
fn lengths_and_numbers_of_requests_that_are_none() {
    for (flag, field) in [("prompt", "100"), ("output", "10")] {
        let (right, wrong) = (
            format!("--{flag}-tokens {field}"),
            format!("--{flag}-tokens 0"),
        );
        let line = FLAGS.replace(&right, &wrong);
        refuses(&line, &[&format!("{flag}-tokens"), "is 0", "at least 1"]);
    }
    refuses(
        &FLAGS.replace("--requests 20", "--requests -3"),
        &["--requests", "-3"],
    );
    refuses(
        &FLAGS.replace("--requests 20", "--requests 4294967296"),
        &["--requests", "4294967296"],
    );
}

#[test]
fn deployments_that_do_not_fit() {
    refuses(
        "run --model meta-llama/Llama-3.1-70B-Instruct --gpu H100 --rate 1 --max-model-len 8192",
        &["does not fit", "GiB", "tensor-parallel = 2 would fit"],
    );
    refuses(
        &format!("{FLAGS} --num-gpu-blocks-override 3"),
        &["num_gpu_blocks is 3", "at most 32"],
    );
    refuses(
        &format!("{FLAGS} --num-gpu-blocks-override 4294967295"),
        &["num-gpu-blocks-override is 4294967295: allowed is 2 to"],
    );
    refuses(
        &format!("{FLAGS} --num-gpu-blocks-override 0"),
        &["num_gpu_blocks is 0"],
    );
    refuses(
        &format!("{FLAGS} --tensor-parallel 3"),
        &["tensor-parallel is 3", "1, 2, 4"],
    );
    refuses(
        &format!("{FLAGS} --tensor-parallel 0"),
        &["tensor-parallel is 0: allowed is 1 or more"],
    );
    refuses(
        &format!("{FLAGS} --replicas 0"),
        &["replicas is 0: allowed is 1 to 4096"],
    );
}

#[test]
fn settings_out_of_their_range() {
    refuses(
        &format!("{FLAGS} --gpu-memory-utilization NaN"),
        &["gpu-memory-utilization", "NaN"],
    );
    refuses(
        &format!("{FLAGS} --gpu-memory-utilization 1.5"),
        &["gpu-memory-utilization", "1.5"],
    );
    refuses(
        &format!("{FLAGS} --gpu-memory-utilization=-1"),
        &["gpu-memory-utilization", "-1"],
    );
    refuses(
        &format!("{FLAGS} --gpu-memory-utilization -1"),
        &["gpu-memory-utilization", "-1"],
    );
    refuses(&format!("{FLAGS} --block-size 0"), &["block-size", "0"]);
    refuses(&format!("{FLAGS} --max-num-seqs 0"), &["max-num-seqs is 0"]);
    refuses(
        &format!("{FLAGS} --max-num-batched-tokens 0"),
        &["max-num-batched-tokens is 0"],
    );
    refuses(
        &FLAGS.replace("--max-model-len 4096", "--max-model-len 0"),
        &["max-model-len is 0"],
    );
    refuses(
        &format!("{FLAGS} --horizon=-1"),
        &["horizon-s is -1: allowed is 0"],
    );
    refuses(&format!("{FLAGS} --horizon -1"), &["horizon", "-1"]);
    refuses(&format!("{FLAGS} --horizon NaN"), &["horizon-s is NaN"]);
    refuses(
        &format!("{FLAGS} --kv-cache-dtype fp7"),
        &["--kv-cache-dtype", "fp7", "fp8"],
    );
    refuses(
        &format!("{FLAGS} --scheduling-policy lifo"),
        &["--scheduling-policy", "lifo", "fcfs"],
    );
    refuses(
        &format!("{FLAGS} --latency-model guess"),
        &["--latency-model", "guess", "roofline"],
    );
    refuses(
        "explain --model meta-llama/Llama-3.1-8B-Instruct --gpu H100 --context 0",
        &["--context", "0", "1..=1073741824"],
    );
    refuses(
        "explain --model meta-llama/Llama-3.1-8B-Instruct --gpu H100 --batch 0",
        &["--batch is 0: allowed is 1 or more without --prefill"],
    );
}

#[test]
fn flags_and_commands_that_do_not_exist() {
    refuses("run --modle x", &["--modle", "--model"]);
    refuses("rum", &["rum", "run"]);
}

#[test]
fn files_that_cannot_be_read() {
    refuses("run no/such/scenario.yaml", &["no/such/scenario.yaml"]);
    refuses("validate no/such/file.json", &["no/such/file.json"]);
    let folder = env!("CARGO_TARGET_TMPDIR");
    refuses(&format!("run {folder}"), &[folder]);
    refuses(&format!("validate {folder}"), &[folder]);
    refuses(
        &format!("{FLAGS} --gpus no/such/gpus.toml"),
        &["no/such/gpus.toml"],
    );
    refuses(
        &format!("{FLAGS} --models no/such/models.json"),
        &["no/such/models.json"],
    );
    refuses(
        &format!("{FLAGS} --kernel-parameters no/such.toml"),
        &["no/such.toml"],
    );
    refuses(
        &format!("{FLAGS} --json no/such/folder/report.json"),
        &["no/such/folder/report.json"],
    );
    for (name, content) in [("garbage", &b"\x00\xff\xfe\x01\x80{"[..]), ("empty", b"")] {
        for ending in ["yaml", "json"] {
            let path = file(&format!("{name}.{ending}"), content);
            refuses(&format!("run {path}"), &[&path]);
            refuses(&format!("validate {path}"), &[&path]);
            refuses(&format!("{FLAGS} --models {path}"), &[&path]);
        }
        let path = file(&format!("{name}.toml"), content);
        for flag in ["--gpus", "--kernel-parameters", "--runtime-parameters"] {
            refuses(&format!("{FLAGS} {flag} {path}"), &[&path]);
        }
    }
}

#[test]
fn files_that_are_malformed_say_where() {
    let yaml = file(
        "malformed.yaml",
        SCENARIO.replace("gpu: H100", "gpu: [H100"),
    );
    refuses(&format!("run {yaml}"), &[&yaml, "line"]);
    let json = file(
        "malformed.json",
        SCENARIO_JSON.replace("\"seed\": 3", "\"seed\": }"),
    );
    refuses(&format!("run {json}"), &[&json, "line 9"]);
    let trailing = file("trailing.json", format!("{SCENARIO_JSON} 5"));
    refuses(&format!("run {trailing}"), &[&trailing, "trailing"]);
}

#[test]
fn unknown_keys_are_named() {
    let yaml = file(
        "unknown.yaml",
        SCENARIO.replace("max-model-len", "max-model-length"),
    );
    refuses(
        &format!("run {yaml}"),
        &[&yaml, "max-model-length", "line 4"],
    );
    let json = file(
        "unknown.json",
        SCENARIO_JSON.replace("max-model-len", "max-model-length"),
    );
    refuses(
        &format!("run {json}"),
        &[&json, "max-model-length", "deployment.engine"],
    );
}

#[test]
fn values_of_a_file_are_refused_by_key() {
    for (right, wrong, parts) in [
        ("rate-rps: 5", "rate-rps: -5", &["rate is -5"][..]),
        ("rate-rps: 5", "rate-rps: .nan", &["rate is NaN"]),
        ("requests: 20", "requests: many", &["requests", "many"]),
        (
            "constant: { tokens: 100 }",
            "uniform: { min: 9, max: 2 }",
            &["min 9", "max 2"],
        ),
        ("seed: 3", "seed: -3", &["seed"]),
        ("seed: 3", "horizon-s: -3", &["horizon-s is -3"]),
        (
            "gpu: H100",
            "gpu: H100\n  tensor-parallel: 3",
            &["tensor-parallel is 3", "1, 2, 4"],
        ),
    ] {
        let path = file("values.yaml", SCENARIO.replacen(right, wrong, 1));
        let message = fails(&format!("run {path}"));
        assert!(message.contains(&path), "{wrong}: {message}");
        for part in parts {
            assert!(message.contains(part), "{wrong}: {message}");
        }
    }
}

#[test]
fn measurements_that_make_no_sense() {
    for (right, wrong, parts) in [
        (
            r#""duration_s": 10"#,
            r#""duration_s": -10"#,
            &["tiny", "duration", "-10"][..],
        ),
        (
            r#""rate_rps": 2"#,
            r#""rate_rps": 0"#,
            &["tiny", "rate", "is 0"],
        ),
        (r#""mean": 20"#, r#""mean": "fast""#, &["measured", "fast"]),
        (r#""experiments""#, r#""experiment""#, &["experiments"]),
    ] {
        let path = file("measured.json", EXPERIMENTS.replacen(right, wrong, 1));
        let run = foretoken(&format!("validate {path}"));
        assert_eq!(run.code, Some(2), "{wrong}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{wrong}: {}", run.stderr);
        for part in parts {
            assert!(run.stderr.contains(part), "{wrong}: {}", run.stderr);
        }
    }
}

#[test]
fn huge_numbers_are_no_crash() {
    // The horizon is refused after all the rest was read.
    let huge = FLAGS
        .replace("--rate 5", "--rate 1e6")
        .replace("--requests 20", "--requests 4294967295");
    refuses(&format!("{huge} --horizon=-1"), &["horizon-s is -1"]);
    refuses(&format!("{FLAGS} --horizon 1e300"), &["horizon-s is 1"]);

    // All at once, and seldom: both end.
    for rate in ["1e6", "1e-300"] {
        let run = foretoken(&FLAGS.replace("--rate 5", &format!("--rate {rate}")));
        assert_eq!(run.code, Some(0), "{rate}: {}", run.stderr);
    }
    let many = FLAGS.replace("--requests 20", "--requests 4294967295");
    assert_eq!(foretoken(&format!("{many} --horizon 2")).code, Some(0));
    let explain = "explain --model meta-llama/Llama-3.1-8B-Instruct --gpu H100";
    refuses(
        &format!("{explain} --batch 4294967295"),
        &["--batch", "1048576"],
    );
    for flag in [
        "--prompt-tokens",
        "--output-tokens",
        "--max-model-len",
        "--max-num-seqs",
        "--block-size",
        "--max-num-batched-tokens",
        "--num-gpu-blocks-override",
        "--tensor-parallel",
        "--replicas",
        "--long-prefill-token-threshold",
    ] {
        let limit = match flag {
            "--max-model-len" => "",
            _ => " --max-model-len 4096",
        };
        let few = FLAGS.replace("--requests 20", "--requests 3");
        let few = few.replace(" --max-model-len 4096", limit);
        let few = few.replace(&format!("{flag} 100 "), "");
        let few = few.replace(&format!("{flag} 10 "), "");
        let line = format!("{few} {flag} 4294967295");
        let run = foretoken(&line);
        assert!(matches!(run.code, Some(0 | 2)), "{line}\n{}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{line}\n{}", run.stderr);
    }
}

#[test]
fn router_configurations_that_are_none() {
    let line = |config: &str| format!("{FLAGS} --router-config {config}");
    refuses(
        &line("optimised-baseline"),
        &["optimised-baseline", "do you mean optimized-baseline"],
    );
    let broken = "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: queue-scorer, parameters: {depth: 3}}
";
    let path = file("router-parameter.yaml", broken);
    refuses(
        &line(&path),
        &[
            "router-parameter.yaml",
            "line 4",
            "parameters.depth",
            "unknown",
        ],
    );
    let path = file(
        "router-plugin.yaml",
        broken.replace("queue-scorer", "queue-score"),
    );
    refuses(
        &line(&path),
        &[
            "router-plugin.yaml",
            "line 4",
            "queue-score",
            "queue-scorer",
        ],
    );
    refuses(
        "catalog --router-config no-such-name",
        &["--router-config", "no-such-name", "foretoken catalog"],
    );
}

#[test]
fn gateways_that_cannot_be() {
    for (flag, parts) in [
        ("--router-replicas 0", ["gateway.replicas is 0", "1 to 64"]),
        (
            "--refresh-metrics-interval 0.001",
            [
                "gateway.refresh-metrics-interval-ms is 0.001",
                "0.1 and more",
            ],
        ),
        (
            "--network-delay -3",
            ["gateway.network-delay-ms is -3", "0 to a day"],
        ),
    ] {
        refuses(&format!("{FLAGS} {flag}"), &parts);
    }
}

#[test]
fn requests_that_would_wait_for_ever() {
    let config = "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: queue-scorer}
- {name: stop, type: static-usage-limit-policy, parameters: {threshold: 0}}
flowControl: {defaultRequestTTL: 0s, noEndpointRequestTTL: 0s, usageLimitPolicyPluginRef: stop}
";
    let path = file("never.yaml", config);
    refuses(
        &format!("{FLAGS} --router-config {path}"),
        &["wait in the gateway", "for ever", "defaultRequestTTL"],
    );
}

#[test]
fn values_of_the_wrong_kind_are_named_by_their_key_line_and_file() {
    let wrong = SCENARIO.replacen("requests:", "requests: many #", 1);
    let path = file("wrong-kind.yaml", wrong);
    let message = fails(&format!("run {path}"));
    for part in ["wrong-kind.yaml", "workload.synthetic.requests", "line "] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("<input>"), "{message}");
}

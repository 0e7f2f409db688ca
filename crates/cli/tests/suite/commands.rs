//! What the commands print when all is well.

use serde_json::Value;

use crate::support::{EXPERIMENTS, FLAGS, SCENARIO, SCENARIO_JSON, file, foretoken, succeeds};

fn json(line: &str) -> Value {
    serde_json::from_str(&succeeds(line)).expect("standard output is JSON and nothing else")
}

#[test]
fn run_prints_a_table() {
    let table = succeeds(FLAGS);
    for word in [
        "TTFT",
        "ITL",
        "E2E",
        "p99",
        "requests/s",
        "KV occupancy",
        "digest",
    ] {
        assert!(table.contains(word), "{word} is missing:\n{table}");
    }
}

#[test]
fn flags_yaml_and_json_run_the_same_scenario() {
    let yaml = file("same.yaml", SCENARIO);
    let as_json = file("same.json", SCENARIO_JSON);
    let from_flags = json(&format!("{FLAGS} --json -"));
    assert_eq!(from_flags, json(&format!("run {yaml} --json -")));
    assert_eq!(from_flags, json(&format!("run {as_json} --json -")));
    assert_eq!(from_flags["overall"]["counts"]["finished"], 20);
    assert_eq!(from_flags["seed"], 3);
}

#[test]
fn flags_take_the_place_of_what_the_file_says() {
    let path = file("base.yaml", SCENARIO);
    let report = json(&format!(
        "run {path} --rate 50 --requests 7 --seed 9 --replication 2 --horizon 100 --json -"
    ));
    assert_eq!(report["overall"]["counts"]["finished"], 7);
    assert_eq!(
        (&report["seed"], &report["replication"]),
        (&9.into(), &2.into())
    );
    let slower = json(&format!("run {path} --gpu A100 --json -"));
    let ttft = |report: &Value| report["overall"]["ttft_ms"]["mean"].as_f64();
    assert!(ttft(&slower) > ttft(&json(&format!("run {path} --json -"))));
}

#[test]
fn json_into_a_file_leaves_the_table_on_standard_output() {
    let path = file("report.json", "");
    let table = succeeds(&format!("{FLAGS} --json {path}"));
    assert_eq!(table, succeeds(FLAGS));
    let text = std::fs::read_to_string(&path).expect("it was written");
    assert_eq!(text, succeeds(&format!("{FLAGS} --json -")));
}

#[test]
fn a_horizon_cuts_the_run() {
    let report = json(&format!("{FLAGS} --horizon 2 --json -"));
    assert_eq!(report["duration_s"], 2.0);
    let counts = &report["overall"]["counts"];
    assert!(counts["arrived"].as_u64() < Some(20), "{counts}");
}

#[test]
fn prompts_longer_than_the_model_allows_are_rejected_with_the_reason() {
    let short = FLAGS.replace("--max-model-len 4096", "--max-model-len 100");
    let all = json(&format!("{short} --json -"));
    assert_eq!(all["overall"]["counts"]["rejected"]["prompt too long"], 20);
    let table = succeeds(&short);
    assert!(table.contains("prompt too long"), "{table}");

    // The others go on.
    let mixed = SCENARIO.replace(
        "{ constant: { tokens: 100 } }",
        "{ uniform: { min: 50, max: 150 } }",
    );
    let path = file("mixed.yaml", mixed);
    let some = json(&format!("run {path} --max-model-len 100 --json -"));
    let counts = &some["overall"]["counts"];
    let rejected = counts["rejected"]["prompt too long"]
        .as_u64()
        .expect("a count");
    let finished = counts["finished"].as_u64().expect("a count");
    assert!(rejected > 0 && finished > 0, "{counts}");
    assert_eq!(rejected + finished, 20);
}

#[test]
fn plan_says_where_the_memory_goes() {
    let line =
        "plan --model meta-llama/Llama-3.1-70B-Instruct --gpu H100 --tp 4 --max-model-len 8192";
    let table = succeeds(line);
    assert!(
        table.contains("Llama-3.1-70B-Instruct on 4 x H100-SXM-80GB"),
        "{table}"
    );
    let plan = json(&format!("{line} --json -"));
    let bytes = |key: &str| plan[key].as_u64().expect("a count of bytes");
    let parts = bytes("weight_bytes") + bytes("reserve_bytes") + bytes("kv_bytes");
    assert_eq!(bytes("usable_bytes"), parts);
    assert_eq!(plan["kv_tokens"], bytes("kv_blocks") * 16);
}

#[test]
fn explain_adds_up_to_the_step() {
    let line =
        "explain --model meta-llama/Llama-3.1-8B-Instruct --gpu H100 --batch 32 --context 2000";
    let table = succeeds(line);
    for word in ["attention (decode)", "LM head", "100.0%"] {
        assert!(table.contains(word), "{word} is missing:\n{table}");
    }
    let step = json(&format!("{line} --prefill 500 --json -"));
    let rows = step["terms"].as_array().expect("a list of terms");
    let sum = |key: &str| {
        let values = rows.iter().map(|row| row[key].as_f64().expect("a number"));
        values.sum::<f64>()
    };
    assert!((sum("share") - 1.0).abs() < 1e-9, "{step}");
    let total = step["step_us"].as_f64().expect("a time");
    assert!((sum("us") - total).abs() < 1e-6 * total, "{step}");
    // Where the numbers come from, and how far to trust them.
    let source = &rows[1]["source"];
    let block = source["block"].as_str().expect("a block");
    assert!(
        block.starts_with("kernels.toml [gpus.H100-SXM-80GB."),
        "{source}"
    );
    assert!(
        source["provenance"]["fitted"]["rows"].as_u64() > Some(0),
        "{source}"
    );
    let low = step["range_us"][0].as_f64().expect("a time");
    assert!(
        low < total && Some(total) < step["range_us"][1].as_f64(),
        "{step}"
    );
    assert_eq!(step["confidence"]["level"], "full");
    assert!(
        table.contains("confidence: full") && table.contains("nine times of ten"),
        "{table}"
    );
}

#[test]
fn predictions_outside_of_what_was_measured_carry_a_mark_with_reasons() {
    let model = "--model meta-llama/Llama-3.1-8B-Instruct";
    let derived = succeeds(&format!("explain {model} --gpu H100-PCIe-80GB"));
    assert!(derived.contains("confidence: reduced"), "{derived}");
    assert!(derived.contains("derived from H100-SXM-80GB"), "{derived}");
    let beyond = succeeds(&format!("explain {model} --gpu H200 --batch 300"));
    assert!(
        beyond.contains("sequences in a step: 300, measured up to 256"),
        "{beyond}"
    );

    let run = FLAGS.replace("H100", "MI300X");
    assert!(succeeds(&run).contains("confidence: low"), "{run}");
    assert_eq!(
        json(&format!("{run} --json -"))["confidence"]["level"],
        "low"
    );

    let other = EXPERIMENTS.replace("H100-SXM-80GB", "H20-96GB");
    let path = file("unmeasured.json", other);
    let table = succeeds(&format!("validate {path}"));
    assert!(
        table.contains("lower confidence: kernels of H20-96GB"),
        "{table}"
    );
    let validation = json(&format!("validate {path} --json -"));
    let confidence = &validation["experiments"][0]["confidence"];
    assert_eq!(confidence["level"], "reduced", "{confidence}");
}

#[test]
fn validate_compares_with_what_was_measured() {
    let path = file("experiments.json", EXPERIMENTS);
    let table = succeeds(&format!("validate {path}"));
    for word in [
        "tiny",
        "chat",
        "H100-SXM-80GB",
        "TTFT mean",
        "E2E mean",
        "loss",
    ] {
        assert!(table.contains(word), "{word} is missing:\n{table}");
    }
    let validation = json(&format!("validate {path} --json -"));
    assert_eq!(validation["experiments"][0]["id"], "tiny");
    assert_eq!(validation["summary"]["overall"]["experiments"], 1);
}

#[test]
fn validate_runs_what_it_can_and_tells_the_rest() {
    let broken = EXPERIMENTS
        .replace("H100-SXM-80GB", "H1000")
        .replace("tiny", "broken");
    let (good, bad) = (EXPERIMENTS.trim(), broken.trim());
    let inner = |text: &str| {
        text[text.find('[').expect("a list") + 1..text.rfind(']').expect("a list")].to_owned()
    };
    let both = format!(
        r#"{{ "experiments": [ {}, {} ] }}"#,
        inner(bad),
        inner(good)
    );
    let path = file("one-broken.json", both);
    let run = foretoken(&format!("validate {path}"));
    assert_eq!(run.code, Some(2));
    assert!(run.stdout.contains("tiny"), "{}", run.stdout);
    assert!(
        run.stderr.contains("experiment broken: ") && run.stderr.contains("H1000"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("1 of 2 experiments"), "{}", run.stderr);
}

#[test]
fn help_and_version_are_answers() {
    for line in [
        "--help",
        "run --help",
        "plan --help",
        "explain --help",
        "validate --help",
    ] {
        assert!(succeeds(line).contains("Usage: foretoken"), "{line}");
    }
    assert!(succeeds("--version").starts_with("foretoken 0."));
}

#[test]
fn records_have_a_line_for_every_request_that_agrees_with_the_report() {
    let path = file("records.jsonl", "");
    let report = json(&format!("{FLAGS} --json - --records {path} --gaps"));
    let text = std::fs::read_to_string(&path).expect("the command wrote it");
    let rows: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(rows.len(), 20);
    let mean = rows
        .iter()
        .filter_map(|row| row["ttft_ms"].as_f64())
        .sum::<f64>()
        / 20.0;
    let reported = report["overall"]["ttft_ms"]["mean"]
        .as_f64()
        .expect("a number");
    assert!((mean - reported).abs() < 1e-6, "{mean} {reported}");
    for row in &rows {
        let gaps = row["itl_ms"].as_array().expect("gaps were asked for");
        let total: f64 = gaps.iter().filter_map(Value::as_f64).sum();
        let e2e = row["e2e_ms"].as_f64().expect("a number");
        let ttft = row["ttft_ms"].as_f64().expect("a number");
        assert!((ttft + total - e2e).abs() < 1e-6, "{row}");
    }
}

#[test]
fn the_catalog_lists_names_that_contain_the_text() {
    let names = json("catalog qwen2.5-7b --json -");
    let models = names["models"].as_array().expect("a list");
    assert!(
        models.contains(&Value::from("Qwen/Qwen2.5-7B-Instruct")),
        "{names}"
    );
    assert_eq!(names["gpus"], Value::Array(vec![]));
    assert!(succeeds("catalog").contains("H100-SXM-80GB"));
}

#[test]
fn one_experiment_of_another_form_does_not_keep_the_others_from_running() {
    let broken = EXPERIMENTS.replacen('[', "[{\"id\": \"odd\"}, ", 1);
    let path = file("odd.json", broken);
    let run = foretoken(&format!("validate {path} --json -"));
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.contains("experiments[0].") && run.stderr.contains("model"),
        "{}",
        run.stderr
    );
    let validation: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert!(
        !validation["experiments"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
}

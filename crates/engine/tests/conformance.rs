//! Recorded scheduler traces are replayed step by step; broken recordings are refused in words.

#[path = "../examples/vllm_conformance/golden.rs"]
mod golden;
#[path = "../examples/vllm_conformance/replay.rs"]
mod replay;

use golden::{GoldenFile, Scenario};
use replay::replay;
use serde_json::{Value, json};

const OWN: &str = include_str!("data/scheduler-traces.json");
const PUBLIC: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/vllm-scheduler-golden-public.json"
);

fn parse(text: &str) -> GoldenFile {
    serde_json::from_str(text).expect("the file has the form of a recording")
}

/// Replays what is supported; the names of what is not.
fn replay_all<'a>(scenarios: impl Iterator<Item = &'a Scenario>) -> (usize, Vec<&'a str>) {
    let (mut passed, mut unsupported) = (0, Vec::new());
    for scenario in scenarios {
        if scenario.unsupported().is_some() {
            unsupported.push(scenario.id.as_str());
            continue;
        }
        if let Err(mismatch) = replay(scenario).expect("the scenario makes sense") {
            let (step, actual) = (mismatch.step, mismatch.actual);
            panic!(
                "{} step {step}: {:?}, played {actual:?}",
                scenario.id, mismatch.expected
            );
        }
        passed += 1;
    }
    (passed, unsupported)
}

#[test]
fn every_supported_public_scenario_is_replayed_exactly() {
    let Ok(text) = std::fs::read_to_string(PUBLIC) else {
        println!("skipped: ../shared is absent");
        return;
    };
    let file = parse(&text);
    let (passed, unsupported) = replay_all(file.scenarios.iter().chain(&file.worked_scenarios));
    // Drafts, adapters and sliding windows.
    let expected = [
        "p08-spec", "p09-lora", "S20", "S27", "S28", "S29", "S30", "S31", "S32", "S40", "S42",
    ];
    assert_eq!(unsupported, expected);
    assert_eq!(
        passed,
        file.scenarios.len() + file.worked_scenarios.len() - expected.len()
    );
}

#[test]
fn our_own_traces_are_replayed_exactly() {
    let file = parse(OWN);
    assert!(file.worked_scenarios.is_empty());
    assert_eq!(replay_all(file.scenarios.iter()), (2, vec!["drafts"]));
}

/// Our own file with one place changed.
fn changed(pointer: &str, value: &Value) -> Result<GoldenFile, serde_json::Error> {
    let mut file: Value = serde_json::from_str(OWN).expect("our file is JSON");
    let place = file.pointer_mut(pointer).expect("the place exists");
    place.clone_from(value);
    serde_json::from_value(file)
}

#[test]
fn a_difference_is_found_with_its_step() {
    for (pointer, value, step) in [
        ("/scenarios/0/steps/1/free_blocks", json!(3), 1),
        ("/scenarios/0/steps/0/waiting", json!([]), 0),
        ("/scenarios/0/steps/2/finished/0/1", json!("stop"), 2),
        ("/scenarios/0/steps", json!([]), 0),
        ("/scenarios/0/requests/1/output_len", json!(2), 1),
    ] {
        let file = changed(pointer, &value).expect("the form is right");
        let mismatch = replay(&file.scenarios[0]).expect("the scenario makes sense");
        assert_eq!(
            mismatch.expect_err("something differs").step,
            step,
            "{pointer}"
        );
    }
}

#[test]
fn a_scenario_that_makes_no_sense_is_refused_by_field() {
    let huge = json!(u64::MAX);
    let negative = json!(-1.0);
    for (pointer, value, field) in [
        ("config/block_size", json!(0), "block_size is 0"),
        ("config/max_num_seqs", json!(0), "max_num_seqs is 0"),
        (
            "config/max_num_batched_tokens",
            json!(0),
            "max_num_batched_tokens is 0",
        ),
        ("config/num_gpu_blocks", json!(1), "num_gpu_blocks is 1"),
        ("config/max_model_len", json!(1), "max_model_len is 1"),
        (
            "config/max_model_len",
            json!(8),
            "request r0: prompt has 9 tokens",
        ),
        (
            "requests/0/prompt",
            json!([]),
            "request r0: prompt has 0 tokens",
        ),
        (
            "requests/0/prompt/0/len",
            json!(0),
            "request r0: prompt has 0 tokens",
        ),
        (
            "requests/0/prompt/0/len",
            json!(u32::MAX),
            "request r0: prompt has 4294967295",
        ),
        (
            "requests/0/prompt/0/group",
            huge.clone(),
            "request r0: prompt.group is 18446",
        ),
        (
            "requests/0/output_group",
            huge.clone(),
            "request r0: output_group is 18446",
        ),
        (
            "requests/0/output_len",
            json!(0),
            "request r0: output_len is 0",
        ),
        ("requests/1/id", json!("r0"), "request r0 is there twice"),
        (
            "requests/1/arrival_step",
            huge.clone(),
            "step is 18446744073709551615",
        ),
        ("steps/2/step", huge, "step is 18446744073709551615"),
        ("steps/2/step", json!(1), "step 1 follows step 1"),
    ] {
        let file = changed(&format!("/scenarios/0/{pointer}"), &value).expect("the form is right");
        let error = replay(&file.scenarios[0]).expect_err("it makes no sense");
        assert!(
            error.starts_with("scenario chunked: ") && error.contains(field),
            "{error}"
        );
    }
    for (field, value) in [("arrival_time", negative), ("eos_at", json!(u32::MAX))] {
        let file = changed(&format!("/scenarios/1/requests/0/{field}"), &value);
        let error = replay(&file.expect("the form is right").scenarios[1]);
        let error = error.expect_err("it makes no sense");
        assert!(
            error.contains(&format!("request b: {field} is ")),
            "{error}"
        );
    }
}

#[test]
fn a_file_of_another_form_is_refused() {
    for (pointer, value) in [
        ("/scenarios", json!(3)),
        ("/scenarios/0/config", json!({})),
        ("/scenarios/0/config/block_size", json!(-4)),
        ("/scenarios/0/requests/0/prompt", json!("hello")),
        ("/scenarios/0/steps/0/scheduled", json!([["r0"]])),
    ] {
        assert!(changed(pointer, &value).is_err(), "{pointer}");
    }
}

#[test]
fn settings_that_the_scheduler_lacks_are_unsupported() {
    for (key, value) in [
        ("policy", json!("fair")),
        ("max_loras", json!(1)),
        ("sliding_window", json!(8)),
        ("kv_connector", json!("nixl")),
        ("spec_method", json!("eagle")),
        ("anything_new", json!(true)),
    ] {
        let mut file: Value = serde_json::from_str(OWN).expect("our file is JSON");
        file["scenarios"][0]["config"][key] = value;
        let file: GoldenFile = serde_json::from_value(file).expect("the form is right");
        let reason = file.scenarios[0].unsupported().expect("nobody supports it");
        assert!(!reason.is_empty(), "{key}");
        assert_eq!(file.scenarios[1].unsupported(), None);
    }
}

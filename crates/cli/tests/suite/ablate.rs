//! `foretoken ablate`.

use crate::support::{SCENARIO, file, refuses, succeeds};

fn spec(features: &str) -> String {
    let scenario = SCENARIO.replace('\n', "\n  ");
    format!("scenario:\n  {scenario}\nfeatures: {features}\nvalue: {{ minimise: ttft-mean-ms }}\n")
}

#[test]
fn features_of_a_file_are_told_in_three_ways() {
    let features =
        "[{ name: wide, set: { tensor-parallel: 2 } }, { name: idle, set: { block-size: 16 } }]";
    let path = file("ablation.yaml", spec(features));
    let table = succeeds(&format!("ablate --spec {path}"));
    for part in [
        "ttft-mean-ms (less is better): ",
        "a gain above 0 is for the better",
        "4 coalitions, 3 replications",
        "Ladder",
        "Leave one out",
        "Shapley values",
        "not distinguishable",
        "better",
    ] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    let json = succeeds(&format!("ablate --spec {path} --json -"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["value"]["minimise"], "ttft-mean-ms");
    assert_eq!(json["shapley"][0]["feature"], "wide");
    assert_eq!(json["shapley"][0]["gain"]["judgement"], "better");
}

#[test]
fn features_are_judged_by_goodput_where_there_are_objectives() {
    let features = "[{ name: narrow, set: { max-num-seqs: 2 } }]";
    let path = file("aimless-ablation.yaml", spec(features));
    let line = "--goodput --replications 1";
    refuses(&format!("ablate --spec {path} {line}"), &["slos is empty"]);
    let slos = "slos: { standard: { ttft-ms: 2000 } }\n".to_owned();
    let scenario = format!("{SCENARIO}{slos}").replace('\n', "\n  ");
    let value = "value: { goodput: { window-s: 5, resolution: 0.05, max-doublings: 0 } }";
    let text = format!("scenario:\n  {scenario}\nfeatures: {features}\n{value}\n");
    let path = file("goodput-ablation.yaml", text);
    let json = succeeds(&format!("ablate --spec {path} --replications 2 --json -"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let gain = json["total"]["estimate"]["mean"].as_f64();
    assert!(gain < Some(0.0), "{json}");
    let table = succeeds(&format!("ablate --spec {path} {line}"));
    assert!(table.contains("goodput-rps (more is better): "), "{table}");
}

/// A router's configuration that a feature names stands beside the file.
#[test]
fn files_of_features_stand_beside_the_ablation() {
    file(
        "feature-router.yaml",
        include_str!("../../../dataplane/configs/optimized-baseline.yaml"),
    );
    let features = "[{ name: routed, set: { router-config: feature-router.yaml } }]";
    let path = file("routed-ablation.yaml", spec(features));
    succeeds(&format!("ablate --spec {path} --replications 1"));
}

#[test]
fn a_scenario_has_the_built_in_ladder() {
    let path = file("ladder.yaml", SCENARIO);
    let line = format!("ablate {path} --sampled-pairs 2 --replications 1 --metric e2e-mean-ms");
    let table = succeeds(&line);
    for part in [
        "continuous batching",
        "paged KV",
        "FP8 weights",
        "from 2 pairs of orders",
    ] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
}

#[test]
fn mistakes_are_refused_by_name() {
    let features = "[{ name: a, set: { max-num-sequences: 2 } }]";
    let path = file("misspelt-ablation.yaml", spec(features));
    refuses(
        &format!("ablate --spec {path}"),
        &["features[0].set: max-num-sequences", "max-num-seqs"],
    );
    let path = file("keyless-ablation.yaml", spec("[{ name: a, sett: {} }]"));
    refuses(&format!("ablate --spec {path}"), &["features[0]", "sett"]);
    let path = file("ablated.yaml", SCENARIO);
    refuses(
        &format!("ablate {path} --metric speed"),
        &["--metric", "speed"],
    );
}

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
        "ttft-mean-ms",
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
    assert_eq!(json["shapley"][0]["gain"]["effect"], "better");
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

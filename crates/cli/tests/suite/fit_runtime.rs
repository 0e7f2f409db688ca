//! `foretoken fit runtime`.

use crate::support::{EXPERIMENTS, file, foretoken, refuses, succeeds};

#[test]
fn costs_that_were_fitted_give_the_loss_that_was_reported() {
    let path = file("to-fit.json", EXPERIMENTS);
    let [costs, report, log] = ["fitted.toml", "fitted.md", "fitted.jsonl"].map(|n| file(n, ""));
    let fit = format!("fit runtime {path} --evaluations 30 --log {log}");
    let table = succeeds(&format!("{fit} --out {costs} --report {report}"));
    assert!(table.contains("| per-layer-us |"), "{table}");
    let text = std::fs::read_to_string(&report).expect("it was written");
    assert_eq!(text.trim_end(), table.trim_end());

    let json =
        |line: &str| -> serde_json::Value { serde_json::from_str(&succeeds(line)).expect("JSON") };
    let again = json(&format!("{fit} --json -"));
    let validation = json(&format!(
        "validate {path} --runtime-parameters {costs} --json -"
    ));
    assert_eq!(again["fit"]["summary"], validation["summary"]);
}

#[test]
fn fits_that_cannot_be_done_say_why() {
    let path = file("not-to-fit.json", EXPERIMENTS);
    let runtime = format!("fit runtime {path} --evaluations");
    refuses(&format!("{runtime} 3"), &["evaluations is 3", "11 or more"]);
    let one_model = format!("{runtime} 30 --cross-validate");
    refuses(&one_model, &["1 model(s)", "two or more"]);
    let log = file("no-log.jsonl", "something else\n");
    refuses(
        &format!("{runtime} 30 --log {log}"),
        &["no-log.jsonl", "line 1"],
    );
    let empty = file("nothing.json", r#"{ "experiments": [] }"#);
    refuses(&format!("fit runtime {empty}"), &["experiments is empty"]);
    let unknown = file(
        "unknown.json",
        EXPERIMENTS.replace("H100-SXM-80GB", "H1000"),
    );
    refuses(&format!("fit runtime {unknown}"), &["tiny", "H1000"]);
    assert_eq!(foretoken("fit runtime no/such/file.json").code, Some(2));
}

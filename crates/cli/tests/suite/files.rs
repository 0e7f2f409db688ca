//! Files are looked at before the work.

use crate::support::{file, refuses};

const SCENARIO: &str = "deployment: { model: meta-llama/Llama-3.1-8B-Instruct, gpu: H100-SXM-80GB }
workload:
  synthetic:
    arrivals: { poisson: { rate-rps: 20 } }
    requests: 50
    prompt-tokens: { constant: { tokens: 500 } }
    output-tokens: { constant: { tokens: 50 } }
slos: { standard: { ttft-ms: 500 } }
";

#[test]
fn what_is_read_is_not_written() {
    let a = file("kept-a.yaml", SCENARIO);
    let b = file("kept-b.yaml", SCENARIO);
    for (line, flag) in [
        (format!("run {a} --records {a}"), "--records"),
        (format!("run {a} --json {a}"), "--json"),
        (format!("goodput {a} --json {a}"), "--json"),
        (format!("compare {a} {b} --json {b}"), "--json"),
        (format!("curve {a} --csv {a}"), "--csv"),
        (format!("ablate {a} --json {a}"), "--json"),
        (format!("plan {a} --json {a}"), "--json"),
        (format!("search {a} --log {a}"), "--log"),
        (format!("search {a} --csv x --svg x"), "--svg"),
    ] {
        refuses(&line, &[flag, "is read or written already"]);
        let text = std::fs::read_to_string(&a).expect("it is there");
        assert_eq!(text, SCENARIO, "{line}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_work() {
    // A workload that would take for ever.
    let scenario = SCENARIO.replace("requests: 50", "requests: 4000000000");
    let scenario = file("endless.yaml", &scenario);
    for command in ["run", "goodput", "curve", "ablate"] {
        refuses(
            &format!("{command} {scenario} --json no-such-folder/report.json"),
            &["no-such-folder", "cannot write"],
        );
    }
}

#[test]
fn a_price_replaces_that_of_the_catalog() {
    let scenario = file("priced.yaml", SCENARIO);
    let table = crate::support::succeeds(&format!("run {scenario} --price H100=3600"));
    assert!(table.contains("cost: 3600.00 $/h"), "{table}");
    refuses(&format!("run {scenario} --price H1000=1"), &["H1000"]);
    refuses(
        &format!("run {scenario} --price H100=-1"),
        &["0 to 1000000"],
    );
}

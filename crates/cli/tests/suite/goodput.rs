//! `foretoken goodput`, and `foretoken plan` of a load.

use serde_json::Value;

use crate::support::{SCENARIO, file, refuses, succeeds};

fn json(line: &str) -> Value {
    serde_json::from_str(&succeeds(line)).expect("standard output is JSON and nothing else")
}

const QUICK: &str = "--window 10 --max-doublings 0 --replications 1";

#[test]
fn the_highest_rate_is_found_from_a_file_and_from_flags() {
    let path = file("goodput.yaml", SCENARIO);
    let line = format!("goodput {path} --slo-ttft 100 --slo-tpot 20 --share 0.9 {QUICK}");
    let table = succeeds(&line);
    assert!(
        table.starts_with("goodput: ") && table.contains(" requests/s fails"),
        "{table}"
    );
    let found = json(&format!("{line} --json -"));
    let rate = found["rate"].as_f64().expect("a rate");
    assert!(
        rate > 5.0 && found["fails"]["rate"].as_f64() > Some(rate),
        "{found}"
    );
    let with_slos = format!("{SCENARIO}slos: {{ standard: {{ ttft-ms: 100, tpot-ms: 20 }} }}\n");
    let of_file = file("goodput_slos.yaml", with_slos);
    let same = json(&format!("goodput {of_file} --share 0.9 {QUICK} --json -"));
    assert_eq!(same["rate"], found["rate"]);
}

#[test]
fn goodput_needs_objectives_and_a_rate() {
    let path = file("goodput_none.yaml", SCENARIO);
    refuses(&format!("goodput {path}"), &["--slo-ttft"]);
    refuses(
        &format!("goodput {path} --slo-ttft 9 --share 2"),
        &["share is 2"],
    );
    let users = SCENARIO.replace(
        "synthetic:\n    arrivals: { poisson: { rate-rps: 5 } }",
        "closed-loop:\n    users: 3",
    );
    let users = file("goodput_users.yaml", users);
    refuses(
        &format!("goodput {users} --slo-ttft 9"),
        &["closed-loop is not allowed"],
    );
}

const PLAN: &str = "model: Qwen/Qwen2.5-7B-Instruct
workload:
  synthetic:
    arrivals: { poisson: { rate-rps: 20 } }
    requests: 20
    prompt-tokens: { constant: { tokens: 500 } }
    output-tokens: { constant: { tokens: 20 } }
growth-factor: 2
slos: { standard: { ttft-ms: 500 } }
gpus: [H100-SXM-80GB]
tensor-parallel: [1]
window-s: 10
";

#[test]
fn a_plan_of_a_load_names_deployments_and_what_breaks() {
    let path = file("plan.yaml", PLAN);
    let table = succeeds(&format!("plan {path}"));
    for word in [
        "40.00 requests/s",
        "1 x H100-SXM-80GB",
        "USD/h",
        "breaks first",
    ] {
        assert!(table.contains(word), "{word} is missing:\n{table}");
    }
    let plan = json(&format!(
        "plan {path} --peak-rate 10 --growth-factor 1 --json -"
    ));
    assert_eq!(
        (&plan["rate"], &plan["required_rate"]),
        (&10.0.into(), &10.0.into())
    );
    assert!(plan["options"][0]["margin"].as_f64() > Some(1.0), "{plan}");
}

#[test]
fn a_plan_names_the_key_that_makes_no_sense() {
    for (line, wrong, parts) in [
        ("gpus: [H100-SXM-80GB]", "gpus: [H900]", ["H900"]),
        ("window-s: 10", "window: 10", ["window"]),
        (
            "growth-factor: 2",
            "growth-factor: 0",
            ["growth-factor is 0"],
        ),
    ] {
        let path = file("plan_wrong.yaml", PLAN.replace(line, wrong));
        refuses(&format!("plan {path}"), &parts);
    }
    let path = file("plan_flags.yaml", PLAN);
    refuses(&format!("plan {path} --model x"), &["cannot be used with"]);
}

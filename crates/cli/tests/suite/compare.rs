//! `foretoken compare`, `foretoken curve`, and what `foretoken run` says beside its report.

use serde_json::Value;

use crate::support::{FLAGS, SCENARIO, file, refuses, succeeds};

fn json(line: &str) -> Value {
    serde_json::from_str(&succeeds(line)).expect("standard output is JSON and nothing else")
}

#[test]
fn a_faster_deployment_is_better_and_the_same_one_is_the_same() {
    let one = file("compare-one.yaml", SCENARIO);
    let same = file("compare-same.yaml", SCENARIO);
    let wide = file(
        "compare-wide.yaml",
        SCENARIO.replace("gpu: H100", "gpu: H100\n  tensor-parallel: 2"),
    );
    let line = format!("compare {one} {same} {wide} --metric ttft-mean-ms --metric gpus");
    let compared = json(&format!("{line} --json -"));
    assert_eq!(compared["variants"][2], "compare-wide");
    let judged = |row: usize| {
        let cells = compared["rows"][row]["cells"].as_array().expect("cells");
        let judged = cells.iter().map(|cell| cell["judgement"].clone());
        judged.collect::<Vec<_>>()
    };
    let same = Value::from("not-distinguishable");
    assert_eq!(judged(0), [Value::Null, same.clone(), "better".into()]);
    assert_eq!(judged(1), [Value::Null, same, "worse".into()]);
    let table = succeeds(&line);
    assert!(
        table.contains("the same") && table.contains("better") && table.contains("replications: 5"),
        "{table}"
    );
}

#[test]
fn replications_are_counted_from_the_number_of_the_first_scenario() {
    let one = file("compare-zeroth.yaml", SCENARIO);
    let later = file("compare-fourth.yaml", format!("replication: 4\n{SCENARIO}"));
    let values = |line: &str| {
        let compared = json(&format!("compare {line} --metric ttft-mean-ms --json -"));
        let values = compared["rows"][0]["cells"][0]["values"].as_array();
        values.expect("numbers").clone()
    };
    let all = values(&format!("{one} {later} --replications 6"));
    let last = values(&format!("{later} {one} --replications 2"));
    assert_eq!(last, all[4..]);
    let beyond = format!("replication: 18446744073709551615\n{SCENARIO}");
    let beyond = file("compare-beyond.yaml", beyond);
    refuses(
        &format!("compare {beyond} {one}"),
        &["replication is 18446744073709551615: allowed is at most"],
    );
}

#[test]
fn what_cannot_be_compared_is_said_by_name() {
    let one = file("alone.yaml", SCENARIO);
    let other = file("compare-bad.yaml", SCENARIO.replace("gpu: H100", "gpu: H1"));
    refuses(
        &format!("compare {one} {other}"),
        &["compare-bad.yaml", "H1"],
    );
    refuses(
        &format!("compare {one} {one} --replications 0"),
        &["variants is", "alone.yaml"],
    );
    let copy = file("alone-copy.yaml", SCENARIO);
    refuses(
        &format!("compare {one} {copy} --replications 0"),
        &["replications is 0: allowed is 1 to"],
    );
}

#[test]
fn a_curve_falls_for_each_user_as_it_rises_for_each_gpu() {
    let path = file("curve.yaml", SCENARIO);
    let csv = file("curve.csv", "");
    let curves = json(&format!("curve {path} --users 1,16 --csv {csv} --json -"));
    let points = &curves[0]["points"];
    let number = |point: usize, key: &str| points[point][key].as_f64().expect("a number");
    let (user, gpu) = ("tokens_per_s_per_user", "output_tokens_per_s_per_gpu");
    assert!(number(0, user) > number(1, user), "{points}");
    assert!(number(0, gpu) < number(1, gpu), "{points}");
    let lines = std::fs::read_to_string(csv).expect("it was written");
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(succeeds(&format!("curve {path} --users 1,16")).contains('●'));
    refuses(&format!("curve {path} --users 0"), &["users is 0"]);
}

#[test]
fn stalls_and_fluidity_are_counted_where_asked_and_change_nothing_else() {
    let plain = json(&format!("{FLAGS} --json -"));
    assert!(plain.get("stalls").is_none() && plain.get("fluidity").is_none());
    let asked = json(&format!(
        "{FLAGS} --stall-limit 0 --fluidity 1000,100 --json -"
    ));
    assert_eq!(plain["digest"], asked["digest"]);
    assert_eq!(asked["stalls"]["overall"]["stalled"], 20);
    assert_eq!(asked["fluidity"]["overall"]["mean"], 1.0);
    let table = succeeds(&format!("{FLAGS} --stall-limit 0 --fluidity 0,0"));
    assert!(
        table.contains("stalls over 0 ms: 20 of 20 requests (100.0 %)")
            && table.contains("fluidity index (first token in 0 ms"),
        "{table}"
    );
    for bad in ["--stall-limit -1", "--stall-limit NaN"] {
        refuses(&format!("{FLAGS} {bad}"), &["--stall-limit is"]);
    }
}

#[test]
fn cost_and_energy_stand_below_the_tables_and_under_keys_of_their_own() {
    let table = succeeds(FLAGS);
    assert!(
        table.contains("cost: ") && table.contains("J per output token"),
        "{table}"
    );
    let report = json(&format!("{FLAGS} --json -"));
    let number = |keys: &[&str]| {
        let value = keys.iter().fold(&report, |value, key| &value[key]);
        value.as_f64().expect("a number")
    };
    let output = number(&["overall", "throughput", "output_tokens_per_s"]) * 3600.0 / 1e6;
    let cost = number(&["cost", "usd_per_hour"]) / output;
    assert!((cost / number(&["cost", "usd_per_million_output_tokens"]) - 1.0).abs() < 1e-9);
    // One H100 of 700 W: between its bounds while it works.
    let busy_s = number(&["load", "busy_share"]) * number(&["duration_s"]);
    let watts = number(&["energy", "joules"]) / busy_s;
    assert!(
        (0.54 * 700.0 - 1.0..0.97 * 700.0).contains(&watts),
        "{watts}"
    );
    assert_eq!(report["energy"]["source"], "tdp");
    let measured = json(&format!("{} --json -", FLAGS.replace("H100", "H200")));
    assert_eq!(measured["energy"]["source"], "measured");
}

//! `foretoken workload`, and runs of workload files and traces.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{FLAGS, file, foretoken, refuses, succeeds};

const LOAD: &str = "version: 1
name: chat
workload:
  synthetic:
    arrivals: { gamma: { rate-rps: 20, cv: 2 } }
    requests: 3000
    prompt-tokens: { lognormal: { mean: 700, std: 500, max: 16000 } }
    output-tokens: { lognormal: { mean: 250, std: 200, max: 4000 } }
";

const TRACE: &str = "id,sent,input-tokens,output-tokens,fate
a,0.5,100,20,answered
b,0,300,0,failed no room
c,2.5,200,40,answered
c,4,200,60,timed-out
";

/// A path for a file that does not exist yet.
fn fresh(name: &str) -> String {
    let path = file(name, "");
    std::fs::remove_file(&path).expect("it was just written");
    path
}

fn json(line: &str) -> Value {
    serde_json::from_str(&succeeds(line)).expect("standard output is JSON and nothing else")
}

#[test]
fn what_is_generated_is_what_is_run() {
    let load = file("generated.yaml", LOAD);
    let trace = fresh("generated.parquet");
    succeeds(&format!("workload generate {load} --seed 3 --out {trace}"));
    let run = "run --model meta-llama/Llama-3.1-8B-Instruct --gpu H100 --seed 3 --json -";
    assert_eq!(
        json(&format!("{run} --workload {load}")),
        json(&format!("{run} --workload {trace}"))
    );
}

#[test]
fn requests_are_written_to_standard_output_up_to_a_number() {
    let load = file("limited.yaml", LOAD);
    let table = succeeds(&format!("workload generate {load} --requests 5"));
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(table.starts_with("id,sent,input-tokens"), "{table}");
    assert_eq!(
        table,
        succeeds(&format!("workload generate {load} --limit 5"))
    );
    assert_ne!(
        table,
        succeeds(&format!("workload generate {load} --limit 5 --seed 1"))
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let load = file("long.yaml", LOAD.replace("3000", "300000"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_foretoken"))
        .args(["workload", "generate", &load])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command is built");
    drop(child.stdout.take());
    let end = child.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&end.stderr);
    assert!(end.status.success() && message.is_empty(), "{message}");
}

#[test]
fn inspect_says_what_a_load_is_like() {
    let load = file("inspected.yaml", LOAD);
    let report = succeeds(&format!("workload inspect {load}"));
    for part in [
        "(workload): 3 000 rows",
        "Requests/s over time",
        "Index of dispersion",
        "Rows by input tokens",
        "gaps      gamma",
        "input     lognormal",
        "arrivals:\n      gamma:",
        "Nothing odd was found.",
        "█",
    ] {
        assert!(report.contains(part), "{part} is missing:\n{report}");
    }
    let seen = json(&format!("workload inspect {load} --json -"));
    assert_eq!(seen["rows"], 3000);
    assert!(seen["input"]["fits"]["fits"][0]["law"]["lognormal"]["sigma"].is_f64());
}

#[test]
fn the_workload_of_a_report_can_be_run() {
    let load = file("fitted.yaml", LOAD);
    let report = succeeds(&format!("workload inspect {load}"));
    let start = report.find("version: 1").expect("a workload");
    let end = report.find("\nNothing odd").expect("the end");
    let again = file("fitted-again.yaml", &report[start..end]);
    let seen = json(&format!("workload inspect {again} --json -"));
    assert_eq!(seen["rows"], 3000);
}

#[test]
fn pictures_and_pages_are_complete_by_themselves() {
    let load = file("drawn.yaml", LOAD);
    let (svg, html) = (fresh("drawn.svg"), fresh("drawn.html"));
    succeeds(&format!(
        "workload inspect {load} --svg {svg} --html {html}"
    ));
    let svg = std::fs::read_to_string(svg).expect("it was written");
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
        "{svg}"
    );
    assert!(svg.contains("Rows by output tokens"), "{svg}");
    let html = std::fs::read_to_string(html).expect("it was written");
    assert_eq!(html.matches("<svg").count(), 3);
    assert!(!html.contains("src=") && !html.contains("href="), "{html}");
}

#[test]
fn inspect_warns_of_a_dirty_trace() {
    let trace = file("dirty.csv", TRACE);
    let report = succeeds(&format!("workload inspect {trace}"));
    for part in [
        "(csv): 4 rows",
        "1 rows are out of order of time (sort)",
        "id that was there before (drop-duplicate-ids)",
        "1 requests failed and 1 were given up",
        "no room",
    ] {
        assert!(report.contains(part), "{part} is missing:\n{report}");
    }
}

#[test]
fn clean_takes_steps_from_flags_or_from_a_file() {
    let trace = file("to-clean.csv", TRACE);
    let (out, report) = (fresh("cleaned.csv"), fresh("cleaned.json"));
    let table = succeeds(&format!(
        "workload clean {trace} --out {out} --drop-failed --drop-duplicate-ids --sort --shift-to-zero --report {report}"
    ));
    for part in ["drop-failed", "id was there before", "time moved"] {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    let rows = std::fs::read_to_string(&out).expect("it was written");
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(rows.contains("\na,0,100,20"), "{rows}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(report).expect("written")).expect("JSON");
    assert_eq!(
        (&report["rows_in"], &report["rows_out"]),
        (&4.into(), &2.into())
    );
    assert_eq!(report["steps"][0]["dropped"]["failed"], 1);

    let steps = "# in order\n- drop-failed: {}\n- drop-duplicate-ids: {}\n- sort: {}\n- shift-to-zero: {}\n";
    for (name, text) in [
        ("a.yaml", steps.to_owned()),
        ("b.yaml", format!("steps:\n{steps}")),
    ] {
        let steps = file(name, text);
        let out = fresh("cleaned-by-file.csv");
        succeeds(&format!(
            "workload clean {trace} --out {out} --steps-file {steps}"
        ));
        assert_eq!(std::fs::read_to_string(out).expect("it was written"), rows);
    }
}

#[test]
fn traces_are_converted_there_and_back() {
    let trace = file("to-convert.csv", TRACE);
    let (parquet, jsonl, back) = (fresh("c.parquet"), fresh("c.jsonl"), fresh("c.csv"));
    succeeds(&format!("workload convert {trace} --out {parquet}"));
    succeeds(&format!("workload convert {parquet} --out {jsonl}"));
    succeeds(&format!("workload convert {jsonl} --out {back}"));
    let first = json(&format!("workload inspect {trace} --json -"));
    assert_eq!(first, json(&format!("workload inspect {back} --json -")));
}

#[test]
fn bad_rows_end_the_work_or_are_counted() {
    let trace = file("bad-rows.csv", TRACE.replace("300", "three"));
    let place = ["bad-rows.csv: line 3, input-tokens is \"three\": allowed is"];
    refuses(&format!("workload inspect {trace}"), &place);
    let out = fresh("never.csv");
    refuses(&format!("workload clean {trace} --out {out}"), &place);
    assert!(!std::path::Path::new(&out).exists());
    let report = succeeds(&format!("workload inspect {trace} --skip-bad-rows"));
    assert!(report.contains("1 bad rows were left out"), "{report}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let trace = file("cannot.csv", TRACE);
    let newer = file("newer.yaml", LOAD.replace("version: 1", "version: 9"));
    let endless = file("unknown.yaml", LOAD.replace("requests", "request"));
    let steps = file("wrong-steps.yaml", "- sample: { share: 2 }\n");
    for (line, parts) in [
        (
            format!("workload generate {newer}"),
            ["version is 9", "known is 1"],
        ),
        (
            format!("workload inspect {endless}"),
            ["unknown.yaml", "request"],
        ),
        (
            format!("workload clean {trace} --out {trace}"),
            ["--out", "already"],
        ),
        (
            format!("workload convert {trace} --out x.txt"),
            ["x.txt", ".parquet"],
        ),
        (
            format!("workload clean {trace} --out y.csv --steps-file {steps}"),
            ["steps[0].sample.share is 2", "at most 1"],
        ),
        (
            format!("workload clean {trace} --out y.csv --scale-time 0"),
            ["--scale-time", "above 0"],
        ),
        (
            "workload inspect no-such.csv".to_owned(),
            ["no-such.csv", "No such file"],
        ),
        (
            format!(
                "{} --workload no-such.csv",
                FLAGS.split(" --rate").next().unwrap_or_default()
            ),
            ["no-such.csv", "No such file"],
        ),
    ] {
        refuses(&line, &parts);
    }
    let both = foretoken(&format!("{FLAGS} --workload {trace}"));
    assert!(
        both.stderr.contains("cannot be used with"),
        "{}",
        both.stderr
    );
}

#[test]
fn the_schema_is_json_and_knows_the_kinds() {
    let schema = json("workload schema");
    assert_eq!(schema["title"], "WorkloadFile");
    assert!(schema["$defs"]["TraceSpec"]["properties"]["path"].is_object());
    let out = fresh("schema.json");
    succeeds(&format!("workload schema --out {out}"));
    let text = std::fs::read_to_string(out).expect("it was written");
    assert_eq!(text, succeeds("workload schema"));
}

#[test]
fn a_workload_may_stand_alone_in_a_scenario_or_in_a_configuration_of_inference_perf() {
    let bare = LOAD.split_once("workload:\n").expect("it has one").1;
    let (whole, bare) = (file("whole.yaml", LOAD), file("bare.yaml", bare));
    let scenario = LOAD.replace(
        "version: 1\nname: chat",
        "deployment: { model: Qwen/Qwen2.5-7B-Instruct, gpu: H100 }",
    );
    let scenario = file("with-deployment.yaml", scenario);
    let rows = |path: &str| succeeds(&format!("workload generate {path} --requests 20"));
    assert_eq!(rows(&whole), rows(&bare));
    assert_eq!(rows(&whole), rows(&scenario));

    let config = "load: { type: poisson, stages: [{ rate: 5, duration: 4 }] }
data:
  type: shared_prefix
  shared_prefix:
    { num_groups: 2, num_prompts_per_group: 3, system_prompt_len: 20, question_len: 30, output_len: 9 }
";
    let config = file("inference-perf.yml", config);
    assert_eq!(rows(&config).lines().count(), 1 + 20);
    let expanded = succeeds(&format!("workload expand {config}"));
    assert!(expanded.contains("shared-prefix:"), "{expanded}");
    let again = file("expanded.yaml", expanded);
    assert_eq!(rows(&config), rows(&again));
}

#[test]
fn a_preset_is_written_out_and_means_the_same() {
    let preset = file(
        "preset.yaml",
        "preset: { name: rag, rate-rps: 5, requests: 40 }",
    );
    let expanded = succeeds(&format!("workload expand {preset}"));
    assert!(expanded.contains("documents:"), "{expanded}");
    let expanded = file("preset-expanded.yaml", expanded);
    let rows = |path: &str| succeeds(&format!("workload generate {path}"));
    assert_eq!(rows(&preset), rows(&expanded));
}

#[test]
fn loads_that_wait_for_answers_are_written_whole_at_a_given_pace() {
    let load = "closed-loop:
  users: 2
  requests: 10
  prompt-tokens: { constant: { tokens: 7 } }
  output-tokens: { constant: { tokens: 11 } }
";
    let load = file("closed.yaml", load);
    let run = foretoken(&format!(
        "workload generate {load} --answer-ttft-ms 400 --answer-itl-ms 10"
    ));
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.contains("wait for answers"), "{}", run.stderr);
    let sent: Vec<_> = run
        .stdout
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(1))
        .collect();
    assert_eq!(
        sent,
        ["0", "0", "0.5", "0.5", "1", "1", "1.5", "1.5", "2", "2"]
    );
    refuses(
        &format!("workload generate {load} --out {load}.csv --answer-ttft-ms=-1"),
        &["--answer-ttft-ms", "0 to 1e9"],
    );
}

#[test]
fn what_was_there_stays_if_nothing_whole_takes_its_place() {
    let bad = file(
        "bad.csv",
        "sent,input-tokens,output-tokens\n0,5,5\n1,many,5\n",
    );
    let kept = file("kept.csv", "precious\n");
    for command in ["convert", "clean"] {
        refuses(
            &format!("workload {command} {bad} --out {kept}"),
            &["bad.csv: line 3", "input-tokens", "many"],
        );
        let content = std::fs::read_to_string(&kept).expect("it is still there");
        assert_eq!(content, "precious\n");
        assert!(!std::path::Path::new(&format!("{kept}.part")).exists());
    }
}

#[test]
fn no_file_is_written_over_what_is_read_or_written_already() {
    let trace = file("mine.csv", TRACE);
    let out = fresh("mine-clean.csv");
    for report in [&trace, &out] {
        refuses(
            &format!("workload clean {trace} --out {out} --report {report}"),
            &["--report", "already"],
        );
    }
    refuses(
        &format!("workload inspect {trace} --json {trace}"),
        &["--json", "already"],
    );
    refuses(
        &format!("workload convert {trace} --out {trace}"),
        &["--out", "already"],
    );
    let content = std::fs::read_to_string(&trace).expect("it is still there");
    assert_eq!(content, TRACE);
    // Read twice while it is written, and in place.
    succeeds(&format!(
        "workload clean {trace} --out {out} --drop-failed --drop-impossible-lengths --sort"
    ));
    let before = std::fs::read_to_string(&out).expect("it was written");
    succeeds(&format!("workload generate {out} --out {out}"));
    let after = std::fs::read_to_string(&out).expect("it was written");
    assert_eq!(before.lines().count(), after.lines().count());
}

#[test]
fn broken_json_of_a_workload_is_told_as_such() {
    let broken = file("broken.json", "{\"version\": 1, \"workload\": {,}}");
    refuses(
        &format!("workload generate {broken}"),
        &["broken.json", "line 1 column"],
    );
}

#[test]
fn flags_of_a_simple_load_are_not_ignored_beside_a_workload() {
    let load = file("beside.yaml", LOAD);
    for flag in ["--requests 5", "--prompt-tokens 5", "--output-tokens 5"] {
        let deployment = "run --model meta-llama/Llama-3.1-8B-Instruct --gpu H100";
        let run = foretoken(&format!("{deployment} --workload {load} {flag}"));
        assert_ne!(run.code, Some(0));
        assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
    }
}

//! `foretoken search`.

use crate::support::{fails, file, refuses, succeeds};

const SEARCH: &str = "scenario:
  deployment: { model: meta-llama/Llama-3.1-8B-Instruct, gpu: H100-SXM-80GB, engine: { max-model-len: 4096 } }
  workload:
    synthetic:
      arrivals: { poisson: { rate-rps: 20 } }
      requests: 50
      prompt-tokens: { constant: { tokens: 500 } }
      output-tokens: { constant: { tokens: 50 } }
space:
  tensor-parallel: [1, 2]
  replicas: { gpu-budget: 2 }
  router:
    choices:
      none: { gateway: null }
      mine: { router-config: mine.yaml }
constraints:
  - { metric: ttft-p99-ms, at-most: 500 }
objectives:
  - { minimise: gpus }
  - { minimise: itl-mean-ms }
";

const ROUTER: &str = "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}]
";

#[test]
fn a_search_prints_the_front_and_writes_all_its_files() {
    file("mine.yaml", ROUTER);
    let spec = file("search.yaml", SEARCH);
    let [log, csv, json, svg] =
        ["log", "csv", "json", "svg"].map(|ending| file(&format!("search.{ending}"), ""));
    let line = format!("search {spec} --log {log} --csv {csv} --json {json} --svg {svg}");
    let table = succeeds(&line);
    assert!(
        table.contains("minimise gpus, minimise itl-mean-ms; ttft-p99-ms <= 500"),
        "{table}"
    );
    assert!(
        table.contains("6 of 6 candidates run (grid): 6 feasible"),
        "{table}"
    );
    let read = |path: &str| std::fs::read_to_string(path).expect("it is written");
    assert_eq!(read(&csv).lines().count(), 7);
    assert!(read(&svg).starts_with("<svg"));
    let lines = read(&log);
    assert_eq!(lines.lines().count(), 7);
    let first = read(&json);
    // All is known by now.
    assert_eq!(succeeds(&line), table);
    assert_eq!((read(&json), read(&log)), (first, lines));
}

#[test]
fn mistakes_are_named_with_the_file() {
    let wrong = file(
        "wrong-search.yaml",
        SEARCH.replace("tensor-parallel: [1, 2]", "tensor-paralel: [1, 2]"),
    );
    refuses(
        &format!("search {wrong}"),
        &[
            "wrong-search.yaml",
            "space.tensor-paralel",
            "tensor-parallel",
        ],
    );
    let unknown = file(
        "unknown-search.yaml",
        SEARCH.replace("ttft-p99-ms", "ttft-p98-ms"),
    );
    refuses(
        &format!("search {unknown}"),
        &["constraints[0].metric", "ttft-p98-ms"],
    );
    let single = file(
        "single-search.yaml",
        SEARCH.replace("  - { minimise: itl-mean-ms }\n", ""),
    );
    refuses(
        &format!("search {single} --svg x.svg"),
        &["--svg", "one objective"],
    );
    let log = file("no-log.jsonl", "no log\n");
    file("mine.yaml", ROUTER);
    let spec = file("logged-search.yaml", SEARCH);
    let message = fails(&format!("search {spec} --log {log}"));
    assert!(message.contains("no-log.jsonl, line 1"), "{message}");
}

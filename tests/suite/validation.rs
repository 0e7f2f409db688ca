//! Replaying measured experiments: the form of the file, the arithmetic of the errors, and how well
//! the published measurements are met.

use foretoken::prelude::*;
use foretoken::validation::{ExperimentFile, Validation};

/// One short experiment with made-up measurements.
const TINY: &str = r#"{ "experiments": [ {
    "id": "tiny", "model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100-SXM-80GB",
    "tensor_parallel": 1,
    "engine": { "name": "vllm", "version": "0.15.1", "max_num_seqs": 64,
        "max_num_batched_tokens": 2048, "max_model_len": 4096, "block_size": 16,
        "gpu_memory_utilization": 0.9, "gpu_kv_blocks": 20000, "prefix_caching": true,
        "async_scheduling": true, "cpu_kv_offload": false },
    "workload": { "profile": "chat", "num_groups": 2, "prompts_per_group": 3,
        "system_prompt_tokens": 50, "question_tokens": 200, "output_tokens": 20,
        "prompt_tokens_mean_reported": null,
        "stages": [ { "rate_rps": 2, "duration_s": 10 }, { "rate_rps": 4, "duration_s": 10 } ] },
    "measured": {
        "stages": [
            { "ttft_ms": { "mean": 20 }, "e2e_ms": { "mean": 150, "p90": 160, "p99": 170 } },
            { "ttft_ms": { "mean": 20 }, "e2e_ms": { "mean": 150, "p90": 160, "p99": 170 } } ],
        "overall":
            { "ttft_ms": { "mean": 20 }, "e2e_ms": { "mean": 150, "p90": 160, "p99": 170 } } }
} ] }"#;

fn parse(text: &str) -> Result<ExperimentFile, serde_json::Error> {
    serde_json::from_str(text)
}

fn validate(file: &ExperimentFile) -> Validation {
    Validation::run(file, 0, &Catalog::builtin(), &Physics::default())
}

#[test]
fn a_file_is_replayed_and_compared() {
    let file = parse(TINY).expect("valid");
    let validation = validate(&file);
    assert!(validation.failures.is_empty(), "{:?}", validation.failures);
    let [comparison] = &validation.experiments[..] else {
        panic!("one experiment")
    };
    assert_eq!(comparison.predicted.stages.len(), 2);
    let errors = comparison.errors();
    let error = |predicted: f64, measured: f64| (predicted / measured - 1.0) * 100.0;
    let close = |a: Option<f64>, b: f64| (a.expect("measured") - b).abs() < 1e-9;
    let predicted = &comparison.predicted.overall;
    assert!(close(errors.ttft_mean, error(predicted.ttft_ms.mean, 20.0)));
    assert!(close(errors.e2e_mean, error(predicted.e2e_ms.mean, 150.0)));
    assert!(close(
        errors.e2e_p90,
        error(predicted.e2e_ms.p90.expect("p90"), 160.0)
    ));
    assert_eq!(errors.ttft_p90, None, "it was not measured");
    // One experiment is its own median, and its own root mean square.
    let median = validation.summary.overall.median_absolute_percentage_error;
    assert_eq!(median.e2e_mean, errors.e2e_mean.map(f64::abs));
    let loss = [errors.ttft_mean, errors.e2e_mean].map(|e| e.map_or(0.0, f64::abs) / 100.0);
    assert!(
        (validation.summary.loss.expect("runs were compared") - loss[0] - loss[1]).abs() < 1e-12
    );
    assert_eq!(validation.summary.by_profile["chat"].experiments, 1);
    assert_eq!(validation.summary.by_gpu["H100-SXM-80GB"].experiments, 1);
}

#[test]
fn the_experiment_is_the_scenario_it_describes() {
    let file = parse(TINY).expect("valid");
    let scenario = file.experiments[0].scenario(4).expect("valid");
    assert_eq!(scenario.seed, 4);
    let engine = &scenario.deployment.engine;
    assert_eq!(engine.num_gpu_blocks_override, Some(20_000));
    assert_eq!(engine.max_num_seqs, Some(64));
    let report = scenario
        .run(&Catalog::builtin(), &Physics::default())
        .expect("valid");
    let sent: Vec<_> = report
        .stages
        .iter()
        .map(|s| s.summary.counts.arrived)
        .collect();
    assert_eq!(sent, [20, 40]);
    assert_eq!(report.overall.output_tokens, 60 * 20);
}

#[test]
fn validation_does_not_depend_on_threads() {
    let file = parse(TINY).expect("valid");
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().expect("threads can be had");
        let validation = pool.install(|| validate(&file));
        serde_json::to_string(&validation).expect("plain data")
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn what_cannot_be_run_is_told_with_its_id_and_the_rest_runs() {
    let cases = [
        (r#""gpu": "H100-SXM-80GB""#, r#""gpu": "H1000""#, "H1000"),
        (r#""rate_rps": 2"#, r#""rate_rps": -2"#, "-2"),
        (
            r#""duration_s": 10 }, {"#,
            r#""duration_s": -10 }, {"#,
            "-10",
        ),
        (
            r#""num_groups": 2"#,
            r#""num_groups": 0"#,
            "num-groups is 0",
        ),
        (
            r#""output_tokens": 20"#,
            r#""output_tokens": 0"#,
            "output-tokens is 0",
        ),
        (
            r#""gpu_kv_blocks": 20000"#,
            r#""gpu_kv_blocks": 3"#,
            "num_gpu_blocks is 3",
        ),
        (
            r#", { "rate_rps": 4, "duration_s": 10 }"#,
            "",
            "measured.stages has 2 entries",
        ),
    ];
    for (right, wrong, message) in cases {
        let text = TINY.replacen(right, wrong, 1);
        assert_ne!(text, TINY, "{right} occurs in the file");
        let mut file = parse(&text).expect("the form is right");
        file.experiments
            .extend(parse(TINY).expect("valid").experiments);
        let validation = validate(&file);
        assert_eq!(validation.experiments.len(), 1, "the other one runs");
        let [failure] = &validation.failures[..] else {
            panic!("{wrong}: {:?}", validation.failures)
        };
        assert!(failure.starts_with("experiment tiny: "), "{failure}");
        assert!(failure.contains(message), "{wrong}: {failure}");
    }
}

#[test]
fn a_file_of_another_form_is_refused_by_key() {
    for (right, wrong, message) in [
        (r#""id": "tiny","#, "", "missing field `id`"),
        (r#""max_num_seqs": 64"#, r#""max_num_seqs": -64"#, "-64"),
        (r#""stages": [ {"#, r#""stages": { "a": [ {"#, "invalid"),
    ] {
        let text = TINY.replacen(right, wrong, 1);
        let error = parse(&text).expect_err(wrong).to_string();
        assert!(error.contains(message), "{wrong}: {error}");
    }
}

#[test]
fn the_published_measurements_are_met() {
    if cfg!(debug_assertions) {
        println!("skipped: without optimisation it takes minutes");
        return;
    }
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/data/ground-truth/h100-train.json"
    );
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("skipped: ../shared is absent");
        return;
    };
    let file = parse(&text).expect("the file has the form");
    let validation = validate(&file);
    assert!(validation.failures.is_empty(), "{:?}", validation.failures);
    assert_eq!(validation.experiments.len(), 15);
    let median = validation.summary.overall.median_absolute_percentage_error;
    let within = |error: Option<f64>, limit: f64| error.is_some_and(|error| error <= limit);
    assert!(within(median.e2e_mean, 3.0), "E2E mean: {median:?}");
    assert!(within(median.e2e_p99, 6.0), "E2E P99: {median:?}");
    assert!(within(median.ttft_mean, 6.0), "TTFT mean: {median:?}");
    assert!(within(median.ttft_p99, 15.0), "TTFT P99: {median:?}");
}

#[test]
fn the_main_job_is_as_near_to_its_measurement_as_promised() {
    let text = include_str!("../../examples/data/h100-llama-3.1-70b-codegen.json");
    let mut file = parse(text).expect("the file of the example");
    if cfg!(debug_assertions) {
        // A tenth of the load says nothing of the means, and still runs all of it.
        for stage in &mut file.experiments[0].workload.stages {
            stage.duration_s /= 10.0;
        }
        assert!(validate(&file).failures.is_empty());
        return;
    }
    let validation = validate(&file);
    let errors = validation.experiments[0].errors();
    let (e2e, ttft) = (
        errors.e2e_mean.expect("measured"),
        errors.ttft_mean.expect("measured"),
    );
    assert!(e2e.abs() <= 8.0, "mean E2E is off by {e2e} %");
    assert!(ttft.abs() <= 12.0, "mean TTFT is off by {ttft} %");
}

#[test]
fn a_version_that_is_not_known_is_taken_as_the_reference() {
    let odd = parse(&TINY.replacen("0.15.1", "0.9.0rc1", 1)).expect("any text is a version");
    let reference = parse(TINY).expect("valid");
    let deployment = |file: &ExperimentFile| file.experiments[0].deployment();
    assert_eq!(deployment(&odd), deployment(&reference));
}

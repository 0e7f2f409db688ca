//! What reports that are JSON documents say.

use foretoken_workload::trace::{
    Fate, Format, Place, Prefix, Row, inference_perf_config, stage_report,
};
use foretoken_workload::{Workload, WorkloadSpec};

use crate::{at, error, failed, read, row, sample, text};

/// 2026-01-01, midnight UTC, in milliseconds.
const JANUARY: i64 = 1_767_225_600_000;

/// The same in nanoseconds, and so many milliseconds later.
fn later(millis: i64) -> i64 {
    (JANUARY + millis) * 1_000_000
}

#[test]
fn vllm_bench() {
    let mut expected = vec![
        row(Place::Row(1), 100_500_000_000, 512, 4),
        row(Place::Row(2), 101_000_000_000, 700, 1),
        row(Place::Row(3), 101_750_000_000, 88, 0),
    ];
    for row in &mut expected {
        (row.model, row.fate) = (text("example/model-8b"), Fate::Answered);
    }
    let times = |first, last| (Some(at(first)), Some(at(last)));
    (expected[0].first_token, expected[0].finished) = times(100_625_000_000, 101_625_000_000);
    (expected[1].first_token, expected[1].finished) = times(101_250_000_000, 101_250_000_000);
    expected[2].fate = failed("Service Unavailable");
    assert_eq!(
        read(&sample("vllm-bench.json")),
        (Format::VllmBench, expected)
    );
}

#[test]
fn vllm_bench_without_details_says_what_is_needed() {
    let without = r#"{"completed": 3, "total_input_tokens": 3, "total_output_tokens": 3}"#;
    let error = error(without, Format::VllmBench);
    assert!(error.contains("--save-detailed"), "{error}");
    let uneven = r#"{"input_lens": [1, 2], "output_lens": [1]}"#;
    let error = crate::error(uneven, Format::VllmBench);
    assert_eq!(
        error,
        "line 1: output_lens has 1 elements, but input_lens has 2"
    );
}

#[test]
fn guide_llm() {
    let mut expected = vec![
        row(Place::Row(1), later(500), 256, 128),
        row(Place::Row(2), later(1_500), 250, 3),
        row(Place::Row(3), later(100_000), 64, 32),
        row(Place::Row(4), later(100_250), 65, 31),
        row(Place::Row(5), later(100_500), 66, 0),
    ];
    let ids = ["a-1", "a-2", "b-1", "b-2", "b-3"];
    let fates = [
        Fate::Answered,
        Fate::TimedOut,
        Fate::Answered,
        Fate::Answered,
        failed("connection refused"),
    ];
    let first = [Some(750), None, Some(100_125), Some(100_312), None];
    let last = [Some(2_750), Some(3_000), Some(101_000), Some(102_000), None];
    for (index, row) in expected.iter_mut().enumerate() {
        row.id = text(ids[index]);
        row.fate = fates[index].clone();
        row.stage = Some(u32::from(index > 1));
        row.first_token = first[index].map(|millis| at(later(millis)));
        row.finished = last[index].map(|millis| at(later(millis)));
    }
    // 62.5 ms after the start.
    expected[3].first_token = Some(at(later(100_312) + 500_000));
    assert_eq!(
        read(&sample("guide-llm.json")),
        (Format::GuideLlm, expected)
    );
}

#[test]
fn inference_perf() {
    let mut expected = vec![
        row(Place::Row(1), 1_000_250_000_000, 547, 3),
        row(Place::Row(2), 1_001_000_000_000, 548, 0),
    ];
    expected[0].fate = Fate::Answered;
    expected[0].first_token = Some(at(1_000_500_000_000));
    expected[0].finished = Some(at(1_002_500_000_000));
    expected[1].fate = failed("503");
    expected[1].finished = Some(at(1_001_125_000_000));
    expected[1].stage = Some(1);
    let read = read(&sample("inference-perf.json"));
    assert_eq!(read, (Format::InferencePerf, expected));
}

#[test]
fn a_report_of_a_stage_has_counts_and_no_rows() {
    let content = std::fs::read_to_string(sample("inference-perf-stage.json")).unwrap();
    let report = stage_report(&content).unwrap();
    assert_eq!(
        (report.requests, report.answered, report.failed),
        (60, 58, 2)
    );
    assert_eq!(
        (report.requested_rate, report.achieved_rate),
        (Some(2.0), Some(2.007))
    );
    assert_eq!(report.input_tokens_mean, Some(546.5));
    assert_eq!(report.output_tokens_mean, Some(247.25));
    let error = error(content, Format::InferencePerf);
    assert!(
        error.contains("counts and rates but no requests"),
        "{error}"
    );
    assert!(stage_report("[]").is_err());
}

#[test]
fn a_configuration_of_inference_perf_is_a_workload() {
    let content = std::fs::read_to_string(sample("inference-perf.yaml")).unwrap();
    let spec = inference_perf_config(&content).unwrap();
    let WorkloadSpec::SharedPrefix(shared) = &spec else {
        panic!("{spec:?}");
    };
    assert_eq!((shared.num_groups, shared.prompts_per_group), (4, 5));
    let streams = foretoken_des_kernel::RngStreams::new(1, 0);
    assert_eq!(
        spec.build(&streams).unwrap().total(),
        Some(8 * 60 + 20 * 30)
    );
}

#[test]
fn what_a_configuration_of_inference_perf_cannot_say_is_named() {
    let config = |load: &str, data: &str| {
        let text = format!("load: {{{load}}}\ndata: {{{data}}}\n");
        inference_perf_config(&text).map_err(|error| error.to_string())
    };
    let poisson = "type: poisson, stages: [{rate: 1, duration: 10}]";
    assert_eq!(
        config(poisson, "type: shareGPT").unwrap_err(),
        "data.type is \"shareGPT\": allowed is shared_prefix, random or synthetic"
    );
    assert_eq!(
        config("stages: [{rate: -1, duration: 10}]", "type: random").unwrap_err(),
        "load.stages[0].rate is -1: allowed is above 0 and at most 1e6"
    );
    assert_eq!(
        config(poisson, "type: random").unwrap_err(),
        "data.input_distribution is missing: needed are min, max, mean, std_dev"
    );
    let lengths = "{min: 1, max: 9, mean: 5, std_dev: 1, total_count: 9}";
    let random =
        format!("type: random, input_distribution: {lengths}, output_distribution: {lengths}");
    assert!(config(poisson, &random).is_ok());
    let constant = config("type: constant, stages: [{rate: 2, duration: 10}]", &random).unwrap();
    let streams = foretoken_des_kernel::RngStreams::new(1, 0);
    assert_eq!(constant.build(&streams).unwrap().total(), Some(20));
    assert!(
        config(
            "type: trace_replay, stages: [{rate: 2, duration: 10}]",
            &random
        )
        .is_err()
    );
    assert!(config(poisson, "[").is_err());
}

#[test]
fn open_telemetry() {
    let mut expected = vec![
        row(Place::Row(1), later(0) + 1, 120, 30),
        row(Place::Row(3), later(2_000), 200, 10),
        row(Place::Row(4), later(4_000), 0, 0),
    ];
    let ends = [later(1_500), later(3_000), later(4_000) + 500];
    for ((row, id), end) in expected.iter_mut().zip(["aa01", "aa03", "aa04"]).zip(ends) {
        (row.id, row.finished) = (text(id), Some(at(end)));
    }
    let talk = |row: &mut Row| (row.session, row.prefix) = (text("talk-7"), Prefix::History);
    talk(&mut expected[0]);
    talk(&mut expected[2]);
    (expected[0].model, expected[0].max_tokens) = (text("base"), Some(256));
    expected[0].fate = Fate::Answered;
    expected[1].first_token = Some(at(later(2_250)));
    expected[2].fate = failed("overloaded");
    let read = read(&sample("open-telemetry.jsonl"));
    assert_eq!(read, (Format::OpenTelemetry, expected));
}

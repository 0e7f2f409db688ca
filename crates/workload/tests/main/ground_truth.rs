//! The loads of measured experiments can be described and are built as they were sent.

use foretoken_des_kernel::RngStreams;
use foretoken_workload::{
    SharedPrefixSpec, Stage, Workload, shared_prefix::DEFAULT_PROMPT_INFLATION,
};
use serde_json::Value;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/ground-truth/h100-train.json"
);

fn count(workload: &Value, key: &str) -> u32 {
    let number = workload[key].as_u64().expect("a count");
    u32::try_from(number).expect("a small count")
}

fn describe(workload: &Value) -> SharedPrefixSpec {
    let stage = |stage: &Value| {
        let number = |key: &str| stage[key].as_f64().expect("a number");
        Stage::new(number("rate_rps"), number("duration_s")).expect("both are positive")
    };
    SharedPrefixSpec {
        num_groups: count(workload, "num_groups"),
        prompts_per_group: count(workload, "prompts_per_group"),
        system_prompt_tokens: count(workload, "system_prompt_tokens"),
        question_tokens: count(workload, "question_tokens"),
        output_tokens: count(workload, "output_tokens"),
        stages: workload["stages"]
            .as_array()
            .expect("stages")
            .iter()
            .map(stage)
            .collect(),
        prompt_tokens_mean_reported: workload["prompt_tokens_mean_reported"].as_f64(),
        prompt_inflation: DEFAULT_PROMPT_INFLATION,
        client: foretoken_workload::ClientSpec::default(),
    }
}

#[test]
fn measured_loads_are_built_with_their_numbers_and_lengths() {
    let Ok(text) = std::fs::read_to_string(FILE) else {
        println!("skipped: ../shared is absent");
        return;
    };
    let file: Value = serde_json::from_str(&text).expect("the file is JSON");
    for experiment in file["experiments"].as_array().expect("experiments") {
        let spec = describe(&experiment["workload"]);
        let mut load = spec.build(&RngStreams::new(1, 0)).expect("a valid load");
        assert_eq!(load.prompts().len(), 100);
        let drawn = f64::from(spec.system_prompt_tokens + spec.question_tokens);
        let expected = spec
            .prompt_tokens_mean_reported
            .unwrap_or(drawn * DEFAULT_PROMPT_INFLATION);
        assert!((load.mean_prompt_tokens() - expected).abs() < 0.5);
        let end = spec
            .stages
            .iter()
            .map(|stage| stage.duration_s.get())
            .sum::<f64>();
        let (mut sent, mut last) = (0, 0.0);
        while let Some(request) = load.next() {
            sent += 1;
            last = request.arrival.as_secs_f64();
        }
        assert_eq!(load.total(), Some(sent));
        assert!((last - end).abs() < 1e-6, "{last} for {end}");
    }
}

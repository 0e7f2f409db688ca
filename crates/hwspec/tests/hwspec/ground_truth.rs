//! Block counts that real servers reported.

use foretoken_hwspec::{MemoryOptions, MemoryPlan, TensorParallel, catalog};
use serde_json::Value;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/data/ground-truth/h100-train.json"
);

fn number(value: &Value, field: &str) -> u32 {
    let number = value[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is a number"));
    u32::try_from(number).expect("small")
}

#[test]
fn block_counts_are_within_a_percent_of_what_servers_reported() {
    let Ok(text) = std::fs::read_to_string(FILE) else {
        println!("skipped: ../shared is absent");
        return;
    };
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let experiments = file["experiments"].as_array().expect("a list");
    assert_eq!(experiments.len(), 15);
    for experiment in experiments {
        let engine = &experiment["engine"];
        let options = MemoryOptions {
            gpu_memory_utilization: engine["gpu_memory_utilization"].as_f64().expect("a share"),
            max_num_seqs: number(engine, "max_num_seqs"),
            max_num_batched_tokens: number(engine, "max_num_batched_tokens"),
            max_model_len: Some(number(engine, "max_model_len")),
            block_size: number(engine, "block_size"),
            ..MemoryOptions::default()
        };
        let model = catalog::model(experiment["model"].as_str().expect("a name")).expect("known");
        let gpu = catalog::gpu(experiment["gpu"].as_str().expect("a name")).expect("known");
        let tp = TensorParallel::new(number(experiment, "tensor_parallel")).expect("positive");
        let plan = MemoryPlan::new(&model, &gpu, tp, &options).expect("it ran");
        let reported = f64::from(number(engine, "gpu_kv_blocks"));
        let error = plan.blocks as f64 / reported - 1.0;
        println!(
            "{:+.3} %  {:>6} for {:>6}  {}",
            100.0 * error,
            plan.blocks,
            reported,
            experiment["id"].as_str().unwrap_or_default()
        );
        assert!(error.abs() < 0.01, "{plan}");
    }
}

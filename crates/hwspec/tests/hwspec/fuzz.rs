//! The configuration reader on configurations that somebody broke.

use foretoken_hwspec::{HwspecError, KvFormat, ModelSpec, TensorParallel};
use proptest::prelude::*;
use serde_json::{Value, json};

/// One valid configuration of every family and kind of quantisation.
fn configs() -> Vec<Value> {
    let base = json!({
        "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000,
        "max_position_embeddings": 4096, "sliding_window": 128, "head_dim": 32,
        "num_experts_per_tok": 2, "num_local_experts": 4, "num_experts": 4,
        "moe_intermediate_size": 128, "intermediate_size_mlp": 512,
        "attention_chunk_size": 512, "interleave_moe_layer_step": 2,
        "decoder_sparse_step": 1, "mlp_only_layers": [1], "first_k_dense_replace": 1,
        "n_routed_experts": 4, "n_shared_experts": 1, "kv_lora_rank": 64, "q_lora_rank": 32,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "no_rope_layers": [1, 1, 1, 0, 1, 1], "tie_word_embeddings": true,
    });
    let quantisations = [
        json!(null),
        json!({"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": ["lm_head"]}),
        json!({"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["gate"]}),
        json!({"quant_method": "mxfp4"}),
        json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head*"]}),
        json!({"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*", "lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"],
                "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                "input_activations": {"num_bits": 8}}}}),
    ];
    let vision = json!({"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "image_size": 224, "patch_size": 14, "pixel_shuffle_ratio": 0.5,
        "projector_input_dim": 64, "projector_output_dim": 64});
    let mut configs = Vec::new();
    for (at, architecture) in foretoken_hwspec::config_json::SUPPORTED.iter().enumerate() {
        let quantisation = quantisations[at % quantisations.len()].clone();
        let mut config = base.clone();
        if architecture.ends_with("ConditionalGeneration") {
            config = json!({"text_config": base, "vision_config": vision});
        }
        config["architectures"] = json!([architecture]);
        config["quantization_config"] = quantisation;
        configs.push(config);
    }
    configs
}

fn strange() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1, "x"])),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        (0_u32..5000).prop_map(|n| json!(n)),
        (0_u32..32).prop_map(|shift| json!(1_u64 << shift)),
        "re:[a-z.*+?()\\[\\]|\\\\]{0,20}".prop_map(|s| json!([s])),
        ".{0,8}".prop_map(|s| json!(s)),
    ]
}

/// Every object of the tree, by the path to it.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (format!("{at}/{k}"), v)).collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(i, v)| (format!("{at}/{i}"), v))
            .collect(),
        _ => Vec::new(),
    };
    for (path, child) in children {
        paths(child, &path, found);
        found.push(path);
    }
}

/// Uses every count; none may panic, and every error must say something.
fn exercise(outcome: Result<ModelSpec, HwspecError>) {
    match outcome {
        Ok(model) => {
            assert!(model.parameters() >= model.active_parameters());
            assert!(model.depth() > 0);
            for degree in [1, 2, 3, 8, u32::MAX] {
                let tp = TensorParallel::new(degree).expect("positive");
                let cached = model.kv_bytes_per_token_per_gpu(tp, KvFormat::Auto);
                assert!(cached.get() > 0 && model.weight_bytes_per_gpu(tp).get() > 0);
                let _ = model.shard(tp);
            }
        }
        Err(error) => assert!(error.to_string().contains("fuzzed"), "{error}"),
    }
}

#[test]
fn the_unbroken_configurations_are_read() {
    for config in configs() {
        let model = ModelSpec::from_config_json("fuzzed", &config.to_string());
        assert_eq!(model.unwrap_or_else(|e| panic!("{e}\n{config}")).depth(), 6);
    }
}

#[test]
fn every_field_may_be_missing() {
    for config in configs() {
        let mut all = Vec::new();
        paths(&config, "", &mut all);
        for path in all {
            let mut broken = config.clone();
            let (parent, key) = path.rsplit_once('/').expect("paths start with a slash");
            match broken.pointer_mut(parent) {
                Some(Value::Object(map)) => drop(map.remove(key)),
                Some(Value::Array(list)) => drop(list.pop()),
                _ => {}
            }
            exercise(ModelSpec::from_config_json("fuzzed", &broken.to_string()));
        }
    }
}

#[test]
fn a_missing_field_is_named_with_its_path() {
    let config = json!({"architectures": ["Llama4ForConditionalGeneration"],
        "text_config": {"hidden_size": 5120, "num_hidden_layers": 4}});
    let error = ModelSpec::from_config_json("m", &config.to_string()).expect_err("incomplete");
    assert_eq!(
        error.to_string(),
        "`m`: the field `text_config.num_attention_heads` is missing"
    );
}

#[test]
fn an_unknown_architecture_is_named_with_what_is_supported() {
    let error = ModelSpec::from_config_json("m", r#"{"architectures": ["MambaForCausalLM"]}"#)
        .expect_err("a state-space model");
    let text = error.to_string();
    assert!(
        text.starts_with("`m`: architectures = MambaForCausalLM is not supported"),
        "{text}"
    );
    assert!(text.contains("Qwen3MoeForCausalLM"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No change to a configuration makes the reader panic.
    #[test]
    fn broken_configurations_never_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), strange()), 1..4),
    ) {
        let mut config = which.get(configs().as_slice()).clone();
        for (at, value) in changes {
            let mut all = Vec::new();
            paths(&config, "", &mut all);
            if all.is_empty() {
                break;
            }
            if let Some(slot) = config.pointer_mut(at.get(all.as_slice()).as_str()) {
                *slot = value;
            }
        }
        exercise(ModelSpec::from_config_json("fuzzed", &config.to_string()));
    }

    /// No text does either.
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,60}") {
        exercise(ModelSpec::from_config_json("fuzzed", &text));
    }
}

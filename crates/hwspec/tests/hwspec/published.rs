//! Totals that vendors publish, and bytes that servers reported.

use foretoken_hwspec::{KvFormat, ModelSpec, TensorParallel, WeightFormat, catalog};

fn model(name: &str) -> ModelSpec {
    catalog::model(name).unwrap_or_else(|error| panic!("{error}"))
}

fn tp(degree: u32) -> TensorParallel {
    TensorParallel::new(degree).expect("positive")
}

fn assert_close(what: &str, found: f64, expected: f64, share: f64) {
    let error = found / expected - 1.0;
    assert!(
        error.abs() < share,
        "{what}: {found} for {expected}, {:+.2} %",
        100.0 * error
    );
}

#[test]
fn totals_and_active_parameters_are_the_published_ones() {
    // Name, total and active billions; both with embedding and LM head in full.
    for (name, total, active) in [
        ("meta-llama/Llama-2-7b-hf", 6.738, 6.738),
        ("meta-llama/Llama-2-13b-hf", 13.016, 13.016),
        ("meta-llama/Llama-2-70b-hf", 68.977, 68.977),
        ("codellama/CodeLlama-34b-hf", 33.744, 33.744),
        ("meta-llama/Llama-3.1-8B", 8.030, 8.030),
        ("meta-llama/Llama-3.1-70B", 70.554, 70.554),
        ("meta-llama/Llama-3.1-405B", 405.85, 405.85),
        ("meta-llama/Llama-3.2-1B", 1.236, 1.236),
        ("meta-llama/Llama-3.2-3B", 3.213, 3.213),
        ("Qwen/Qwen2.5-0.5B", 0.494, 0.494),
        ("Qwen/Qwen2.5-1.5B", 1.544, 1.544),
        ("Qwen/Qwen2.5-3B", 3.086, 3.086),
        ("Qwen/Qwen2.5-7B-Instruct", 7.616, 7.616),
        ("Qwen/Qwen2.5-14B", 14.770, 14.770),
        ("Qwen/Qwen2.5-32B", 32.764, 32.764),
        ("Qwen/Qwen2.5-72B", 72.706, 72.706),
        ("Qwen/Qwen3-0.6B", 0.596, 0.596),
        ("Qwen/Qwen3-1.7B", 1.721, 1.721),
        ("Qwen/Qwen3-4B", 4.022, 4.022),
        ("Qwen/Qwen3-8B", 8.191, 8.191),
        ("Qwen/Qwen3-14B", 14.768, 14.768),
        ("Qwen/Qwen3-32B", 32.762, 32.762),
        ("Qwen/Qwen3-30B-A3B", 30.53, 3.35),
        ("Qwen/Qwen3-235B-A22B", 235.09, 22.19),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 480.15, 35.47),
        ("mistralai/Mistral-7B-v0.1", 7.242, 7.242),
        ("mistralai/Mistral-Nemo-Instruct-2407", 12.248, 12.248),
        ("mistralai/Mistral-Small-24B-Instruct-2501", 23.572, 23.572),
        ("mistralai/Mistral-Large-Instruct-2407", 122.61, 122.61),
        ("mistralai/Mixtral-8x7B-v0.1", 46.70, 12.88),
        ("mistralai/Mixtral-8x22B-v0.1", 140.62, 39.15),
        ("01-ai/Yi-34B", 34.389, 34.389),
        ("01-ai/Yi-6B", 6.061, 6.061),
        ("openai/gpt-oss-20b", 20.91, 4.19),
        ("openai/gpt-oss-120b", 116.79, 5.71),
        ("deepseek-ai/DeepSeek-V2-Lite", 15.71, 2.66),
        ("deepseek-ai/DeepSeek-V3", 671.03, 37.55),
        ("moonshotai/Kimi-K2-Instruct", 1026.41, 32.86),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 108.64, 17.17),
        (
            "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
            401.58,
            17.18,
        ),
        ("google/gemma-2-2b", 2.614, 2.614),
        ("google/gemma-2-9b", 9.242, 9.242),
        ("google/gemma-2-27b", 27.227, 27.227),
        ("google/gemma-3-1b-it", 1.000, 1.000),
        ("google/gemma-3-4b-it", 4.300, 3.880),
        ("google/gemma-3-12b-it", 12.187, 11.766),
        ("google/gemma-3-27b-it", 27.432, 27.009),
        ("ibm-granite/granite-3.1-8b-instruct", 8.171, 8.171),
    ] {
        let model = model(name);
        assert_close(name, model.parameters() as f64 / 1e9, total, 0.01);
        assert_close(name, model.active_parameters() as f64 / 1e9, active, 0.01);
    }
}

#[test]
fn gpt_oss_is_advertised_without_its_input_embedding() {
    for (name, active) in [("openai/gpt-oss-20b", 3.61), ("openai/gpt-oss-120b", 5.13)] {
        let found = model(name).active_parameters_without_embedding() as f64 / 1e9;
        assert_close(name, found, active, 0.01);
    }
}

#[test]
fn cached_bytes_per_token_are_the_published_ones() {
    for (name, bytes) in [
        ("meta-llama/Llama-2-7b-hf", 524_288),
        ("meta-llama/Llama-2-70b-hf", 327_680),
        ("meta-llama/Llama-3.1-8B", 131_072),
        ("meta-llama/Llama-3.1-70B", 327_680),
        ("meta-llama/Llama-3.1-405B", 516_096),
        ("Qwen/Qwen2.5-7B-Instruct", 57_344),
        ("Qwen/Qwen3-0.6B", 114_688),
        ("Qwen/Qwen3-32B", 262_144),
        ("Qwen/Qwen3-235B-A22B", 192_512),
        ("mistralai/Mistral-Nemo-Instruct-2407", 163_840),
        ("mistralai/Mixtral-8x7B-v0.1", 131_072),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 196_608),
        ("openai/gpt-oss-20b", 49_152),
        ("openai/gpt-oss-120b", 73_728),
        ("deepseek-ai/DeepSeek-V2-Lite", 31_104),
        ("deepseek-ai/DeepSeek-V3", 70_272),
        ("codellama/CodeLlama-34b-hf", 196_608),
    ] {
        let model = model(name);
        assert_eq!(
            model.kv_bytes_per_token(KvFormat::Auto).get(),
            bytes,
            "{name}"
        );
        assert_eq!(
            model.kv_bytes_per_token(KvFormat::Fp8).get(),
            bytes / 2,
            "{name}"
        );
    }
}

#[test]
fn key_value_heads_are_cut_until_there_is_one_and_latent_vectors_never() {
    let cached = |name: &str, degree| {
        model(name)
            .kv_bytes_per_token_per_gpu(tp(degree), KvFormat::Auto)
            .get()
    };
    assert_eq!(cached("Qwen/Qwen3-30B-A3B", 4), 98_304 / 4);
    assert_eq!(cached("Qwen/Qwen3-30B-A3B", 8), 98_304 / 4);
    assert_eq!(cached("deepseek-ai/DeepSeek-V3", 8), 70_272);
}

#[test]
fn weights_per_device_are_what_servers_reported() {
    for (name, degree, gib) in [
        ("meta-llama/Llama-2-7b-hf", 1, 12.55),
        ("Qwen/Qwen2.5-7B-Instruct", 1, 14.19),
        ("mistralai/Mistral-Nemo-Instruct-2407", 1, 22.81),
        ("mistralai/Mistral-Nemo-Instruct-2407", 2, 11.41),
        ("01-ai/Yi-34B", 2, 32.03),
        ("meta-llama/Llama-3.1-70B-Instruct", 4, 32.85),
        ("meta-llama/Llama-2-70b-hf", 4, 32.12),
    ] {
        assert_close(
            name,
            model(name).weight_bytes_per_gpu(tp(degree)).as_gib(),
            gib,
            0.001,
        );
    }
}

#[test]
fn quantised_checkpoints_keep_what_their_lists_say_in_16_bits() {
    let scout = model("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic");
    assert_eq!(scout.formats.attention, WeightFormat::Bf16);
    assert_eq!(scout.formats.mlp, WeightFormat::Fp8Channel);
    assert_eq!(scout.formats.experts, WeightFormat::Fp8Channel);
    assert_eq!(scout.formats.embedding, WeightFormat::Bf16);

    let formats = |name: &str| {
        let f = model(name).formats;
        (f.attention, f.mlp)
    };
    let both = |format| (format, format);
    assert_eq!(formats("Qwen/Qwen3-8B-FP8"), both(WeightFormat::Fp8Block));
    assert_eq!(
        formats("Qwen/Qwen2.5-7B-Instruct-AWQ"),
        both(WeightFormat::Int4WeightOnly)
    );
    assert_eq!(
        formats("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8"),
        both(WeightFormat::Int8WeightOnly)
    );
    assert_eq!(
        formats("Meta-Llama-3.1-8B-Instruct-quantized.w8a8"),
        both(WeightFormat::Int8)
    );
    assert_eq!(
        formats("nvidia/Llama-3.3-70B-Instruct-FP4"),
        both(WeightFormat::Nvfp4)
    );
    assert_eq!(
        formats("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8"),
        both(WeightFormat::Fp8)
    );
}

#[test]
fn sizes_of_quantised_checkpoints_are_those_on_the_hub() {
    // Whole checkpoints in GB: weights, scales and the parts in 16 bits.
    for (name, gb) in [
        ("openai/gpt-oss-20b", 13.76),
        ("openai/gpt-oss-120b", 65.25),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 5.57),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", 9.08),
    ] {
        let bytes = model(name)
            .weight_bytes_per_gpu(TensorParallel::ONE)
            .as_f64();
        assert_close(name, bytes / 1e9, gb, 0.01);
    }
}

#[test]
fn windows_are_read_but_do_not_change_what_a_token_costs() {
    let counts = |name: &str| {
        model(name)
            .layers
            .iter()
            .map(|g| g.count)
            .collect::<Vec<_>>()
    };
    assert_eq!(counts("google/gemma-3-27b-it"), [52, 10]);
    assert_eq!(counts("openai/gpt-oss-20b"), [12, 12]);
    assert_eq!(
        counts("meta-llama/Llama-4-Scout-17B-16E-Instruct"),
        [36, 12]
    );
    assert_eq!(
        counts("meta-llama/Llama-4-Maverick-17B-128E-Instruct"),
        [24, 12, 12]
    );
    assert_eq!(counts("deepseek-ai/DeepSeek-V3"), [3, 58]);
    assert_eq!(counts("meta-llama/Llama-3.1-8B"), [32]);
}

//! What kinds of attention and formats of weights and caches must do to a step, by physics.

use foretoken_hwspec::{
    Attention, GpuSpec, KvFormat, ModelSpec, Span, TensorParallel, WeightFormat, catalog,
};
use foretoken_latency_model::{Bound, Explanation, Fine, KernelPhysics, LatencyModel, StepShape};

fn model(name: &str) -> ModelSpec {
    catalog::model(name).expect("listed")
}

fn gpu(name: &str) -> GpuSpec {
    catalog::gpu(name).expect("listed")
}

fn explain(
    model: &ModelSpec,
    gpu: &GpuSpec,
    tp: u32,
    kv: KvFormat,
    shape: &StepShape,
) -> Explanation {
    let tp = TensorParallel::new(tp).expect("not zero");
    KernelPhysics::new(model, gpu, tp, kv)
        .expect("it can be split so")
        .explain(shape)
}

fn micros(explanation: &Explanation, name: &str) -> f64 {
    let terms = explanation.terms().iter().filter(|term| term.name == name);
    terms.map(|term| term.time).sum::<Fine>().as_micros_f64()
}

/// Llama 8B with its linear layers in `format`.
fn llama_in(format: WeightFormat) -> ModelSpec {
    let mut model = model("meta-llama/Llama-3.1-8B-Instruct");
    model.formats.attention = format;
    model.formats.mlp = format;
    model
}

/// Time of the linear layers of Llama 8B in `format`, in microseconds.
fn linear(gpu_name: &str, format: WeightFormat, shape: &StepShape) -> f64 {
    let explanation = explain(&llama_in(format), &gpu(gpu_name), 1, KvFormat::Auto, shape);
    let names = [
        "qkv projection",
        "output projection",
        "gate-up projection",
        "down projection",
    ];
    names.iter().map(|name| micros(&explanation, name)).sum()
}

#[test]
fn latent_attention_reads_a_fraction_of_what_grouped_attention_would() {
    // DeepSeek-V3 caches 576 numbers a token and layer; as grouped attention, 128 heads would cache
    // 128 x (192 + 128).
    let deepseek = model("deepseek-ai/DeepSeek-V3");
    let shape = StepShape::decode(64, 64 * 8_000);
    let explanation = explain(&deepseek, &gpu("H200-SXM-141GB"), 8, KvFormat::Auto, &shape);
    let attention = micros(&explanation, "attention (decode)");
    let bytes = 61.0 * 64.0 * 8_000.0 * 576.0 * 2.0;
    let ideal = bytes / 4.8e12 * 1e6;
    assert!(
        (ideal..2.0 * ideal).contains(&attention),
        "{attention} us, {ideal} us of bytes"
    );
    // All devices hold all latent vectors: the cache is not split, so the bytes stay. With all 128
    // heads on one device the multiplications take over.
    let bound = |tp: u32| {
        let shape = StepShape::decode(64, 64 * 8_000);
        let explanation = explain(
            &deepseek,
            &gpu("H200-SXM-141GB"),
            tp,
            KvFormat::Auto,
            &shape,
        );
        let term = explanation
            .terms()
            .iter()
            .find(|term| term.name == "attention (decode)");
        term.expect("there are decodes").bound
    };
    assert_eq!((bound(8), bound(1)), (Bound::Memory, Bound::Compute));
}

#[test]
fn a_window_caps_what_a_layer_reads() {
    let windowed = model("openai/gpt-oss-120b");
    let mut full = windowed.clone();
    let mut windows = 0;
    for group in &mut full.layers {
        if let Attention::Grouped(grouped) = &mut group.attention
            && let Span::Sliding(window) = grouped.span
        {
            assert_eq!(window, 128);
            grouped.span = Span::Full;
            windows += group.count;
        }
    }
    assert!(windows > 0, "gpt-oss has windows in half of its layers");
    let attention = |model: &ModelSpec, context: u64| {
        let shape = StepShape::decode(32, 32 * context);
        let explanation = explain(model, &gpu("H100-SXM-80GB"), 1, KvFormat::Auto, &shape);
        micros(&explanation, "attention (decode)")
    };
    // Within the window nothing changes; far beyond it half of the layers stop growing.
    assert!((attention(&windowed, 100) - attention(&full, 100)).abs() < 1e-6);
    let growth = |model| attention(model, 60_000) - attention(model, 30_000);
    let ratio = growth(&windowed) / growth(&full);
    let layers: u32 = full.layers.iter().map(|group| group.count).sum();
    let expected = 1.0 - f64::from(windows) / f64::from(layers);
    assert!(
        (ratio - expected).abs() < 0.01,
        "{ratio}, {expected} of the layers grow"
    );
}

#[test]
fn an_eight_bit_cache_is_read_in_half_the_time_if_its_kernel_is_as_good() {
    let llama = model("meta-llama/Llama-3.1-8B-Instruct");
    let growth = |name: &str, kv| {
        let attention = |context: u64| {
            let shape = StepShape::decode(64, 64 * context);
            let explanation = explain(&llama, &gpu(name), 1, kv, &shape);
            micros(&explanation, "attention (decode)")
        };
        attention(20_000) - attention(10_000)
    };
    let ratio = |name| growth(name, KvFormat::Fp8) / growth(name, KvFormat::Auto);
    // Not measured: the same share of the bandwidth.
    let ampere = ratio("A100-SXM-80GB");
    assert!((ampere - 0.5).abs() < 0.01, "{ampere}");
    // Measured: FlashAttention 3 loses a part of the gain.
    let hopper = ratio("H100-SXM-80GB");
    assert!((0.5..0.95).contains(&hopper), "{hopper}");
}

#[test]
fn eight_bit_integers_halve_the_bytes_and_multiply_faster_where_tensor_cores_know_them() {
    let (decode, prefill) = (StepShape::decode(16, 16_000), StepShape::prefill(8_192, 0));
    for name in ["A100-SXM-80GB", "H200-SXM-141GB"] {
        let ratio = |shape| {
            linear(name, WeightFormat::Int8, shape) / linear(name, WeightFormat::Bf16, shape)
        };
        let (decode, prefill) = (ratio(&decode), ratio(&prefill));
        assert!((0.4..1.0).contains(&decode), "{name}: decode {decode}");
        assert!((0.45..1.0).contains(&prefill), "{name}: prefill {prefill}");
    }
}

#[test]
fn four_bit_integers_save_bytes_but_no_multiplications() {
    let (decode, prefill) = (StepShape::decode(1, 1_000), StepShape::prefill(8_192, 0));
    for name in ["A100-SXM-80GB", "H200-SXM-141GB", "L40S-48GB"] {
        let ratio = |shape| {
            linear(name, WeightFormat::Int4WeightOnly, shape)
                / linear(name, WeightFormat::Bf16, shape)
        };
        let (decode, prefill) = (ratio(&decode), ratio(&prefill));
        // A little more than a quarter of the bytes, with the scales, read by another kernel; small
        // products wait for more.
        assert!((0.22..0.9).contains(&decode), "{name}: decode {decode}");
        assert!((0.75..2.0).contains(&prefill), "{name}: prefill {prefill}");
    }
}

#[test]
fn four_bit_floats_multiply_on_blackwell_only() {
    let (decode, prefill) = (StepShape::decode(1, 1_000), StepShape::prefill(8_192, 0));
    let ratio = |name, shape| {
        linear(name, WeightFormat::Nvfp4, shape) / linear(name, WeightFormat::Bf16, shape)
    };
    let blackwell = ratio("B200-SXM-180GB", &prefill);
    assert!((0.25..0.7).contains(&blackwell), "{blackwell}");
    // Elsewhere only the bytes shrink.
    let hopper = ratio("H200-SXM-141GB", &prefill);
    assert!((0.75..2.0).contains(&hopper), "{hopper}");
    for name in ["B200-SXM-180GB", "H200-SXM-141GB"] {
        let decode = ratio(name, &decode);
        assert!((0.25..0.9).contains(&decode), "{name}: {decode}");
    }
}

#[test]
fn experts_that_no_token_visits_cost_nothing() {
    let qwen = model("Qwen/Qwen3-30B-A3B");
    let experts = |batch: u32| {
        let shape = StepShape::decode(batch, u64::from(batch) * 500);
        let explanation = explain(&qwen, &gpu("H100-SXM-80GB"), 1, KvFormat::Auto, &shape);
        micros(&explanation, "routed experts")
    };
    // One token visits 8 of 128 experts; 512 tokens visit nearly all.
    let (one, many) = (experts(1), experts(512));
    assert!((4.0..16.0).contains(&(many / one)), "{one} {many}");
}

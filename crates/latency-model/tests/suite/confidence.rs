//! Which predictions carry a mark of lower confidence, and why.

use foretoken_hwspec::{KvFormat, TensorParallel, WeightFormat, catalog};
use foretoken_latency_model::{
    AdditivePhysics, Confidence, Extent, KernelPhysics, LatencyModel, Level, Provenance, Roofline,
    StepShape,
};

const LLAMA: &str = "meta-llama/Llama-3.1-8B-Instruct";
const MIXTRAL: &str = "mistralai/Mixtral-8x7B-v0.1";

fn physics(model: &str, gpu: &str, kv: KvFormat, format: Option<WeightFormat>) -> KernelPhysics {
    let (mut model, gpu) = (
        catalog::model(model).expect("listed"),
        catalog::gpu(gpu).expect("listed"),
    );
    if let Some(format) = format {
        model.formats.attention = format;
        model.formats.mlp = format;
        model.formats.experts = format;
    }
    KernelPhysics::new(&model, &gpu, TensorParallel::ONE, kv).expect("it fits one device")
}

fn of(model: &str, gpu: &str, format: Option<WeightFormat>) -> Confidence {
    physics(model, gpu, KvFormat::Auto, format).confidence(&Extent::default())
}

#[track_caller]
fn doubts(confidence: &Confidence, level: Level, words: &[&str]) {
    let text = confidence.to_string();
    assert_eq!(confidence.level, level, "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is missing: {text}");
    }
}

#[test]
fn what_was_measured_carries_no_mark() {
    for gpu in [
        "H100-SXM-80GB",
        "A100-SXM-80GB",
        "L40S-48GB",
        "B200-SXM-180GB",
    ] {
        let confidence = of(LLAMA, gpu, None);
        assert_eq!(confidence.reasons, [], "{gpu}");
        assert!(confidence.step_band.is_some());
    }
    doubts(&of(MIXTRAL, "H100-SXM-80GB", None), Level::Full, &["full"]);
}

#[test]
fn an_accelerator_with_a_datasheet_only_names_its_relative() {
    let near = of(LLAMA, "H100-PCIe-80GB", None);
    doubts(
        &near,
        Level::Reduced,
        &["gemm.bf16", "decode-attention", "H100-SXM-80GB"],
    );
    let far = of(LLAMA, "MI300X-192GB", None);
    doubts(&far, Level::Low, &["H200-SXM-141GB", "another kind"]);
}

#[test]
fn an_unmeasured_format_names_what_stands_in() {
    // 4-bit floats are expanded to 16 bits on Hopper, by kernels that were measured on a relative.
    let narrow = of(LLAMA, "H100-SXM-80GB", Some(WeightFormat::Int4WeightOnly));
    doubts(
        &narrow,
        Level::Reduced,
        &["gemm.weight-only", "H200-SXM-141GB"],
    );
    let experts = of(MIXTRAL, "A100-SXM-80GB", Some(WeightFormat::Fp8));
    doubts(
        &experts,
        Level::Reduced,
        &["experts.weight-only", "experts.bf16 stands in"],
    );
    // Hopper's kernels for an 8-bit cache were measured, Ampere's were not.
    let measured = physics(LLAMA, "H100-SXM-80GB", KvFormat::Fp8, None);
    doubts(&measured.confidence(&Extent::default()), Level::Full, &[]);
    let cache = physics(LLAMA, "A100-SXM-80GB", KvFormat::Fp8, None);
    doubts(
        &cache.confidence(&Extent::default()),
        Level::Reduced,
        &["8-bit cache"],
    );
}

#[test]
fn runs_beyond_the_measurements_say_by_how_much() {
    let model = physics(LLAMA, "H200-SXM-141GB", KvFormat::Auto, None);
    let extent = |sequences, context, tokens| Extent {
        sequences,
        context,
        tokens,
    };
    let within = model.confidence(&extent(256, 131_072, 8_192));
    doubts(&within, Level::Full, &[]);
    let beyond = model.confidence(&extent(300, 200_000, 32_768));
    doubts(
        &beyond,
        Level::Reduced,
        &[
            "sequences in a step: 300, measured up to 256",
            "200000",
            "32768",
        ],
    );
    // A relative's reach is what its numbers have.
    let relative = physics(LLAMA, "H100-PCIe-80GB", KvFormat::Auto, None);
    let reasons = |sequences| relative.confidence(&extent(sequences, 1, 1)).reasons.len();
    assert_eq!(reasons(4_000), reasons(1) + 1);
}

#[test]
fn models_without_a_fit_say_so() {
    let (model, gpu) = (
        catalog::model(LLAMA).expect("listed"),
        catalog::gpu("H100-SXM-80GB").expect("listed"),
    );
    let additive = AdditivePhysics::new(&model, &gpu, TensorParallel::ONE, KvFormat::Auto);
    let roofline = Roofline::new(&model, &gpu, TensorParallel::ONE, KvFormat::Auto);
    let models: [&dyn LatencyModel; 2] = [&additive.expect("it fits"), &roofline.expect("it fits")];
    for model in models {
        assert_eq!(model.confidence(&Extent::default()).level, Level::Low);
    }
}

#[test]
fn every_term_of_a_step_names_its_source() {
    let catalog = catalog::Catalog::builtin();
    let shape = {
        let mut shape = StepShape::prefill(700, 100);
        (0..20).for_each(|_| shape.add(1, 500, true));
        shape.settle(0);
        shape
    };
    for gpu in catalog.gpu_names() {
        let physics = physics(MIXTRAL, gpu, KvFormat::Auto, None);
        let explanation = physics.explain(&shape);
        for term in explanation.terms() {
            let source = term.source.as_ref();
            let source = source.unwrap_or_else(|| panic!("{gpu}: {} has no source", term.name));
            assert!(source.block.contains(".toml ["), "{gpu}: {source}");
        }
        assert_eq!(explanation.band(), Some(physics.band()));
    }
    let h100 = physics(MIXTRAL, "H100-SXM-80GB", KvFormat::Auto, None).explain(&shape);
    let experts = h100
        .terms()
        .iter()
        .find(|term| term.name == "routed experts");
    let source = experts
        .and_then(|term| term.source.clone())
        .expect("it has one");
    assert_eq!(
        source.block,
        "kernels.toml [gpus.H100-SXM-80GB.experts.bf16]"
    );
    assert!(matches!(source.provenance, Some(Provenance::Fitted { .. })));
}

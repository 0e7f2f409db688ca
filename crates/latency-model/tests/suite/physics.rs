//! What must hold for any model, accelerator and batch of the catalogs.

use std::sync::OnceLock;

use foretoken_hwspec::{
    GpuSpec, KvFormat, LinkKind, ModelSpec, Sampling, TensorParallel, WeightFormat,
    catalog::Catalog,
};
use foretoken_latency_model::{
    AdditivePhysics, Affine, Fine, GraphMode, KernelPhysics, LatencyModel, Roofline, StepShape,
    bounds::bound_step_with,
};
use proptest::prelude::*;
use proptest::sample::Index;

struct Machines {
    models: Vec<ModelSpec>,
    gpus: Vec<GpuSpec>,
}

fn machines() -> &'static Machines {
    static MACHINES: OnceLock<Machines> = OnceLock::new();
    MACHINES.get_or_init(|| {
        let catalog = Catalog::builtin();
        let models = catalog
            .model_names()
            .map(|name| catalog.model(name).expect("it is listed"));
        let gpus = catalog
            .gpu_names()
            .map(|name| catalog.gpu(name).expect("it is listed"));
        Machines {
            models: models.collect(),
            gpus: gpus.collect(),
        }
    })
}

#[derive(Debug, Clone)]
struct Deployment {
    model: &'static ModelSpec,
    gpu: &'static GpuSpec,
    tp: TensorParallel,
    kv: KvFormat,
}

impl Deployment {
    fn physics(&self) -> KernelPhysics {
        physics(self.model, self.gpu, self.tp, self.kv)
    }
}

fn physics(model: &ModelSpec, gpu: &GpuSpec, tp: TensorParallel, kv: KvFormat) -> KernelPhysics {
    KernelPhysics::new(model, gpu, tp, kv).expect("the catalog's machines and degrees are valid")
}

fn degrees(model: &ModelSpec, gpu: &GpuSpec) -> Vec<u32> {
    let reach = if gpu.link.kind == LinkKind::Pcie {
        8
    } else {
        gpu.link.domain.min(8)
    };
    model
        .valid_degrees()
        .into_iter()
        .filter(|&degree| degree <= reach)
        .collect()
}

fn deployments() -> impl Strategy<Value = Deployment> {
    (
        any::<Index>(),
        any::<Index>(),
        any::<Index>(),
        any::<bool>(),
    )
        .prop_map(|(model, gpu, degree, narrow)| {
            let machines = machines();
            let (model, gpu) = (model.get(&machines.models), gpu.get(&machines.gpus));
            let degree = *degree.get(&degrees(model, gpu));
            let tp = TensorParallel::new(degree).expect("degrees are not zero");
            let kv = if narrow {
                KvFormat::Fp8
            } else {
                KvFormat::Auto
            };
            Deployment { model, gpu, tp, kv }
        })
}

fn graphs() -> impl Strategy<Value = GraphMode> {
    prop_oneof![
        Just(GraphMode::Full),
        Just(GraphMode::Piecewise),
        Just(GraphMode::Eager)
    ]
}

/// Sequences as (new, past): decodes and chunks, short and long.
fn sequences() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let new = prop_oneof![3 => Just(1_u32), 1 => 2_u32..17, 1 => 17_u32..9_000];
    let past = prop_oneof![Just(0_u32), 1_u32..200, 200_u32..60_000];
    prop::collection::vec((new, past), 1..40)
}

fn batch(sequences: &[(u32, u32)], graph: GraphMode) -> StepShape {
    let mut shape = StepShape::default();
    for &(new, past) in sequences {
        shape.add(new, past, true);
    }
    shape.settle(0);
    shape.graph = graph;
    shape
}

/// Makes a part of the context common to several sequences: all but the first read it again.
fn share(shape: &mut StepShape, part: f64) {
    let sequences = f64::from(shape.sequences());
    let context = (shape.decode_context + shape.prefill_context) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of it"
    )]
    let shared = (context * (sequences - 1.0) / sequences * part) as u64;
    shape.shared_context = shared;
}

/// `later` is not shorter than `sooner`, but for the last bits of a float.
fn not_shorter(later: Fine, sooner: Fine) -> bool {
    later.as_nanos_f64() >= sooner.as_nanos_f64() * (1.0 - 1e-9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_step_beats_its_roofline(
        d in deployments(), sequences in sequences(), graph in graphs(), shared in 0.0_f64..=1.0,
    ) {
        let mut shape = batch(&sequences, graph);
        share(&mut shape, shared);
        let bound = bound_step_with(d.model, d.gpu, d.tp, d.kv, &shape).expect("valid");
        let step = d.physics().step(&shape);
        prop_assert!(not_shorter(step, bound), "{step} < {bound}");
    }

    #[test]
    fn the_terms_of_a_step_sum_to_it(
        d in deployments(), sequences in sequences(), graph in graphs(),
    ) {
        let shape = batch(&sequences, graph);
        let kernels = d.physics();
        let additive = AdditivePhysics::new(d.model, d.gpu, d.tp, d.kv).expect("valid");
        let roofline = Roofline::new(d.model, d.gpu, d.tp, d.kv).expect("valid");
        let affine = Affine::example();
        let models: [&dyn LatencyModel; 4] = [&kernels, &additive, &roofline, &affine];
        for model in models {
            prop_assert_eq!(model.explain(&shape).total(), model.step(&shape));
        }
    }

    #[test]
    fn no_term_is_more_efficient_than_the_datasheet(
        d in deployments(), sequences in sequences(), graph in graphs(),
    ) {
        let explanation = d.physics().explain(&batch(&sequences, graph));
        for term in explanation.terms() {
            prop_assert!(term.efficiency.is_none_or(|e| e > 0.0 && e <= 1.0 + 1e-9), "{term:?}");
        }
    }

    #[test]
    fn sharing_context_saves_no_more_than_its_bytes(
        d in deployments(), sequences in sequences(), graph in graphs(), shared in 0.0_f64..=1.0,
    ) {
        let model = d.physics();
        let plain = batch(&sequences, graph);
        let mut common = plain;
        share(&mut common, shared);
        let (apart, together) = (model.step(&plain), model.step(&common));
        prop_assert!(not_shorter(apart, together), "{apart} < {together}");
        prop_assert_eq!(model.explain(&common).total(), together);
        // What decodes read from the cache instead of memory is cheaper, not free.
        let attention = |shape: &StepShape| {
            let explanation = model.explain(shape);
            let terms = explanation.terms().iter();
            terms.filter(|term| term.name == "attention (decode)").map(|term| term.time).sum::<Fine>()
        };
        prop_assert!(plain.decodes == 0 || attention(&common) > Fine::ZERO);
    }

    #[test]
    fn one_more_token_never_makes_a_step_faster(
        d in deployments(), sequences in sequences(), graph in graphs(), at in any::<Index>(),
        more in 1_u32..3_000,
    ) {
        let model = d.physics();
        let before = model.step(&batch(&sequences, graph));
        let mut longer = sequences.clone();
        // A chunk of one token is a decode, another kernel: only chunks grow.
        let at = at.index(longer.len());
        if longer[at].0 > 1 {
            longer[at].0 += more;
        } else {
            longer[at].1 += more;
        }
        let after = model.step(&batch(&longer, graph));
        prop_assert!(not_shorter(after, before), "{after} < {before}");
    }

    #[test]
    fn one_more_equal_sequence_never_makes_a_step_faster(
        d in deployments(), new in 1_u32..3_000, past in 0_u32..50_000, count in 1_usize..300,
        graph in graphs(),
    ) {
        let model = d.physics();
        let before = model.step(&batch(&vec![(new, past); count], graph));
        let after = model.step(&batch(&vec![(new, past); count + 1], graph));
        prop_assert!(not_shorter(after, before), "{after} < {before}");
    }

    #[test]
    fn padding_never_makes_a_step_faster(
        d in deployments(), sequences in sequences(), padded in 1_u64..1_000,
    ) {
        let model = d.physics();
        let plain = batch(&sequences, GraphMode::Full);
        let mut more = plain;
        more.padded_tokens += padded;
        prop_assert!(not_shorter(model.step(&more), model.step(&plain)));
    }

    #[test]
    fn two_devices_are_not_slower_but_for_their_link(
        d in deployments(), sequences in sequences(),
    ) {
        let shape = batch(&sequences, GraphMode::Full);
        let wider = TensorParallel::new(2 * d.tp.get()).expect("not zero");
        prop_assume!(degrees(d.model, d.gpu).contains(&wider.get()));
        let local = |model: &KernelPhysics| {
            let explanation = model.explain(&shape);
            let terms = explanation.terms().iter().filter(|term| term.name != "all-reduce");
            terms.map(|term| term.time).sum::<Fine>()
        };
        let (one, two) = (d.physics(), physics(d.model, d.gpu, wider, d.kv));
        prop_assert!(not_shorter(local(&one), local(&two)));
    }

    #[test]
    fn eight_bit_floats_are_not_slower_where_tensor_cores_know_them(
        d in deployments(), sequences in sequences(), blocks in any::<bool>(),
    ) {
        prop_assume!(d.gpu.peak.fp8.is_some());
        let shape = batch(&sequences, GraphMode::Full);
        let narrow = if blocks { WeightFormat::Fp8Block } else { WeightFormat::Fp8 };
        let [wide, narrow] = [WeightFormat::Bf16, narrow].map(|format| {
            let mut model = d.model.clone();
            model.formats.attention = format;
            model.formats.mlp = format;
            model.formats.experts = format;
            model
        });
        prop_assume!(narrow.shard(d.tp).is_ok());
        let wide = physics(&wide, d.gpu, d.tp, d.kv).step(&shape);
        let narrow = physics(&narrow, d.gpu, d.tp, d.kv).step(&shape);
        prop_assert!(not_shorter(wide, narrow), "{wide} < {narrow}");
    }

    #[test]
    fn twice_the_layers_take_twice_the_time(d in deployments(), sequences in sequences()) {
        let shape = batch(&sequences, GraphMode::Full);
        let layers = |times: u32| {
            let mut model = d.model.clone();
            model.layers.iter_mut().for_each(|group| group.count *= times);
            physics(&model, d.gpu, d.tp, d.kv).step(&shape)
        };
        let (one, two, three) = (layers(1), layers(2), layers(3));
        let (first, second) = ((two - one).as_nanos_f64(), (three - two).as_nanos_f64());
        prop_assert!((first - second).abs() <= 1e-6 * first, "{first} {second}");
    }

    #[test]
    fn chunks_of_a_prompt_cost_at_least_the_whole(
        d in deployments(), prompt in 16_u32..30_000, cut in 0.01_f64..0.99, graph in graphs(),
    ) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within u32")]
        let first = ((f64::from(prompt) * cut) as u32).clamp(2, prompt - 2);
        let model = d.physics();
        let whole = model.step(&batch(&[(prompt, 0)], graph));
        let head = model.step(&batch(&[(first, 0)], graph));
        let tail = model.step(&batch(&[(prompt - first, first)], graph));
        prop_assert!(not_shorter(head + tail, whole), "{head} + {tail} < {whole}");
    }

    #[test]
    fn the_law_of_decodes_is_their_steps_to_the_bit(
        d in deployments(), count in 1_u32..600, mean in 1_u32..20_000, more in any::<u8>(),
        padded in 0_u64..1_000, graph in graphs(), shared in 0.0_f64..=1.0,
    ) {
        let context = u64::from(count) * u64::from(mean) + u64::from(more) % u64::from(count);
        let mut shape = StepShape::decode(count, context);
        share(&mut shape, shared);
        shape.padded_tokens = shape.padded_tokens.max(padded);
        shape.graph = graph;
        let model = d.physics();
        let law = model.decode_law(&shape).expect("a pure decode step");
        prop_assert!(law.steps() > 0);
        let last = law.steps().min(1 << 20) - 1;
        for k in [0, 1, 2, 17, 300, last / 2, last].into_iter().filter(|k| *k <= last) {
            let mut later = shape;
            later.decode_context += k * u64::from(count);
            prop_assert_eq!(law.step(k), model.step(&later), "step {} of {}", k, law.steps());
        }
        // The law is as long as it can be: it ends where the growth changes.
        if law.steps() < 1 << 20 {
            let mut next = shape;
            next.decode_context += law.steps() * u64::from(count);
            prop_assert_ne!(law.step(law.steps()), model.step(&next));
        }
    }
}

/// Queries see themselves and their past once, however the prompt is cut.
#[test]
fn causal_pairs_of_chunks_sum_to_the_prompts() {
    let prompt = StepShape::prefill(5_000, 0).prefill_pairs;
    let chunks = [(2_048, 0), (2_048, 2_048), (904, 4_096)];
    let sum: u64 = chunks
        .iter()
        .map(|&(new, past)| StepShape::prefill(new, past).prefill_pairs)
        .sum();
    assert_eq!(sum, prompt);
    assert_eq!(prompt, 5_000 * 5_001 / 2);
}

#[test]
fn steps_of_known_deployments_take_plausible_times() {
    // (model, accelerator, devices, batch, mean context, ms from, ms to)
    let cases = [
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            "H100-SXM-80GB",
            1,
            1,
            500,
            5.0,
            7.5,
        ),
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            "A100-SXM-80GB",
            1,
            1,
            500,
            9.0,
            13.0,
        ),
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            "L40S-48GB",
            1,
            1,
            500,
            20.0,
            26.0,
        ),
        (
            "meta-llama/Llama-3.1-70B-Instruct",
            "H100-SXM-80GB",
            4,
            1,
            500,
            12.0,
            20.0,
        ),
        (
            "mistralai/Mixtral-8x7B-v0.1",
            "H100-SXM-80GB",
            2,
            64,
            500,
            12.0,
            30.0,
        ),
    ];
    for (model, gpu, degree, batch, mean, from, to) in cases {
        let catalog = Catalog::builtin();
        let (model, gpu) = (
            catalog.model(model).expect("listed"),
            catalog.gpu(gpu).expect("listed"),
        );
        let tp = TensorParallel::new(degree).expect("not zero");
        let shape = StepShape::decode(batch, u64::from(batch) * mean);
        let step = physics(&model, &gpu, tp, KvFormat::Auto)
            .step(&shape)
            .as_micros_f64()
            / 1e3;
        assert!(
            (from..to).contains(&step),
            "{} on {}: {step} ms",
            model.name,
            gpu.name
        );
    }
}

#[test]
fn every_accelerator_of_the_catalog_has_a_band() {
    let machines = machines();
    let model = Catalog::builtin()
        .model("Qwen/Qwen2.5-7B-Instruct")
        .expect("listed");
    for gpu in &machines.gpus {
        let band = physics(&model, gpu, TensorParallel::ONE, KvFormat::Auto).band();
        assert!(band.low < 1.0 && band.high > 1.0, "{}", gpu.name);
    }
}

#[test]
fn an_impossible_split_is_an_error() {
    let catalog = Catalog::builtin();
    let model = catalog.model("Qwen/Qwen2.5-7B-Instruct").expect("listed");
    let gpu = catalog.gpu("H100-SXM-80GB").expect("listed");
    let degree = |degree| TensorParallel::new(degree).expect("not zero");
    let error = |model: &ModelSpec, gpu: &GpuSpec, tp| {
        KernelPhysics::new(model, gpu, tp, KvFormat::Auto)
            .expect_err("impossible")
            .to_string()
    };
    assert!(error(&model, &gpu, degree(8)).contains("num_attention_heads = 28"));
    let large = catalog
        .model("meta-llama/Llama-3.1-70B-Instruct")
        .expect("listed");
    assert!(error(&large, &gpu, degree(16)).contains("its link connects 8"));
}

#[test]
fn a_latency_model_is_an_object_that_threads_share() {
    fn shared<T: Send + Sync + ?Sized>() {}
    shared::<dyn LatencyModel>();
    let model: std::sync::Arc<dyn LatencyModel> = std::sync::Arc::new(Affine::example());
    assert!(model.step(&StepShape::decode(1, 1)) > Fine::ZERO);
}

#[test]
fn a_step_waits_for_its_launches_until_its_context_outgrows_them() {
    let catalog = Catalog::builtin();
    let mut model = catalog.model("Qwen/Qwen2.5-0.5B-Instruct").expect("listed");
    // Sorting the vocabulary would take longer than the launches.
    model.sampling = Sampling::default();
    let gpu = catalog.gpu("H100-SXM-80GB").expect("listed");
    let model = physics(&model, &gpu, TensorParallel::ONE, KvFormat::Auto);
    let mut shape = StepShape::decode(64, 64_000);
    let captured = model.step(&shape);
    shape.graph = GraphMode::Eager;
    assert!(model.step(&shape) > captured);

    let waiting = model.decode_law(&shape).expect("a pure decode step");
    let at = |k: u64| {
        let mut later = shape;
        later.decode_context += 64 * k;
        later
    };
    let steps = waiting.steps();
    assert!((10..1 << 20).contains(&steps), "{steps}");
    assert_eq!(model.step(&at(steps - 1)), model.step(&shape));
    assert!(model.step(&at(steps)) > model.step(&shape));

    // From there on the device is the slower side.
    let growing = model.decode_law(&at(steps)).expect("a pure decode step");
    for k in [0, 1, 1_000, 100_000] {
        assert_eq!(growing.step(k), model.step(&at(steps + k)));
    }
    assert_eq!(growing.steps(), u64::MAX);
}

//! Memory plans over random deployments.

use foretoken_hwspec::{
    Catalog, GpuSpec, HwspecError, KvFormat, MemoryOptions, MemoryPlan, ModelSpec, TensorParallel,
    catalog,
};
use proptest::prelude::*;

fn gpus() -> Vec<GpuSpec> {
    let catalog = Catalog::builtin();
    catalog
        .gpu_names()
        .map(|name| catalog.gpu(name).expect("listed"))
        .collect()
}

fn models() -> Vec<ModelSpec> {
    let catalog = Catalog::builtin();
    catalog
        .model_names()
        .map(|name| catalog.model(name).expect("listed"))
        .collect()
}

fn options() -> impl Strategy<Value = MemoryOptions> {
    (
        0.5..1.0_f64,
        1_u32..2048,
        1_u32..32_768,
        1_u32..10_000,
        1_u32..256,
    )
        .prop_map(|(share, seqs, tokens, len, block_size)| MemoryOptions {
            gpu_memory_utilization: share,
            max_num_seqs: seqs,
            max_num_batched_tokens: tokens,
            max_model_len: Some(len),
            block_size,
            ..MemoryOptions::default()
        })
}

fn deployment() -> impl Strategy<Value = (ModelSpec, GpuSpec, TensorParallel, MemoryOptions)> {
    let degrees = prop::sample::select(vec![1_u32, 2, 4, 8]);
    (
        prop::sample::select(models()),
        prop::sample::select(gpus()),
        degrees,
        options(),
    )
        .prop_map(|(model, gpu, degree, options)| {
            (
                model,
                gpu,
                TensorParallel::new(degree).expect("positive"),
                options,
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The parts never exceed what the engine may use, and less than a block is left over.
    #[test]
    fn the_parts_fill_the_usable_memory((model, gpu, tp, options) in deployment()) {
        let Ok(plan) = MemoryPlan::new(&model, &gpu, tp, &options) else { return Ok(()) };
        prop_assert_eq!(plan.weights + plan.reserve.total() + plan.kv, plan.requested);
        let used = plan.block_bytes * plan.blocks;
        prop_assert!(used <= plan.kv);
        prop_assert!(plan.kv - used < plan.block_bytes);
        prop_assert!(plan.max_concurrency() >= 1.0);
    }

    /// Twice the devices, not fewer blocks, as long as the key/value heads are cut with them.
    #[test]
    fn more_devices_never_mean_fewer_blocks((model, gpu, tp, options) in deployment()) {
        let wider = TensorParallel::new(2 * tp.get()).expect("positive");
        let token = |tp| model.kv_bytes_per_token_per_gpu(tp, KvFormat::Auto).get();
        let plans = (
            MemoryPlan::new(&model, &gpu, tp, &options),
            MemoryPlan::new(&model, &gpu, wider, &options),
        );
        if let (Ok(narrow), Ok(wide)) = plans && token(wider) < token(tp) {
            prop_assert!(wide.blocks >= narrow.blocks, "{} {}", narrow.blocks, wide.blocks);
        }
    }

    /// A cache of 8 bits holds twice the blocks.
    #[test]
    fn eight_bit_caches_hold_twice_the_blocks((model, gpu, tp, options) in deployment()) {
        let Ok(plan) = MemoryPlan::new(&model, &gpu, tp, &options) else { return Ok(()) };
        let options = MemoryOptions { kv_format: KvFormat::Fp8, ..options };
        let eight = MemoryPlan::new(&model, &gpu, tp, &options).expect("it needs less");
        prop_assert!(eight.blocks == 2 * plan.blocks || eight.blocks == 2 * plan.blocks + 1);
    }

    /// A larger share of the memory never means fewer blocks.
    #[test]
    fn a_larger_share_never_means_fewer_blocks(
        (model, gpu, tp, options) in deployment(),
        more in 0.0..0.5_f64,
    ) {
        let Ok(plan) = MemoryPlan::new(&model, &gpu, tp, &options) else { return Ok(()) };
        let share = f64::min(options.gpu_memory_utilization + more, 1.0);
        let options = MemoryOptions { gpu_memory_utilization: share, ..options };
        let larger = MemoryPlan::new(&model, &gpu, tp, &options).expect("there is more");
        prop_assert!(larger.blocks >= plan.blocks);
    }

    /// What the error proposes works, and a token more than the longest length does not.
    #[test]
    fn what_a_shortage_proposes_fits((model, gpu, tp, options) in deployment()) {
        let Err(HwspecError::DoesNotFit(short)) = MemoryPlan::new(&model, &gpu, tp, &options)
        else { return Ok(()) };
        if let Some(degree) = short.smallest_tensor_parallel {
            let wider = TensorParallel::new(degree).expect("positive");
            prop_assert!(MemoryPlan::new(&model, &gpu, wider, &options).is_ok());
        }
        if let Some(longest) = short.longest {
            let fits = |len| {
                let options = MemoryOptions { max_model_len: Some(len), ..options.clone() };
                MemoryPlan::new(&model, &gpu, tp, &options).is_ok()
            };
            prop_assert!(fits(longest));
            prop_assert!(!fits(longest + 1));
        }
    }

    /// No setting makes it panic.
    #[test]
    fn no_setting_makes_a_plan_panic(
        (model, gpu, _, _) in deployment(),
        degree in 1..u32::MAX,
        share in any::<f64>(),
        settings in any::<[u32; 4]>(),
    ) {
        let options = MemoryOptions {
            gpu_memory_utilization: share,
            max_num_seqs: settings[0],
            max_num_batched_tokens: settings[1],
            max_model_len: Some(settings[2]),
            block_size: settings[3],
            ..MemoryOptions::default()
        };
        let tp = TensorParallel::new(degree).expect("positive");
        let outcomes = [
            MemoryPlan::new(&model, &gpu, tp, &options),
            MemoryPlan::new(&model, &gpu, TensorParallel::ONE, &options),
        ];
        for outcome in outcomes {
            match outcome {
                Ok(plan) => prop_assert!(plan.blocks > 0),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn llama_8b_on_an_h100_has_the_blocks_of_the_worked_example() {
    let model = catalog::model("meta-llama/Llama-3.1-8B").expect("known");
    let gpu = catalog::gpu("H100").expect("known");
    let options = MemoryOptions {
        max_num_seqs: 128,
        max_num_batched_tokens: 2048,
        ..MemoryOptions::default()
    };
    let plan = MemoryPlan::new(&model, &gpu, TensorParallel::ONE, &options).expect("it fits");
    assert_eq!(plan.block_bytes.get(), 2 << 20);
    assert!((28_000..28_400).contains(&plan.blocks), "{plan}");

    let server = MemoryPlan::new(&model, &gpu, TensorParallel::ONE, &MemoryOptions::default());
    let blocks = server.expect("it fits").blocks;
    assert!((27_054..=27_566).contains(&blocks), "{blocks}");
}

#[test]
fn llama_2_70b_on_four_h100_has_the_blocks_of_the_worked_example() {
    let model = catalog::model("meta-llama/Llama-2-70b-hf").expect("known");
    let gpu = catalog::gpu("H100").expect("known");
    let four = TensorParallel::new(4).expect("not zero");
    let options = MemoryOptions {
        max_num_seqs: 128,
        max_num_batched_tokens: 2048,
        ..MemoryOptions::default()
    };
    let plan = MemoryPlan::new(&model, &gpu, four, &options).expect("it fits");
    assert_eq!(plan.block_bytes.get(), 16_384 * 80);
    assert!((plan.weights.as_gib() - 32.12).abs() < 0.05, "{plan}");
    // A reserve of 1.3 to 1.5 GiB leaves 31 029 to 30 865 blocks; a small vocabulary needs less.
    assert!((30_865..=31_650).contains(&plan.blocks), "{plan}");
}

#[test]
fn a_model_that_does_not_fit_names_the_smallest_group_that_does() {
    let model = catalog::model("meta-llama/Llama-3.1-70B").expect("known");
    let gpu = catalog::gpu("H100").expect("known");
    let options = MemoryOptions::default();
    let error = MemoryPlan::new(&model, &gpu, TensorParallel::ONE, &options).expect_err("too big");
    let HwspecError::DoesNotFit(short) = &error else {
        panic!("{error}")
    };
    assert_eq!(short.smallest_tensor_parallel, Some(4));
    assert_eq!(short.longest, None);
    assert!(
        error.to_string().contains("tensor-parallel = 4 would fit"),
        "{error}"
    );
}

#[test]
fn a_request_that_does_not_fit_names_the_longest_that_does() {
    let model = catalog::model("meta-llama/Llama-3.1-8B").expect("known");
    let gpu = catalog::gpu("L4").expect("known");
    let options = MemoryOptions {
        max_num_seqs: 128,
        max_num_batched_tokens: 2048,
        ..MemoryOptions::default()
    };
    let error = MemoryPlan::new(&model, &gpu, TensorParallel::ONE, &options).expect_err("128k");
    let HwspecError::DoesNotFit(short) = &error else {
        panic!("{error}")
    };
    let longest = short.longest.expect("shorter ones fit");
    assert!(
        longest.is_multiple_of(16) && (16_384..65_536).contains(&longest),
        "{longest}"
    );
    assert!(
        error
            .to_string()
            .contains(&format!("a max-model-len of {longest} would fit"))
    );
}

#[test]
fn options_out_of_range_are_named() {
    let model = catalog::model("Qwen/Qwen3-0.6B").expect("known");
    let gpu = catalog::gpu("H100").expect("known");
    let options = MemoryOptions {
        gpu_memory_utilization: 1.5,
        ..MemoryOptions::default()
    };
    let error = MemoryPlan::new(&model, &gpu, TensorParallel::ONE, &options).expect_err("150 %");
    assert_eq!(
        error.to_string(),
        "`memory options`: gpu-memory-utilization = 1.5, but must be above 0 and at most 1"
    );
}

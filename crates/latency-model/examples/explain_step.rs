//! Where the time of one step goes: a prefill, a decode and a mixed batch.

use foretoken_hwspec::{KvFormat, TensorParallel, catalog};
use foretoken_latency_model::{KernelPhysics, LatencyModel, StepShape, bound_step};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let model = words
        .next()
        .unwrap_or_else(|| "meta-llama/Llama-3.1-70B-Instruct".into());
    let gpu = words.next().unwrap_or_else(|| "H100-SXM-80GB".into());
    let degree = words.next().unwrap_or_else(|| "4".into()).parse()?;
    let tp = TensorParallel::new(degree).ok_or("the degree is at least 1")?;
    let (model, gpu) = (catalog::model(&model)?, catalog::gpu(&gpu)?);

    let physics = KernelPhysics::new(&model, &gpu, tp, KvFormat::Auto)?;
    let mut mixed = StepShape::prefill(2_000, 0);
    (0..32).for_each(|_| mixed.add(1, 1_000, true));
    mixed.settle(0);
    let shapes = [
        ("prefill of 2000 tokens", StepShape::prefill(2_000, 0)),
        ("32 decodes at 1000 tokens", StepShape::decode(32, 32_000)),
        ("both together", mixed),
    ];
    for (name, shape) in shapes {
        let bound = bound_step(&model, &gpu, tp, &shape)?;
        println!(
            "{name} (no faster than {bound})\n{}\n",
            physics.explain(&shape)
        );
    }
    Ok(())
}

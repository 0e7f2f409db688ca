//! `foretoken plan`: where the memory goes, and how many KV blocks come out.

use clap::Args;
use serde::Serialize;

use crate::commands::Extras;
use crate::commands::deployment::DeploymentFlags;
use crate::failure::Failure;
use crate::output::{JsonOutput, print};

/// Plan the memory of a deployment: weights, reserve, KV blocks
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    deployment: DeploymentFlags,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

#[derive(Serialize)]
struct Plan {
    model: String,
    gpu: String,
    tensor_parallel: u32,
    usable_bytes: u64,
    weight_bytes: u64,
    reserve_bytes: u64,
    kv_bytes: u64,
    kv_blocks: u64,
    kv_tokens: u64,
    max_concurrency: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let deployment = arguments.deployment.apply(None)?;
    let resolved =
        deployment.resolve(&arguments.extras.catalog()?, &arguments.extras.physics()?)?;
    let Some(memory) = resolved.memory else {
        return print("the model does not fit; num-gpu-blocks-override takes the place of a plan");
    };
    let plan = Plan {
        model: resolved.model.name,
        gpu: resolved.gpu.name,
        tensor_parallel: resolved.tensor_parallel.get(),
        usable_bytes: memory.requested.get(),
        weight_bytes: memory.weights.get(),
        reserve_bytes: memory.reserve.total().get(),
        kv_bytes: memory.kv.get(),
        kv_blocks: memory.blocks,
        kv_tokens: memory.tokens(),
        max_concurrency: memory.max_concurrency(),
    };
    let title = format!(
        "{} on {} x {}, each:",
        plan.model, plan.tensor_parallel, plan.gpu
    );
    arguments.output.emit(&plan, &format!("{title}\n{memory}"))
}

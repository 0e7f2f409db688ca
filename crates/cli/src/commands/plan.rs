//! `foretoken plan`: where the memory of a deployment goes; or, with a load, what serves it for the least money.

use std::path::{Path, PathBuf};

use clap::Args;
use foretoken_search::PlanSpec;
use serde::Serialize;

use crate::commands::Extras;
use crate::commands::deployment::DeploymentFlags;
use crate::commands::gateway::relative_to;
use crate::failure::{Failure, from_file};
use crate::output::{Files, JsonOutput, print};

/// Plan the memory of a deployment, or the cheapest deployment for a load
///
/// With flags: where the memory of one deployment goes, and how many KV blocks come out. With a file that
/// describes a load, its objectives and candidates (docs/capacity.md): the cheapest deployments that hold,
/// with their margin, what breaks first beyond it, and what the uncertainty of the model leaves of it.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Plan of a load (YAML or JSON)
    #[arg(conflicts_with_all = ["model", "gpu", "tensor_parallel"])]
    file: Option<PathBuf>,
    /// The rate that has to hold, in the mean over time, in place of the file's
    #[arg(long, value_name = "RPS", requires = "file")]
    peak_rate: Option<f64>,
    /// What it is multiplied by, in place of the file's
    #[arg(long, value_name = "FACTOR", requires = "file")]
    growth_factor: Option<f64>,
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
    Files::read(&arguments.file).written("--json", arguments.output.file())?;
    match &arguments.file {
        Some(path) => capacity(arguments, path),
        None => memory(arguments),
    }
}

fn capacity(arguments: &Arguments, path: &Path) -> Result<(), Failure> {
    let mut spec: PlanSpec = from_file(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    spec.workload.rebase(folder);
    if let Some(gateway) = &mut spec.gateway {
        relative_to(path, gateway);
    }
    spec.peak_rate_rps = arguments.peak_rate.or(spec.peak_rate_rps);
    spec.growth_factor = arguments.growth_factor.unwrap_or(spec.growth_factor);
    let environment = arguments.extras.environment()?;
    let plan = spec.plan(&environment)?;
    arguments.output.emit(&plan, &plan.to_string())
}

fn memory(arguments: &Arguments) -> Result<(), Failure> {
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

//! The flags and the file that describe a scenario.

use std::path::{Path, PathBuf};

use clap::Args;
use foretoken::Scenario;
use foretoken::workload::{LengthSpec, Synthetic, WorkloadSpec};

use crate::commands::deployment::DeploymentFlags;
use crate::commands::gateway::{GatewayFlags, relative_to};
use crate::commands::workload::spec_or_trace;
use crate::failure::{Failure, from_file};

/// A scenario from a file, from flags, or both: flags take the place of what the file says.
#[derive(Debug, Args)]
pub(crate) struct ScenarioFlags {
    /// Scenario file (YAML or JSON)
    scenario: Option<PathBuf>,
    #[command(flatten)]
    deployment: DeploymentFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    gateway: GatewayFlags,
    /// Names the experiment: every random draw follows from it [default: 0]
    #[arg(long)]
    seed: Option<u64>,
}

/// A simple load, in place of the file's whole workload. Richer ones are described in a file.
#[derive(Debug, Args)]
struct WorkloadFlags {
    /// Workload file (YAML or JSON) or trace, in place of a rate
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    workload: Option<PathBuf>,
    /// Requests per second, Poisson
    #[arg(long, value_name = "RPS")]
    rate: Option<f64>,
    /// Number of requests [default: 1000]
    #[arg(long, value_name = "N", requires = "rate", conflicts_with = "workload")]
    requests: Option<u32>,
    /// Tokens of each prompt [default: 512]
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "rate",
        conflicts_with = "workload"
    )]
    prompt_tokens: Option<u32>,
    /// Tokens that each request generates [default: 256]
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "rate",
        conflicts_with = "workload"
    )]
    output_tokens: Option<u32>,
}

impl ScenarioFlags {
    /// The file's scenario with the flags in place.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        let base = self.scenario.as_deref().map(scenario).transpose()?;
        let (deployment, workload) = match &base {
            Some(base) => (Some(base.deployment.clone()), Some(base.workload.clone())),
            None => (None, None),
        };
        let deployment = self.deployment.apply(deployment)?;
        let workload = self.workload.spec()?.or(workload).ok_or(Failure::Missing {
            missing: "the load",
            flag: "--rate",
        })?;
        // What no flag speaks of stays as the file has it.
        let mut scenario = match base {
            Some(base) => Scenario {
                deployment,
                workload,
                ..base
            },
            None => Scenario::new(deployment, workload),
        };
        scenario.gateway = self.gateway.apply(scenario.gateway);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        Ok(scenario)
    }

    /// The files that it is read from.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.scenario.iter().chain(&self.workload.workload)
    }

    /// An error with the file that it is about, if what was asked comes from one.
    pub(crate) fn in_file(&self, source: foretoken::Error) -> Failure {
        let path = match (&source, &self.workload.workload) {
            (foretoken::Error::Workload(_), Some(workload)) => Some(workload),
            _ => self.scenario.as_ref(),
        };
        match path {
            Some(path) => Failure::InFile {
                path: path.clone(),
                source: Box::new(source),
            },
            None => source.into(),
        }
    }
}

impl WorkloadFlags {
    fn spec(&self) -> Result<Option<WorkloadSpec>, Failure> {
        if let Some(path) = &self.workload {
            return spec_or_trace(path).map(Some);
        }
        let Some(rate) = self.rate else {
            return Ok(None);
        };
        let (prompt, output) = (
            LengthSpec::constant(self.prompt_tokens.unwrap_or(512)),
            LengthSpec::constant(self.output_tokens.unwrap_or(256)),
        );
        let requests = self.requests.unwrap_or(1000);
        Ok(Some(
            Synthetic::poisson(rate, requests, prompt, output)?.into(),
        ))
    }
}

/// Reads a scenario file.
pub(crate) fn scenario(path: &Path) -> Result<Scenario, Failure> {
    let mut scenario: Scenario = from_file(path)?;
    scenario
        .workload
        .rebase(path.parent().unwrap_or(Path::new("")));
    if let Some(gateway) = &mut scenario.gateway {
        relative_to(path, gateway);
    }
    Ok(scenario)
}

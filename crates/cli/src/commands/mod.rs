//! The subcommands.

pub(crate) mod ablate;
pub(crate) mod catalog;
pub(crate) mod compare;
pub(crate) mod curve;
pub(crate) mod deployment;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod gateway;
pub(crate) mod goodput;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod validate;
pub(crate) mod workload;

use std::path::PathBuf;

use foretoken::Physics;
use foretoken::hwspec::Catalog;
use foretoken::latency_model::{KernelParameters, RuntimeParameters};

use crate::failure::{Failure, read};

/// Files of the user's own that stand beside the built-in ones.
#[derive(Debug, clap::Args)]
pub(crate) struct Extras {
    /// Accelerators beside the built-in ones (TOML); may be given several times
    #[arg(long, value_name = "FILE")]
    gpus: Vec<PathBuf>,
    /// Models beside the built-in ones (JSON); may be given several times
    #[arg(long, value_name = "FILE")]
    models: Vec<PathBuf>,
    /// Kernel efficiencies in place of the built-in ones (TOML)
    #[arg(long, value_name = "FILE")]
    kernel_parameters: Option<PathBuf>,
    /// Costs of the serving software in place of the built-in ones (TOML)
    #[arg(long, value_name = "FILE")]
    runtime_parameters: Option<PathBuf>,
}

impl Extras {
    /// The built-in catalog with the user's files.
    pub(crate) fn catalog(&self) -> Result<Catalog, Failure> {
        let mut catalog = Catalog::builtin();
        for path in &self.gpus {
            catalog = catalog.with_gpu_file(path)?;
        }
        for path in &self.models {
            catalog = catalog.with_model_file(path)?;
        }
        Ok(catalog)
    }

    /// The built-in parameters, or the user's.
    pub(crate) fn physics(&self) -> Result<Physics, Failure> {
        let mut physics = Physics::default();
        let malformed =
            |path: &PathBuf, error: foretoken::latency_model::LatencyError| Failure::InFile {
                path: path.clone(),
                source: Box::new(error.into()),
            };
        if let Some(path) = &self.kernel_parameters {
            physics.kernels = KernelParameters::from_toml_str(&read(path)?)
                .map_err(|error| malformed(path, error))?;
        }
        if let Some(path) = &self.runtime_parameters {
            physics.runtime = RuntimeParameters::from_toml_str(&read(path)?)
                .map_err(|error| malformed(path, error))?;
        }
        Ok(physics)
    }
}

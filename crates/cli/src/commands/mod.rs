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
pub(crate) mod scenario;
pub(crate) mod search;
pub(crate) mod validate;
pub(crate) mod workload;

use std::path::PathBuf;

use foretoken::Physics;
use foretoken::hwspec::Catalog;
use foretoken::latency_model::{KernelParameters, RuntimeParameters};
use foretoken_search::Environment;

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
    /// US dollars per hour of an accelerator, as H100=2.2, in place of the catalog's; may be given several times
    #[arg(long = "price", value_name = "GPU=USD", value_parser = price)]
    prices: Vec<(String, f64)>,
}

fn price(text: &str) -> Result<(String, f64), String> {
    let price = text.split_once('=').and_then(|(gpu, usd)| {
        let usd = usd.parse().ok()?;
        (0.0..=1e6).contains(&usd).then(|| (gpu.to_owned(), usd))
    });
    price.ok_or_else(|| {
        "allowed is an accelerator and 0 to 1000000 US dollars, as `H100=2.2`".into()
    })
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

    /// The catalog, the parameters and the prices together.
    pub(crate) fn environment(&self) -> Result<Environment, Failure> {
        let catalog = self.catalog()?;
        let prices = self.prices.iter();
        let prices = prices
            .map(|(gpu, usd)| Ok((catalog.gpu(gpu)?.name, *usd)))
            .collect::<Result<_, Failure>>()?;
        Ok(Environment {
            physics: self.physics()?,
            prices,
            catalog,
        })
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

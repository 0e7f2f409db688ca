//! `foretoken catalog`: the names that other commands know.

use std::fmt::Write as _;

use clap::Args;
use foretoken::dataplane::config::{shipped, shipped_named};
use serde::Serialize;

use crate::commands::Extras;
use crate::failure::Failure;
use crate::output::JsonOutput;

/// List the accelerators and models that are known by name
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only names that contain this text, in any case
    filter: Option<String>,
    /// Print a router configuration, to be changed and used
    #[arg(long, value_name = "NAME", conflicts_with = "filter")]
    router_config: Option<String>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

#[derive(Serialize)]
struct Names {
    gpus: Vec<String>,
    models: Vec<String>,
    router_configs: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(name) = &arguments.router_config {
        let yaml = shipped_named(name).ok_or_else(|| Failure::Flag {
            flag: "--router-config",
            value: name.clone(),
            allowed: "a name that `foretoken catalog` lists",
        })?;
        print!("{yaml}");
        return Ok(());
    }
    let catalog = arguments.extras.catalog()?;
    let wanted = arguments
        .filter
        .as_deref()
        .unwrap_or_default()
        .to_lowercase();
    let chosen = |name: &&str| name.to_lowercase().contains(&wanted);
    let names = Names {
        gpus: catalog
            .gpu_names()
            .filter(chosen)
            .map(str::to_owned)
            .collect(),
        models: catalog
            .model_names()
            .filter(chosen)
            .map(str::to_owned)
            .collect(),
        router_configs: shipped()
            .iter()
            .map(|(name, _)| *name)
            .filter(chosen)
            .map(str::to_owned)
            .collect(),
    };
    let mut text = String::new();
    for (title, names) in [
        ("Accelerators", &names.gpus),
        ("Models", &names.models),
        ("Router configurations", &names.router_configs),
    ] {
        let _ = writeln!(text, "{title}");
        for name in names {
            let _ = writeln!(text, "  {name}");
        }
    }
    arguments.output.emit(&names, text.trim_end())
}

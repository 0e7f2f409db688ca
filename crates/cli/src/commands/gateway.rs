//! The flags that describe what stands before the engines.

use std::path::{Path, PathBuf};

use clap::Args;
use foretoken::GatewaySpec;
use foretoken::dataplane::config::shipped_named;

/// What stands before the engines: flags take the place of what a scenario file says.
#[derive(Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Gateway")]
pub(crate) struct GatewayFlags {
    /// llm-d's router with this configuration: an `EndpointPickerConfig`, or a name that
    /// `foretoken catalog` lists [default: one engine after the other]
    #[arg(long, value_name = "FILE")]
    router_config: Option<PathBuf>,
    /// Routers side by side, each with what it knows itself [default: 1]
    #[arg(long, value_name = "N")]
    router_replicas: Option<u32>,
    /// From one reading of an engine's metrics to the next; 0 shows the present [default: 50]
    #[arg(long, value_name = "MS")]
    refresh_metrics_interval: Option<f64>,
    /// One way between a router and an engine [default: 0]
    #[arg(long, value_name = "MS")]
    network_delay: Option<f64>,
}

impl GatewayFlags {
    /// The gateway that the flags describe, on top of `base` (from a file) if there is one; none if
    /// neither says anything.
    pub(crate) fn apply(&self, base: Option<GatewaySpec>) -> Option<GatewaySpec> {
        if *self == Self::default() {
            return base;
        }
        let Self {
            router_config,
            router_replicas,
            refresh_metrics_interval,
            network_delay,
        } = self;
        let mut gateway = base.unwrap_or_default();
        if let Some(config) = router_config {
            gateway.router_config = Some(config.clone());
        }
        gateway.replicas = router_replicas.unwrap_or(gateway.replicas);
        gateway.refresh_metrics_interval_ms =
            refresh_metrics_interval.unwrap_or(gateway.refresh_metrics_interval_ms);
        gateway.network_delay_ms = network_delay.unwrap_or(gateway.network_delay_ms);
        Some(gateway)
    }
}

/// Paths in a scenario file start from its folder.
pub(crate) fn relative_to(file: &Path, gateway: &mut GatewaySpec) {
    let Some(config) = &mut gateway.router_config else {
        return;
    };
    let is_shipped = config.to_str().and_then(shipped_named).is_some();
    if let (false, Some(folder)) = (is_shipped, file.parent()) {
        *config = folder.join(&*config);
    }
}

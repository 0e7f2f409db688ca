//! [`Fleet`]: how many accelerators serve, and what they cost.

use std::collections::BTreeMap;

use foretoken_metrics::Throughput;
use serde::{Deserialize, Serialize};

use crate::deployment::Resolved;

/// What accelerators cost, in US dollars per device and hour, where it is not what the catalog says.
///
/// In a file a map from the name of the accelerator: `{ H100-SXM-80GB: 2.2 }`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(BTreeMap<String, f64>);

impl Prices {
    /// The price of an accelerator by its name, if it is said here.
    pub fn get(&self, gpu: &str) -> Option<f64> {
        self.0.get(gpu).copied()
    }

    /// All names, as they are said here, with their prices.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(gpu, price)| (gpu.as_str(), *price))
    }
}

impl FromIterator<(String, f64)> for Prices {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(prices: I) -> Self {
        Self(prices.into_iter().collect())
    }
}

/// How many accelerators serve, and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fleet {
    /// Accelerators of all engines.
    pub gpus: u32,
    /// Their price in US dollars per hour; `None` if that of any is not known.
    pub usd_per_hour: Option<f64>,
}

/// What serving costs: the accelerators only, at the rate at which a run served complete requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cost {
    /// Price of the accelerators in US dollars per hour.
    pub usd_per_hour: f64,
    /// For a million output tokens, in US dollars; `None` if there were none.
    pub usd_per_million_output_tokens: Option<f64>,
    /// For a million prompt and output tokens, in US dollars; `None` if there were none.
    pub usd_per_million_tokens: Option<f64>,
}

impl core::fmt::Display for Cost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cost: {:.2} $/h", self.usd_per_hour)?;
        if let (Some(output), Some(all)) = (
            self.usd_per_million_output_tokens,
            self.usd_per_million_tokens,
        ) {
            write!(
                f,
                ", {output:.3} $ per million output tokens ({all:.3} $ of all tokens)"
            )?;
        }
        Ok(())
    }
}

impl Fleet {
    /// What serving costs at this throughput; `None` if the price is not known.
    pub fn cost(&self, throughput: &Throughput) -> Option<Cost> {
        let usd_per_hour = self.usd_per_hour?;
        let per_million = |tokens_per_s: f64| {
            (tokens_per_s > 0.0).then(|| usd_per_hour / (tokens_per_s * 3600.0) * 1e6)
        };
        Some(Cost {
            usd_per_hour,
            usd_per_million_output_tokens: per_million(throughput.output_tokens_per_s),
            usd_per_million_tokens: per_million(throughput.total_tokens_per_s),
        })
    }

    /// What these deployments consist of.
    pub fn of(deployments: &[Resolved], prices: &Prices) -> Self {
        let gpus = |deployment: &Resolved| deployment.replicas * deployment.tensor_parallel.get();
        let price = |deployment: &Resolved| {
            let each = prices
                .get(&deployment.gpu.name)
                .or(deployment.gpu.usd_per_hour)?;
            Some(each * f64::from(gpus(deployment)))
        };
        Self {
            gpus: deployments.iter().map(gpus).sum(),
            usd_per_hour: deployments.iter().map(price).sum(),
        }
    }
}

//! [`Fleet`]: how many accelerators serve, and what they cost.

use std::collections::BTreeMap;

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

impl Fleet {
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

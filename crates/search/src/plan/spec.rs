//! [`PlanSpec`]: what is to be served, and with what it may be.

use std::collections::BTreeMap;

use foretoken::metrics::Slos;
use foretoken::workload::WorkloadSpec;
use foretoken::{EngineOptions, GatewaySpec, Prices};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::candidate::{Candidate, Demand, Outcome};
use super::report::CapacityPlan;
use crate::environment::Environment;
use crate::error::SearchError;
use crate::goodput::GoodputSpec;

/// A load, its objectives, and what may serve it. In a file:
///
/// ```yaml
/// model: meta-llama/Llama-3.1-8B-Instruct
/// workload: { preset: { name: chatbot, rate-rps: 10, requests: 1 } }
/// peak-rate-rps: 60
/// headroom: 0.2
/// slos: { standard: { ttft-ms: 1000, tpot-ms: 50 } }
/// gpus: [H100-SXM-80GB, A100-SXM-80GB]
/// tensor-parallel: [1, 2]
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlanSpec {
    /// Name of a model in the catalog, or path of a `config.json`.
    pub model: String,
    /// What is asked: an open loop or a trace; how many requests and for how long is not looked at.
    pub workload: WorkloadSpec,
    /// The rate that has to hold, in requests per second (conversations, where these arrive): the workload's
    /// mean is made so high. By default the workload's own mean rate, which is not its peak if it changes over
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rate_rps: Option<f64>,
    /// What that rate is multiplied by; 1 by default.
    #[serde(default = "one")]
    pub growth_factor: f64,
    /// What is kept free beyond that: 0.2 means that a fifth more has to hold; 0 by default.
    #[serde(default)]
    pub headroom: f64,
    /// What each request of a class has to keep.
    pub slos: Slos,
    /// The share of requests that have to keep them; 0.99 by default.
    #[serde(default = "most")]
    pub share: f64,
    /// Accelerators, by their names in the catalog.
    pub gpus: Vec<String>,
    /// Accelerators that share an engine; 1, 2, 4 and 8 by default.
    #[serde(default = "powers")]
    pub tensor_parallel: Vec<u32>,
    /// Accelerators at most; 64 by default.
    #[serde(default = "sixty_four")]
    pub max_gpus: u32,
    /// Settings of each engine.
    #[serde(default)]
    pub engine: EngineOptions,
    /// What stands before the engines; requests go to one after the other by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySpec>,
    /// Prices per accelerator and hour in US dollars, 0 to 1e6, where they are not those of the catalog; by
    /// any name that the catalog knows.
    #[serde(default)]
    pub prices: Prices,
    /// Seconds over which is measured: whole periods of a load that changes over time. By default the time of
    /// 1000 requests, but a minute at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_s: Option<f64>,
    /// Seconds before that; a fifth of the window by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_s: Option<f64>,
    /// Names the experiment; 0 by default.
    #[serde(default)]
    pub seed: u64,
}

const fn one() -> f64 {
    1.0
}

const fn most() -> f64 {
    0.99
}

fn powers() -> Vec<u32> {
    vec![1, 2, 4, 8]
}

const fn sixty_four() -> u32 {
    64
}

impl PlanSpec {
    /// The cheapest deployments that hold. Prices of the environment take the place of these.
    ///
    /// # Errors
    /// [`SearchError`] naming the key that makes no sense, before the first run; a simulation that cannot
    /// be run.
    pub fn plan(&self, environment: &Environment) -> Result<CapacityPlan, SearchError> {
        let demand = self.demand()?;
        environment
            .catalog
            .model(&self.model)
            .map_err(foretoken::Error::from)?;
        let prices = self.prices(environment)?;
        let mut candidates = Vec::new();
        for gpu in &self.gpus {
            let gpu = environment.catalog.gpu(gpu);
            let gpu = gpu.map_err(foretoken::Error::from)?;
            for &tensor_parallel in &self.tensor_parallel {
                candidates.push(Candidate {
                    spec: self,
                    environment,
                    demand: &demand,
                    prices: &prices,
                    gpu: gpu.name.clone(),
                    tensor_parallel,
                });
            }
        }
        let outcomes: Vec<Outcome> = candidates
            .par_iter()
            .with_max_len(1)
            .map(Candidate::evaluate)
            .collect::<Result<_, SearchError>>()?;
        Ok(CapacityPlan::new(self, &demand, outcomes))
    }

    /// All prices by the names of the catalog.
    fn prices(&self, environment: &Environment) -> Result<Prices, SearchError> {
        let mut prices = BTreeMap::new();
        for (gpu, price) in self.prices.iter() {
            let setting = || format!("prices.{gpu}");
            if !(0.0..=1e6).contains(&price) {
                return Err(SearchError::out_of_range(setting(), &price, "0 to 1e6"));
            }
            let known = environment.catalog.gpu(gpu);
            let known = known.map_err(|error| SearchError::Setting {
                setting: setting(),
                problem: error.to_string(),
            })?;
            if prices.insert(known.name.clone(), price).is_some() {
                return Err(SearchError::Setting {
                    setting: setting(),
                    problem: format!("{} has a price by another name already", known.name),
                });
            }
        }
        let given = environment.prices.iter();
        prices.extend(given.map(|(gpu, price)| (gpu.to_owned(), price)));
        Ok(prices.into_iter().collect())
    }

    fn demand(&self) -> Result<Demand, SearchError> {
        let refuse = |field: &str, value: &dyn ToString, allowed: &str| {
            Err(SearchError::out_of_range(
                field,
                &value.to_string(),
                allowed,
            ))
        };
        if self.gpus.is_empty() {
            return refuse("gpus", &"empty", "one accelerator at least");
        }
        if self.tensor_parallel.is_empty() || self.tensor_parallel.contains(&0) {
            let list = format!("{:?}", self.tensor_parallel);
            return refuse("tensor-parallel", &list, "numbers from 1 on");
        }
        let twice = |index: usize| self.gpus[..index].contains(&self.gpus[index]);
        if let Some(index) = (0..self.gpus.len()).find(|&index| twice(index)) {
            let gpu = &self.gpus[index];
            return refuse("gpus", &format!("{gpu} twice"), "each once");
        }
        let sizes = &self.tensor_parallel;
        if let Some(index) = (0..sizes.len()).find(|&at| sizes[..at].contains(&sizes[at])) {
            let twice = format!("{} twice", sizes[index]);
            return refuse("tensor-parallel", &twice, "each once");
        }
        if self.max_gpus == 0 {
            return refuse("max-gpus", &0, "1 or more");
        }
        if !(0.0..=4.0).contains(&self.headroom) {
            return refuse("headroom", &self.headroom, "0 to 4: 0.2 is a fifth more");
        }
        for (field, value) in [
            ("growth-factor", Some(self.growth_factor)),
            ("peak-rate-rps", self.peak_rate_rps),
        ] {
            if value.is_some_and(|value| !(value > 0.0 && value <= 1e6)) {
                return refuse(field, &value.unwrap_or_default(), "above 0, at most 1e6");
            }
        }
        let own = self.workload.mean_rate().map_err(foretoken::Error::from)?;
        let asked = self.peak_rate_rps.unwrap_or(own) * self.growth_factor;
        let required = asked * (1.0 + self.headroom);
        let load = self.workload.at_rate(required);
        let goodput = GoodputSpec {
            slos: self.slos.clone(),
            share: self.share,
            window_s: self.window_s,
            warm_up_s: self.warm_up_s,
            max_doublings: 0,
            replications: 1,
            resolution: 0.02,
            ..GoodputSpec::default()
        };
        goodput.check()?;
        let load = load.map_err(foretoken::Error::from)?;
        goodput.check_load(&load, required)?;
        Ok(Demand {
            asked,
            required,
            load,
            goodput,
        })
    }
}

//! [`GoodputSpec`]: what is asked of a system, and how closely the answer is sought.

use std::collections::BTreeMap;

use foretoken::metrics::{Slo, Slos};
use foretoken::workload::WorkloadSpec;
use foretoken::{Scenario, Simulation};
use serde::{Deserialize, Serialize};

use super::report::{GoodputReport, Trial};
use super::search::Search;
use crate::environment::Environment;
use crate::error::SearchError;
use crate::metric::{LatencyKind, Metric};
use crate::replications;

/// What a system has to keep, and how closely the highest rate is sought at which it does.
///
/// ```
/// use foretoken::Scenario;
/// use foretoken_search::{Environment, GoodputSpec};
///
/// let scenario: Scenario = serde_json::from_str(r#"{
///     "deployment": { "model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "H100-SXM-80GB" },
///     "workload": { "synthetic": {
///         "arrivals": { "poisson": { "rate-rps": 10 } }, "requests": 100,
///         "prompt-tokens": { "constant": { "tokens": 500 } },
///         "output-tokens": { "constant": { "tokens": 20 } }
///     } },
///     "slos": { "standard": { "ttft-ms": 200, "tpot-ms": 40 } }
/// }"#)?;
/// let spec = GoodputSpec { window_s: Some(10.0), replications: 1, ..GoodputSpec::default() };
/// let found = spec.find_for(&scenario, &Environment::builtin())?;
/// assert!(found.rate > Some(20.0));
/// println!("{found}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GoodputSpec {
    /// What each request of a class has to keep; the scenario's by default.
    #[serde(skip_serializing_if = "Slos::is_empty")]
    pub slos: Slos,
    /// Limits of statistics over all requests of the window, such as `{ ttft-p99-ms: 500 }`: TTFT, TPOT,
    /// E2E and queueing time; none by default. Requests that are rejected or do not end have endless times.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<Metric, f64>,
    /// The share of requests that have to keep all objectives of their class: above 0, at most 1; 0.99 by
    /// default.
    pub share: f64,
    /// What arrives earlier does not count, in seconds; a fifth of the window by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_s: Option<f64>,
    /// The first window that is tried, in seconds; by default the time of 1000 requests at the load's own
    /// rate, but a minute at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_s: Option<f64>,
    /// How often the window may be doubled; 5 by default. With 0 it stays as it is.
    pub max_doublings: u32,
    /// The answer has settled when doubling the window twice in a row moves it by no more than this each
    /// time, relatively; 0.02 by default.
    pub tolerance: f64,
    /// The next rate is above the one that holds by no more than this, relatively: 1e-6 to 10; 0.005 by
    /// default. An answer settles only if this is well below the tolerance.
    pub resolution: f64,
    /// The lowest rate that is tried, in requests per second; by default that of ten requests in the first
    /// window, but a thousandth of the load's own at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rate_rps: Option<f64>,
    /// The highest rate that is tried; by default a thousand times the load's own, but no more than two
    /// million requests a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rate_rps: Option<f64>,
    /// Repetitions with other draws, judged together; 3 by default. With more than one, each is searched
    /// by itself, too, which gives the interval.
    pub replications: u32,
}

impl Default for GoodputSpec {
    fn default() -> Self {
        Self {
            slos: Slos::default(),
            limits: BTreeMap::new(),
            share: 0.99,
            warm_up_s: None,
            window_s: None,
            max_doublings: 5,
            tolerance: 0.02,
            resolution: 0.005,
            min_rate_rps: None,
            max_rate_rps: None,
            replications: 3,
        }
    }
}

impl GoodputSpec {
    /// The goodput of a scenario, at its workload's mix of requests. Replications are counted from the
    /// scenario's.
    ///
    /// # Errors
    /// As [`find`](Self::find); a scenario that cannot be built.
    pub fn find_for(
        &self,
        scenario: &Scenario,
        environment: &Environment,
    ) -> Result<GoodputReport, SearchError> {
        let resolved = scenario.resolve(&environment.catalog, &environment.physics)?;
        let spec = self.with_slos_of(scenario);
        spec.check()?;
        let first = scenario.replication;
        if first.checked_add(u64::from(self.replications)).is_none() {
            let allowed = format!("at most 2^64 - 1 - replications, {}", self.replications);
            return Err(SearchError::out_of_range("replication", &first, allowed));
        }
        let search = Search::new(&spec, &scenario.workload, scenario.seed, |replication| {
            let scenario = Scenario {
                replication,
                ..scenario.clone()
            };
            Ok(scenario.build_with(&resolved)?)
        })?;
        search.counting_from(first).run_checked()
    }

    /// The same with the objectives of a scenario, unless it has its own.
    pub(crate) fn with_slos_of(&self, scenario: &Scenario) -> Self {
        let mut spec = self.clone();
        if spec.slos.is_empty() {
            spec.slos = scenario.slos.clone();
        }
        spec
    }

    /// The goodput of any system: `system` builds it for each replication, counted from 0, with policies of
    /// one's own if need be. The load, the seed and the horizon are set here.
    ///
    /// # Errors
    /// [`SearchError`] naming the key that makes no sense, among them a load that has no rate, is too short
    /// for the window or has another rate within it than in the mean; a simulation that cannot be run.
    pub fn find<F>(
        &self,
        load: &WorkloadSpec,
        seed: u64,
        system: F,
    ) -> Result<GoodputReport, SearchError>
    where
        F: Fn(u64) -> Result<Simulation, SearchError> + Sync,
    {
        self.check()?;
        Search::new(self, load, seed, system)?.run_checked()
    }

    /// The same for a guess: of a trace another part may be seen than at the rate at which it is to be
    /// replayed.
    pub(crate) fn find_about<F>(
        &self,
        load: &WorkloadSpec,
        seed: u64,
        system: F,
    ) -> Result<GoodputReport, SearchError>
    where
        F: Fn(u64) -> Result<Simulation, SearchError> + Sync,
    {
        self.check()?;
        Search::new(self, load, seed, system)?.run()
    }

    /// Whether a system holds at one rate; `system` as in [`find`](Self::find).
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn trial<F>(
        &self,
        load: &WorkloadSpec,
        seed: u64,
        rate: f64,
        system: F,
    ) -> Result<Trial, SearchError>
    where
        F: Fn(u64) -> Result<Simulation, SearchError> + Sync,
    {
        self.check()?;
        Search::new(self, load, seed, system)?.trial(rate)
    }

    /// Whether the load comes at that rate, in the mean, within the first window.
    pub(crate) fn check_load(&self, load: &WorkloadSpec, rate: f64) -> Result<(), SearchError> {
        let nothing = |_| Ok(Simulation::new());
        Search::new(self, load, 0, nothing)?.check_load(rate)
    }

    /// Checks what can be checked before the first run.
    ///
    /// # Errors
    /// [`SearchError`] naming the key.
    pub fn check(&self) -> Result<(), SearchError> {
        if self.slos.is_empty() && self.limits.is_empty() {
            let allowed = "objectives of one class at least, or limits";
            return Err(SearchError::out_of_range("slos", &"empty", allowed));
        }
        if let Some((class, _)) = self.slos.iter().find(|(_, slo)| **slo == Slo::default()) {
            let allowed = "at least one of ttft-ms, tpot-ms, itl-ms, e2e-ms";
            return Err(SearchError::out_of_range(
                format!("slos.{class}"),
                &"empty",
                allowed,
            ));
        }
        let of_requests = [
            LatencyKind::Ttft,
            LatencyKind::Tpot,
            LatencyKind::E2e,
            LatencyKind::Queue,
        ];
        for (metric, limit) in &self.limits {
            let field = format!("limits.{metric}");
            match metric {
                Metric::Latency(kind, _) if of_requests.contains(kind) => {}
                _ => {
                    let allowed = "a statistic of ttft, tpot, e2e or queue, as ttft-p99-ms";
                    return Err(SearchError::out_of_range(field, metric, allowed));
                }
            }
            positive(&field, *limit, 1e9)?;
        }
        if !(self.share > 0.0 && self.share <= 1.0) {
            let allowed = "above 0, at most 1";
            return Err(SearchError::out_of_range("share", &self.share, allowed));
        }
        for (field, value) in [
            ("warm-up-s", self.warm_up_s),
            ("window-s", self.window_s),
            ("tolerance", Some(self.tolerance)),
        ] {
            value.map_or(Ok(()), |value| positive(field, value, 1e9))?;
        }
        for (field, rate) in [
            ("min-rate-rps", self.min_rate_rps),
            ("max-rate-rps", self.max_rate_rps),
        ] {
            rate.map_or(Ok(()), |rate| positive(field, rate, 1e6))?;
        }
        if !(1e-6..=10.0).contains(&self.resolution) {
            let (value, allowed) = (&self.resolution, "1e-6 to 10");
            return Err(SearchError::out_of_range("resolution", value, allowed));
        }
        if let (Some(min), Some(max)) = (self.min_rate_rps, self.max_rate_rps)
            && min > max
        {
            let allowed = format!("at most max-rate-rps, {max}");
            return Err(SearchError::out_of_range("min-rate-rps", &min, allowed));
        }
        replications::check(self.replications.into(), "replication", 0)?;
        if self.max_doublings > 20 {
            let (value, allowed) = (&self.max_doublings, "0 to 20");
            return Err(SearchError::out_of_range("max-doublings", value, allowed));
        }
        Ok(())
    }
}

fn positive(field: &str, value: f64, most: f64) -> Result<(), SearchError> {
    if value > 0.0 && value <= most {
        return Ok(());
    }
    let allowed = format!("above 0, at most {most:e}");
    Err(SearchError::out_of_range(field, &value, allowed))
}

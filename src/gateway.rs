//! [`GatewaySpec`]: what stands before the engines, as configurations give it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foretoken_dataplane::config::{BuildOptions, RouterConfig};
use foretoken_dataplane::pipeline::pickers::Ties;
use foretoken_dataplane::producer::{Insertion, LatencyPredictor};
use foretoken_dataplane::rewrite::{ModelRewrite, RewriteRule, RewriteTarget};
use foretoken_dataplane::saturation::Unseen;
use foretoken_dataplane::transfer::LinkConfig;
use foretoken_des_kernel::{RngStreams, SimDuration, SimRng, SimTime};
use foretoken_workload::ObjectivePriority;
use serde::{Deserialize, Serialize};

use crate::cluster::{Freshness, PoolChange, Scraping, Wiring};
use crate::deployment::Resolved;
use crate::error::Error;
use crate::predictor::{PredictedEngine, StepPredictor};
use crate::simulation::Simulation;

/// A gateway with llm-d's router in it: its configuration file, and what llm-d takes from flags and
/// from Kubernetes.
///
/// ```
/// use foretoken::gateway::GatewaySpec;
///
/// let gateway: GatewaySpec = serde_json::from_str(
///     r#"{ "refresh-metrics-interval-ms": 200, "objectives": { "interactive": 10, "bulk": -5 } }"#,
/// )?;
/// assert_eq!(gateway.replicas, 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GatewaySpec {
    /// Path of an `EndpointPickerConfig`, or the name of one that is shipped with Foretoken. Without it
    /// llm-d's default: queue 2, KV usage 2, prefix match 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_config: Option<PathBuf>,
    /// Gateways side by side (llm-d's active-active replicas), each with its own counters, indexes and
    /// queues; requests go to them in turn. 1 by default.
    pub replicas: u32,
    /// Priorities of `InferenceObjectives` by name, for requests that name theirs in a header.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub objectives: BTreeMap<String, i32>,
    /// Rules for the models that requests ask for (llm-d's `InferenceModelRewrite`), the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub model_rewrites: Vec<ModelRewriteSpec>,
    /// Who wins among equal totals; `random` by default, as in llm-d.
    pub tie_break: TieBreak,
    /// From one reading of an engine's metrics to the next, in ms; 50 by default. 0 shows the present.
    pub refresh_metrics_interval_ms: f64,
    /// The most by which a reading is late, in ms, uniformly drawn; 0 by default.
    pub metrics_jitter_ms: f64,
    /// From the moment the engine answers until the gateway knows, in ms; 0 by default.
    pub metrics_delay_ms: f64,
    /// The most by which that takes longer, in ms, uniformly drawn; 0 by default.
    pub metrics_delay_jitter_ms: f64,
    /// One way between a gateway and an engine, or between two engines, in ms; 0 by default.
    pub network_delay_ms: f64,
    /// From a pick until counters and indexes know of it, in ms; 0, atomic, by default.
    pub decision_time_ms: f64,
    /// From a change of a KV cache until a precise index knows of it, in ms; 1 by default.
    pub kv_event_delay_ms: f64,
    /// What moves KV blocks between engines.
    pub kv_link: KvLinkSpec,
    /// Standard deviation of the logarithm of predicted latencies, for plugins that go by predictions;
    /// 0, as good as the latency model, by default.
    pub prediction_noise: f64,
    /// In which order the blocks of a prompt enter approximate prefix indexes; `head-first` by default, as
    /// in llm-d v0.10.
    pub prefix_insertion: PrefixInsertion,
    /// Drop a request from in-flight counters when it was silent for so long, in seconds; never by
    /// default. llm-d did so after 300 s before counters were bound to connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_silent_after_s: Option<f64>,
    /// Utilization detectors count requests that were sent since the last metrics came as waiting; off by
    /// default, as in llm-d v0.10.
    pub count_sent_as_waiting: bool,
    /// Endpoints that leave the pool and return.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
}

impl Default for GatewaySpec {
    fn default() -> Self {
        Self {
            router_config: None,
            replicas: 1,
            objectives: BTreeMap::new(),
            model_rewrites: Vec::new(),
            tie_break: TieBreak::default(),
            refresh_metrics_interval_ms: 50.0,
            metrics_jitter_ms: 0.0,
            metrics_delay_ms: 0.0,
            metrics_delay_jitter_ms: 0.0,
            network_delay_ms: 0.0,
            decision_time_ms: 0.0,
            kv_event_delay_ms: 1.0,
            kv_link: KvLinkSpec::default(),
            prediction_noise: 0.0,
            prefix_insertion: PrefixInsertion::default(),
            drop_silent_after_s: None,
            count_sent_as_waiting: false,
            outages: Vec::new(),
        }
    }
}

/// Where requests for a model go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelRewriteSpec {
    /// The model that is asked for; any if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it becomes.
    pub targets: Vec<ModelTargetSpec>,
}

/// One of the models that a request may become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelTargetSpec {
    /// The adapter; the base model if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How often it is drawn, against the others; all alike if none has a weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

impl ModelRewriteSpec {
    fn rule(&self) -> RewriteRule {
        let name = |model: &Option<String>| model.as_deref().map(Arc::from);
        let targets = self.targets.iter().map(|target| RewriteTarget {
            model: name(&target.model),
            weight: target.weight,
        });
        RewriteRule {
            model: name(&self.model),
            targets: targets.collect(),
        }
    }
}

/// Who wins among equal totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TieBreak {
    /// Anybody, uniformly.
    #[default]
    Random,
    /// The endpoint with the lowest number.
    First,
}

/// In which order the blocks of a prompt enter a prefix index: what enters first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefixInsertion {
    /// The head of the prompt first.
    #[default]
    HeadFirst,
    /// The tail first (llm-d since September 2026).
    TailFirst,
}

/// The network interface of an engine for KV blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct KvLinkSpec {
    /// From the wish to read until the first byte moves, in µs; 200 by default.
    pub latency_us: f64,
    /// Gbit/s each way; 400 by default.
    pub bandwidth_gbps: f64,
}

impl Default for KvLinkSpec {
    fn default() -> Self {
        Self {
            latency_us: 200.0,
            bandwidth_gbps: 400.0,
        }
    }
}

/// An endpoint that is not in the pool for a while. Requests on it are lost; its KV cache is not, as when
/// it cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Outage {
    /// Number of the engine, from 0.
    pub engine: usize,
    /// When it leaves, in seconds.
    pub from_s: f64,
    /// When it returns, in seconds; never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_s: Option<f64>,
}

/// Shorter than any engine's step; llm-d allows no less than 50 ms.
const SHORTEST_REFRESH: SimDuration = SimDuration::from_micros(100);

/// More than enough, and few enough to be built at once.
const MOST_REPLICAS: u32 = 64;

impl GatewaySpec {
    /// Puts the gateways into a simulation of these deployments.
    pub(crate) fn apply(
        &self,
        simulation: Simulation,
        deployments: &[Resolved],
        streams: &RngStreams,
    ) -> Result<Simulation, Error> {
        if !(1..=MOST_REPLICAS).contains(&self.replicas) {
            let allowed = format!("1 to {MOST_REPLICAS}");
            let field = "gateway.replicas";
            return Err(Error::out_of_range(field, &self.replicas, allowed));
        }
        let config = self.config()?;
        let decision_time = millis("decision-time-ms", self.decision_time_ms)?;
        let refresh = millis(
            "refresh-metrics-interval-ms",
            self.refresh_metrics_interval_ms,
        )?;
        let ties = match self.tie_break {
            TieBreak::Random => Ties::Random,
            TieBreak::First => Ties::First,
        };
        let rules = self.model_rewrites.iter().map(ModelRewriteSpec::rule);
        let mut options = BuildOptions::default()
            .ties(ties)
            .rewrite(ModelRewrite::new(rules))
            .decision_time(decision_time)
            .refresh_interval(refresh)
            .insertion(match self.prefix_insertion {
                PrefixInsertion::HeadFirst => Insertion::HeadFirst,
                PrefixInsertion::TailFirst => Insertion::TailFirst,
            })
            .unseen(if self.count_sent_as_waiting {
                Unseen::Waiting
            } else {
                Unseen::Ignored
            });
        if let Some(seconds) = self.drop_silent_after_s {
            let silence = millis("drop-silent-after-s", seconds * 1e3)?;
            options = options.drop_silent_after(silence);
        }
        for (name, &priority) in &self.objectives {
            options = options.objective(name, ObjectivePriority::new(priority));
        }
        let predictor = self.predictor(deployments)?;
        let gateways = (0..u64::from(self.replicas)).map(|gateway| {
            let (predictor, streams) = (predictor.clone(), *streams);
            let make = move || predictor(streams.stream("prediction", gateway));
            config.build(&options.clone().predictor(make))
        });
        Ok(simulation.gateways(gateways).wiring(self.wiring(refresh)?))
    }

    /// The router's configuration, read and checked.
    ///
    /// # Errors
    /// [`Error`] names the file, the line and the field.
    pub fn config(&self) -> Result<RouterConfig, Error> {
        let Some(path) = &self.router_config else {
            return Ok(RouterConfig::builtin_default());
        };
        let named = foretoken_dataplane::config::shipped_named;
        let text = match path.to_str().and_then(named) {
            Some(text) => text.to_owned(),
            None => std::fs::read_to_string(path).map_err(|error| Error::RouterConfig {
                file: path.clone(),
                problem: format!("{error}; of the shipped configurations, {}", close(path)),
            })?,
        };
        RouterConfig::from_yaml(&text).map_err(|error| Error::RouterConfig {
            file: path.clone(),
            problem: error.to_string(),
        })
    }

    fn wiring(&self, refresh: SimDuration) -> Result<Wiring, Error> {
        if !refresh.is_zero() && refresh < SHORTEST_REFRESH {
            let field = "gateway.refresh-metrics-interval-ms";
            let allowed = "0 (the present), or 0.1 and more";
            let value = self.refresh_metrics_interval_ms;
            return Err(Error::out_of_range(field, &value, allowed));
        }
        let freshness = if refresh.is_zero() {
            Freshness::Live
        } else {
            Freshness::Scraped(Scraping {
                interval: refresh,
                jitter: millis("metrics-jitter-ms", self.metrics_jitter_ms)?,
                delay: millis("metrics-delay-ms", self.metrics_delay_ms)?,
                delay_jitter: millis("metrics-delay-jitter-ms", self.metrics_delay_jitter_ms)?,
            })
        };
        let bytes_per_s = self.kv_link.bandwidth_gbps * 1e9 / 8.0;
        if !(bytes_per_s.is_finite() && bytes_per_s > 0.0) {
            let field = "gateway.kv-link.bandwidth-gbps";
            let value = self.kv_link.bandwidth_gbps;
            return Err(Error::out_of_range(field, &value, "finite, above 0"));
        }
        Ok(Wiring {
            freshness,
            network_delay: millis("network-delay-ms", self.network_delay_ms)?,
            kv_event_delay: millis("kv-event-delay-ms", self.kv_event_delay_ms)?,
            links: LinkConfig {
                latency: micros("kv-link.latency-us", self.kv_link.latency_us)?,
                bytes_per_s,
            },
            changes: self.changes()?,
        })
    }

    /// What makes a predictor of a random stream.
    fn predictor(
        &self,
        deployments: &[Resolved],
    ) -> Result<impl Fn(SimRng) -> Box<dyn LatencyPredictor> + Clone + use<>, Error> {
        let sigma = self.prediction_noise;
        if !(0.0..=10.0).contains(&sigma) {
            let field = "gateway.prediction-noise";
            return Err(Error::out_of_range(field, &sigma, "0 to 10"));
        }
        let engines: Vec<PredictedEngine> = deployments
            .iter()
            .flat_map(|deployment| {
                let engine = PredictedEngine {
                    latency: deployment.latency.clone(),
                    config: deployment.engine.clone(),
                };
                core::iter::repeat_n(engine, deployment.replicas as usize)
            })
            .collect();
        Ok(move |rng| -> Box<dyn LatencyPredictor> {
            let predictor = StepPredictor::new(engines.clone());
            Box::new(if sigma > 0.0 {
                predictor.with_noise(sigma, rng)
            } else {
                predictor
            })
        })
    }

    /// When endpoints leave and return.
    fn changes(&self) -> Result<Vec<PoolChange>, Error> {
        let mut changes = Vec::new();
        let mut outages: Vec<&Outage> = self.outages.iter().collect();
        outages.sort_by(|a, b| a.engine.cmp(&b.engine).then(a.from_s.total_cmp(&b.from_s)));
        let mut before: Option<&Outage> = None;
        for outage in outages {
            let &Outage {
                engine,
                from_s,
                to_s,
            } = outage;
            if to_s.is_some_and(|to| to <= from_s) {
                let field = format!("gateway.outages.to-s of engine {engine}");
                let allowed = format!("after from-s, {from_s}");
                return Err(Error::out_of_range(field, &to_s.unwrap_or(from_s), allowed));
            }
            if let Some(before) = before.filter(|before| before.engine == engine)
                && before.to_s.is_none_or(|to| to > from_s)
            {
                let field = format!("gateway.outages.from-s of engine {engine}");
                let allowed = "after the end of the outage before it";
                return Err(Error::out_of_range(field, &from_s, allowed));
            }
            before = Some(outage);
            for (at, up) in [(Some(from_s), false), (to_s, true)] {
                if let Some(at) = at {
                    let at = instant(at)?;
                    changes.push(PoolChange { at, engine, up });
                }
            }
        }
        Ok(changes)
    }
}

/// A day is beyond any of these.
const DAY_S: f64 = 86_400.0;

fn millis(field: &str, value: f64) -> Result<SimDuration, Error> {
    span(field, value, 1e-3)
}

fn micros(field: &str, value: f64) -> Result<SimDuration, Error> {
    span(field, value, 1e-6)
}

/// A span of `value` times `unit` seconds.
fn span(field: &str, value: f64, unit: f64) -> Result<SimDuration, Error> {
    let refused = || Error::out_of_range(format!("gateway.{field}"), &value, "0 to a day");
    if !(0.0..=DAY_S).contains(&(value * unit)) {
        return Err(refused());
    }
    SimDuration::try_from_secs_f64(value * unit).map_err(|_| refused())
}

/// The shipped names that a path may have meant, else all.
fn close(path: &Path) -> String {
    let wanted = path.to_string_lossy().to_lowercase();
    let names = || {
        foretoken_dataplane::config::shipped()
            .iter()
            .map(|(name, _)| *name)
    };
    let alike = |name: &&str| {
        let parts = || {
            wanted
                .split(['-', '_', '.', ' '])
                .filter(|part| part.len() > 2)
        };
        parts().any(|part| name.contains(part))
    };
    let likely: Vec<&str> = names().filter(alike).collect();
    if likely.is_empty() {
        return format!("there are {}", names().collect::<Vec<_>>().join(", "));
    }
    format!("do you mean {}?", likely.join(" or "))
}

fn instant(seconds: f64) -> Result<SimTime, Error> {
    SimTime::try_from_secs_f64(seconds)
        .map_err(|_| Error::out_of_range("gateway.outages", &seconds, "0 to 1.8e10 seconds"))
}

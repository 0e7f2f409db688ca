//! [`Simulation`]: parts in, report out.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_dataplane::gateway::{Admission, Gateway, GatewayPolicies, GatewayStreams};
use foretoken_dataplane::transfer::KvLinks;
use foretoken_dataplane::{Admitter, DataProducer, EndpointId, EndpointView, Router};
use foretoken_des_kernel::{RngStreams, SimTime};
use foretoken_engine::{Engine, EngineConfig, Policies};
use foretoken_latency_model::LatencyModel;
use foretoken_metrics::{MetricSink, Recorder, Report};
use foretoken_workload::{Workload, WorkloadSpec};

use crate::cluster::{Freshness, Wiring};
use crate::error::Error;
use crate::world::{Identity, Network, Parts, World};

/// A simulation of serving engines behind a gateway, built from its parts.
///
/// ```
/// use foretoken::prelude::*;
///
/// let report = Simulation::new()
///     .engines(2, EngineConfig::default())
///     .latency(Affine::example())
///     .workload(Synthetic::poisson(5.0, 200, LengthSpec::constant(300), LengthSpec::constant(50))?)
///     .router(|_: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
///         cx.endpoints.iter().min_by_key(|e| e.running + e.queued).map(|e| e.id.into())
///     })
///     .seed(7)
///     .run()?;
/// assert_eq!(report.overall.counts.finished, 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation {
    instances: Vec<Instance>,
    latency: Option<Arc<dyn LatencyModel>>,
    workload: Option<Load>,
    /// One for each gateway; the first is what single policies are added to.
    gateways: Vec<GatewayPolicies>,
    wiring: Wiring,
    seed: u64,
    replication: u64,
    horizon: Option<SimTime>,
    step_by_step: bool,
}

/// One engine to be built, and the endpoint that it is to gateways.
///
/// ```
/// use foretoken::prelude::*;
///
/// let prefill = Instance::new(EngineConfig::default()).label("llm-d.ai/role", "prefill");
/// ```
#[derive(Debug)]
pub struct Instance {
    config: EngineConfig,
    /// Its own latency model; the simulation's if unset.
    latency: Option<Arc<dyn LatencyModel>>,
    policies: Policies,
    labels: BTreeMap<String, String>,
    name: Option<String>,
    block_bytes: u64,
    max_adapters: u32,
}

impl Instance {
    /// An engine with these settings, first come first served, timed by [`Simulation::latency`],
    /// without labels. One of its KV blocks is 2 MiB: 16 tokens of an 8B model.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            config,
            latency: None,
            policies: Policies::fcfs(),
            labels: BTreeMap::new(),
            name: None,
            block_bytes: 2 << 20,
            max_adapters: 0,
        }
    }

    /// Its own latency model.
    #[must_use]
    pub fn latency(mut self, model: Arc<dyn LatencyModel>) -> Self {
        self.latency = Some(model);
        self
    }

    /// Its own queue and preemption policies.
    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// A label of its pod.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Its name, `namespace/name`; `default/endpoint-` and its number by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Bytes of one of its KV blocks, over all accelerators: what is moved when another engine reads it.
    #[must_use]
    pub const fn block_bytes(mut self, bytes: u64) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// Adapters that it says may be active at once (vLLM's `max_loras`); 0, no LoRA, by default.
    #[must_use]
    pub const fn max_adapters(mut self, adapters: u32) -> Self {
        self.max_adapters = adapters;
        self
    }

    fn build(self, shared: Option<&Arc<dyn LatencyModel>>) -> Result<Engine, Error> {
        let latency = self.latency.or_else(|| shared.cloned());
        let latency = latency.ok_or(Error::Missing {
            needed: "a latency model",
            method: "latency",
        })?;
        Ok(Engine::new(self.config, latency, self.policies)?)
    }

    fn identity(&self, id: EndpointId) -> Identity {
        let endpoint = EndpointView::new(id);
        Identity {
            name: self.name.as_deref().map_or(endpoint.name, Arc::from),
            labels: Arc::new(self.labels.clone()),
            block_bytes: self.block_bytes,
            max_adapters: self.max_adapters,
        }
    }
}

enum Load {
    Described(Box<WorkloadSpec>),
    Given(Box<dyn Workload>),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunEnd {
    /// The simulated time.
    pub at: SimTime,
    /// Events that were handled.
    pub events: u64,
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Simulation")
            .field("engines", &self.instances.len())
            .field("gateways", &self.gateways.len())
            .field("seed", &self.seed)
            .field("replication", &self.replication)
            .field("horizon", &self.horizon)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// No engines and no workload yet; everything is admitted and routed round robin; seed 0,
    /// replication 0; runs until everything is served.
    pub fn new() -> Self {
        Self {
            instances: Vec::new(),
            latency: None,
            workload: None,
            gateways: vec![GatewayPolicies::default()],
            wiring: Wiring::default(),
            seed: 0,
            replication: 0,
            horizon: None,
            step_by_step: false,
        }
    }

    /// Adds `count` engines with these settings, first come first served, timed by
    /// [`latency`](Self::latency).
    #[must_use]
    pub fn engines(mut self, count: usize, config: EngineConfig) -> Self {
        let configs = std::iter::repeat_n(config, count);
        self.instances.extend(configs.map(Instance::new));
        self
    }

    /// Adds one engine with policies and a latency model of its own.
    #[must_use]
    pub fn engine(
        self,
        config: EngineConfig,
        policies: Policies,
        latency: Arc<dyn LatencyModel>,
    ) -> Self {
        self.instance(Instance::new(config).policies(policies).latency(latency))
    }

    /// Adds one engine.
    #[must_use]
    pub fn instance(mut self, instance: Instance) -> Self {
        self.instances.push(instance);
        self
    }

    /// The latency model of the engines that have none of their own.
    #[must_use]
    pub fn latency(mut self, model: impl LatencyModel + 'static) -> Self {
        self.latency = Some(Arc::new(model));
        self
    }

    /// A workload by its description; its draws follow the seed.
    #[must_use]
    pub fn workload(mut self, workload: impl Into<WorkloadSpec>) -> Self {
        self.workload = Some(Load::Described(Box::new(workload.into())));
        self
    }

    /// A workload that makes its own requests.
    #[must_use]
    pub fn requests(mut self, workload: impl Workload + 'static) -> Self {
        self.workload = Some(Load::Given(Box::new(workload)));
        self
    }

    /// Who may refuse a request; several are asked in the order in which they are given.
    #[must_use]
    pub fn admitter(mut self, admitter: impl Admitter + 'static) -> Self {
        self.first_gateway().admitters.push(Box::new(admitter));
        self
    }

    /// Who decides where a request goes.
    #[must_use]
    pub fn router(mut self, router: impl Router + 'static) -> Self {
        self.first_gateway().router = Some(Box::new(router));
        self
    }

    /// What knows more of the endpoints than they report; in the order in which they depend on each
    /// other.
    #[must_use]
    pub fn producer(mut self, producer: impl DataProducer + 'static) -> Self {
        self.first_gateway().producers.push(Box::new(producer));
        self
    }

    /// When a request may leave the gateway; at once by default.
    #[must_use]
    pub fn admission(mut self, admission: Admission) -> Self {
        self.first_gateway().admission = admission;
        self
    }

    /// Gateways with all their policies, in place of whatever was said of one before. Requests go to
    /// them in turn; each knows only what it sent itself, and what engines report.
    #[must_use]
    pub fn gateways(mut self, gateways: impl IntoIterator<Item = GatewayPolicies>) -> Self {
        self.gateways = gateways.into_iter().collect();
        self.first_gateway();
        self
    }

    /// How fresh the gateways' knowledge is, the network, and who joins and leaves.
    #[must_use]
    pub fn wiring(mut self, wiring: Wiring) -> Self {
        self.wiring = wiring;
        self
    }

    fn first_gateway(&mut self) -> &mut GatewayPolicies {
        if self.gateways.is_empty() {
            self.gateways.push(GatewayPolicies::default());
        }
        &mut self.gateways[0]
    }

    /// Names the experiment: every random draw follows from it.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Names the repetition of the experiment.
    #[must_use]
    pub const fn replication(mut self, replication: u64) -> Self {
        self.replication = replication;
        self
    }

    /// Ends the run at this simulated time, whatever is still in flight.
    #[must_use]
    pub const fn horizon(mut self, horizon: SimTime) -> Self {
        self.horizon = Some(horizon);
        self
    }

    /// Engines look at every sequence in every step ([`Engine::step_by_step`]), rather than count what is
    /// certain. It takes several times as long, and gives the same result to the byte.
    #[must_use]
    pub const fn step_by_step(mut self) -> Self {
        self.step_by_step = true;
        self
    }

    /// Runs to the end and reports.
    ///
    /// # Errors
    /// [`Error`] names the part that is missing or makes no sense.
    pub fn run(self) -> Result<Report, Error> {
        let (seed, replication) = (self.seed, self.replication);
        let (recorder, end) = self.run_with(Recorder::streaming(()))?;
        Ok(Report::new(&recorder.finish(end.at), seed, replication))
    }

    /// Runs to the end, pours what happens into `sink`, and gives it back.
    ///
    /// # Errors
    /// [`Error`] names the part that is missing or makes no sense.
    pub fn run_with<S: MetricSink>(self, sink: S) -> Result<(S, RunEnd), Error> {
        if self.instances.is_empty() {
            return Err(Error::Missing {
                needed: "an engine",
                method: "engines",
            });
        }
        self.check_changes()?;
        if let Freshness::Scraped(scraping) = self.wiring.freshness
            && scraping.interval.is_zero()
        {
            let allowed = "above 0; Freshness::Live shows the present";
            return Err(Error::out_of_range(
                "wiring.freshness.interval",
                &"0",
                allowed,
            ));
        }
        let streams = RngStreams::new(self.seed, self.replication);
        let workload = match self.workload {
            None => {
                return Err(Error::Missing {
                    needed: "a workload",
                    method: "workload",
                });
            }
            Some(Load::Described(spec)) => spec.build(&streams)?,
            Some(Load::Given(workload)) => workload,
        };
        let kv_events = self.gateways.iter().any(wants_kv_events);
        let shared = self.latency;
        let engines = (0..).zip(self.instances).map(|(number, instance)| {
            let identity = instance.identity(EndpointId::new(number));
            let mut engine = instance.build(shared.as_ref())?;
            if self.step_by_step {
                engine = engine.step_by_step();
            }
            let publishing = if kv_events {
                engine.with_kv_events()
            } else {
                engine
            };
            Ok((publishing, identity))
        });
        let engines: Vec<(Engine, Identity)> = engines.collect::<Result<_, Error>>()?;
        let endpoints: Vec<EndpointView> = (0..)
            .zip(&engines)
            .map(|(number, (_, identity))| identity.endpoint(EndpointId::new(number)))
            .collect();
        let gateways = (0..).zip(self.gateways).map(|(index, policies)| {
            let streams = GatewayStreams::new(&streams, index);
            Gateway::new(policies, endpoints.clone(), streams)
        });
        let world = World::new(Parts {
            workload,
            gateways: gateways.collect(),
            engines,
            links: KvLinks::new(self.wiring.links),
            network: Network {
                delay: self.wiring.network_delay,
                kv_event_delay: self.wiring.kv_event_delay,
            },
            freshness: self.wiring.freshness,
            changes: self.wiring.changes,
            streams,
            horizon: self.horizon.unwrap_or(SimTime::MAX),
            sink,
        });
        world.run()
    }

    fn check_changes(&self) -> Result<(), Error> {
        let engines = self.instances.len();
        let mut changes = self.wiring.changes.iter();
        match changes.find(|change| change.engine >= engines) {
            None => Ok(()),
            Some(change) => {
                let allowed = format!("0 to {}", engines - 1);
                let field = "gateway.outages.engine";
                Err(Error::out_of_range(field, &change.engine, allowed))
            }
        }
    }
}

fn wants_kv_events(policies: &GatewayPolicies) -> bool {
    let mut producers = policies.producers.iter();
    producers.any(|producer| producer.wants_kv_events())
}

//! What the scenarios are made of: engines, loads, gateways, and the wires between them.

use std::sync::{Arc, Mutex};

use foretoken::cluster::{PoolChange, Scraping};
use foretoken::dataplane::flow::{FlowConfig, FlowControl, StaticLimit, UsageLimit};
use foretoken::dataplane::pipeline::scorers::{KvCacheUtilizationScorer, QueueScorer};
use foretoken::dataplane::producer::{ApproximatePrefix, InFlightLoad};
use foretoken::dataplane::saturation::{ConcurrencyDetector, SaturationDetector};
use foretoken::dataplane::{Admission, DataProducer, GatewayPolicies, Pipeline, Signals};
use foretoken::deployment::Resolved;
use foretoken::prelude::*;
use foretoken::workload::{ContentId, FlowId, Positive, Segment, dist};

/// Llama-3.1-8B on an H100 with other settings than the default.
pub(crate) fn llama(set: impl FnOnce(&mut EngineOptions)) -> Result<Resolved, Error> {
    on_gpu("H100-SXM-80GB", set)
}

/// The same model on another accelerator.
pub(crate) fn on_gpu(gpu: &str, set: impl FnOnce(&mut EngineOptions)) -> Result<Resolved, Error> {
    let mut deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", gpu, 1);
    deployment.engine.max_model_len = Some(32_768);
    set(&mut deployment.engine);
    deployment.resolve(&Catalog::builtin(), &Physics::default())
}

/// `count` equal engines.
pub(crate) fn engines(count: usize, resolved: &Resolved) -> Vec<Instance> {
    (0..count).map(|_| resolved.instance()).collect()
}

/// Seconds after the start.
pub(crate) fn at(seconds: f64) -> SimTime {
    SimTime::try_from_secs_f64(seconds).expect("scenarios take minutes")
}

pub(crate) const fn ms(millis: u64) -> SimDuration {
    SimDuration::from_millis(millis)
}

fn positive(value: f64) -> Positive {
    value.try_into().expect("limits are above 0")
}

/// Full when each endpoint has so many requests on average.
pub(crate) fn at_most(requests: f64) -> ConcurrencyDetector {
    ConcurrencyDetector {
        max_requests: positive(requests),
        ..ConcurrencyDetector::default()
    }
}

/// One request to be.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(super) at: SimTime,
    /// A text that others have too, and how much of it.
    shared: Option<(u32, u32)>,
    /// Tokens of a text of its own.
    own: u32,
    output: u32,
    class: SloClass,
    priority: i32,
    flow: u32,
    model: Option<Arc<str>>,
}

impl Ask {
    pub(crate) const fn new(at: SimTime, own: u32, output: u32) -> Self {
        Self {
            at,
            shared: None,
            own,
            output,
            class: SloClass::Standard,
            priority: 0,
            flow: 0,
            model: None,
        }
    }

    /// Begins with the first `tokens` of text number `text`.
    pub(crate) const fn after(mut self, text: u32, tokens: u32) -> Self {
        self.shared = Some((text, tokens));
        self
    }

    pub(crate) const fn class(mut self, class: SloClass) -> Self {
        self.class = class;
        self.priority = class.objective().get();
        self
    }

    /// A priority of its own, and a tenant by which to tell it from others.
    pub(crate) const fn priority(mut self, priority: i32, flow: u32) -> Self {
        self.priority = priority;
        self.flow = flow;
        self
    }

    pub(crate) fn adapter(mut self, name: impl Into<Arc<str>>) -> Self {
        self.model = Some(name.into());
        self
    }

    pub(super) fn request(&self, id: u32) -> Request {
        let shared = self.shared.map(|(text, tokens)| {
            let content = ContentId::of_source(1, text.into());
            Segment::new(content, tokens)
        });
        let own = Segment::new(ContentId::of_source(0, id.into()), self.own);
        let prompt = Prompt::new(shared.into_iter().chain([own])).expect("prompts have tokens");
        let mut request = Request::new(RequestId::new(id), self.at, prompt, self.output);
        request.class = self.class;
        request.objective = ObjectivePriority::new(self.priority);
        request.flow = FlowId::new(self.flow);
        request.model.clone_from(&self.model);
        request
    }
}

/// The draws of a load.
pub(crate) fn draws(name: &str) -> SimRng {
    RngStreams::new(1, 0).stream(name, 0)
}

/// Poisson arrivals at `rate` per second between two times in seconds.
pub(crate) fn poisson(rng: &mut SimRng, rate: f64, from: f64, to: f64) -> Vec<SimTime> {
    let mut now = from;
    let mut arrivals = Vec::new();
    loop {
        now += dist::exponential(rng) / rate;
        if now >= to {
            return arrivals;
        }
        arrivals.push(at(now));
    }
}

/// Queues and KV caches, with equal weights.
pub(crate) fn queue_and_kv() -> Pipeline {
    Pipeline::new()
        .scorer(2.0, QueueScorer)
        .scorer(2.0, KvCacheUtilizationScorer)
}

/// llm-d's approximate prefix index and its counters of what is in flight, before `router`.
pub(crate) fn gateway(router: impl Router + 'static) -> GatewayPolicies {
    gateway_with(
        vec![
            Box::new(ApproximatePrefix::default()),
            Box::new(InFlightLoad::default()),
        ],
        router,
    )
}

/// Other producers before `router`.
pub(crate) fn gateway_with(
    producers: Vec<Box<dyn DataProducer>>,
    router: impl Router + 'static,
) -> GatewayPolicies {
    let mut policies = GatewayPolicies::default();
    policies.producers = producers;
    policies.router = Some(Box::new(router));
    policies
}

/// The same with flow control: queues that open while `detector` says less than 1.
pub(crate) fn gated(
    policies: GatewayPolicies,
    detector: impl SaturationDetector + 'static,
) -> GatewayPolicies {
    let usage = StaticLimit::default();
    with_flow(policies, FlowConfig::default(), detector, usage)
}

pub(crate) fn with_flow(
    mut policies: GatewayPolicies,
    config: FlowConfig,
    detector: impl SaturationDetector + 'static,
    usage: impl UsageLimit + 'static,
) -> GatewayPolicies {
    policies.admission = Admission::Flow(Box::new(FlowControl::new(config, detector, usage)));
    policies
}

/// Metrics that are read every so many milliseconds; 0 shows the present.
pub(crate) fn refreshed_every(interval_ms: u64) -> Wiring {
    let mut wiring = Wiring::default();
    if interval_ms > 0 {
        wiring.freshness = Freshness::Scraped(Scraping::every(ms(interval_ms)));
    }
    wiring
}

/// llm-d's 50 ms, and engines that are away between two times in seconds.
pub(crate) fn outages(away: &[(usize, f64, f64)]) -> Wiring {
    let mut wiring = refreshed_every(50);
    for &(engine, from, to) in away {
        for (time, up) in [(from, false), (to, true)] {
            let at = at(time);
            wiring.changes.push(PoolChange { at, engine, up });
        }
    }
    wiring
}

/// A number that a producer writes during a run and a scenario reads afterwards.
#[derive(Clone, Default)]
pub(crate) struct Shared<T>(Arc<Mutex<T>>);

impl<T: Copy> Shared<T> {
    pub(crate) fn get(&self) -> T {
        *self.0.lock().expect("a run that panics ends the program")
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.0.lock().expect("a run that panics ends the program"));
    }
}

/// Looks at what a gateway knows whenever it decides; comes after the producers that it looks at.
pub(crate) struct Probe<F>(pub(crate) F);

impl<F> DataProducer for Probe<F>
where
    F: FnMut(SimTime, &[EndpointView], &Signals) + Send,
{
    fn produce(
        &mut self,
        _: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        now: SimTime,
        signals: &mut Signals,
    ) {
        (self.0)(now, endpoints, signals);
    }
}

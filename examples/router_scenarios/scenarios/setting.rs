//! What the scenarios are made of: engines, loads, gateways, and what is read off a run.

use std::sync::{Arc, Mutex};

use foretoken::cluster::{PoolChange, Scraping};
use foretoken::dataplane::flow::{FlowConfig, FlowControl, StaticLimit, UsageLimit};
use foretoken::dataplane::producer::{ApproximatePrefix, InFlightLoad};
use foretoken::dataplane::saturation::SaturationDetector;
use foretoken::dataplane::{Admission, DataProducer, GatewayPolicies, Signals};
use foretoken::deployment::Resolved;
use foretoken::des_kernel::stats::Quantiles;
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;
use foretoken::workload::{ContentId, Positive, Replay, Segment, dist};

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

pub(crate) fn positive(value: f64) -> Positive {
    value.try_into().expect("limits are above 0")
}

/// One request to be.
#[derive(Clone)]
pub(crate) struct Ask {
    at: SimTime,
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

    fn request(&self, id: u32) -> Request {
        let shared = self.shared.map(|(text, tokens)| {
            let content = ContentId::of_source(1, text.into());
            Segment::new(content, tokens)
        });
        let own = Segment::new(ContentId::of_source(0, id.into()), self.own);
        let prompt = Prompt::new(shared.into_iter().chain([own])).expect("prompts have tokens");
        let mut request = Request::new(RequestId::new(id), self.at, prompt, self.output);
        request.class = self.class;
        request.objective = ObjectivePriority::new(self.priority);
        request.flow = foretoken::workload::FlowId::new(self.flow);
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

/// Runs until everything is answered.
pub(crate) fn run(
    engines: Vec<Instance>,
    gateways: Vec<GatewayPolicies>,
    wiring: Wiring,
    mut asks: Vec<Ask>,
) -> Result<Seen, Error> {
    asks.sort_by_key(|ask| ask.at);
    let requests = (0..).zip(&asks).map(|(id, ask)| ask.request(id)).collect();
    let simulation = engines
        .into_iter()
        .fold(Simulation::new(), Simulation::instance);
    let (recorder, end) = simulation
        .gateways(gateways)
        .wiring(wiring)
        .requests(Replay::new(requests)?)
        .seed(1)
        .run_with(Recorder::new())?;
    let recording = recorder.finish(end.at);
    Ok(Seen {
        report: Report::new(&recording, 1, 0),
        records: recording.records().to_vec(),
    })
}

/// What is known of a run.
pub(crate) struct Seen {
    pub(crate) records: Vec<RequestRecord>,
    pub(crate) report: Report,
}

impl Seen {
    /// Time to first token of those requests at a quantile, in ms.
    pub(crate) fn ttft(&self, q: f64, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let some = self.records.iter().filter(|record| of(record));
        quantile_ms(q, some.filter_map(|record| record.ttft))
    }

    /// Time per output token of those requests at a quantile, in ms.
    pub(crate) fn tpot(&self, q: f64, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let some = self.records.iter().filter(|record| of(record));
        quantile_ms(q, some.filter_map(RequestRecord::tpot))
    }

    /// Time in the gateway of those requests at a quantile, in ms.
    pub(crate) fn held(&self, q: f64, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let some = self.records.iter().filter(|record| of(record));
        quantile_ms(q, some.filter_map(|record| record.gateway))
    }

    /// Share of prompt tokens found in caches.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        self.report.overall.prefix_hit_rate
    }

    /// Share of those requests that the endpoint with the most of them got.
    pub(crate) fn busiest_share(&self, of: impl Fn(&RequestRecord) -> bool) -> Option<f64> {
        let chosen = self.records.iter().filter(|record| of(record));
        most_on_one(chosen.filter_map(|record| record.endpoint))
    }

    /// The longest queue that any engine ever had.
    pub(crate) fn longest_queue(&self) -> f64 {
        let of_one = self.report.load.waiting.max;
        let queues = self.report.endpoints.iter().map(|e| e.waiting.max);
        queues.reduce(f64::max).unwrap_or(of_one)
    }

    /// Those requests that were sent and not answered, at the most.
    pub(crate) fn most_in_flight(&self, of: impl Fn(&RequestRecord) -> bool) -> f64 {
        let some = self.records.iter().filter(|record| of(record));
        let spans =
            some.filter_map(|record| Some((record.arrival + record.gateway?, record.end()?)));
        // At one instant ends come before beginnings.
        let mut changes: Vec<(SimTime, i32)> =
            spans.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
        changes.sort_unstable();
        let mut now = 0;
        let counts = changes.iter().map(|&(_, change)| {
            now += change;
            now
        });
        f64::from(counts.max().unwrap_or(0))
    }

    /// Share of the requests that were answered in full.
    pub(crate) fn answered(&self) -> f64 {
        let counts = &self.report.overall.counts;
        counts.finished as f64 / counts.arrived as f64
    }

    /// For each window of that length in which something was sent to endpoints: to which, how often.
    pub(crate) fn windows(&self, length: SimDuration) -> Vec<Vec<u32>> {
        let sent = self.records.iter().filter_map(|record| {
            let at = record.arrival + record.gateway?;
            Some((at.as_nanos() / length.as_nanos(), record.endpoint?))
        });
        let mut sent: Vec<_> = sent.collect();
        sent.sort_unstable();
        sent.chunk_by(|a, b| a.0 == b.0)
            .map(|window| window.iter().map(|&(_, endpoint)| endpoint).collect())
            .collect()
    }
}

/// Everybody.
pub(crate) const fn all(_: &RequestRecord) -> bool {
    true
}

pub(crate) fn quantile_ms(q: f64, values: impl Iterator<Item = SimDuration>) -> Option<f64> {
    let mut nanos = Quantiles::default();
    nanos.extend(values.map(SimDuration::as_nanos));
    Some(nanos.quantile(q)? / 1e6)
}

/// Share of the most frequent number.
pub(crate) fn most_on_one(numbers: impl IntoIterator<Item = u32>) -> Option<f64> {
    let mut numbers: Vec<u32> = numbers.into_iter().collect();
    numbers.sort_unstable();
    let most = numbers.chunk_by(|a, b| a == b).map(<[u32]>::len).max()?;
    Some(most as f64 / numbers.len() as f64)
}

/// Mean of what is there.
pub(crate) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values
        .into_iter()
        .fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
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

//! Pools, requests and gateways in a few words.

use std::sync::Arc;

use foretoken_dataplane::flow::{FlowConfig, FlowControl, Rejection, StaticLimit, UsageLimit};
use foretoken_dataplane::saturation::UtilizationDetector;
use foretoken_dataplane::signals::Signals;
use foretoken_dataplane::{EndpointId, EndpointView, GatewayContext};
use foretoken_des_kernel::{RngStreams, SimDuration, SimTime};
use foretoken_workload::{
    ContentId, Headers, ObjectivePriority, Prompt, RejectReason, Request, RequestId, Segment,
};

use super::support::{Outcome, equal};

pub(crate) fn millis(millis: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_millis(millis)
}

/// When all examples without a time of their own happen.
pub(crate) const NOW: SimTime = SimTime::from_nanos(10_000_000_000);

pub(crate) fn endpoint(id: usize) -> EndpointView {
    let id = u32::try_from(id).expect("examples have few endpoints");
    let mut endpoint = EndpointView::new(EndpointId::new(id));
    endpoint.observed_at = Some(NOW);
    endpoint
}

/// Endpoints with these waiting requests and this KV usage, just scraped.
pub(crate) fn pool(loads: &[(u32, f64)]) -> Vec<EndpointView> {
    let endpoints = loads.iter().enumerate();
    endpoints
        .map(|(id, &(queued, kv_usage))| {
            let mut endpoint = endpoint(id);
            endpoint.queued = queued;
            endpoint.kv_usage = kv_usage;
            endpoint
        })
        .collect()
}

pub(crate) fn with_context<T>(
    endpoints: &[EndpointView],
    signals: &Signals,
    ask: impl FnOnce(&mut GatewayContext<'_>) -> T,
) -> T {
    let mut rng = RngStreams::new(1, 0).stream("examples", 0);
    ask(&mut GatewayContext::with_signals(
        NOW, endpoints, signals, &mut rng,
    ))
}

pub(crate) fn request(priority: i32) -> Request {
    let prompt = Prompt::new([Segment::new(ContentId::new(0), 100)]).expect("a hundred tokens");
    let mut request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 10);
    request.objective = ObjectivePriority::new(priority);
    request
}

/// Flow control before a pool of imposed saturation; requests arrive a millisecond apart.
pub(crate) struct Gateway {
    pub(crate) flow: FlowControl,
    pub(crate) now: SimTime,
    names: Vec<Arc<str>>,
}

impl Gateway {
    pub(crate) fn new(config: FlowConfig) -> Self {
        Self::with_usage(config, StaticLimit::default())
    }

    pub(crate) fn with_usage(config: FlowConfig, usage: impl UsageLimit + 'static) -> Self {
        Self {
            flow: FlowControl::new(config, UtilizationDetector::default(), usage),
            now: SimTime::ZERO,
            names: Vec::new(),
        }
    }

    fn named(&mut self, name: &str, flow: &str, priority: i32) -> Request {
        let id = u32::try_from(self.names.len()).expect("examples have few requests");
        self.names.push(name.into());
        let mut request = request(priority);
        request.id = RequestId::new(id);
        request.arrival = self.now;
        if !flow.is_empty() {
            request.headers = Headers::from_iter([("x-llm-d-inference-fairness-id", flow)]);
        }
        request
    }

    fn enter(&mut self, request: Request, bytes: u64, ttl: Option<SimDuration>) -> String {
        let entered = self.flow.enqueue_within(self.now, request, bytes, ttl);
        self.now += SimDuration::from_millis(1);
        match entered {
            Ok(()) => "in".to_owned(),
            Err(rejection) => format!("{:?}", rejection.reason),
        }
    }

    /// A request of this priority arrives.
    pub(crate) fn arrive(&mut self, name: &str, priority: i32) -> String {
        self.arrive_with(name, priority, 1)
    }

    pub(crate) fn arrive_with(&mut self, name: &str, priority: i32, bytes: u64) -> String {
        let request = self.named(name, "", priority);
        self.enter(request, bytes, None)
    }

    /// Requests whose flow is their first letter in capitals arrive.
    pub(crate) fn arrive_in_flows(&mut self, names: &[&str]) {
        for name in names {
            let request = self.named(name, &name[..1].to_uppercase(), 0);
            self.enter(request, 1, None);
        }
    }

    pub(crate) fn arrive_with_ttl(&mut self, name: &str, at: SimTime, ttl: SimDuration) {
        self.now = at;
        let request = self.named(name, "", 0);
        self.enter(request, 1, Some(ttl));
    }

    pub(crate) fn arrive_with_target(&mut self, name: &str, at: SimTime, target: Option<&str>) {
        self.now = at;
        let mut request = self.named(name, "", 0);
        request.headers = target
            .map(|ms| ("x-llm-d-slo-ttft-ms", ms))
            .into_iter()
            .collect();
        self.enter(request, 1, None);
    }

    /// What one cycle dispatches; `-` for nothing.
    pub(crate) fn cycle(&mut self, saturation: f64) -> String {
        match self.flow.cycle_at(self.now, saturation) {
            Ok(cycle) => cycle
                .dispatched
                .map_or_else(|| "-".to_owned(), |request| self.name(request.id)),
            Err(error) => error.to_string(),
        }
    }

    /// Cycles dispatch these, in this order.
    pub(crate) fn cycles(&mut self, saturation: f64, expected: &str) -> Outcome {
        let expected: Vec<_> = expected.split_whitespace().collect();
        let actual: Vec<_> = expected.iter().map(|_| self.cycle(saturation)).collect();
        equal(&format!("cycles at {saturation}"), actual, expected)
    }

    /// Who is taken out by a sweep, and why.
    pub(crate) fn sweep(&mut self, at: SimTime) -> Vec<(String, RejectReason)> {
        self.now = at;
        let expired = self.flow.sweep(at);
        let outcome = |rejection: Rejection| (self.name(rejection.request.id), rejection.reason);
        expired.into_iter().map(outcome).collect()
    }

    fn name(&self, id: RequestId) -> String {
        self.names[id.index()].to_string()
    }
}

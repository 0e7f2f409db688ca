//! [`Gateway`]: the path of a request from its arrival to its dispatch, and the books of what came of it.
//!
//! ```text
//! submit ─▶ model rewrite, objective, fairness id ─▶ legacy admission, or flow control (queues, one a cycle)
//!        ─▶ candidates ─▶ data producers ─▶ admitters ─▶ router ─▶ placed (counters, indexes) ─▶ dispatch
//! ```
//!
//! It is what llm-d's endpoint picker is to Envoy. It knows endpoints by what they reported, requests
//! by what a gateway can see of them, and no time but the one it is told.

mod decision;
mod policies;

use core::fmt;
use std::collections::{BTreeMap, VecDeque};

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{ObjectivePriority, Occurrence, RejectReason, Request, RequestId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::admission::Admitter;
use crate::error::DataplaneError;
use crate::flow::Rejection;
use crate::headers;
use crate::producer::{DataProducer, KvEvent, Response};
use crate::rewrite::ModelRewrite;
use crate::router::{Placement, Router};
use crate::signals::Signals;
use crate::view::{EndpointId, EndpointView, GatewayContext, position};
use decision::Placing;

pub use policies::{Admission, EngineMetrics, GatewayEvent, GatewayPolicies, GatewayStreams};

/// A request that is on an endpoint.
#[derive(Debug, Clone)]
struct Open {
    placement: Placement,
    prompt_tokens: u32,
    /// Its fairness id, under flow control.
    flow: Box<str>,
}

/// One gateway; see the [module](self).
pub struct Gateway {
    endpoints: Vec<EndpointView>,
    signals: Signals,
    producers: Vec<Box<dyn DataProducer>>,
    admission: Admission,
    admitters: Vec<Box<dyn Admitter>>,
    router: Box<dyn Router>,
    rewrite: ModelRewrite,
    objectives: BTreeMap<String, ObjectivePriority>,
    decision_time: SimDuration,
    streams: GatewayStreams,
    open: HashMap<RequestId, Open, FxBuildHasher>,
    placing: VecDeque<Placing>,
    /// When flow control's next cycle and sweep are due.
    tick: Option<SimTime>,
    sweep: Option<SimTime>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("endpoints", &self.endpoints.len())
            .field("producers", &self.producers.len())
            .field("admission", &self.admission)
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

type Out<'a> = &'a mut dyn FnMut(GatewayEvent);

impl Gateway {
    /// A gateway in front of `endpoints`.
    pub fn new(
        policies: GatewayPolicies,
        mut endpoints: Vec<EndpointView>,
        streams: GatewayStreams,
    ) -> Self {
        endpoints.sort_by_key(|endpoint| endpoint.id);
        let mut admission = policies.admission;
        if let Admission::Flow(flow) = &mut admission {
            for &priority in policies.objectives.values() {
                flow.objective_added(SimTime::ZERO, priority);
            }
        }
        Self {
            endpoints,
            signals: Signals::new(),
            producers: policies.producers,
            admission,
            admitters: policies.admitters,
            router: policies
                .router
                .unwrap_or_else(|| Box::new(crate::RoundRobin::default())),
            rewrite: policies.rewrite,
            objectives: policies.objectives,
            decision_time: policies.decision_time,
            streams,
            open: HashMap::with_hasher(FxBuildHasher),
            placing: VecDeque::new(),
            tick: None,
            sweep: None,
        }
    }

    /// A request arrives.
    ///
    /// # Errors
    /// [`DataplaneError::Answer`] names a policy whose answer makes no sense.
    pub fn submit(
        &mut self,
        now: SimTime,
        request: impl Into<Box<Request>>,
        out: Out<'_>,
    ) -> Result<(), DataplaneError> {
        let mut request = request.into();
        let model = request.model.as_deref();
        if let Some(target) = self.rewrite.target(model, &mut self.streams.rewrite) {
            request.model.clone_from(&target.model);
        }
        if let Some(objective) = headers::first(&request.headers, &headers::OBJECTIVE) {
            let priority = self.objectives.get(objective).copied();
            request.objective = priority.unwrap_or_default();
        }
        let Admission::Flow(flow) = &mut self.admission else {
            return self.admit(now, request, out);
        };
        // The objectives of a simulation are those that its requests have.
        flow.objective_added(now, request.objective);
        let bytes = body_bytes(&request);
        match flow.enqueue(now, request, bytes) {
            // The worker that takes a request in runs a cycle right after.
            Ok(()) => self.cycle(now, out),
            Err(rejection) => {
                reject(&rejection, out);
                Ok(())
            }
        }
    }

    /// When the gateway wants to be advanced next.
    pub fn next_wake(&self) -> Option<SimTime> {
        let placing = self.placing.front().map(|placing| placing.due);
        [placing, self.tick, self.sweep].into_iter().flatten().min()
    }

    /// Does what is due: placements that take effect, dispatch cycles, sweeps of the queues.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn advance(&mut self, now: SimTime, out: Out<'_>) -> Result<(), DataplaneError> {
        while self
            .placing
            .front()
            .is_some_and(|placing| placing.due <= now)
        {
            let Some(placing) = self.placing.pop_front() else {
                break;
            };
            self.place(
                now,
                placing.decision,
                placing.placement,
                Some(&placing.signals),
                out,
            );
        }
        if let Admission::Flow(flow) = &mut self.admission
            && self.sweep.is_some_and(|due| due <= now)
        {
            for rejection in flow.sweep(now) {
                reject(&rejection, out);
            }
            self.sweep = flow.next_sweep(now);
        }
        if self.tick.is_some_and(|due| due <= now) {
            self.tick = None;
            self.cycle(now, out)?;
        }
        Ok(())
    }

    /// The client of a request that is still in the gateway went away. `false` if it is not here.
    pub fn cancel(&mut self, now: SimTime, request: RequestId, out: Out<'_>) -> bool {
        let decided = |placing: &Placing| placing.decision.request.id == request;
        if let Some(index) = self.placing.iter().position(decided)
            && let Some(placing) = self.placing.remove(index)
        {
            self.refuse(
                now,
                &placing.decision.request,
                RejectReason::ClientGone,
                out,
            );
            return true;
        }
        let Admission::Flow(flow) = &mut self.admission else {
            return false;
        };
        let Some(rejection) = flow.cancel(now, request) else {
            return false;
        };
        reject(&rejection, out);
        true
    }

    /// An endpoint's metrics arrive, and count as of `observed_at`.
    pub fn scraped(&mut self, id: EndpointId, observed_at: SimTime, metrics: &EngineMetrics) {
        if let Some(view) = self.endpoint_mut(id) {
            metrics.show(view, observed_at);
        }
    }

    /// An engine published a change of its KV cache.
    pub fn kv_event(&mut self, now: SimTime, id: EndpointId, event: &KvEvent) {
        for producer in &mut self.producers {
            producer.kv_event(id, event, now);
        }
    }

    /// Whether anybody in it wants to know that the first part of an answer passes through; a host need not say so
    /// otherwise.
    pub fn hears_first_parts(&self) -> bool {
        !self.producers.is_empty()
    }

    /// Part of an answer passes through.
    pub fn responded(&mut self, now: SimTime, request: RequestId, response: Response) {
        for producer in &mut self.producers {
            producer.responded(request, response, now);
        }
        let Response::End { output_tokens } = response else {
            return;
        };
        let Some(open) = self.open.remove(&request) else {
            return;
        };
        if let Some(view) = self.endpoint_mut(open.placement.endpoint) {
            view.in_flight = view.in_flight.saturating_sub(1);
            let tokens = u64::from(open.prompt_tokens);
            view.in_flight_tokens = view.in_flight_tokens.saturating_sub(tokens);
        }
        if let Admission::Flow(flow) = &mut self.admission {
            flow.served(now, &open.flow, open.prompt_tokens, output_tokens);
            flow.finished(now, request);
        }
    }

    /// Something happened to a request that was routed; the router may want to know.
    pub fn observe(&mut self, occurrence: &Occurrence) {
        self.router.observe(occurrence);
    }

    /// An endpoint joins the pool, or comes back.
    pub fn add_endpoint(&mut self, now: SimTime, endpoint: EndpointView) {
        let id = endpoint.id;
        let place = self.endpoints.binary_search_by_key(&id, |other| other.id);
        match place {
            Ok(place) => self.endpoints[place] = endpoint,
            Err(place) => self.endpoints.insert(place, endpoint),
        }
        for producer in &mut self.producers {
            producer.added(id, now);
        }
        self.pool_changed(now);
    }

    /// An endpoint leaves the pool. The host ends what it was serving, and says so.
    pub fn remove_endpoint(&mut self, now: SimTime, id: EndpointId) {
        self.endpoints.retain(|endpoint| endpoint.id != id);
        for producer in &mut self.producers {
            producer.removed(id, now);
        }
        self.pool_changed(now);
    }

    fn pool_changed(&mut self, now: SimTime) {
        if let Admission::Flow(flow) = &mut self.admission {
            flow.pool_changed(now, self.endpoints.len());
            self.tick = self.tick.or_else(|| flow.next_tick(now));
        }
    }

    /// The endpoints of the pool as this gateway knows them, by id.
    pub fn endpoints(&self) -> &[EndpointView] {
        &self.endpoints
    }

    /// One of them, to be kept up to date by a host whose gateway sees the present.
    pub fn endpoint_mut(&mut self, id: EndpointId) -> Option<&mut EndpointView> {
        let place = position(&self.endpoints, id)?;
        Some(&mut self.endpoints[place])
    }

    /// Whether any of its policies may go by what engines report.
    pub fn goes_by_reports(&self) -> bool {
        let others = matches!(self.admission, Admission::Open)
            && self.producers.is_empty()
            && self.admitters.is_empty();
        !others || self.router.goes_by_reports()
    }

    /// All endpoints are shown as of `now`, by a host whose gateway sees the present: it has brought those
    /// up to date that are not what they were.
    pub fn observed(&mut self, now: SimTime) {
        for view in &mut self.endpoints {
            view.observed_at = Some(now);
            view.sent_since_observed = 0;
        }
    }

    /// Requests that wait in it, and those on endpoints.
    pub fn held(&self) -> (usize, usize) {
        let queued = match &self.admission {
            Admission::Flow(flow) => flow.waiting(),
            _ => 0,
        };
        (queued + self.placing.len(), self.open.len())
    }

    /// Whether what waits here may wait for ever, should nothing outside change: it has no time to live.
    pub fn waits_for_ever(&self) -> bool {
        match &self.admission {
            Admission::Flow(flow) => flow.waiting() > 0 && flow.never_expires(),
            _ => false,
        }
    }

    /// One dispatch cycle of flow control.
    fn cycle(&mut self, now: SimTime, out: Out<'_>) -> Result<(), DataplaneError> {
        let Admission::Flow(flow) = &mut self.admission else {
            return Ok(());
        };
        for producer in &mut self.producers {
            producer.produce(None, &self.endpoints, now, &mut self.signals);
        }
        let mut cx = GatewayContext::with_signals(
            now,
            &self.endpoints,
            &self.signals,
            &mut self.streams.admission,
        );
        let cycle = flow.cycle(&mut cx)?;
        // A tick that is due stays due: it is not put off by what happens before it. Without endpoints a
        // cycle can let nobody go.
        self.tick = if self.endpoints.is_empty() {
            None
        } else {
            self.tick.or_else(|| flow.next_tick(now))
        };
        self.sweep = self.sweep.or_else(|| flow.next_sweep(now));
        for request in cycle.evict {
            let placing = self
                .placing
                .iter()
                .position(|placing| placing.decision.request.id == request);
            if self.open.contains_key(&request) {
                out(GatewayEvent::Evict { request });
            } else if let Some(placing) = placing.and_then(|place| self.placing.remove(place)) {
                self.refuse(now, &placing.decision.request, RejectReason::Evicted, out);
            }
        }
        match cycle.dispatched {
            Some(request) => self.admit(now, request, out),
            None => Ok(()),
        }
    }
}

fn reject(rejection: &Rejection, out: Out<'_>) {
    out(GatewayEvent::Reject {
        request: rejection.request.id,
        reason: rejection.reason,
    });
}

/// Size of a request's body, as flow control counts it: four bytes a token, as llm-d estimates tokens
/// from bytes.
fn body_bytes(request: &Request) -> u64 {
    4 * u64::from(request.prompt.tokens())
}

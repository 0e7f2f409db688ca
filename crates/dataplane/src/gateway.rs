//! [`Gateway`]: the path of a request from its arrival to its dispatch, and the books of what came of it.
//!
//! ```text
//! submit ─▶ objective, fairness id ─▶ legacy admission, or flow control (queues, one a cycle)
//!        ─▶ candidates ─▶ data producers ─▶ admitters ─▶ router ─▶ placed (counters, indexes) ─▶ dispatch
//! ```
//!
//! It is what llm-d's endpoint picker is to Envoy. It knows endpoints by what they reported, requests
//! by what a gateway can see of them, and no time but the one it is told.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};
use foretoken_workload::{ObjectivePriority, Occurrence, RejectReason, Request, RequestId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::admission::{Admitter, LegacyAdmission, Verdict};
use crate::error::DataplaneError;
use crate::flow::{FlowControl, Rejection, fairness_id};
use crate::headers;
use crate::producer::{DataProducer, KvEvent, Response};
use crate::router::{Placement, Router};
use crate::signals::{APPROXIMATE_PREFIX, Signals};
use crate::view::{Adapters, EndpointId, EndpointView, GatewayContext};

/// What decides when a request may leave the gateway.
#[derive(Debug, Default)]
pub enum Admission {
    /// Nothing: it leaves at once.
    #[default]
    Open,
    /// llm-d without flow control: what may be shed is refused while the pool is saturated.
    Legacy(LegacyAdmission),
    /// Queues.
    Flow(Box<FlowControl>),
}

/// The policies of one gateway.
#[derive(Default)]
#[non_exhaustive]
pub struct GatewayPolicies {
    /// What knows more than the engines report, in the order in which they depend on each other.
    pub producers: Vec<Box<dyn DataProducer>>,
    /// When a request may leave.
    pub admission: Admission,
    /// Who may refuse it then, in order; the first refusal ends it.
    pub admitters: Vec<Box<dyn Admitter>>,
    /// Where it goes; one after the other if none is given.
    pub router: Option<Box<dyn Router>>,
    /// Priorities by the names of objectives, for requests that name theirs in a header.
    pub objectives: BTreeMap<String, ObjectivePriority>,
    /// From the pick of an endpoint until counters and indexes know of it and the request leaves; 0 is
    /// atomic. Meanwhile other requests are placed by the old counters.
    pub decision_time: SimDuration,
}

impl fmt::Debug for GatewayPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayPolicies")
            .field("producers", &self.producers.len())
            .field("admission", &self.admission)
            .field("admitters", &self.admitters.len())
            .field("objectives", &self.objectives)
            .field("decision_time", &self.decision_time)
            .finish_non_exhaustive()
    }
}

/// The gateway's random streams, one for each kind of decision.
#[derive(Debug, Clone)]
pub struct GatewayStreams {
    /// For admission.
    pub admission: SimRng,
    /// For routing.
    pub routing: SimRng,
}

/// What an engine's metrics said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineMetrics {
    /// Requests that wait.
    pub queued: u32,
    /// Requests in the running batch.
    pub running: u32,
    /// Share of the KV blocks in use, from 0 to 1.
    pub kv_usage: f64,
    /// KV blocks.
    pub kv_blocks: u32,
    /// Tokens in one of them.
    pub block_size: u32,
    /// Adapters.
    pub adapters: Arc<Adapters>,
}

/// What a gateway does with a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum GatewayEvent {
    /// It goes on its way.
    Dispatch {
        /// The request.
        request: Request,
        /// Where to.
        placement: Placement,
    },
    /// It is refused.
    Reject {
        /// The request.
        request: RequestId,
        /// Why.
        reason: RejectReason,
    },
    /// It is on an endpoint, and is cancelled there to make room.
    Evict {
        /// The request.
        request: RequestId,
        /// The endpoint that answers it.
        endpoint: EndpointId,
    },
}

/// A request that is on an endpoint.
#[derive(Debug, Clone)]
struct Open {
    placement: Placement,
    prompt_tokens: u32,
    /// Its fairness id, under flow control.
    flow: Box<str>,
}

/// A request in hand.
struct Decision {
    request: Request,
    /// The endpoints that it may go to, where it says so.
    subset: Option<Vec<EndpointView>>,
    now: SimTime,
}

/// A placed request whose placement has not taken effect.
struct Placing {
    due: SimTime,
    decision: Decision,
    placement: Placement,
    signals: Signals,
}

/// One gateway; see the [module](self).
pub struct Gateway {
    endpoints: Vec<EndpointView>,
    signals: Signals,
    producers: Vec<Box<dyn DataProducer>>,
    admission: Admission,
    admitters: Vec<Box<dyn Admitter>>,
    router: Box<dyn Router>,
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
        Self {
            endpoints,
            signals: Signals::new(),
            producers: policies.producers,
            admission: policies.admission,
            admitters: policies.admitters,
            router: policies
                .router
                .unwrap_or_else(|| Box::new(crate::RoundRobin::default())),
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
        mut request: Request,
        out: Out<'_>,
    ) -> Result<(), DataplaneError> {
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
                &placing.signals,
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
        if let Some(view) = self.endpoint(id) {
            view.observed_at = Some(observed_at);
            view.queued = metrics.queued;
            view.running = metrics.running;
            view.kv_usage = metrics.kv_usage;
            view.kv_blocks = metrics.kv_blocks;
            view.block_size = metrics.block_size;
            view.adapters.clone_from(&metrics.adapters);
        }
    }

    /// An engine published a change of its KV cache.
    pub fn kv_event(&mut self, now: SimTime, id: EndpointId, event: &KvEvent) {
        for producer in &mut self.producers {
            producer.kv_event(id, event, now);
        }
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
        if let Some(view) = self.endpoint(open.placement.endpoint) {
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
        let place = self
            .endpoints
            .binary_search_by_key(&endpoint.id, |other| other.id);
        match place {
            Ok(place) => self.endpoints[place] = endpoint,
            Err(place) => self.endpoints.insert(place, endpoint),
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
        }
    }

    /// The endpoints of the pool as this gateway knows them, by id.
    pub fn endpoints(&self) -> &[EndpointView] {
        &self.endpoints
    }

    /// The same, to be kept up to date by a host whose gateway sees the present.
    pub fn endpoints_mut(&mut self) -> &mut [EndpointView] {
        &mut self.endpoints
    }

    /// Requests that wait in it, and those on endpoints.
    pub fn held(&self) -> (usize, usize) {
        let queued = match &self.admission {
            Admission::Flow(flow) => flow.waiting(),
            _ => 0,
        };
        (queued + self.placing.len(), self.open.len())
    }

    fn endpoint(&mut self, id: EndpointId) -> Option<&mut EndpointView> {
        let place = self
            .endpoints
            .binary_search_by_key(&id, |endpoint| endpoint.id)
            .ok()?;
        Some(&mut self.endpoints[place])
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
        // A tick that is due stays due: it is not put off by what happens before it.
        self.tick = self.tick.or_else(|| flow.next_tick(now));
        self.sweep = self.sweep.or_else(|| flow.next_sweep(now));
        for request in cycle.evict {
            if let Some(open) = self.open.get(&request) {
                out(GatewayEvent::Evict {
                    request,
                    endpoint: open.placement.endpoint,
                });
            }
        }
        match cycle.dispatched {
            Some(request) => self.admit(now, request, out),
            None => Ok(()),
        }
    }

    /// From the candidates on; all at one instant.
    fn admit(
        &mut self,
        now: SimTime,
        request: Request,
        out: Out<'_>,
    ) -> Result<(), DataplaneError> {
        // Envoy's hint narrows the pool; only what it leaves exists for this request.
        let subset = request.headers.get(headers::SUBSET).map(|subset| {
            let named = |endpoint: &&EndpointView| {
                let mut names = subset.split(',').map(str::trim);
                names.any(|name| name == &*endpoint.name)
            };
            self.endpoints.iter().filter(named).cloned().collect()
        });
        let decision = Decision {
            request,
            subset,
            now,
        };
        match self.decide(&decision)? {
            Ok(placement) if self.decision_time.is_zero() => {
                let signals = core::mem::take(&mut self.signals);
                self.place(now, decision, placement, &signals, out);
                self.signals = signals;
            }
            Ok(placement) => self.placing.push_back(Placing {
                due: now + self.decision_time,
                decision,
                placement,
                signals: self.signals.clone(),
            }),
            Err(reason) => {
                let request = decision.request.id;
                if let Admission::Flow(flow) = &mut self.admission {
                    flow.finished(now, request);
                }
                out(GatewayEvent::Reject { request, reason });
            }
        }
        Ok(())
    }

    /// Where a request goes, or why it is refused.
    fn decide(
        &mut self,
        decision: &Decision,
    ) -> Result<Result<Placement, RejectReason>, DataplaneError> {
        let Decision { request, now, .. } = decision;
        let endpoints = decision.candidates(&self.endpoints);
        let view = request.view();
        for producer in &mut self.producers {
            producer.produce(Some(&view), endpoints, *now, &mut self.signals);
        }
        let signals = &self.signals;
        let mut cx =
            GatewayContext::with_signals(*now, endpoints, signals, &mut self.streams.admission);
        if let Admission::Legacy(legacy) = &mut self.admission
            && let Some(reason) = legacy.refusal(&view, &cx.everyone(), &mut cx)?
        {
            return Ok(Err(reason));
        }
        if endpoints.is_empty() {
            return Ok(Err(RejectReason::NoEndpoint));
        }
        for admitter in &mut self.admitters {
            if admitter.admit(&view, &mut cx) != Verdict::Admit {
                return Ok(Err(RejectReason::Shed));
            }
        }
        let mut cx =
            GatewayContext::with_signals(*now, endpoints, signals, &mut self.streams.routing);
        let Some(placement) = self.router.route(&view, &mut cx) else {
            let error = self.router.take_error();
            return error.map_or(Ok(Err(RejectReason::NoCandidate)), Err);
        };
        let prefill = placement.prefill.map(|prefill| prefill.endpoint);
        for target in [Some(placement.endpoint), prefill].into_iter().flatten() {
            if cx.position(target).is_none() {
                return Err(unknown(target, endpoints));
            }
        }
        if request.headers.get(headers::PREFER) == Some("if-available") {
            let position = cx.position(placement.endpoint);
            let found = position.and_then(|p| signals.prefix.get(APPROXIMATE_PREFIX, p));
            if found.is_none_or(|found| found.matched == 0) {
                return Ok(Err(RejectReason::NotCached));
            }
        }
        Ok(Ok(placement))
    }

    /// A placement takes effect: everybody is told, and the request leaves.
    fn place(
        &mut self,
        now: SimTime,
        decision: Decision,
        placement: Placement,
        signals: &Signals,
        out: Out<'_>,
    ) {
        let endpoints = decision.candidates(&self.endpoints);
        let view = decision.request.view();
        for producer in &mut self.producers {
            producer.placed(&view, &placement, endpoints, signals, now);
        }
        let rng = &mut self.streams.routing;
        let cx = GatewayContext::with_signals(now, endpoints, signals, rng);
        self.router.placed(&view, &placement, &cx);
        let request = decision.request;
        let prompt_tokens = request.prompt.tokens();
        if let Some(view) = self.endpoint(placement.endpoint) {
            view.in_flight += 1;
            view.in_flight_tokens += u64::from(prompt_tokens);
        }
        let flow = match self.admission {
            Admission::Flow(_) => fairness_id(&request.view()).as_ref().into(),
            _ => Box::default(),
        };
        let open = Open {
            placement,
            prompt_tokens,
            flow,
        };
        self.open.insert(request.id, open);
        out(GatewayEvent::Dispatch { request, placement });
    }
}

impl Decision {
    /// The endpoints that exist for this request.
    fn candidates<'a>(&'a self, pool: &'a [EndpointView]) -> &'a [EndpointView] {
        self.subset.as_deref().unwrap_or(pool)
    }
}

fn unknown(target: EndpointId, endpoints: &[EndpointView]) -> DataplaneError {
    let first = endpoints.first().map_or(0, |endpoint| endpoint.id.get());
    let last = endpoints.last().map_or(0, |endpoint| endpoint.id.get());
    DataplaneError::answer("the Router", target, format!("endpoint {first} to {last}"))
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

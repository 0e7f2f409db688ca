//! From the candidates to the dispatch: what a gateway decides about one request.

use foretoken_des_kernel::SimTime;
use foretoken_workload::{RejectReason, Request};

use super::{Admission, Gateway, GatewayEvent, Open, Out};
use crate::admission::Verdict;
use crate::error::DataplaneError;
use crate::flow::fairness_id;
use crate::headers;
use crate::router::Placement;
use crate::signals::{APPROXIMATE_PREFIX, Signals};
use crate::view::{EndpointId, EndpointView, GatewayContext};

/// A request in hand.
pub(super) struct Decision {
    pub(super) request: Box<Request>,
    /// The endpoints that exist for it, where these are not the pool of the moment: it names a subset, or
    /// its placement takes effect later.
    candidates: Option<Vec<EndpointView>>,
    now: SimTime,
}

/// A placed request whose placement has not taken effect.
pub(super) struct Placing {
    pub(super) due: SimTime,
    pub(super) decision: Decision,
    pub(super) placement: Placement,
    pub(super) signals: Signals,
}

impl Gateway {
    /// From the candidates on; all at one instant.
    pub(super) fn admit(
        &mut self,
        now: SimTime,
        request: Box<Request>,
        out: Out<'_>,
    ) -> Result<(), DataplaneError> {
        // Envoy's hint narrows the pool; only what it leaves exists for this request.
        let subset = request.headers.get(headers::SUBSET);
        let candidates = subset.map(|subset| self.subset(subset));
        let mut decision = Decision {
            request,
            candidates,
            now,
        };
        match self.decide(&decision)? {
            Ok(placement) if self.decision_time.is_zero() => {
                self.place(now, decision, placement, None, out);
            }
            Ok(placement) => {
                // What producers wrote is by position in the list of now.
                decision
                    .candidates
                    .get_or_insert_with(|| self.endpoints.clone());
                self.placing.push_back(Placing {
                    due: now + self.decision_time,
                    decision,
                    placement,
                    signals: self.signals.clone(),
                });
            }
            Err(reason) => self.refuse(now, &decision.request, reason, out),
        }
        Ok(())
    }

    /// A request that flow control let go, if there is any, is refused after all.
    pub(super) fn refuse(
        &mut self,
        now: SimTime,
        request: &Request,
        reason: RejectReason,
        out: Out<'_>,
    ) {
        let request = request.id;
        if let Admission::Flow(flow) = &mut self.admission {
            flow.finished(now, request);
        }
        out(GatewayEvent::Reject { request, reason });
    }

    /// The endpoints that a list of addresses names; of an address only the host counts. A name of an
    /// endpoint will do, too.
    fn subset(&self, list: &str) -> Vec<EndpointView> {
        let is_listed = |endpoint: &&EndpointView| {
            let mut entries = list.split(',').map(str::trim);
            entries.any(|entry| entry == &*endpoint.name || host(entry) == host(&endpoint.address))
        };
        self.endpoints.iter().filter(is_listed).cloned().collect()
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
            && let Some(reason) = legacy.refusal(&view, &mut cx)?
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

    /// A placement takes effect: everybody is told, and the request leaves. `signals` are those of the
    /// decision, where they are not those of the moment.
    pub(super) fn place(
        &mut self,
        now: SimTime,
        decision: Decision,
        placement: Placement,
        signals: Option<&Signals>,
        out: Out<'_>,
    ) {
        let endpoints = decision.candidates(&self.endpoints);
        let signals = signals.unwrap_or(&self.signals);
        let view = decision.request.view();
        for producer in &mut self.producers {
            producer.placed(&view, &placement, endpoints, signals, now);
        }
        let rng = &mut self.streams.routing;
        let cx = GatewayContext::with_signals(now, endpoints, signals, rng);
        self.router.placed(&view, &placement, &cx);
        let request = decision.request;
        let prompt_tokens = request.prompt.tokens();
        if let Some(view) = self.endpoint_mut(placement.endpoint) {
            view.in_flight += 1;
            view.in_flight_tokens += u64::from(prompt_tokens);
            view.sent_since_observed += 1;
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
        self.candidates.as_deref().unwrap_or(pool)
    }
}

fn unknown(target: EndpointId, endpoints: &[EndpointView]) -> DataplaneError {
    let first = endpoints.first().map_or(0, |endpoint| endpoint.id.get());
    let last = endpoints.last().map_or(0, |endpoint| endpoint.id.get());
    DataplaneError::answer("the Router", target, format!("endpoint {first} to {last}"))
}

/// An address without its port.
fn host(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => address,
    }
}

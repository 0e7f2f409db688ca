//! A request between its dispatch and its end.

use std::sync::Arc;

use foretoken_dataplane::{EndpointId, Placement};
use foretoken_workload::{Delivery, Request};

use super::instance::Standing;

/// What the world keeps of a dispatched request.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The gateway that sent it.
    pub(crate) gateway: usize,
    pub(crate) placement: Placement,
    pub(crate) leg: Leg,
    /// Tokens of the whole answer.
    pub(crate) output_tokens: u32,
    /// Its blocks are still with the endpoint that computed its prompt.
    pub(crate) reads_from: Option<EndpointId>,
    /// A gateway had it cancelled.
    pub(crate) evicted: bool,
    pub(crate) delivery: Delivery,
    /// Its client has got its first token, or will soon.
    pub(crate) streaming: bool,
    pub(crate) adapter: Option<Arc<str>>,
    pub(crate) standing: Standing,
}

/// How far a request has come.
#[derive(Debug)]
pub(crate) enum Leg {
    /// It is on the network, on its way to its endpoint (or to the one that computes its prompt).
    Travelling,
    /// Another endpoint computes its prompt, or has done so (`done`); the request itself waits beside
    /// the endpoint that will answer it.
    Prefilling { request: Box<Request>, done: bool },
    /// The endpoint that answers it has it.
    Serving,
}

impl Flight {
    pub(crate) fn new(
        gateway: usize,
        mut placement: Placement,
        request: &Request,
        output_tokens: u32,
    ) -> Self {
        let (adapter, delivery) = (request.model.clone(), request.delivery);
        // An endpoint of both roles may be picked for both: it just serves the request.
        placement
            .prefill
            .take_if(|prefill| prefill.endpoint == placement.endpoint);
        Self {
            gateway,
            placement,
            leg: Leg::Travelling,
            output_tokens,
            reads_from: placement.prefill.map(|prefill| prefill.endpoint),
            evicted: false,
            delivery,
            streaming: false,
            adapter,
            standing: Standing::Outside,
        }
    }

    /// The engine in which it is now, if it is in one.
    pub(crate) fn engine(&self) -> Option<EndpointId> {
        match self.leg {
            Leg::Travelling => None,
            Leg::Prefilling { .. } => self.placement.prefill.map(|prefill| prefill.endpoint),
            Leg::Serving => Some(self.placement.endpoint),
        }
    }

    /// The endpoints that it needs from now on.
    pub(crate) fn targets(&self) -> impl Iterator<Item = EndpointId> + use<> {
        let answering = self.placement.endpoint;
        core::iter::once(answering).chain(self.reads_from)
    }

    /// Whether it is lost with this endpoint.
    pub(crate) fn depends_on(&self, endpoint: EndpointId) -> bool {
        self.targets().any(|target| target == endpoint)
    }
}

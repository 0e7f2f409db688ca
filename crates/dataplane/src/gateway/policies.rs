//! What a gateway is made of, and what passes between it and its host.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::{RngStreams, SimDuration, SimRng, SimTime};
use foretoken_workload::{ObjectivePriority, RejectReason, Request, RequestId};

use crate::admission::{Admitter, LegacyAdmission};
use crate::flow::FlowControl;
use crate::producer::DataProducer;
use crate::rewrite::ModelRewrite;
use crate::router::{Placement, Router};
use crate::view::{Adapters, EndpointView};

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
    /// Which model requests are really for.
    pub rewrite: ModelRewrite,
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
    /// For the rewriting of models.
    pub rewrite: SimRng,
}

impl GatewayStreams {
    /// The streams of gateway number `gateway`.
    pub fn new(streams: &RngStreams, gateway: u64) -> Self {
        Self {
            admission: streams.stream("admission", gateway),
            routing: streams.stream("routing", gateway),
            rewrite: streams.stream("rewrite", gateway),
        }
    }
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

impl EngineMetrics {
    /// Takes them over into `view`, as of `at`.
    pub fn show(&self, view: &mut EndpointView, at: SimTime) {
        view.observed_at = Some(at);
        view.queued = self.queued;
        view.running = self.running;
        view.kv_usage = self.kv_usage;
        view.kv_blocks = self.kv_blocks;
        view.block_size = self.block_size;
        if !Arc::ptr_eq(&view.adapters, &self.adapters) {
            view.adapters.clone_from(&self.adapters);
        }
        view.sent_since_observed = 0;
    }
}

/// What a gateway does with a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum GatewayEvent {
    /// It goes on its way.
    Dispatch {
        /// The request.
        request: Box<Request>,
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
    },
}

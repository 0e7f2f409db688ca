//! [`Event`]: what happens in a simulation, and in which order within an instant.

use foretoken_dataplane::Response;
use foretoken_dataplane::producer::KvEvent;
use foretoken_des_kernel::{Generation, Rank};
use foretoken_workload::{Request, RequestId};

use super::signals::Metrics;

/// What happens in a simulation.
#[derive(Debug)]
pub(crate) enum Event {
    /// The next request of the workload reaches its gateway; stale if another one is due before it.
    Arrival { asked: Generation },
    /// An endpoint joins or leaves the pool.
    Pool { change: usize },
    /// Part of an answer passes through the gateway that sent the request.
    Response {
        gateway: usize,
        request: RequestId,
        response: Response,
    },
    /// A gateway reads an engine's metrics.
    Scrape { poller: usize },
    /// What it read arrives.
    Scraped(Box<Metrics>),
    /// Changes of an engine's KV cache arrive at the gateways.
    KvEvents { engine: usize, events: Vec<KvEvent> },
    /// A gateway asked to be advanced; stale if it has asked again since.
    Gateway { gateway: usize, asked: Generation },
    /// A request reaches an engine over the network.
    Deliver(Box<Request>),
    /// A computed prompt is handed over to the endpoint that answers.
    HandOver { request: RequestId },
    /// An engine wants to read blocks from another one.
    Read { request: RequestId, blocks: u32 },
    /// The links asked to be advanced; stale if they have asked again since.
    Links { asked: Generation },
    /// An engine may do something else than decode from now on; stale if it has asked for anything since,
    /// and then nothing has happened.
    Look { engine: usize, asked: Generation },
    /// An engine asked to be advanced; stale if it has asked again since.
    Wake { engine: usize, asked: Generation },
    /// A client has waited as long as it waits.
    Patience { request: RequestId, over: Over },
}

/// What a client has waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    FirstToken,
    Whole,
}

/// The order inside one instant.
#[repr(u8)]
enum Phase {
    /// Requests come first, so that a step planned at this instant sees them.
    Arrival,
    /// Then what the gateways learn: of the pool, of answers, of metrics and of caches.
    Pool,
    Response,
    Scrape,
    Scraped,
    KvEvents,
    /// Then the gateways move, in the order of their numbers.
    Gateway,
    /// Then what they sent arrives.
    Deliver,
    HandOver,
    Read,
    Links,
    /// Engines move, in the order of their numbers.
    Wake,
    /// At last clients go away: what comes at the last instant comes in time.
    Patience,
}

impl Event {
    /// Its place in the instant.
    pub(super) fn rank(&self) -> Rank {
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let (phase, entity) = match self {
            Self::Arrival { .. } => (Phase::Arrival, 0),
            Self::Pool { change } => (Phase::Pool, number(*change)),
            Self::Response { request, .. } => (Phase::Response, request.get()),
            Self::Scrape { poller } => (Phase::Scrape, number(*poller)),
            Self::Scraped(metrics) => (Phase::Scraped, number(metrics.poller)),
            Self::KvEvents { engine, .. } => (Phase::KvEvents, number(*engine)),
            Self::Gateway { gateway, .. } => (Phase::Gateway, number(*gateway)),
            Self::Deliver(request) => (Phase::Deliver, request.id.get()),
            Self::HandOver { request } => (Phase::HandOver, request.get()),
            Self::Read { request, .. } => (Phase::Read, request.get()),
            Self::Links { .. } => (Phase::Links, 0),
            Self::Look { engine, .. } | Self::Wake { engine, .. } => (Phase::Wake, number(*engine)),
            Self::Patience { request, .. } => (Phase::Patience, request.get()),
        };
        Rank::new(phase as u8, entity)
    }
}

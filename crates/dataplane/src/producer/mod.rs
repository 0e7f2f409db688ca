//! [`DataProducer`]: keeps what the gateway knows beyond the engines' metrics.

mod approximate_prefix;
mod chain;
mod holders;
mod in_flight;
mod lru_index;
mod precise_prefix;
mod predicted_latency;
mod recency;

use foretoken_des_kernel::SimTime;
use foretoken_workload::{BlockHash, RequestId, RequestView};

use crate::router::Placement;
use crate::signals::Signals;
use crate::view::{EndpointId, EndpointView};

pub use approximate_prefix::{ApproximatePrefix, ApproximatePrefixConfig, Insertion};
pub use in_flight::{InFlightLoad, InFlightLoadConfig, uncached_tokens};
pub use precise_prefix::{PrecisePrefix, PrecisePrefixConfig};
pub use predicted_latency::{
    LatencyFeatures, LatencyPredictor, PredictedLatencies, PredictedLatency, PredictedLatencyConfig,
};

/// A change of what an engine has in its KV cache, as engines publish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvEvent {
    /// A full block can be found from now on.
    Stored {
        /// Its key.
        block: BlockHash,
        /// Where it is.
        tier: Tier,
    },
    /// A block is gone.
    Removed {
        /// Its key.
        block: BlockHash,
        /// Where it was.
        tier: Tier,
    },
    /// All blocks are gone.
    Cleared,
}

/// Where a KV block is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Tier {
    /// The accelerator's memory.
    #[default]
    Gpu,
    /// The host's memory.
    Cpu,
}

/// What the gateway sees of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Response {
    /// The first chunk passes through.
    FirstChunk,
    /// The last chunk passes through, or the connection ends. Of an answer that is not streamed this
    /// is all.
    End {
        /// Tokens of the whole answer.
        output_tokens: u32,
    },
}

/// Keeps knowledge across requests and writes it down for each decision.
///
/// The host calls [`produce`](Self::produce) before every decision (in the order in which producers
/// depend on each other) and tells what comes of it. All other methods do nothing unless written.
pub trait DataProducer: Send {
    /// Writes attributes of the endpoints into `signals`: those of the `request` in hand, or without
    /// one (the gateway looks how full the pool is) those that need none.
    fn produce(
        &mut self,
        request: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        now: SimTime,
        signals: &mut Signals,
    );

    /// A request was placed; `signals` are those of the decision.
    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        endpoints: &[EndpointView],
        signals: &Signals,
        now: SimTime,
    ) {
        let _ = (request, placement, endpoints, signals, now);
    }

    /// An answer passed through.
    fn responded(&mut self, request: RequestId, response: Response, now: SimTime) {
        let _ = (request, response, now);
    }

    /// Whether engines have to publish what changes in their caches.
    fn wants_kv_events(&self) -> bool {
        false
    }

    /// An engine published a change.
    fn kv_event(&mut self, endpoint: EndpointId, event: &KvEvent, now: SimTime) {
        let _ = (endpoint, event, now);
    }

    /// An endpoint joined the pool, or came back to it.
    fn added(&mut self, endpoint: EndpointId, now: SimTime) {
        let _ = (endpoint, now);
    }

    /// An endpoint went away.
    fn removed(&mut self, endpoint: EndpointId, now: SimTime) {
        let _ = (endpoint, now);
    }
}

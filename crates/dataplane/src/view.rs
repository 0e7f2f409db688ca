//! What a policy sees: endpoints as the gateway believes them to be.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::{SimRng, SimTime};

use crate::signals::Signals;

/// Number of an endpoint (one engine instance), dense from 0 and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EndpointId(u32);

impl EndpointId {
    /// Endpoint number `id`.
    pub const fn new(id: u32) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoint {}", self.0)
    }
}

/// Labels of an endpoint's pod, by name. Cloning shares them.
pub type Labels = Arc<BTreeMap<String, String>>;

/// The label that says which stages an endpoint serves.
pub const ROLE_LABEL: &str = "llm-d.ai/role";

/// Adapters as an engine reports them: those of running and of waiting requests only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Adapters {
    /// With running requests.
    pub running: Vec<Arc<str>>,
    /// With waiting requests.
    pub waiting: Vec<Arc<str>>,
    /// How many may be active at once (vLLM's `max_loras`); 0 without LoRA.
    pub max: u32,
}

/// One endpoint as the gateway knows it. `queued` to `adapters` are what the engine's metrics said at
/// `observed_at`; policies cannot tell how old they are but by that.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EndpointView {
    /// The endpoint.
    pub id: EndpointId,
    /// Its name, `namespace/name`.
    pub name: Arc<str>,
    /// Where it listens, `host:port`.
    pub address: Arc<str>,
    /// Labels of its pod.
    pub labels: Labels,
    /// When its metrics last came; `None` before the first time, when they are all zero.
    pub observed_at: Option<SimTime>,
    /// Requests that wait in it.
    pub queued: u32,
    /// Requests in its running batch.
    pub running: u32,
    /// Share of its KV blocks in use, from 0 to 1.
    pub kv_usage: f64,
    /// Its KV blocks; 0 if it does not say.
    pub kv_blocks: u32,
    /// Tokens in one of them; 0 if it does not say.
    pub block_size: u32,
    /// Its adapters.
    pub adapters: Arc<Adapters>,
    /// Requests that this gateway sent there and has not seen answered: live, not reported.
    pub in_flight: u32,
    /// Tokens of their prompts.
    pub in_flight_tokens: u64,
    /// Requests that this gateway sent there since its metrics last came.
    pub sent_since_observed: u32,
}

impl EndpointView {
    /// An endpoint of which nothing is known yet.
    pub fn new(id: EndpointId) -> Self {
        let [_, a, b, c] = id.get().to_be_bytes();
        Self {
            id,
            name: format!("default/endpoint-{}", id.get()).into(),
            address: format!("10.{a}.{b}.{c}:8000").into(),
            labels: Labels::default(),
            observed_at: None,
            queued: 0,
            running: 0,
            kv_usage: 0.0,
            kv_blocks: 0,
            block_size: 0,
            adapters: Arc::default(),
            in_flight: 0,
            in_flight_tokens: 0,
            sent_since_observed: 0,
        }
    }

    /// The value of one of its labels.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// What it serves, by its label.
    pub fn role(&self) -> Role {
        if self.labels.is_empty() {
            return Role::None;
        }
        match self.label(ROLE_LABEL) {
            None => Role::None,
            Some("decode") => Role::Decode,
            Some("prefill") => Role::Prefill,
            Some("encode") => Role::Encode,
            Some("prefill-decode" | "both") => Role::PrefillDecode,
            Some("encode-prefill") => Role::EncodePrefill,
            Some("encode-prefill-decode") => Role::All,
            Some(_) => Role::Unknown,
        }
    }
}

/// Which stages an endpoint serves, by its label [`ROLE_LABEL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// No label: decode, and with it everything.
    None,
    /// `decode`.
    Decode,
    /// `prefill`.
    Prefill,
    /// `encode`.
    Encode,
    /// `prefill-decode`, or `both`.
    PrefillDecode,
    /// `encode-prefill`.
    EncodePrefill,
    /// `encode-prefill-decode`.
    All,
    /// Any other value.
    Unknown,
}

impl Role {
    /// Whether it may answer a request; without a label too.
    pub const fn decodes(self) -> bool {
        matches!(
            self,
            Self::None | Self::Decode | Self::PrefillDecode | Self::All
        )
    }

    /// Whether it may compute a prompt for another endpoint; not without a label.
    pub const fn prefills(self) -> bool {
        matches!(
            self,
            Self::Prefill | Self::EncodePrefill | Self::PrefillDecode | Self::All
        )
    }

    /// Whether it may encode media for others.
    pub const fn encodes(self) -> bool {
        matches!(self, Self::Encode | Self::EncodePrefill | Self::All)
    }
}

static NO_SIGNALS: Signals = Signals::new();

/// What a decision may look at besides the request. Borrowed for one decision.
///
/// A policy can be asked without any simulation:
///
/// ```
/// use foretoken_dataplane::{EndpointId, EndpointView, GatewayContext};
/// use foretoken_des_kernel::{RngStreams, SimTime};
///
/// let mut endpoints: Vec<_> = (0..3).map(|id| EndpointView::new(EndpointId::new(id))).collect();
/// endpoints[1].queued = 7;
/// let mut rng = RngStreams::new(1, 0).stream("routing", 0);
/// let cx = GatewayContext::new(SimTime::ZERO, &endpoints, &mut rng);
/// assert_eq!(cx.everyone(), [0, 1, 2]);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct GatewayContext<'a> {
    /// Now.
    pub now: SimTime,
    /// The pool's endpoints, in the order of their ids. Those that went away are missing: a position
    /// in this list is not an id.
    pub endpoints: &'a [EndpointView],
    /// What data producers know.
    pub signals: &'a Signals,
    /// Position of the endpoint that an earlier stage of this decision picked (llm-d's peer), for
    /// policies that look for its neighbours.
    pub peer: Option<usize>,
    /// The policy's own random stream.
    pub rng: &'a mut SimRng,
}

impl<'a> GatewayContext<'a> {
    /// The context of one decision without data producers.
    pub fn new(now: SimTime, endpoints: &'a [EndpointView], rng: &'a mut SimRng) -> Self {
        Self::with_signals(now, endpoints, &NO_SIGNALS, rng)
    }

    /// The context of one decision.
    pub fn with_signals(
        now: SimTime,
        endpoints: &'a [EndpointView],
        signals: &'a Signals,
        rng: &'a mut SimRng,
    ) -> Self {
        Self {
            now,
            endpoints,
            signals,
            peer: None,
            rng,
        }
    }

    /// The positions of all endpoints.
    pub fn everyone(&self) -> Vec<usize> {
        (0..self.endpoints.len()).collect()
    }

    /// Where an endpoint stands in the list.
    pub fn position(&self, id: EndpointId) -> Option<usize> {
        // A list that somebody made by hand may be in any order.
        let search = || self.endpoints.iter().position(|endpoint| endpoint.id == id);
        guess(self.endpoints, id).or_else(search)
    }
}

/// Where an endpoint stands in a list in the order of ids.
pub(crate) fn position(endpoints: &[EndpointView], id: EndpointId) -> Option<usize> {
    let search = || {
        let found = endpoints.binary_search_by_key(&id, |endpoint| endpoint.id);
        found.ok()
    };
    guess(endpoints, id).or_else(search)
}

/// Ids are dense: as long as nobody went away, an endpoint stands at its number.
fn guess(endpoints: &[EndpointView], id: EndpointId) -> Option<usize> {
    let there = endpoints.get(id.index())?.id == id;
    there.then_some(id.index())
}

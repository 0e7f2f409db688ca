//! What a policy sees: endpoints as the gateway believes them to be.

use core::fmt;

use foretoken_des_kernel::{SimRng, SimTime};

/// Number of an endpoint (one engine instance), dense from 0.
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

/// One endpoint's reported state. Policies cannot tell how old it is but by `observed_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointView {
    /// The endpoint.
    pub id: EndpointId,
    /// When the state was observed.
    pub observed_at: SimTime,
    /// Requests in its running batch.
    pub running: u32,
    /// Requests that wait in it.
    pub queued: u32,
    /// KV blocks in use.
    pub kv_used: u32,
    /// KV blocks in all.
    pub kv_total: u32,
}

impl EndpointView {
    /// An idle endpoint with `kv_total` blocks.
    pub const fn idle(id: EndpointId, kv_total: u32) -> Self {
        Self {
            id,
            observed_at: SimTime::ZERO,
            running: 0,
            queued: 0,
            kv_used: 0,
            kv_total,
        }
    }

    /// Share of the KV blocks in use, from 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        f64::from(self.kv_used) / f64::from(self.kv_total.max(1))
    }
}

/// What a decision may look at besides the request. Borrowed for one decision.
#[derive(Debug)]
#[non_exhaustive]
pub struct GatewayContext<'a> {
    /// Now.
    pub now: SimTime,
    /// All endpoints, in the order of their ids.
    pub endpoints: &'a [EndpointView],
    /// The policy's own random stream.
    pub rng: &'a mut SimRng,
}

impl<'a> GatewayContext<'a> {
    /// The context of one decision.
    pub fn new(now: SimTime, endpoints: &'a [EndpointView], rng: &'a mut SimRng) -> Self {
        Self {
            now,
            endpoints,
            rng,
        }
    }
}

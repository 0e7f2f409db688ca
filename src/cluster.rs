//! What lies between gateways and engines: how fresh the gateways' knowledge is, the network, the
//! links between engines, and endpoints that come and go.

use foretoken_dataplane::transfer::LinkConfig;
use foretoken_des_kernel::{SimDuration, SimTime};

/// How old the engines' metrics are when a gateway looks at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Freshness {
    /// Gateways see every engine as it is: nobody's production, but the ceiling of what better
    /// metrics could gain.
    #[default]
    Live,
    /// Gateways read metrics now and then.
    Scraped(Scraping),
}

/// How gateways read metrics: one poller for every endpoint, with a phase of its own. It does not ask
/// again before it has the answer; its metrics count as fresh when they come, whatever they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scraping {
    /// From one reading to the next (llm-d's `--refresh-metrics-interval`); 50 ms by default.
    pub interval: SimDuration,
    /// The most by which a reading is late, uniformly drawn; 0 by default.
    pub jitter: SimDuration,
    /// From the moment at which the metrics are true until the gateway knows; 0 by default.
    pub delay: SimDuration,
    /// The most by which that takes longer, uniformly drawn; 0 by default.
    pub delay_jitter: SimDuration,
}

impl Scraping {
    /// Every `interval`, punctual and without delay.
    pub const fn every(interval: SimDuration) -> Self {
        Self {
            interval,
            jitter: SimDuration::ZERO,
            delay: SimDuration::ZERO,
            delay_jitter: SimDuration::ZERO,
        }
    }
}

impl Default for Scraping {
    fn default() -> Self {
        Self::every(SimDuration::from_millis(50))
    }
}

/// An endpoint joins the pool or leaves it.
///
/// One that leaves takes along what it was serving
/// ([`EndpointLost`](foretoken_workload::FinishReason::EndpointLost)). Its engine keeps its cache, as
/// one does that is unreachable for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolChange {
    /// When.
    pub at: SimTime,
    /// Number of the engine, from 0.
    pub engine: usize,
    /// Whether it is in the pool from then on. All are at the start.
    pub up: bool,
}

/// How a cluster is wired.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Wiring {
    /// How old the engines' metrics are; live by default.
    pub freshness: Freshness,
    /// One way between a gateway and an engine, or between two engines; 0 by default.
    pub network_delay: SimDuration,
    /// From a change of an engine's KV cache until gateways know of it; 1 ms by default.
    pub kv_event_delay: SimDuration,
    /// What moves KV blocks between engines.
    pub links: LinkConfig,
    /// Who joins and leaves when.
    pub changes: Vec<PoolChange>,
}

impl Default for Wiring {
    fn default() -> Self {
        Self {
            freshness: Freshness::Live,
            network_delay: SimDuration::ZERO,
            kv_event_delay: SimDuration::from_millis(1),
            links: LinkConfig::rdma_400g(),
            changes: Vec::new(),
        }
    }
}

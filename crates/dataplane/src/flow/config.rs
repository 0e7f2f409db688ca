//! [`FlowConfig`]: the bands, their limits and the times to live.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::SimDuration;
use foretoken_workload::ObjectivePriority;

use super::{Eviction, FairnessPolicy, Fcfs, GlobalStrict, OrderingPolicy};

/// The shape of a [`FlowControl`](super::FlowControl) (llm-d's section `flowControl`).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FlowConfig {
    /// Bands that are there from the start (`priorityBands`). Band 0 always is: if it is missing here,
    /// it is made like [`default_band`](Self::default_band).
    pub bands: BTreeMap<ObjectivePriority, BandConfig>,
    /// What other bands are made like (`defaultPriorityBand`).
    pub default_band: BandConfig,
    /// What bands of negative priority are made like, if not like the others
    /// (`defaultNegativePriorityBand`).
    pub default_negative_band: Option<BandConfig>,
    /// What all bands together may hold (`maxBytes`, `maxRequests`); unlimited by default.
    pub limits: Limits,
    /// How long a request may wait while the pool has endpoints (`defaultRequestTTL`); 60 s by
    /// default, `None` (there: 0) for ever.
    pub request_ttl: Option<SimDuration>,
    /// How long it may wait while the pool has none (`noEndpointRequestTTL`); 60 s by default, `None`
    /// (there: 0) for ever. In llm-d's configurations it follows `defaultRequestTTL` where only that
    /// is given.
    pub no_endpoint_ttl: Option<SimDuration>,
    /// How requests in flight make room for more important ones (`enableEviction`); not by default.
    pub eviction: Option<Eviction>,
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self {
            bands: BTreeMap::new(),
            default_band: BandConfig::default(),
            default_negative_band: None,
            limits: Limits::UNLIMITED,
            request_ttl: Some(SimDuration::from_secs(60)),
            no_endpoint_ttl: Some(SimDuration::from_secs(60)),
            eviction: None,
        }
    }
}

impl FlowConfig {
    /// The same with band `priority` made like `band`.
    #[must_use]
    pub fn with_band(mut self, priority: i32, band: BandConfig) -> Self {
        self.bands.insert(ObjectivePriority::new(priority), band);
        self
    }

    /// What a band of this priority is made like if it is not configured.
    pub(super) fn template(&self, priority: ObjectivePriority) -> &BandConfig {
        match &self.default_negative_band {
            Some(band) if priority.is_sheddable() => band,
            _ => &self.default_band,
        }
    }
}

/// The shape of a band: its limits, and how its policies are made. Every band has its own, since they
/// may have state.
///
/// ```
/// use foretoken_dataplane::flow::{BandConfig, SloDeadline, fairness};
///
/// let band = BandConfig::default()
///     .with_fairness(fairness::RoundRobin::default)
///     .with_ordering(|| SloDeadline);
/// assert_eq!(band.limits.requests, 5000);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct BandConfig {
    /// What it may hold (`maxBytes`, `maxRequests`); [`Limits::BAND`] by default.
    pub limits: Limits,
    fairness: Arc<dyn Fn() -> Box<dyn FairnessPolicy> + Send + Sync>,
    ordering: Arc<dyn Fn() -> Box<dyn OrderingPolicy> + Send + Sync>,
}

impl Default for BandConfig {
    /// llm-d's: strict and first come, first served.
    fn default() -> Self {
        Self {
            limits: Limits::BAND,
            fairness: Arc::new(|| Box::new(GlobalStrict)),
            ordering: Arc::new(|| Box::new(Fcfs)),
        }
    }
}

impl BandConfig {
    /// The same with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same with another fairness policy (`fairnessPolicyRef`): `make` is called for each band.
    #[must_use]
    pub fn with_fairness<P: FairnessPolicy + 'static>(
        mut self,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        self.fairness = Arc::new(move || Box::new(make()));
        self
    }

    /// The same with another ordering policy (`orderingPolicyRef`): `make` is called for each band.
    #[must_use]
    pub fn with_ordering<P: OrderingPolicy + 'static>(
        mut self,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        self.ordering = Arc::new(move || Box::new(make()));
        self
    }

    pub(super) fn make_fairness(&self) -> Box<dyn FairnessPolicy> {
        (self.fairness)()
    }

    pub(super) fn make_ordering(&self) -> Box<dyn OrderingPolicy> {
        (self.ordering)()
    }
}

impl fmt::Debug for BandConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BandConfig")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The most that may wait; what would fill it exactly still enters.
///
/// In llm-d's configurations 0 stands for "not given": [`UNLIMITED`](Self::UNLIMITED) for all bands
/// together, [`BAND`](Self::BAND) for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of request bodies.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
}

impl Limits {
    /// Anything.
    pub const UNLIMITED: Self = Self::new(u64::MAX, u64::MAX);
    /// llm-d's default for a band: a gigabyte (10^9), 5000 requests.
    pub const BAND: Self = Self::new(1_000_000_000, 5000);

    /// So many `bytes` and `requests`.
    pub const fn new(bytes: u64, requests: u64) -> Self {
        Self { bytes, requests }
    }

    /// Whether one more request of `bytes` fits beside what is `held`.
    pub(super) const fn fits(self, held: Held, bytes: u64) -> bool {
        held.bytes.saturating_add(bytes) <= self.bytes && held.requests < self.requests
    }
}

/// What counts against limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) requests: u64,
}

impl Held {
    pub(super) const fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.requests += 1;
    }

    pub(super) const fn remove(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.requests -= 1;
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            requests: self.requests + other.requests,
        }
    }
}

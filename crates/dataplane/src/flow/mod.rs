//! Flow control: requests wait in the gateway and are let go one at a time while the pool has room.
//!
//! [`FlowControl`] holds the queues. Each priority has a band, each tenant of a band a flow. Three
//! policies decide: the [`UsageLimit`] up to which saturation a band is served, the band's
//! [`FairnessPolicy`] whose turn it is among its flows, its [`OrderingPolicy`] who goes first within a
//! flow. [`fairness`], [`ordering`] and [`usage`] have those of llm-d.
//!
//! How a request leaves, in llm-d's words and in those of
//! [`RejectReason`](foretoken_workload::RejectReason):
//!
//! | llm-d | here | told by |
//! |---|---|---|
//! | `Dispatched` | – | [`FlowControl::cycle`] |
//! | `RejectedCapacity` | `QueueFull` | [`FlowControl::enqueue`] |
//! | `RejectedNoEndpoints` | `NoEndpoint` | [`FlowControl::enqueue`] |
//! | `EvictedTTL` | `TtlExpired`; `NoEndpoint` while the pool is empty | [`FlowControl::sweep`] |
//! | `EvictedNoEndpoints` | `NoEndpoint` | [`FlowControl::sweep`] |
//! | `EvictedContextCancelled` | `ClientGone` | [`FlowControl::cancel`] |

mod band;
mod config;
mod control;
pub mod eviction;
pub mod fairness;
pub mod ordering;
mod ttl;
pub mod usage;

use std::borrow::Cow;

use foretoken_des_kernel::SimTime;
use foretoken_workload::{ObjectivePriority, OrderKey, RequestView};

use crate::headers;

pub use config::{BandConfig, FlowConfig, Limits};
pub use control::{Cycle, FlowControl, Rejection};
pub use eviction::Eviction;
pub use fairness::{GlobalStrict, ProgramAware, RoundRobin};
pub use foretoken_workload::QueueOrder as OrderingPolicy;
pub use ordering::{EarliestDeadline, Fcfs, SloDeadline};
pub use usage::{CeilingDomain, PriorityHoldback, SoftReflective, StaticLimit};

/// The flow that a request belongs to: its header, else the number of its tenant, else (for tenant 0)
/// llm-d's `default-flow`.
pub fn fairness_id<'a>(request: &RequestView<'a>) -> Cow<'a, str> {
    match headers::first(request.headers, &headers::FAIRNESS_ID) {
        Some(id) if !id.is_empty() => Cow::Borrowed(id),
        _ if request.flow.get() == 0 => Cow::Borrowed("default-flow"),
        _ => Cow::Owned(request.flow.get().to_string()),
    }
}

/// One flow of a priority band, as a fairness policy sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FlowView<'a> {
    /// Its fairness id.
    pub id: &'a str,
    /// Requests that wait in it.
    pub queued: usize,
    /// The request that would go next, if any waits.
    pub head: Option<HeadView>,
}

impl<'a> FlowView<'a> {
    /// Flow `id` with so many requests, of which `head` is the first.
    pub const fn new(id: &'a str, queued: usize, head: Option<HeadView>) -> Self {
        Self { id, queued, head }
    }
}

/// The request at the head of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadView {
    /// Its place by the band's ordering policy: smaller goes first.
    pub key: OrderKey,
    /// Counts entries into the gateway's queues: the smaller was there first.
    pub sequence: u64,
    /// When it entered its queue.
    pub enqueued: SimTime,
}

impl HeadView {
    /// A request with this key that entered at `enqueued` as number `sequence`.
    pub const fn new(key: OrderKey, sequence: u64, enqueued: SimTime) -> Self {
        Self {
            key,
            sequence,
            enqueued,
        }
    }
}

/// Chooses the flow that is served next within a band.
///
/// The host asks once per dispatch, with the band's flows in the order of their ids (as text); empty
/// ones are among them. `None` leaves the band alone. A place that does not exist, or whose flow is
/// empty, ends the run with an error. How often it is asked while nothing waits is unspecified, but it
/// is asked at least once after the last request has left, unless the pool is saturated then.
///
/// ```
/// use foretoken_dataplane::flow::{FairnessPolicy, FlowView};
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::ObjectivePriority;
///
/// /// The longest queue first.
/// struct Longest;
///
/// impl FairnessPolicy for Longest {
///     fn next(&mut self, _: ObjectivePriority, flows: &[FlowView<'_>], _: SimTime) -> Option<usize> {
///         let waiting = (0..flows.len()).filter(|&place| flows[place].queued > 0);
///         waiting.max_by_key(|&place| flows[place].queued)
///     }
/// }
/// ```
pub trait FairnessPolicy: Send {
    /// The place in `flows` of the flow to serve.
    fn next(
        &mut self,
        band: ObjectivePriority,
        flows: &[FlowView<'_>],
        now: SimTime,
    ) -> Option<usize>;

    /// A request of flow `id` was answered, after so many tokens.
    fn served(&mut self, id: &str, prompt_tokens: u32, output_tokens: u32, now: SimTime) {
        let _ = (id, prompt_tokens, output_tokens, now);
    }
}

impl<P: FairnessPolicy + ?Sized> FairnessPolicy for Box<P> {
    fn next(
        &mut self,
        band: ObjectivePriority,
        flows: &[FlowView<'_>],
        now: SimTime,
    ) -> Option<usize> {
        (**self).next(band, flows, now)
    }

    fn served(&mut self, id: &str, prompt_tokens: u32, output_tokens: u32, now: SimTime) {
        (**self).served(id, prompt_tokens, output_tokens, now);
    }
}

/// Sets the saturation from which on each band is held back.
///
/// The host asks once per dispatch cycle, with all provisioned bands, the most important first, and as
/// many ceilings, all 1. A ceiling outside 0..=1 or above that of a more important band ends the run
/// with an error.
///
/// ```
/// use foretoken_dataplane::flow::UsageLimit;
/// use foretoken_workload::ObjectivePriority;
///
/// /// What may be shed gets half of the pool.
/// struct Half;
///
/// impl UsageLimit for Half {
///     fn ceilings(&mut self, _: f64, bands: &[ObjectivePriority], ceilings: &mut [f64]) {
///         for (ceiling, band) in ceilings.iter_mut().zip(bands) {
///             if band.is_sheddable() {
///                 *ceiling = 0.5;
///             }
///         }
///     }
/// }
/// ```
pub trait UsageLimit: Send {
    /// Writes the ceiling of each band at this `saturation`.
    fn ceilings(&mut self, saturation: f64, bands: &[ObjectivePriority], ceilings: &mut [f64]);
}

impl<U: UsageLimit + ?Sized> UsageLimit for Box<U> {
    fn ceilings(&mut self, saturation: f64, bands: &[ObjectivePriority], ceilings: &mut [f64]) {
        (**self).ceilings(saturation, bands, ceilings);
    }
}

#[cfg(test)]
mod tests {
    use foretoken_workload::{ContentId, FlowId, Headers, Prompt, Request, RequestId, Segment};

    use super::*;

    #[test]
    fn a_flow_is_named_by_header_then_tenant_then_default() {
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 4)]).expect("four tokens");
        let mut request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1);
        assert_eq!(fairness_id(&request.view()), "default-flow");
        request.flow = FlowId::new(12);
        assert_eq!(fairness_id(&request.view()), "12");
        request.headers = Headers::from_iter([("x-gateway-inference-fairness-id", "alice")]);
        assert_eq!(fairness_id(&request.view()), "alice");
    }
}

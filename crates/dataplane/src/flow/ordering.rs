//! Ordering policies: who goes first within a flow.
//!
//! Among equal keys the request that entered the gateway's queues first goes first (llm-d leaves that
//! to its heap).

use foretoken_des_kernel::SimTime;
use foretoken_workload::{OrderKey, QueueOrder, QueueSignals, RequestView};

use crate::headers;

/// First come, first served (llm-d's `fcfs-ordering-policy`, its default): all keys are equal, and the
/// order of entry decides.
pub use foretoken_workload::Fcfs;

/// The place of what has no deadline.
const LAST: u64 = u64::MAX;

/// The earliest end of the time to live first (llm-d's `edf-ordering-policy`): entry plus time to
/// live; what may wait for ever goes last.
///
/// As long as all requests have the configured time to live, this is first come, first served.
#[derive(Debug, Clone, Copy, Default)]
pub struct EarliestDeadline;

impl QueueOrder for EarliestDeadline {
    fn key(&self, _: &RequestView<'_>, signals: &QueueSignals) -> OrderKey {
        let deadline = signals
            .ttl
            .filter(|ttl| !ttl.is_zero())
            .and_then(|ttl| signals.now.checked_add(ttl));
        OrderKey::new(deadline.map_or(LAST, SimTime::as_nanos), 0)
    }
}

/// The earliest target of the first token first (llm-d's `slo-deadline-ordering-policy`): arrival plus
/// the header `x-llm-d-slo-ttft-ms`. Without a target, or with one that is no number or negative, a
/// request goes last. Ties go to the earlier arrival.
#[derive(Debug, Clone, Copy, Default)]
pub struct SloDeadline;

impl QueueOrder for SloDeadline {
    fn key(&self, request: &RequestView<'_>, _: &QueueSignals) -> OrderKey {
        let deadline =
            headers::ttft_target(request).and_then(|target| request.arrival.checked_add(target));
        OrderKey::new(
            deadline.map_or(LAST, SimTime::as_nanos),
            request.arrival.as_nanos(),
        )
    }
}

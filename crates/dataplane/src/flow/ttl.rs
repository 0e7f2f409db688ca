//! [`TimeToLive`]: how long requests may wait, by the state of the pool.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::RejectReason;

use super::band::Waiting;

/// How much longer than any time to live a request waits at the very most.
const BACKSTOP: SimDuration = SimDuration::from_secs(2);

/// The budgets of waiting requests and the state of the pool that says which of them counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeToLive {
    with_endpoints: Option<SimDuration>,
    without: Option<SimDuration>,
    pool_is_empty: bool,
    /// When the pool last became empty, or ceased to be.
    since: SimTime,
}

impl TimeToLive {
    /// The budgets before a pool that is taken to have endpoints.
    pub(super) const fn new(
        with_endpoints: Option<SimDuration>,
        without: Option<SimDuration>,
    ) -> Self {
        Self {
            with_endpoints,
            without,
            pool_is_empty: false,
            since: SimTime::ZERO,
        }
    }

    pub(super) fn pool_changed(&mut self, now: SimTime, endpoints: usize) {
        let is_empty = endpoints == 0;
        if is_empty != self.pool_is_empty {
            self.pool_is_empty = is_empty;
            self.since = now;
        }
    }

    /// The budget, while the pool has endpoints, of a request with one of its `own`.
    pub(super) fn of_request(&self, own: Option<SimDuration>) -> Option<SimDuration> {
        [own, self.with_endpoints].into_iter().flatten().min()
    }

    /// Whether a request has waited too long.
    pub(super) fn is_over(&self, now: SimTime, waiting: &Waiting) -> bool {
        let budget = if self.pool_is_empty {
            self.without
        } else {
            waiting.ttl
        };
        let charged = now.saturating_since(waiting.enqueued.max(self.since));
        let budgets = waiting.ttl.zip(self.without);
        let longest = budgets.map(|(with, without)| with.max(without) + BACKSTOP);
        budget.is_some_and(|budget| charged >= budget)
            || longest.is_some_and(|longest| now.saturating_since(waiting.enqueued) >= longest)
    }

    /// Whether requests without a budget of their own wait for ever in the pool's present state.
    pub(super) const fn is_unlimited(&self) -> bool {
        if self.pool_is_empty {
            self.without.is_none()
        } else {
            self.with_endpoints.is_none()
        }
    }

    /// The reason of a refusal: `reason`, unless the want of endpoints is to blame.
    pub(super) const fn blame(&self, reason: RejectReason) -> RejectReason {
        if self.pool_is_empty {
            RejectReason::NoEndpoint
        } else {
            reason
        }
    }
}

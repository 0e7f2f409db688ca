//! When a run ends.

use crate::time::SimTime;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// No event waits. The clock stands at the last one that was handled.
    QueueExhausted,
    /// Only later events wait. The clock stands at the horizon.
    Horizon,
    /// The permitted number of events was handled. The clock stands at the last one.
    EventLimit,
    /// The condition on the model holds. The clock stands at the event that made it so.
    Condition,
}

/// The conditions under which a run ends: the first that holds ends it.
///
/// If several hold after the same event, the reason given is the first in the order: condition,
/// event limit, then whatever the queue says.
///
/// ```
/// use foretoken_des_kernel::{SimTime, Stop};
///
/// # struct Shop { served: u64 }
/// let stop = Stop::never()
///     .at(SimTime::from_nanos(1_000_000))
///     .after_events(500)
///     .when(|shop: &Shop| shop.served == 100);
/// # let _ = stop;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop<C = ()> {
    pub(crate) horizon: SimTime,
    pub(crate) events: u64,
    pub(crate) condition: C,
}

impl Stop {
    /// Ends only when no event waits.
    pub const fn never() -> Self {
        Self {
            horizon: SimTime::MAX,
            events: u64::MAX,
            condition: (),
        }
    }

    /// Ends also as soon as `condition` holds; it is asked after each event.
    pub fn when<M, F: FnMut(&M) -> bool>(self, condition: F) -> Stop<F> {
        Stop {
            horizon: self.horizon,
            events: self.events,
            condition,
        }
    }
}

impl<C> Stop<C> {
    /// Ends also when all events up to and including `horizon` are handled.
    #[must_use]
    pub fn at(self, horizon: SimTime) -> Self {
        Self { horizon, ..self }
    }

    /// Ends also after `events` events, counted from the start of this run.
    #[must_use]
    pub fn after_events(self, events: u64) -> Self {
        Self { events, ..self }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::never()
    }
}

/// A question to the model that ends the run when it is answered with yes.
///
/// Implemented for closures, and for `()`, which never ends a run and costs nothing.
pub trait Condition<M> {
    /// `true` if the run shall end now.
    fn holds(&mut self, model: &M) -> bool;
}

impl<M> Condition<M> for () {
    fn holds(&mut self, _: &M) -> bool {
        false
    }
}

impl<M, F: FnMut(&M) -> bool> Condition<M> for F {
    fn holds(&mut self, model: &M) -> bool {
        self(model)
    }
}

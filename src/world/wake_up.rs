//! [`WakeUp`]: when a component wants to be advanced next.

use foretoken_des_kernel::{Generation, SimTime};

/// The wake-up that a component asked for last. One that it asked for before is stale, and dropped when
/// it comes.
#[derive(Debug, Default)]
pub(super) struct WakeUp {
    asked: Generation,
    at: Option<SimTime>,
}

impl WakeUp {
    /// Asks for a wake-up at this time, or for none; gives what has to be put into the event queue, if
    /// that is not arranged already.
    pub(super) fn ask(&mut self, at: Option<SimTime>) -> Option<(SimTime, Generation)> {
        if at == self.at {
            return None;
        }
        self.at = at;
        let asked = self.asked.bump();
        at.map(|time| (time, asked))
    }

    /// Whether the wake-up that has come is the one that was asked for last; it is over then.
    pub(super) fn takes(&mut self, asked: Generation) -> bool {
        let current = self.asked.is_current(asked);
        if current {
            self.at = None;
        }
        current
    }
}

//! The time over which rates are taken.

use foretoken_des_kernel::{SimDuration, SimTime};

use crate::record::RequestRecord;

/// From the first arrival of any of some requests to the end of the last complete one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Window {
    first: Option<SimTime>,
    last: SimTime,
}

impl Window {
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        let first = self.first.get_or_insert(record.arrival);
        *first = record.arrival.min(*first);
        if record.outcome.is_complete() {
            self.last = self.last.max(record.end().unwrap_or_default());
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
    }

    /// Its length; nothing if no request is complete.
    pub(crate) fn span(&self) -> SimDuration {
        self.first
            .map_or(SimDuration::ZERO, |first| self.last.saturating_since(first))
    }
}

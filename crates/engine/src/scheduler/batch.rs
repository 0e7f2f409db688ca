//! Static batches: who belongs to the one that is served ([`Batching::Static`]).
//!
//! A batch is over when none of its members runs and none is awaited. The next one is formed from those
//! who wait then, in their order; whoever comes later is passed over, whatever the order says.

use super::{Scheduler, WAITING_EXIST};
use crate::config::Batching;
use crate::sequence::{Origin, Sequence, Slot};

impl Scheduler {
    fn is_static(&self) -> bool {
        self.config.batching == Batching::Static
    }

    /// Whether anybody who waits may run: always, but beside a static batch whose members all run or
    /// have ended.
    pub(super) fn batch_is_open(&self) -> bool {
        !self.is_static() || self.awaited > 0 || self.running.is_empty()
    }

    /// Whether a waiting request has to wait for the next batch.
    pub(super) fn is_left_out(&self, sequence: &Sequence) -> bool {
        self.is_static() && !sequence.origin.in_batch
    }

    /// Makes a batch of those who wait if the one before is over.
    pub(super) fn form_batch(&mut self) {
        if !self.is_static() || self.awaited > 0 || !self.running.is_empty() {
            return;
        }
        let members: Vec<Slot> = self.waiting.iter().take(self.seats).collect();
        for &slot in &members {
            let sequence = self.sequences[slot as usize].as_mut();
            sequence.expect(WAITING_EXIST).origin.in_batch = true;
        }
        self.awaited = members.len();
    }

    /// A member that was awaited runs.
    pub(super) fn enter_batch(&mut self) {
        if self.is_static() {
            self.awaited -= 1;
        }
    }

    /// A member that ran was preempted.
    pub(super) fn await_member(&mut self) {
        if self.is_static() {
            self.awaited += 1;
        }
    }

    /// A request ends while it waits: if it is a member, nobody awaits it any more.
    pub(super) fn leave_batch(&mut self, origin: &Origin) {
        if origin.in_batch {
            self.awaited -= 1;
        }
    }
}

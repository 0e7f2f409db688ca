//! [`Inbox`]: requests on their way through the front end.

use std::collections::VecDeque;

use foretoken_des_kernel::SimTime;
use foretoken_workload::{Request, RequestId};

use crate::connector::KvTransfer;

/// Requests by the time at which they reach the core; those of one instant in the order in which they
/// were submitted.
///
/// Most are ready in the order in which they come: they are put at the end and taken from the front.
#[derive(Debug, Default)]
pub(super) struct Inbox(VecDeque<(SimTime, Box<Request>, KvTransfer)>);

impl Inbox {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the next one reaches the core.
    #[inline]
    pub(super) fn next(&self) -> Option<SimTime> {
        self.0.front().map(|(ready, ..)| *ready)
    }

    pub(super) fn push(&mut self, ready: SimTime, request: Box<Request>, transfer: KvTransfer) {
        let later = self.0.iter().rev().take_while(|(other, ..)| *other > ready);
        let place = self.0.len() - later.count();
        self.0.insert(place, (ready, request, transfer));
    }

    /// Takes out the next one, if it is ready at `now`.
    pub(super) fn pop_until(&mut self, now: SimTime) -> Option<(Box<Request>, KvTransfer)> {
        self.next().filter(|&ready| ready <= now)?;
        let next = self.0.pop_front();
        next.map(|(_, request, transfer)| (request, transfer))
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<(Box<Request>, KvTransfer)> {
        let place = self.0.iter().position(|(_, request, _)| request.id == id)?;
        let removed = self.0.remove(place);
        removed.map(|(_, request, transfer)| (request, transfer))
    }

    pub(super) fn transfer_mut(&mut self, id: RequestId) -> Option<&mut KvTransfer> {
        let mut waiting = self.0.iter_mut();
        waiting
            .find(|(_, request, _)| request.id == id)
            .map(|(.., transfer)| transfer)
    }
}

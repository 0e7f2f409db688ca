//! The requests that are inside, by id.

use std::collections::VecDeque;

use foretoken_des_kernel::SimTime;
use foretoken_workload::{Delivery, RequestId};

use super::stream::{Member, Stream};
use crate::group::Group;
use crate::record::RequestRecord;

/// A request in flight.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) record: RequestRecord,
    /// When its last token came; its arrival before the first.
    pub(super) last: SimTime,
    /// Index of its group in the recorder.
    pub(super) group: u32,
    /// Where it decodes. What has come since it joined is not in its record, nor in `last`.
    pub(super) member: Option<Member>,
}

impl Live {
    /// The group that its gaps count for; those of an answer that comes whole count for none.
    pub(super) fn gaps_of(&self) -> Option<u32> {
        match self.record.delivery {
            Delivery::Streamed => Some(self.group),
            Delivery::Whole => None,
        }
    }

    /// Takes down `count` tokens that come together at `at`; it is no member of a stream.
    pub(super) fn take(&mut self, at: SimTime, count: u32, group: &mut Group) {
        let gap = at - self.last;
        self.last = at;
        if self.record.ttft.is_some() && self.gaps_of().is_some() {
            group.add_gaps(gap.as_nanos(), 1);
        }
        self.record.add_tokens(gap, count);
    }

    pub(super) fn decodes_on(&self, instance: u32) -> bool {
        let member = self.member.as_ref();
        member.is_some_and(|member| member.instance == instance)
    }

    /// Takes down what came while it was a member of a stream, if it is one, and leaves that.
    pub(super) fn leave(&mut self, streams: &mut [Stream]) {
        if let Some(member) = self.member.take() {
            let stream = &mut streams[member.instance as usize];
            self.record.add_later(&stream.since(&member));
            self.last = stream.last();
            stream.leave(self.gaps_of());
        }
    }
}

/// Requests in flight, and those that have ended while one of a lower id is in flight.
///
/// Records leave by id. Memory follows how far apart the ids are that are inside, not how many have
/// been.
#[derive(Debug, Clone, Default)]
pub(super) struct Flights {
    /// The id of the first slot; all below have left.
    first: usize,
    slots: VecDeque<Slot>,
    live: Vec<Live>,
}

#[derive(Debug, Clone)]
enum Slot {
    NotArrived,
    /// Its place among those in flight.
    Live(u32),
    Ended(Box<RequestRecord>),
}

impl Flights {
    pub(super) fn arrive(&mut self, live: Live) {
        let id = live.record.id;
        let place = u32::try_from(self.live.len()).expect("there are no more requests than ids");
        let slot = id.index().checked_sub(self.first).map(|index| {
            if self.slots.len() <= index {
                self.slots.resize_with(index + 1, || Slot::NotArrived);
            }
            &mut self.slots[index]
        });
        let Some(slot @ Slot::NotArrived) = slot else {
            panic!("request lifecycle: request {id} arrives twice")
        };
        *slot = Slot::Live(place);
        self.live.push(live);
    }

    /// The request of this id, while it is in flight.
    pub(super) fn find(&mut self, id: RequestId) -> Option<&mut Live> {
        let index = id.index().checked_sub(self.first)?;
        match self.slots.get(index)? {
            Slot::Live(place) => self.live.get_mut(*place as usize),
            _ => None,
        }
    }

    /// The request of this id, which gets a token.
    pub(super) fn get(&mut self, id: RequestId) -> &mut Live {
        let Some(live) = self.find(id) else {
            panic!("request lifecycle: request {id} has not arrived or has ended, yet a token")
        };
        live
    }

    /// Those in flight, in no particular order.
    pub(super) fn live(&self) -> &[Live] {
        &self.live
    }

    pub(super) fn live_mut(&mut self) -> &mut [Live] {
        &mut self.live
    }

    /// A request that ends; its record is to be given [back](Self::end).
    pub(super) fn take(&mut self, id: RequestId) -> Live {
        let index = id.index() - self.first;
        let Slot::Live(place) = self.slots[index] else {
            panic!("request lifecycle: request {id} ends twice")
        };
        let live = self.live.swap_remove(place as usize);
        if let Some(moved) = self.live.get(place as usize) {
            self.slots[moved.record.id.index() - self.first] = Slot::Live(place);
        }
        live
    }

    /// The record of a request that was [taken](Self::take). It is returned if it may leave at once;
    /// then others may [follow](Self::next).
    pub(super) fn end(&mut self, record: RequestRecord) -> Option<RequestRecord> {
        let index = record.id.index() - self.first;
        if index > 0 {
            self.slots[index] = Slot::Ended(Box::new(record));
            return None;
        }
        self.slots.pop_front();
        self.first += 1;
        Some(record)
    }

    /// A record that has waited for one that has left.
    pub(super) fn next(&mut self) -> Option<RequestRecord> {
        if !matches!(self.slots.front(), Some(Slot::Ended(_))) {
            return None;
        }
        self.first += 1;
        match self.slots.pop_front() {
            Some(Slot::Ended(record)) => Some(*record),
            _ => None,
        }
    }

    /// All that are left, by id.
    pub(super) fn into_records(self) -> impl Iterator<Item = RequestRecord> {
        let mut live: Vec<_> = self
            .live
            .into_iter()
            .map(|live| Some(live.record))
            .collect();
        self.slots.into_iter().filter_map(move |slot| match slot {
            Slot::NotArrived => None,
            Slot::Live(place) => live[place as usize].take(),
            Slot::Ended(record) => Some(*record),
        })
    }
}

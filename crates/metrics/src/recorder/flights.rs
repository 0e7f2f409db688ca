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
    /// A request keeps its place until it leaves, so that its record is written where it is.
    places: Vec<Option<Live>>,
    free: Vec<u32>,
}

/// What is known of an id, and the place of its request.
#[derive(Debug, Clone, Copy)]
enum Slot {
    NotArrived,
    Live(u32),
    Ended(u32),
}

impl Flights {
    pub(super) fn arrive(&mut self, live: Live) {
        let id = live.record.id;
        let slot = id.index().checked_sub(self.first).map(|index| {
            if self.slots.len() <= index {
                self.slots.resize(index + 1, Slot::NotArrived);
            }
            &mut self.slots[index]
        });
        let Some(slot @ Slot::NotArrived) = slot else {
            panic!("request lifecycle: request {id} arrives twice")
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).expect("there are no more requests than ids")
        });
        *slot = Slot::Live(place);
        self.places[place as usize] = Some(live);
    }

    /// The request of this id, while it is in flight.
    #[inline]
    pub(super) fn find(&mut self, id: RequestId) -> Option<&mut Live> {
        let index = id.index().checked_sub(self.first)?;
        match *self.slots.get(index)? {
            Slot::Live(place) => self.places[place as usize].as_mut(),
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

    /// Those in flight, and those that wait to leave, in no particular order.
    pub(super) fn inside(&self) -> impl Iterator<Item = &Live> {
        self.places.iter().flatten()
    }

    /// At least as many as are [inside](Self::inside).
    pub(super) const fn places(&self) -> usize {
        self.places.len()
    }

    /// A request in flight ends: it [leaves](Self::leave) in its turn.
    pub(super) fn end(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.index() - self.first];
        if let Slot::Live(place) = *slot {
            *slot = Slot::Ended(place);
        }
    }

    /// The request of the lowest id leaves, if it has ended.
    pub(super) fn leave(&mut self) -> Option<Live> {
        let Some(&Slot::Ended(place)) = self.slots.front() else {
            return None;
        };
        self.slots.pop_front();
        self.first += 1;
        self.free.push(place);
        self.places[place as usize].take()
    }

    /// All that are left, by id.
    pub(super) fn into_inside(mut self) -> impl Iterator<Item = Live> {
        self.slots.into_iter().filter_map(move |slot| match slot {
            Slot::NotArrived => None,
            Slot::Live(place) | Slot::Ended(place) => self.places[place as usize].take(),
        })
    }
}

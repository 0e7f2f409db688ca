//! The event queue: what happens next.
//!
//! Events leave in the order of (time, [`Rank`], sequence of insertion). The key is two 64-bit words:
//! the time, and 40 bits of rank above 24 bits of sequence. A sequence of so few bits would wrap
//! within a long run and silently turn the order of ties around; so when it has come to its end, the
//! events that wait are numbered anew, which keeps their order. That happens once in 16 million
//! insertions.
//!
//! The heap holds keys and the numbers of slots, the slots hold the events: an event is written once
//! and read once, however large it is. One that is before all others when it comes waits in front of the
//! heap, which most pass by that way in a model of one entity; it is written a second time if another
//! gets in front of it. `benches/queue.rs` has the queues that this one was chosen
//! from.
//!
//! There is no cancellation: a set of cancelled events would cost a look-up on every pop. Whoever
//! scheduled an event drops it when it turns out to be stale; see [`Generation`](crate::Generation).

use core::fmt;

use crate::heap::{Heap, Place};
use crate::rank::Rank;
use crate::time::SimTime;

/// An event with the place it had in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled<E> {
    /// When it happens.
    pub time: SimTime,
    /// Its place inside that instant.
    pub rank: Rank,
    /// The event itself.
    pub event: E,
}

/// A priority queue of events, ordered by (time, rank, sequence of insertion).
///
/// Which heap does the work is private.
///
/// ```
/// use foretoken_des_kernel::{EventQueue, Rank, SimTime};
///
/// let mut queue = EventQueue::new();
/// let noon = SimTime::from_nanos(12);
/// queue.push(noon, Rank::new(1, 0), "second");
/// queue.push(noon, Rank::new(1, 0), "third: same rank, inserted later");
/// queue.push(noon, Rank::new(0, 9), "first: an earlier phase");
///
/// let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|next| &next.event[..5]).collect();
/// assert_eq!(order, ["first", "secon", "third"]);
/// ```
#[derive(Clone)]
pub struct EventQueue<E> {
    /// An event before all others, if it is known: models that schedule what happens next pass the heap
    /// by.
    front: Option<(Place, E)>,
    heap: Heap,
    /// The events, by the slot of their place.
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    next_sequence: u64,
}

impl<E> EventQueue<E> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            front: None,
            heap: Heap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            next_sequence: 0,
        }
    }

    /// Adds an event.
    ///
    /// # Panics
    /// If more than 16 million events of one instant and rank wait: their order would be lost.
    pub fn push(&mut self, time: SimTime, rank: Rank, event: E) {
        if self.next_sequence > Place::LAST_SEQUENCE {
            self.renumber();
        }
        let place = Place::new(time, rank, self.next_sequence, 0);
        self.next_sequence += 1;
        let first = match &self.front {
            Some((front, _)) => Some(*front),
            None => self.heap.first(),
        };
        if first.is_some_and(|first| first.is_before(place)) {
            self.put(place, event);
        } else if let Some((place, event)) = self.front.replace((place, event)) {
            self.put(place, event);
        }
    }

    /// Puts an event into the heap.
    fn put(&mut self, mut place: Place, event: E) {
        place.slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(event);
            slot
        } else {
            let slot = u32::try_from(self.slots.len()).expect("so many events fit in no memory");
            self.slots.push(Some(event));
            slot
        };
        self.heap.push(place);
    }

    #[cold]
    fn renumber(&mut self) {
        if let Some((place, event)) = self.front.take() {
            self.put(place, event);
        }
        self.next_sequence = self.heap.renumber();
        assert!(
            self.next_sequence <= Place::LAST_SEQUENCE,
            "order of ties: more than 16 million events of one instant and rank wait"
        );
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<Scheduled<E>> {
        let (place, event) = self.front.take().or_else(|| self.take())?;
        Some(Scheduled {
            time: place.time(),
            rank: place.rank(),
            event,
        })
    }

    /// Takes the first event out of the heap.
    fn take(&mut self) -> Option<(Place, E)> {
        let place = self.heap.pop()?;
        let event = self.slots[place.slot as usize].take();
        self.free.push(place.slot);
        Some((place, event.expect("the slot of a waiting event holds it")))
    }

    /// Removes the next event, if it happens at `horizon` or before.
    pub fn pop_until(&mut self, horizon: SimTime) -> Option<Scheduled<E>> {
        if self.next_time()? > horizon {
            return None;
        }
        self.pop()
    }

    /// When the next event happens.
    pub fn next_time(&self) -> Option<SimTime> {
        match &self.front {
            Some((place, _)) => Some(place.time()),
            None => self.heap.first().map(Place::time),
        }
    }

    /// The number of events that wait.
    pub fn len(&self) -> usize {
        self.heap.len() + usize::from(self.front.is_some())
    }

    /// `true` if no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> fmt::Debug for EventQueue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue")
            .field("len", &self.len())
            .field("next_time", &self.next_time())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut EventQueue<u32>) -> Vec<u32> {
        core::iter::from_fn(|| queue.pop())
            .map(|next| next.event)
            .collect()
    }

    #[test]
    fn time_decides_before_rank() {
        let mut queue = EventQueue::new();
        queue.push(SimTime::from_nanos(2), Rank::new(0, 0), 2);
        queue.push(SimTime::from_nanos(1), Rank::new(9, 9), 1);
        assert_eq!(drain(&mut queue), [1, 2]);
    }

    #[test]
    fn equal_ranks_leave_in_the_order_of_insertion() {
        let mut queue = EventQueue::new();
        for event in 0..100 {
            queue.push(SimTime::ZERO, Rank::new(3, 3), event);
        }
        assert_eq!(drain(&mut queue), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn order_survives_the_end_of_the_sequence() {
        let mut queue = EventQueue::new();
        queue.next_sequence = Place::LAST_SEQUENCE - 1;
        // Of two instants and two ranks, so that ties and others are numbered anew.
        for event in 0..8 {
            let (time, phase) = (SimTime::from_nanos(event / 4 % 2), u8::from(event % 2 == 0));
            queue.push(time, Rank::new(phase, 3), event);
        }
        assert!(queue.next_sequence < 8);
        let order: Vec<_> = core::iter::from_fn(|| queue.pop())
            .map(|next| next.event)
            .collect();
        assert_eq!(order, [1, 3, 0, 2, 5, 7, 4, 6]);
    }

    #[test]
    fn a_queue_holds_no_more_slots_than_events_waited_at_once() {
        let mut queue = EventQueue::new();
        for event in 0..1_000 {
            queue.push(SimTime::from_nanos(event), Rank::default(), event);
            queue.push(SimTime::from_nanos(event), Rank::default(), event);
            assert_eq!(queue.pop().map(|next| next.event), Some(event));
            assert_eq!(queue.pop().map(|next| next.event), Some(event));
        }
        assert_eq!(queue.slots.len(), 1);
    }

    #[test]
    fn pop_until_leaves_later_events() {
        let mut queue = EventQueue::new();
        queue.push(SimTime::from_nanos(5), Rank::default(), 5);
        assert_eq!(queue.pop_until(SimTime::from_nanos(4)), None);
        assert_eq!(queue.len(), 1);
        let at_horizon = queue
            .pop_until(SimTime::from_nanos(5))
            .map(|next| next.event);
        assert_eq!(at_horizon, Some(5));
        assert_eq!(queue.pop_until(SimTime::MAX), None);
        assert!(queue.is_empty());
    }
}

//! The event queue: what happens next.
//!
//! Events leave in the order of (time, [`Rank`], sequence of insertion). The key is three 64-bit
//! words: rank and sequence do not share one, because a sequence of only 24 bits beside the 40 of
//! the rank would wrap within a long run and silently turn the order of ties around. At a billion
//! insertions a second, 64 bits last for 584 years.
//!
//! There is no cancellation: a set of cancelled events would cost a look-up on every pop. Whoever
//! scheduled an event drops it when it turns out to be stale; see [`Generation`](crate::Generation).

use core::cmp::Ordering;
use core::fmt;
use std::collections::BinaryHeap;

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
/// Events are stored inline. Which heap does the work is private.
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
    heap: BinaryHeap<Entry<E>>,
    next_sequence: u64,
}

impl<E> EventQueue<E> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            next_sequence: 0,
        }
    }

    /// Adds an event.
    pub fn push(&mut self, time: SimTime, rank: Rank, event: E) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.heap.push(Entry {
            time,
            rank,
            sequence,
            event,
        });
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<Scheduled<E>> {
        self.heap.pop().map(
            |Entry {
                 time, rank, event, ..
             }| Scheduled { time, rank, event },
        )
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
        self.heap.peek().map(|entry| entry.time)
    }

    /// The number of events that wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// `true` if no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
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

#[derive(Clone)]
struct Entry<E> {
    time: SimTime,
    rank: Rank,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    const fn key(&self) -> (SimTime, Rank, u64) {
        (self.time, self.rank, self.sequence)
    }
}

/// Reversed, because the standard heap gives out its *greatest* element.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

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
    fn order_survives_sequences_beyond_32_bits() {
        let mut queue = EventQueue::new();
        queue.next_sequence = u64::from(u32::MAX) - 1;
        for event in 0..4 {
            queue.push(SimTime::ZERO, Rank::new(3, 3), event);
        }
        assert_eq!(drain(&mut queue), [0, 1, 2, 3]);
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

//! The waiting queue: sequences in the order of their keys.

use core::ops::Bound;
use std::collections::BTreeSet;

use foretoken_workload::{OrderKey, QueueOrder, RequestId, Requeue};

use crate::sequence::Slot;

/// Key, then place among equal keys, then id. Orders that put preempted requests in front use the
/// place; for the others it is 0, and the smaller id goes first (as vLLM's priority heap).
type Place = (OrderKey, i64, RequestId, Slot);

#[derive(Debug)]
pub(crate) struct WaitingQueue {
    order: Box<dyn QueueOrder>,
    places: BTreeSet<Place>,
    /// Where each slot stands, to remove it.
    by_slot: Vec<Option<Place>>,
    front: i64,
    back: i64,
}

impl WaitingQueue {
    pub(crate) fn new(order: Box<dyn QueueOrder>) -> Self {
        Self {
            order,
            places: BTreeSet::new(),
            by_slot: Vec::new(),
            front: 0,
            back: 0,
        }
    }

    pub(crate) fn order(&self) -> &dyn QueueOrder {
        &*self.order
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Enters a new request.
    pub(crate) fn push(&mut self, key: OrderKey, id: RequestId, slot: Slot) {
        let place = match self.order.requeue() {
            Requeue::Front => {
                self.back += 1;
                self.back
            }
            Requeue::ByKey => 0,
        };
        self.insert((key, place, id, slot));
    }

    /// Enters a preempted request.
    pub(crate) fn push_preempted(&mut self, key: OrderKey, id: RequestId, slot: Slot) {
        match self.order.requeue() {
            Requeue::Front => {
                self.front -= 1;
                self.insert((OrderKey::default(), self.front, id, slot));
            }
            Requeue::ByKey => self.insert((key, 0, id, slot)),
        }
    }

    fn insert(&mut self, place: Place) {
        let index = place.3 as usize;
        if self.by_slot.len() <= index {
            self.by_slot.resize(index + 1, None);
        }
        self.by_slot[index] = Some(place);
        self.places.insert(place);
    }

    /// The one behind `passed`; without it, the head.
    pub(crate) fn next(&self, passed: Option<Slot>) -> Option<Slot> {
        let Some(passed) = passed else {
            return self.places.first().map(|place| place.3);
        };
        let place = self.by_slot[passed as usize].expect(WAITING_HAVE_PLACES);
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        self.places.range(behind).next().map(|place| place.3)
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let place = self.by_slot[slot as usize]
            .take()
            .expect(WAITING_HAVE_PLACES);
        self.places.remove(&place);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.places.iter().map(|place| place.3)
    }

    /// Gives the sequences new keys, in the order of [`iter`](Self::iter).
    pub(crate) fn rekey(&mut self, keys: &[OrderKey]) {
        let places = core::mem::take(&mut self.places);
        for ((_, place, id, slot), &key) in places.into_iter().zip(keys) {
            // Whoever was put in front stays there.
            let key = if place < 0 { OrderKey::default() } else { key };
            self.insert((key, place, id, slot));
        }
    }
}

const WAITING_HAVE_PLACES: &str = "a waiting sequence has a place";

#[cfg(test)]
mod tests {
    use foretoken_workload::Fcfs;
    use foretoken_workload::order::ByPriority;

    use super::*;

    fn push(queue: &mut WaitingQueue, major: u64, number: u32) {
        queue.push(OrderKey::new(major, 0), RequestId::new(number), number);
    }

    #[test]
    fn preempted_requests_go_to_the_front_the_last_one_first() {
        let mut queue = WaitingQueue::new(Box::new(Fcfs));
        for number in [5, 3] {
            push(&mut queue, 0, number);
        }
        for number in [8, 9] {
            queue.push_preempted(OrderKey::new(7, 7), RequestId::new(number), number);
        }
        assert_eq!(queue.iter().collect::<Vec<_>>(), [9, 8, 5, 3]);
        queue.remove(9);
        assert_eq!((queue.next(None), queue.len()), (Some(8), 3));
        assert_eq!((queue.next(Some(8)), queue.next(Some(3))), (Some(5), None));
    }

    #[test]
    fn requests_of_equal_keys_stand_in_the_order_of_their_ids() {
        let mut queue = WaitingQueue::new(Box::new(ByPriority));
        for (major, number) in [(2, 1), (1, 7), (1, 4)] {
            push(&mut queue, major, number);
        }
        queue.push_preempted(OrderKey::new(1, 0), RequestId::new(5), 5);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [4, 5, 7, 1]);
    }

    #[test]
    fn new_keys_reorder_the_queue_and_places_can_still_be_removed() {
        let mut queue = WaitingQueue::new(Box::new(ByPriority));
        for number in 0..3 {
            push(&mut queue, u64::from(number), number);
        }
        queue.rekey(&[3, 2, 1].map(|major| OrderKey::new(major, 0)));
        assert_eq!(queue.iter().collect::<Vec<_>>(), [2, 1, 0]);
        queue.remove(1);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [2, 0]);
    }
}

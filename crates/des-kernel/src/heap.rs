//! [`Heap`]: the places of waiting events, earliest first.
//!
//! A heap of four children a node holds half as many levels as a binary one, and the least of four is
//! found without a branch: which child that is cannot be foretold, so each wrong guess of a branch
//! would cost more than the comparisons. Places are small and are moved; the events are not.

use core::hint::select_unpredictable;

use crate::rank::Rank;
use crate::time::SimTime;

const CHILDREN: usize = 4;

/// Bits of a key that number the events of one instant and rank.
const SEQUENCE_BITS: u32 = 24;

/// The place of an event: its key in two words, and the slot where the event itself lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    time: u64,
    /// The rank, which has 40 bits, above the sequence.
    order: u64,
    /// Where the event lies.
    pub(crate) slot: u32,
}

impl Place {
    /// The greatest sequence that a place can have.
    pub(crate) const LAST_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

    pub(crate) const fn new(time: SimTime, rank: Rank, sequence: u64, slot: u32) -> Self {
        debug_assert!(sequence <= Self::LAST_SEQUENCE, "a sequence has 24 bits");
        Self {
            time: time.as_nanos(),
            order: rank.as_u64() << SEQUENCE_BITS | sequence,
            slot,
        }
    }

    pub(crate) const fn time(self) -> SimTime {
        SimTime::from_nanos(self.time)
    }

    pub(crate) const fn rank(self) -> Rank {
        Rank::from_u64(self.order >> SEQUENCE_BITS)
    }

    /// Time, rank and sequence in one number: compared without a branch.
    const fn key(self) -> u128 {
        // Both casts widen; `From` is not const.
        (self.time as u128) << 64 | self.order as u128
    }

    /// Whether its event comes before that of `other`.
    pub(crate) const fn is_before(self, other: Self) -> bool {
        self.key() < other.key()
    }

    /// Whether only the sequence tells the two apart.
    const fn ties_with(self, other: Self) -> bool {
        self.key() >> SEQUENCE_BITS == other.key() >> SEQUENCE_BITS
    }
}

/// A priority queue of places.
#[derive(Debug, Clone)]
pub(crate) struct Heap(Vec<Place>);

impl Heap {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self) -> Option<Place> {
        self.0.first().copied()
    }

    pub(crate) fn push(&mut self, place: Place) {
        let mut at = self.0.len();
        self.0.push(place);
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            let above = self.0[parent];
            if above.key() < place.key() {
                break;
            }
            self.0[at] = above;
            at = parent;
        }
        self.0[at] = place;
    }

    /// Removes the first place.
    pub(crate) fn pop(&mut self) -> Option<Place> {
        let last = self.0.pop()?;
        let Some(&first) = self.0.first() else {
            return Some(last);
        };
        self.sink(last);
        Some(first)
    }

    /// Puts `place` where the first was, and lets it sink to where it belongs.
    fn sink(&mut self, place: Place) {
        let heap = self.0.as_mut_slice();
        let mut at = 0;
        while let Some(child) = least_child(heap, at) {
            let least = heap[child];
            if place.key() < least.key() {
                break;
            }
            heap[at] = least;
            at = child;
        }
        heap[at] = place;
    }

    /// Numbers events of one instant and rank anew, from zero, in their order. Returns the first
    /// number that is above all.
    pub(crate) fn renumber(&mut self) -> u64 {
        // In order, a heap is a heap.
        self.0.sort_unstable_by_key(|place| place.key());
        let (mut next, mut sequence) = (0, 0);
        let mut before: Option<Place> = None;
        for place in &mut self.0 {
            let old = *place;
            let ties = before.is_some_and(|before| before.ties_with(old));
            sequence = if ties { sequence + 1 } else { 0 };
            place.order = old.order & !Place::LAST_SEQUENCE | sequence;
            before = Some(old);
            next = next.max(sequence + 1);
        }
        next
    }
}

/// The child of `parent` that comes first, if it has any.
#[inline]
fn least_child(heap: &[Place], parent: usize) -> Option<usize> {
    let first = parent * CHILDREN + 1;
    let children = heap.get(first..)?;
    if let Some(&[a, b, c, d]) = children.first_chunk::<CHILDREN>() {
        let [a, b, c, d] = [a, b, c, d].map(Place::key);
        let (left, right) = (b < a, d < c);
        let least_left = select_unpredictable(left, b, a);
        let least_right = select_unpredictable(right, d, c);
        let in_left = usize::from(left);
        let in_right = 2 + usize::from(right);
        return Some(first + select_unpredictable(least_right < least_left, in_right, in_left));
    }
    let children = (first..).zip(children);
    children
        .min_by_key(|(_, place)| place.key())
        .map(|(child, _)| child)
}

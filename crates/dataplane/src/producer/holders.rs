//! [`Holders`]: which endpoints hold which blocks, where each endpoint forgets its oldest.

use foretoken_workload::BlockHash;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::recency::{Recency, Slab};
use crate::view::EndpointId;

/// Blocks of all endpoints in one map, so that a prompt is looked up for all of them in one walk.
///
/// Most blocks are held by one endpoint alone: these are an entry of the map and a slot. Those that
/// several hold have a list, and the same as a set: along a shared prefix one set follows itself, and is
/// counted once.
#[derive(Debug)]
pub(super) struct Holders {
    blocks: HashMap<BlockHash, Held, FxBuildHasher>,
    slots: Slab<Holding>,
    shared: Vec<Shared>,
    free_shared: Vec<u32>,
    /// What each endpoint holds, by id.
    endpoints: Vec<Option<Remembered>>,
}

/// That an endpoint holds a block.
#[derive(Debug, Clone, Copy)]
struct Holding {
    block: BlockHash,
    endpoint: EndpointId,
}

/// Who holds a block.
#[derive(Debug, Clone, Copy)]
enum Held {
    /// One endpoint, with this slot.
    Alone(u32),
    /// Several, with this list.
    Shared(u32),
}

/// The holders of a block and their slots, by id.
#[derive(Debug, Default)]
struct Shared {
    holders: Vec<(EndpointId, u32)>,
    /// A bit for each of them; without zeros at the end.
    set: SmallVec<[u64; 2]>,
}

#[derive(Debug)]
struct Remembered {
    blocks: Recency,
    capacity: usize,
}

impl Holders {
    pub(super) const fn new() -> Self {
        Self {
            blocks: HashMap::with_hasher(FxBuildHasher),
            slots: Slab::new(),
            shared: Vec::new(),
            free_shared: Vec::new(),
            endpoints: Vec::new(),
        }
    }

    /// Walks `keys` up to the first that nobody holds, and tells for each holder how many of them it
    /// holds; an endpoint may be told several times.
    pub(super) fn count(&self, keys: &[BlockHash], mut tell: impl FnMut(EndpointId, u32)) {
        let mut run: Option<(Held, u32)> = None;
        for key in keys {
            let Some(&held) = self.blocks.get(key) else {
                break;
            };
            match &mut run {
                Some((same, length)) if self.is_same(*same, held) => *length += 1,
                _ => {
                    self.tell(run.replace((held, 1)), &mut tell);
                }
            }
        }
        self.tell(run, &mut tell);
    }

    fn is_same(&self, one: Held, other: Held) -> bool {
        match (one, other) {
            (Held::Alone(one), Held::Alone(other)) => {
                self.slots.get(one).endpoint == self.slots.get(other).endpoint
            }
            (Held::Shared(one), Held::Shared(other)) => {
                self.shared[one as usize].set == self.shared[other as usize].set
            }
            _ => false,
        }
    }

    fn tell(&self, run: Option<(Held, u32)>, tell: &mut impl FnMut(EndpointId, u32)) {
        let Some((held, length)) = run else { return };
        match held {
            Held::Alone(slot) => tell(self.slots.get(slot).endpoint, length),
            Held::Shared(list) => {
                for &(endpoint, _) in &self.shared[list as usize].holders {
                    tell(endpoint, length);
                }
            }
        }
    }

    /// From now on `endpoint` holds `keys`, the last of them most recently. `capacity` counts only for
    /// an endpoint of which nothing is remembered.
    pub(super) fn record(
        &mut self,
        endpoint: EndpointId,
        capacity: usize,
        keys: impl Iterator<Item = BlockHash>,
    ) {
        let index = endpoint.index();
        if self.endpoints.len() <= index {
            self.endpoints.resize_with(index + 1, || None);
        }
        let mut remembered = self.endpoints[index].take().unwrap_or(Remembered {
            blocks: Recency::new(),
            capacity,
        });
        for key in keys {
            match self.slot(key, endpoint) {
                Slot::Known(slot) => remembered.blocks.touch(&mut self.slots, slot),
                Slot::New(slot) => remembered.blocks.push(&mut self.slots, slot),
            }
            if remembered.blocks.len() > remembered.capacity
                && let Some(oldest) = remembered.blocks.pop(&mut self.slots)
            {
                self.forget(oldest);
            }
        }
        self.endpoints[index] = Some(remembered);
    }

    /// The slot of a block on an endpoint; a new one is in no list yet.
    fn slot(&mut self, block: BlockHash, endpoint: EndpointId) -> Slot {
        let holding = Holding { block, endpoint };
        let mut entry = match self.blocks.entry(block) {
            Entry::Vacant(entry) => {
                let slot = self.slots.insert(holding);
                entry.insert(Held::Alone(slot));
                return Slot::New(slot);
            }
            Entry::Occupied(entry) => entry,
        };
        let list = match *entry.get() {
            Held::Alone(slot) => {
                let other = self.slots.get(slot).endpoint;
                if other == endpoint {
                    return Slot::Known(slot);
                }
                let list = match self.free_shared.pop() {
                    Some(list) => list,
                    None => {
                        self.shared.push(Shared::default());
                        u32::try_from(self.shared.len() - 1)
                            .expect("fewer than 2^32 blocks are remembered at a time")
                    }
                };
                entry.insert(Held::Shared(list));
                self.shared[list as usize].insert(0, other, slot);
                list
            }
            Held::Shared(list) => list,
        };
        let shared = &mut self.shared[list as usize];
        match shared.find(endpoint) {
            Ok(place) => Slot::Known(shared.holders[place].1),
            Err(place) => {
                let slot = self.slots.insert(holding);
                shared.insert(place, endpoint, slot);
                Slot::New(slot)
            }
        }
    }

    /// Forgets a slot that is in no list.
    fn forget(&mut self, slot: u32) {
        let Holding { block, endpoint } = *self.slots.get(slot);
        self.slots.free(slot);
        let Entry::Occupied(mut entry) = self.blocks.entry(block) else {
            return;
        };
        let Held::Shared(list) = *entry.get() else {
            entry.remove();
            return;
        };
        let shared = &mut self.shared[list as usize];
        shared.remove(endpoint);
        if let [(_, last)] = shared.holders[..] {
            entry.insert(Held::Alone(last));
            shared.holders.clear();
            shared.set.clear();
            self.free_shared.push(list);
        }
    }

    /// Forgets all that an endpoint holds.
    pub(super) fn clear(&mut self, endpoint: EndpointId) {
        let remembered = self.endpoints.get_mut(endpoint.index());
        let Some(mut remembered) = remembered.and_then(Option::take) else {
            return;
        };
        while let Some(slot) = remembered.blocks.pop(&mut self.slots) {
            self.forget(slot);
        }
    }
}

/// Where a block of an endpoint is.
enum Slot {
    Known(u32),
    New(u32),
}

impl Shared {
    /// Where an endpoint stands in the list, or would stand.
    fn find(&self, endpoint: EndpointId) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&endpoint, |&(id, _)| id)
    }

    fn insert(&mut self, place: usize, endpoint: EndpointId, slot: u32) {
        self.holders.insert(place, (endpoint, slot));
        let (word, bit) = (endpoint.index() / 64, endpoint.index() % 64);
        if self.set.len() <= word {
            self.set.resize(word + 1, 0);
        }
        self.set[word] |= 1 << bit;
    }

    fn remove(&mut self, endpoint: EndpointId) {
        let Ok(place) = self.find(endpoint) else {
            return;
        };
        self.holders.remove(place);
        self.set[endpoint.index() / 64] &= !(1 << (endpoint.index() % 64));
        while self.set.last() == Some(&0) {
            self.set.pop();
        }
    }
}

//! [`LruIndex`]: what is known of each block, where the block that was used least recently goes first.

use foretoken_workload::BlockHash;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use rustc_hash::FxBuildHasher;

use super::recency::{Recency, Slab};

/// A map from blocks to what is known of them, in the order of use.
#[derive(Debug)]
pub(super) struct LruIndex<V> {
    blocks: HashMap<BlockHash, u32, FxBuildHasher>,
    slots: Slab<(BlockHash, V)>,
    used: Recency,
}

impl<V: Default> LruIndex<V> {
    pub(super) const fn new() -> Self {
        Self {
            blocks: HashMap::with_hasher(FxBuildHasher),
            slots: Slab::new(),
            used: Recency::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.used.len()
    }

    /// What is known of a block, which is used with this.
    pub(super) fn touch(&mut self, block: BlockHash) -> Option<&V> {
        let &slot = self.blocks.get(&block)?;
        self.used.touch(&mut self.slots, slot);
        Some(&self.slots.get(slot).1)
    }

    /// The same, to be changed; nothing is known of a block that was not there.
    pub(super) fn entry(&mut self, block: BlockHash) -> &mut V {
        let slot = match self.blocks.entry(block) {
            Entry::Occupied(entry) => {
                let slot = *entry.get();
                self.used.touch(&mut self.slots, slot);
                slot
            }
            Entry::Vacant(entry) => {
                let slot = self.slots.insert((block, V::default()));
                self.used.push(&mut self.slots, slot);
                *entry.insert(slot)
            }
        };
        &mut self.slots.get_mut(slot).1
    }

    /// Changes what is known of a block, which does not use it; it goes if `change` says so.
    pub(super) fn change(&mut self, block: BlockHash, change: impl FnOnce(&mut V) -> Fate) {
        let Entry::Occupied(entry) = self.blocks.entry(block) else {
            return;
        };
        let slot = *entry.get();
        if change(&mut self.slots.get_mut(slot).1) == Fate::Goes {
            entry.remove();
            self.used.remove(&mut self.slots, slot);
            self.free(slot);
        }
    }

    /// The block that was used least recently goes.
    pub(super) fn pop(&mut self) {
        if let Some(slot) = self.used.pop(&mut self.slots) {
            self.blocks.remove(&self.slots.get(slot).0);
            self.free(slot);
        }
    }

    fn free(&mut self, slot: u32) {
        self.slots.get_mut(slot).1 = V::default();
        self.slots.free(slot);
    }

    /// All blocks, the least recently used first.
    pub(super) fn keys(&self) -> impl Iterator<Item = BlockHash> {
        let slots = self.used.iter(&self.slots);
        slots.map(|slot| self.slots.get(slot).0)
    }
}

/// What becomes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    Goes,
}

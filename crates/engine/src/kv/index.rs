//! Which block holds which content.

use core::hash::{BuildHasherDefault, Hasher};

use foretoken_workload::BlockHash;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::pool::BlockId;

/// Blocks by their key. Several blocks may carry one key (a recomputed block is registered a second
/// time); the one registered first and still existing is found.
#[derive(Debug, Clone)]
pub(super) struct PrefixIndex {
    found: HashMap<BlockHash, BlockId, BuildHasherDefault<Mixed>>,
    /// For each block, the one with the same key that was registered next; nearly always none.
    copies: Vec<Option<BlockId>>,
}

impl PrefixIndex {
    /// An index of the blocks below `total`.
    pub(super) fn new(total: u32) -> Self {
        Self {
            found: HashMap::default(),
            copies: vec![None; total as usize],
        }
    }

    pub(super) fn get(&self, key: BlockHash) -> Option<BlockId> {
        self.found.get(&key).copied()
    }

    /// Makes a block without a key findable.
    pub(super) fn insert(&mut self, key: BlockHash, id: BlockId) {
        match self.found.entry(key) {
            Entry::Vacant(place) => {
                place.insert(id);
            }
            Entry::Occupied(place) => {
                let mut last = *place.get();
                while let Some(next) = self.copies[last.index()] {
                    last = next;
                }
                self.copies[last.index()] = Some(id);
            }
        }
    }

    /// Forgets a block with this key.
    pub(super) fn remove(&mut self, key: BlockHash, id: BlockId) {
        let Entry::Occupied(mut place) = self.found.entry(key) else {
            panic!("a block's key is in the index");
        };
        let next = self.copies[id.index()].take();
        if *place.get() != id {
            let mut before = *place.get();
            while self.copies[before.index()] != Some(id) {
                before = self.copies[before.index()]
                    .expect("a block with a key is among those that have it");
            }
            self.copies[before.index()] = next;
        } else if let Some(next) = next {
            place.insert(next);
        } else {
            place.remove();
        }
    }

    pub(super) fn clear(&mut self) {
        self.found.clear();
        self.copies.fill(None);
    }
}

/// Takes a number for its own hash: block hashes are well mixed already.
#[derive(Debug, Clone, Copy, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_blocks_the_one_registered_first_is_found_whichever_are_removed() {
        let key = BlockHash::root(1);
        let [one, two, three] = [1, 2, 3].map(BlockId::new);
        let mut index = PrefixIndex::new(4);
        for id in [two, three, one] {
            index.insert(key, id);
        }
        assert_eq!(index.get(key), Some(two));
        index.remove(key, three);
        index.remove(key, two);
        assert_eq!(index.get(key), Some(one));
        index.insert(key, three);
        index.remove(key, three);
        index.remove(key, one);
        assert_eq!(index.get(key), None);
    }
}

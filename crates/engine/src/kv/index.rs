//! Which block holds which content.

use foretoken_workload::BlockHash;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::pool::{BlockId, BlockPool};

/// Blocks by their key. Several blocks may carry one key (a recomputed block is registered a second
/// time); the one registered first and still existing is found. The others follow it in a list, which
/// the pool holds, as it holds the keys.
///
/// Block hashes are well mixed already, and serve as their own hashes.
#[derive(Debug, Clone, Default)]
pub(super) struct PrefixIndex {
    found: HashTable<BlockId>,
}

impl PrefixIndex {
    pub(super) fn get(&self, pool: &BlockPool, key: BlockHash) -> Option<BlockId> {
        let same = |&id: &BlockId| pool.key(id) == key;
        self.found.find(key.get(), same).copied()
    }

    /// Makes a block findable by its key.
    pub(super) fn insert(&mut self, pool: &mut BlockPool, id: BlockId) {
        let key = pool.key(id);
        let same = |&other: &BlockId| pool.key(other) == key;
        let hash = |&other: &BlockId| pool.key(other).get();
        match self.found.entry(key.get(), same, hash) {
            Entry::Vacant(place) => {
                place.insert(id);
            }
            Entry::Occupied(place) => {
                let mut last = *place.get();
                while pool.copy(last) != BlockId::NONE {
                    last = pool.copy(last);
                }
                pool.set_copy(last, id);
            }
        }
    }

    /// Forgets a block.
    ///
    /// # Panics
    /// If it cannot be found by its key.
    pub(super) fn remove(&mut self, pool: &mut BlockPool, id: BlockId) {
        let key = pool.key(id);
        let same = |&other: &BlockId| pool.key(other) == key;
        let Ok(mut place) = self.found.find_entry(key.get(), same) else {
            panic!("a block's key is in the index");
        };
        let next = pool.take_copy(id);
        if *place.get() != id {
            let mut before = *place.get();
            while pool.copy(before) != id {
                before = pool.copy(before);
                assert!(
                    before != BlockId::NONE,
                    "a block with a key is among those that have it"
                );
            }
            pool.set_copy(before, next);
        } else if next == BlockId::NONE {
            place.remove();
        } else {
            *place.get_mut() = next;
        }
    }

    pub(super) fn clear(&mut self) {
        self.found.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_blocks_the_one_registered_first_is_found_whichever_are_removed() {
        let key = BlockHash::root(1);
        let mut pool = BlockPool::new(0);
        let [one, two, three] = [key; 3].map(|key| pool.name(key));
        let mut index = PrefixIndex::default();
        for id in [two, three, one] {
            index.insert(&mut pool, id);
        }
        assert_eq!(index.get(&pool, key), Some(two));
        index.remove(&mut pool, three);
        index.remove(&mut pool, two);
        assert_eq!(index.get(&pool, key), Some(one));
        index.insert(&mut pool, three);
        index.remove(&mut pool, three);
        index.remove(&mut pool, one);
        assert_eq!(index.get(&pool, key), None);
    }
}

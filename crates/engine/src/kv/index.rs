//! Which block holds which content.

use foretoken_workload::BlockHash;

use super::pool::{BlockId, BlockPool};

/// Blocks by their key. Several blocks may carry one key (a recomputed block is registered a second
/// time); the one registered first and still existing is found.
///
/// A hash table of lists, which the pool holds, as it holds the keys: block hashes are well mixed
/// already, blocks are registered and forgotten all the time, and seldom has a list two of them. In a
/// list a block comes behind those that were registered before it.
#[derive(Debug, Clone)]
pub(super) struct PrefixIndex {
    /// The first block of each list; a power of two of them.
    lists: Vec<BlockId>,
    blocks: usize,
}

impl PrefixIndex {
    pub(super) fn new() -> Self {
        Self {
            lists: vec![BlockId::NONE; 64],
            blocks: 0,
        }
    }

    /// The list of a key.
    fn list(&self, key: BlockHash) -> usize {
        // The lower bits of a hash are as good as the others.
        key.get() as usize & (self.lists.len() - 1)
    }

    #[inline]
    pub(super) fn get(&self, pool: &BlockPool, key: BlockHash) -> Option<BlockId> {
        let mut id = self.lists[self.list(key)];
        while id != BlockId::NONE {
            if pool.key(id) == key {
                return Some(id);
            }
            id = pool.listed_next(id);
        }
        None
    }

    /// Makes a block findable by its key.
    #[inline]
    pub(super) fn insert(&mut self, pool: &mut BlockPool, id: BlockId) {
        if self.blocks >= self.lists.len() / 4 {
            self.grow(pool);
        }
        self.blocks += 1;
        self.append(pool, id);
    }

    /// Puts a block at the end of its list.
    #[inline]
    fn append(&mut self, pool: &mut BlockPool, id: BlockId) {
        let list = self.list(pool.key(id));
        let first = self.lists[list];
        if first == BlockId::NONE {
            self.lists[list] = id;
            return;
        }
        let mut last = first;
        while pool.listed_next(last) != BlockId::NONE {
            last = pool.listed_next(last);
        }
        pool.set_listed_next(last, id);
    }

    fn grow(&mut self, pool: &mut BlockPool) {
        let more = vec![BlockId::NONE; self.lists.len() * 2];
        for mut id in core::mem::replace(&mut self.lists, more) {
            while id != BlockId::NONE {
                let next = pool.listed_next(id);
                pool.set_listed_next(id, BlockId::NONE);
                self.append(pool, id);
                id = next;
            }
        }
    }

    /// Forgets a block.
    ///
    /// # Panics
    /// If it is not in the list of its key.
    #[inline]
    pub(super) fn remove(&mut self, pool: &mut BlockPool, id: BlockId) {
        self.blocks -= 1;
        let list = self.list(pool.key(id));
        let next = pool.listed_next(id);
        pool.set_listed_next(id, BlockId::NONE);
        let mut before = self.lists[list];
        if before == id {
            self.lists[list] = next;
            return;
        }
        while pool.listed_next(before) != id {
            before = pool.listed_next(before);
            assert!(before != BlockId::NONE, "a block's key is in the index");
        }
        pool.set_listed_next(before, next);
    }

    pub(super) fn clear(&mut self) {
        self.lists.fill(BlockId::NONE);
        self.blocks = 0;
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
        let mut index = PrefixIndex::new();
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

    #[test]
    fn blocks_are_found_however_many_there_are() {
        let mut pool = BlockPool::new(0);
        let mut index = PrefixIndex::new();
        let named: Vec<(BlockHash, BlockId)> = (0..2_000)
            .map(|number| {
                // Each key twice, at some distance.
                let key = BlockHash::root(number % 1_000);
                let id = pool.name(key);
                index.insert(&mut pool, id);
                (key, id)
            })
            .collect();
        let (first, second) = named.split_at(1_000);
        for &(key, id) in first {
            assert_eq!(index.get(&pool, key), Some(id));
            index.remove(&mut pool, id);
        }
        for &(key, id) in second {
            assert_eq!(index.get(&pool, key), Some(id));
        }
        index.clear();
        assert_eq!(index.get(&pool, first[0].0), None);
    }
}

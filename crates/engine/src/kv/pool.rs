//! The pool of KV blocks and its free queue.
//!
//! A block is in use while its reference count is positive, and in the free queue otherwise. The
//! queue is least recently released first; a block in it may still carry a key and so be "free" and
//! "cached" at once. It loses its key only when it is taken for new content: there is no other
//! eviction.

use foretoken_workload::BlockHash;

/// Number of a block. Block 0 is the null block, which is never handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u32);

impl BlockId {
    const NULL: Self = Self(0);

    #[cfg(test)]
    pub(super) const fn new(id: u32) -> Self {
        Self(id)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone)]
struct Block {
    references: u32,
    key: Option<BlockHash>,
    /// Neighbours in the free queue; the null block closes the ring.
    previous: BlockId,
    next: BlockId,
}

/// All blocks; the free queue is a ring through the null block, so that taking from the middle
/// (a prefix hit on a free block) is O(1).
#[derive(Debug, Clone)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    free: u32,
    /// References beyond the first, over all blocks.
    shared: u64,
}

impl BlockPool {
    /// `total` blocks with the null block; the others are free, ids ascending.
    pub(super) fn new(total: u32) -> Self {
        let blocks = (0..total)
            .map(|id| Block {
                references: 0,
                key: None,
                previous: BlockId(id.checked_sub(1).unwrap_or(total - 1)),
                next: BlockId((id + 1) % total),
            })
            .collect();
        Self {
            blocks,
            free: total - 1,
            shared: 0,
        }
    }

    /// Blocks in the free queue.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// References beyond the first, over all blocks.
    pub(super) fn shared(&self) -> u64 {
        self.shared
    }

    /// Whether nobody holds the block.
    pub(super) fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id.index()].references == 0
    }

    /// Takes the block at the front of the free queue; its former key comes along, to be forgotten.
    ///
    /// # Panics
    /// If the queue is empty: the caller counts first.
    pub(super) fn take(&mut self) -> (BlockId, Option<BlockHash>) {
        let id = self.blocks[BlockId::NULL.index()].next;
        assert!(
            id != BlockId::NULL,
            "blocks are counted before they are taken"
        );
        self.unlink(id);
        let block = &mut self.blocks[id.index()];
        block.references = 1;
        (id, block.key.take())
    }

    /// Adds a reference to a cached block, taking it out of the free queue if it is there.
    pub(super) fn share(&mut self, id: BlockId) {
        if self.is_free(id) {
            self.unlink(id);
        } else {
            self.shared += 1;
        }
        self.blocks[id.index()].references += 1;
    }

    /// Drops a reference; a block that nobody holds any more goes to the end of the free queue, or
    /// behind `front` at its beginning if that is given and the block has no key.
    pub(super) fn release(&mut self, id: BlockId, front: Option<&mut BlockId>) {
        let block = &mut self.blocks[id.index()];
        block.references = block
            .references
            .checked_sub(1)
            .expect("KV blocks are released once per reference");
        if block.references > 0 {
            self.shared -= 1;
            return;
        }
        match front {
            Some(front) if block.key.is_none() => {
                self.link_after(*front, id);
                *front = id;
            }
            _ => self.link_after(self.blocks[BlockId::NULL.index()].previous, id),
        }
    }

    /// The place before the first free block, for [`release`](Self::release).
    pub(super) const fn front() -> BlockId {
        BlockId::NULL
    }

    /// Gives the block a key.
    pub(super) fn set_key(&mut self, id: BlockId, key: BlockHash) {
        self.blocks[id.index()].key = Some(key);
    }

    /// Takes all keys away.
    pub(super) fn clear_keys(&mut self) {
        for block in &mut self.blocks {
            block.key = None;
        }
    }

    fn unlink(&mut self, id: BlockId) {
        let Block { previous, next, .. } = self.blocks[id.index()];
        self.blocks[previous.index()].next = next;
        self.blocks[next.index()].previous = previous;
        self.free -= 1;
    }

    fn link_after(&mut self, previous: BlockId, id: BlockId) {
        let next = self.blocks[previous.index()].next;
        self.blocks[previous.index()].next = id;
        self.blocks[next.index()].previous = id;
        let block = &mut self.blocks[id.index()];
        block.previous = previous;
        block.next = next;
        self.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(pool: &BlockPool) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut id = pool.blocks[0].next;
        while id != BlockId::NULL {
            ids.push(id.0);
            id = pool.blocks[id.index()].next;
        }
        ids
    }

    #[test]
    fn blocks_are_taken_in_ascending_order_at_first_and_come_back_at_the_end() {
        let mut pool = BlockPool::new(5);
        let first = pool.take().0;
        let second = pool.take().0;
        assert_eq!((first, second), (BlockId(1), BlockId(2)));
        pool.release(second, None);
        pool.release(first, None);
        assert_eq!(order(&pool), [3, 4, 2, 1]);
        assert_eq!(pool.free(), 4);
    }

    #[test]
    fn a_hit_on_a_free_block_moves_it_out_of_the_middle_of_the_queue() {
        let mut pool = BlockPool::new(5);
        pool.share(BlockId(3));
        assert_eq!(order(&pool), [1, 2, 4]);
        pool.share(BlockId(3));
        pool.release(BlockId(3), None);
        assert_eq!(pool.free(), 3);
        pool.release(BlockId(3), None);
        assert_eq!(order(&pool), [1, 2, 4, 3]);
    }

    #[test]
    fn uncached_blocks_can_be_released_to_the_front_in_release_order() {
        let mut pool = BlockPool::new(6);
        let ids: Vec<_> = (0..3).map(|_| pool.take().0).collect();
        pool.set_key(ids[0], BlockHash::root(7));
        let mut front = BlockPool::front();
        for &id in ids.iter().rev() {
            pool.release(id, Some(&mut front));
        }
        assert_eq!(order(&pool), [3, 2, 4, 5, 1]);
    }

    #[test]
    #[should_panic(expected = "released once per reference")]
    fn a_double_release_breaks_a_named_invariant() {
        let mut pool = BlockPool::new(3);
        let id = pool.take().0;
        pool.release(id, None);
        pool.release(id, None);
    }
}

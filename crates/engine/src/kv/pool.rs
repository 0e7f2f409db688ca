//! The pool of KV blocks and its free queue.
//!
//! A block is in use while its reference count is positive, and in the free queue otherwise. The
//! queue is least recently released first; a block in it may still carry a key and so be "free" and
//! "cached" at once. It loses its key only when it is taken for new content: there is no other
//! eviction.
//!
//! Blocks without a key are all alike, so that they are only counted: a table has so many of them,
//! and so many lie in the free queue between two blocks with keys. Time and memory go by the blocks
//! with keys.

use foretoken_workload::BlockHash;

/// Number of a block with a key; a later block may get it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u32);

impl BlockId {
    /// No block: the end of a list, and of the free queue.
    pub(super) const NONE: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block with a key, or a place for one.
#[derive(Debug, Clone, Copy)]
struct Block {
    key: BlockHash,
    references: u32,
    /// Of a free block: the number of those without a key before it in the queue, behind `previous`.
    before: u32,
    /// Neighbours in the free queue, or the next unused place.
    previous: BlockId,
    next: BlockId,
    /// The one behind it in its list of the index.
    listed_next: BlockId,
}

const UNUSED: Block = Block {
    key: BlockHash::root(0),
    references: 0,
    before: 0,
    previous: BlockId::NONE,
    next: BlockId::NONE,
    listed_next: BlockId::NONE,
};

/// All blocks. Those with keys that are free form a ring through [`BlockId::NONE`], so that taking
/// from the middle (a prefix hit on a free block) is O(1).
#[derive(Debug, Clone)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    /// The first of the unused places.
    unused: BlockId,
    free: u32,
    /// References beyond the first, over all blocks.
    shared: u64,
}

impl BlockPool {
    /// `free` free blocks, none with a key.
    pub(super) fn new(free: u32) -> Self {
        let end = Block {
            before: free,
            ..UNUSED
        };
        Self {
            blocks: vec![end],
            unused: BlockId::NONE,
            free,
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

    /// The key of a block.
    pub(super) fn key(&self, id: BlockId) -> BlockHash {
        self.blocks[id.index()].key
    }

    /// The block behind this one in the index, or none.
    pub(super) fn listed_next(&self, id: BlockId) -> BlockId {
        self.blocks[id.index()].listed_next
    }

    /// Says which block is behind this one in the index.
    pub(super) fn set_listed_next(&mut self, id: BlockId, next: BlockId) {
        self.blocks[id.index()].listed_next = next;
    }

    /// Takes blocks from the front of the free queue, at most `most` and none with a key; how many.
    pub(super) fn take(&mut self, most: u32) -> u32 {
        let first = self.blocks[BlockId::NONE.index()].next;
        let before = &mut self.blocks[first.index()].before;
        let taken = most.min(*before);
        *before -= taken;
        self.free -= taken;
        taken
    }

    /// The block at the front of the free queue, if it has a key.
    ///
    /// # Panics
    /// If the queue is empty: the caller counts first.
    pub(super) fn first(&self) -> BlockId {
        let first = self.blocks[BlockId::NONE.index()].next;
        assert!(self.free > 0, "blocks are counted before they are taken");
        first
    }

    /// Takes a free block for new content. Its key is to be forgotten before.
    pub(super) fn evict(&mut self, id: BlockId) {
        self.unlink(id, id);
        self.free -= 1;
        self.blocks[id.index()].next = self.unused;
        self.unused = id;
    }

    /// Gives a key to a block that somebody holds.
    pub(super) fn name(&mut self, key: BlockHash) -> BlockId {
        let id = self.unused;
        let block = Block {
            key,
            references: 1,
            ..UNUSED
        };
        if id == BlockId::NONE {
            let number = u32::try_from(self.blocks.len());
            self.blocks.push(block);
            return BlockId(number.expect("a pool has fewer than 2^32 blocks"));
        }
        let place = &mut self.blocks[id.index()];
        self.unused = place.next;
        *place = block;
        id
    }

    /// Adds a reference to each of these cached blocks, taking those out of the free queue that are there.
    pub(super) fn share(&mut self, ids: &[BlockId]) {
        let mut rest = ids;
        while let [id, after @ ..] = rest {
            if self.is_free(*id) {
                rest = self.revive(*id, after);
            } else {
                self.blocks[id.index()].references += 1;
                self.shared += 1;
                rest = after;
            }
        }
    }

    /// Takes a block out of the free queue, with those of `others` that were released right before it: a prefix is
    /// released from its end. The rest of them.
    fn revive<'a>(&mut self, id: BlockId, mut others: &'a [BlockId]) -> &'a [BlockId] {
        let mut first = id;
        self.blocks[id.index()].references = 1;
        self.free -= 1;
        while let [other, after @ ..] = others
            && self.blocks[first.index()].before == 0
            && self.is_free(*other)
            && self.blocks[other.index()].next == first
        {
            self.blocks[other.index()].references = 1;
            self.free -= 1;
            (first, others) = (*other, after);
        }
        self.unlink(first, id);
        others
    }

    /// Drops a reference; a block that nobody holds any more goes to the end of the free queue.
    pub(super) fn release(&mut self, id: BlockId) {
        let block = &mut self.blocks[id.index()];
        block.references = block
            .references
            .checked_sub(1)
            .expect("KV blocks are released once per reference");
        if block.references > 0 {
            self.shared -= 1;
            return;
        }
        let end = &mut self.blocks[BlockId::NONE.index()];
        let previous = core::mem::replace(&mut end.previous, id);
        let before = core::mem::take(&mut end.before);
        self.blocks[previous.index()].next = id;
        let block = &mut self.blocks[id.index()];
        block.before = before;
        block.previous = previous;
        block.next = BlockId::NONE;
        self.free += 1;
    }

    /// Puts blocks without a key at the end of the free queue.
    pub(super) fn append(&mut self, count: u32) {
        self.blocks[BlockId::NONE.index()].before += count;
        self.free += count;
    }

    /// Puts blocks without a key at the front of the free queue.
    pub(super) fn prepend(&mut self, count: u32) {
        let first = self.blocks[BlockId::NONE.index()].next;
        self.blocks[first.index()].before += count;
        self.free += count;
    }

    /// Takes all keys away, while nobody holds a block.
    pub(super) fn clear_keys(&mut self) {
        *self = Self::new(self.free);
    }

    /// Takes blocks out of the free queue, from the first to the last of some between which there are no others.
    fn unlink(&mut self, first: BlockId, last: BlockId) {
        let Block {
            previous, before, ..
        } = self.blocks[first.index()];
        let next = self.blocks[last.index()].next;
        self.blocks[previous.index()].next = next;
        let next = &mut self.blocks[next.index()];
        next.previous = previous;
        next.before += before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: BlockHash = BlockHash::root(7);

    /// The free queue: the ids of blocks with keys, and between them the numbers of those without.
    fn order(pool: &BlockPool) -> Vec<(u32, Option<BlockId>)> {
        let mut order = Vec::new();
        let mut id = pool.blocks[0].next;
        while id != BlockId::NONE {
            order.push((pool.blocks[id.index()].before, Some(id)));
            id = pool.blocks[id.index()].next;
        }
        order.push((pool.blocks[0].before, None));
        let keyed = order.len() - 1;
        let counted: u32 = order.iter().map(|(before, _)| before).sum();
        assert_eq!(counted as usize + keyed, pool.free as usize);
        order
    }

    /// A pool with blocks in use that have keys, and some free ones.
    fn with_keys<const N: usize>(free: u32) -> (BlockPool, [BlockId; N]) {
        let mut pool = BlockPool::new(free);
        let ids = [KEY; N].map(|key| pool.name(key));
        (pool, ids)
    }

    #[test]
    fn blocks_come_back_at_the_end_in_the_order_of_their_release() {
        let (mut pool, [one, two]) = with_keys(5);
        assert_eq!((pool.take(2), pool.free()), (2, 3));
        pool.release(two);
        pool.append(2);
        pool.release(one);
        assert_eq!(order(&pool), [(3, Some(two)), (2, Some(one)), (0, None)]);
        assert_eq!((pool.take(9), pool.first()), (3, two));
        pool.evict(two);
        assert_eq!(order(&pool), [(2, Some(one)), (0, None)]);
        assert_eq!((pool.name(KEY), pool.take(9)), (two, 2));
    }

    #[test]
    fn a_hit_on_a_free_block_moves_it_out_of_the_middle_of_the_queue() {
        let (mut pool, [one, two]) = with_keys(1);
        pool.release(one);
        pool.append(2);
        pool.share(&[one]);
        assert_eq!(order(&pool), [(3, None)]);
        pool.share(&[one]);
        pool.release(one);
        assert_eq!((pool.free(), pool.shared()), (3, 0));
        pool.release(one);
        pool.release(two);
        assert_eq!(order(&pool), [(3, Some(one)), (0, Some(two)), (0, None)]);
    }

    #[test]
    fn hits_that_lie_together_leave_the_queue_together() {
        let (mut pool, [a, b, c, d]) = with_keys(1);
        for id in [d, c] {
            pool.release(id);
        }
        pool.append(2);
        for id in [b, a] {
            pool.release(id);
        }
        pool.share(&[b]);
        pool.share(&[a, b, c]);
        assert_eq!((pool.free(), pool.shared()), (4, 1));
        assert_eq!(order(&pool), [(1, Some(d)), (2, None)]);
        for id in [c, b, b, a] {
            pool.release(id);
        }
        let all = [
            (1, Some(d)),
            (2, Some(c)),
            (0, Some(b)),
            (0, Some(a)),
            (0, None),
        ];
        assert_eq!(order(&pool), all);
        pool.share(&[a, b, c, d]);
        assert_eq!((order(&pool), pool.free()), (vec![(3, None)], 3));
    }

    #[test]
    fn blocks_can_be_put_at_the_front() {
        let (mut pool, [one]) = with_keys(0);
        pool.prepend(1);
        pool.release(one);
        pool.prepend(2);
        assert_eq!(order(&pool), [(3, Some(one)), (0, None)]);
    }

    #[test]
    #[should_panic(expected = "released once per reference")]
    fn a_double_release_breaks_a_named_invariant() {
        let (mut pool, [one]) = with_keys(3);
        pool.release(one);
        pool.release(one);
    }

    #[test]
    #[should_panic(expected = "counted before they are taken")]
    fn an_empty_queue_has_no_first_block() {
        BlockPool::new(0).first();
    }
}

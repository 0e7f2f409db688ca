//! [`KvCache`]: allocation, registration, look-up and release of KV blocks.

use foretoken_workload::BlockHash;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::pool::{BlockId, BlockPool};

/// The blocks that one sequence holds, in the order of its tokens.
#[derive(Debug, Clone, Default)]
pub struct BlockTable {
    blocks: Vec<BlockId>,
    /// How many of them, from the first, have had their key registered.
    registered: usize,
}

impl BlockTable {
    /// Number of blocks held.
    pub fn len(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("a pool has fewer than 2^32 blocks")
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// Several blocks may carry one key (a recomputed block is registered a second time); the one
/// registered first and still existing is found. Nearly always there is one.
type Holders = smallvec::SmallVec<[BlockId; 1]>;

/// KV memory of an engine with one full-attention group.
#[derive(Debug, Clone)]
pub struct KvCache {
    pool: BlockPool,
    index: HashMap<BlockHash, Holders, FxBuildHasher>,
    total: u32,
    block_size: u32,
    caching: bool,
    uncached_first: bool,
}

impl KvCache {
    /// A pool of `total` blocks, the null block included. `caching` keeps released blocks findable;
    /// `uncached_first` reuses blocks without a key before all others.
    pub fn new(total: u32, block_size: u32, caching: bool, uncached_first: bool) -> Self {
        let index = HashMap::with_hasher(FxBuildHasher);
        Self {
            pool: BlockPool::new(total),
            index,
            total,
            block_size,
            caching,
            uncached_first,
        }
    }

    /// Blocks that nobody holds, cached ones included.
    pub fn free(&self) -> u32 {
        self.pool.free()
    }

    /// Blocks that somebody holds.
    pub fn used(&self) -> u32 {
        self.total - 1 - self.pool.free()
    }

    /// Tokens in a block.
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Whether released blocks stay findable.
    pub fn caching(&self) -> bool {
        self.caching
    }

    /// Finds the cached blocks at the start of `chain`, and puts them into `hits`. Without side
    /// effects on the cache.
    pub fn lookup(&self, chain: &[BlockHash], hits: &mut Vec<BlockId>) {
        hits.clear();
        hits.extend(chain.iter().map_while(|key| self.index.get(key)?.first()));
    }

    /// How many blocks at the start of `chain` are cached.
    pub fn matching(&self, chain: &[BlockHash]) -> u32 {
        let count = chain
            .iter()
            .take_while(|&key| self.index.contains_key(key))
            .count();
        u32::try_from(count).expect("a pool has fewer than 2^32 blocks")
    }

    /// Free blocks that `table` would take to reach `tokens` tokens, with `hits` shared.
    pub fn wanted(&self, table: &BlockTable, hits: &[BlockId], tokens: u32) -> u32 {
        let need = tokens.div_ceil(self.block_size) as usize;
        let new = need.saturating_sub(table.blocks.len() + hits.len());
        let revived = hits.iter().filter(|&&hit| self.pool.is_free(hit)).count();
        u32::try_from(new + revived).expect("a pool has fewer than 2^32 blocks")
    }

    /// Shares `hits` into `table` and takes free blocks until it reaches `tokens` tokens; all or
    /// nothing.
    #[must_use]
    pub fn allocate(&mut self, table: &mut BlockTable, hits: &[BlockId], tokens: u32) -> bool {
        if self.wanted(table, hits, tokens) > self.free() {
            return false;
        }
        for &hit in hits {
            self.pool.share(hit);
            table.blocks.push(hit);
        }
        table.registered += hits.len();
        let need = tokens.div_ceil(self.block_size) as usize;
        while table.blocks.len() < need {
            let (id, evicted) = self.pool.take();
            if let Some(key) = evicted {
                self.forget(key, id);
            }
            table.blocks.push(id);
        }
        true
    }

    /// Makes the full blocks among the first `tokens` tokens findable under their keys.
    pub fn register(&mut self, table: &mut BlockTable, chain: &[BlockHash], tokens: u32) {
        if !self.caching {
            return;
        }
        let full = (tokens / self.block_size) as usize;
        let fresh = table.blocks.iter().zip(chain).take(full).skip(table.registered);
        for (&id, &key) in fresh {
            self.pool.set_key(id, key);
            self.index.entry(key).or_default().push(id);
        }
        table.registered = table.registered.max(full);
    }

    /// Releases all blocks of `table`, the last one first, so that the tail of a prefix is reused
    /// before its head.
    pub fn release(&mut self, table: &mut BlockTable) {
        let mut front = BlockPool::front();
        for id in table.blocks.drain(..).rev() {
            self.pool
                .release(id, self.uncached_first.then_some(&mut front));
        }
        table.registered = 0;
    }

    /// Forgets all keys and leaves the free queue as it is; refused while any block is in use.
    pub fn forget_all(&mut self) -> bool {
        if self.used() > 0 {
            return false;
        }
        self.index.clear();
        self.pool.clear_keys();
        true
    }

    fn forget(&mut self, key: BlockHash, id: BlockId) {
        let holders = self
            .index
            .get_mut(&key)
            .expect("a block's key is in the index");
        holders.retain(|holder| *holder != id);
        if holders.is_empty() {
            self.index.remove(&key);
        }
    }
}

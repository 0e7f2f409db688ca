//! [`KvCache`]: allocation, registration, look-up and release of KV blocks.

use foretoken_workload::BlockHash;

use super::events::KvEvent;
use super::index::PrefixIndex;
use super::pool::{BlockId, BlockPool};

/// The blocks that one sequence holds, in the order of its tokens.
///
/// First come those with keys; the rest is a number. It holds what is not registered yet, and before
/// that the blocks that were registered without a key, as nobody will ever look for them.
#[derive(Debug, Clone, Default)]
pub struct BlockTable {
    keyed: Vec<BlockId>,
    rest: u32,
    /// Tokens that all of them have room for.
    room: u32,
    /// Tokens of those blocks, from the first, that have been registered.
    registered: u32,
}

impl BlockTable {
    /// Tokens, from the first, whose blocks are registered.
    pub(crate) fn registered(&self) -> u32 {
        self.registered
    }

    /// Tokens that its blocks have room for.
    pub(crate) fn room(&self) -> u32 {
        self.room
    }

    /// Makes room for the keys of so many blocks.
    pub(crate) fn reserve_keys(&mut self, blocks: usize) {
        if self.keyed.capacity() < blocks {
            self.keyed.reserve_exact(blocks - self.keyed.len());
        }
    }

    /// Number of blocks held.
    pub fn len(&self) -> u32 {
        block_count(self.keyed.len()) + self.rest
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.room == 0
    }
}

/// KV memory of an engine with one full-attention group.
#[derive(Debug, Clone)]
pub struct KvCache {
    pool: BlockPool,
    index: PrefixIndex,
    total: u32,
    block_size: u32,
    caching: bool,
    uncached_first: bool,
    /// What changed since the events were last drained, if anybody wants to know.
    events: Option<Vec<KvEvent>>,
}

impl KvCache {
    /// A pool of `total` blocks, the null block included. `caching` keeps released blocks findable;
    /// `uncached_first` reuses blocks without a key before all others.
    pub fn new(total: u32, block_size: u32, caching: bool, uncached_first: bool) -> Self {
        Self {
            pool: BlockPool::new(total - 1),
            index: PrefixIndex::new(),
            total,
            block_size,
            caching,
            uncached_first,
            events: None,
        }
    }

    /// From now on notes its changes for [`drain_events`](Self::drain_events).
    pub fn record_events(&mut self) {
        self.events.get_or_insert_default();
    }

    /// Whether it notes its changes.
    pub(crate) fn records_events(&self) -> bool {
        self.events.is_some()
    }

    /// Hands over the changes since the last call, in their order; none unless they are
    /// [recorded](Self::record_events).
    pub fn drain_events(&mut self) -> impl Iterator<Item = KvEvent> {
        self.events.iter_mut().flat_map(|events| events.drain(..))
    }

    /// Blocks that nobody holds, cached ones included.
    pub fn free(&self) -> u32 {
        self.pool.free()
    }

    /// Blocks that somebody holds.
    pub fn used(&self) -> u32 {
        self.total - 1 - self.pool.free()
    }

    /// How many different blocks `tables` hold together.
    pub(crate) fn distinct<'a>(tables: impl Iterator<Item = &'a BlockTable>) -> u32 {
        let mut rest = 0;
        let mut keyed = Vec::new();
        for table in tables {
            rest += table.rest;
            keyed.extend_from_slice(&table.keyed);
        }
        keyed.sort_unstable();
        keyed.dedup();
        rest + block_count(keyed.len())
    }

    /// Tokens whose block a sequence shares with others, counted once for every holder but the first.
    pub fn shared_tokens(&self) -> u64 {
        self.pool.shared() * u64::from(self.block_size)
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
        hits.extend(
            chain
                .iter()
                .map_while(|&key| self.index.get(&self.pool, key)),
        );
    }

    /// How many blocks at the start of `chain` are cached.
    pub fn matching(&self, chain: &[BlockHash]) -> u32 {
        let cached = chain
            .iter()
            .map_while(|&key| self.index.get(&self.pool, key));
        block_count(cached.count())
    }

    /// Free blocks that `table` would take to reach `tokens` tokens, with `hits` shared.
    pub fn wanted(&self, table: &BlockTable, hits: &[BlockId], tokens: u32) -> u32 {
        self.new_blocks(table, hits, tokens) + self.revived(hits)
    }

    /// How many new blocks `table` takes to reach `tokens` tokens with `hits` shared, if `free` blocks
    /// suffice for them and for the hits that are free.
    pub fn fits(
        &self,
        table: &BlockTable,
        hits: &[BlockId],
        tokens: u32,
        free: u32,
    ) -> Option<u32> {
        let new = self.new_blocks(table, hits, tokens);
        // How many hits are free matters only if there is not enough for all of them.
        let fits = new + block_count(hits.len()) <= free || new + self.revived(hits) <= free;
        fits.then_some(new)
    }

    /// Those of `hits` that are free: who shares one takes it.
    fn revived(&self, hits: &[BlockId]) -> u32 {
        block_count(hits.iter().filter(|&&hit| self.pool.is_free(hit)).count())
    }

    /// Blocks for the tokens behind those that `table` and `hits` have room for.
    fn new_blocks(&self, table: &BlockTable, hits: &[BlockId], tokens: u32) -> u32 {
        let room = table.room.saturating_add(self.tokens_in(hits.len()));
        match tokens.saturating_sub(room) {
            // A division costs as much as all the rest of a decode's next block.
            one if one <= self.block_size => u32::from(one > 0),
            more => more.div_ceil(self.block_size),
        }
    }

    /// Shares `hits` into `table`, which is empty if there are any, and takes free blocks until it
    /// reaches `tokens` tokens; all or nothing.
    #[must_use]
    #[inline]
    pub fn allocate(&mut self, table: &mut BlockTable, hits: &[BlockId], tokens: u32) -> bool {
        // Nearly all steps of a decode end in the block in which they begin.
        (tokens <= table.room && hits.is_empty()) || self.extend(table, hits, tokens)
    }

    fn extend(&mut self, table: &mut BlockTable, hits: &[BlockId], tokens: u32) -> bool {
        let Some(new) = self.fits(table, hits, tokens, self.free()) else {
            return false;
        };
        debug_assert!(
            hits.is_empty() || table.is_empty(),
            "hits are the beginning of a table"
        );
        self.pool.share(hits);
        table.keyed.extend_from_slice(hits);
        table.registered += self.tokens_in(hits.len());
        self.take(new);
        table.rest += new;
        table.room = self.tokens_in(table.keyed.len() + table.rest as usize);
        true
    }

    /// Whether blocks that are added to `table` are only counted: of its content the first `repeatable`
    /// tokens may be looked for, and these have their keys.
    pub(crate) fn only_counts(&self, table: &BlockTable, repeatable: u32) -> bool {
        !self.caching || block_count(table.keyed.len()) >= repeatable / self.block_size
    }

    /// Counts the blocks that have been taken for `table` meanwhile: it has got `tokens` tokens, and the
    /// full blocks among the first `registered` of them are registered.
    pub(crate) fn count_up(&self, table: &mut BlockTable, tokens: u32, registered: u32) {
        let keyed = block_count(table.keyed.len());
        table.rest = table
            .rest
            .max(tokens.div_ceil(self.block_size).saturating_sub(keyed));
        table.room = self.tokens_in(table.len() as usize);
        if self.caching {
            let full = registered / self.block_size * self.block_size;
            table.registered = table.registered.max(full);
        }
    }

    /// Takes free blocks for new content, and forgets the keys that they had.
    /// A table may be told of them [later](Self::count_up).
    pub(crate) fn take(&mut self, count: u32) {
        let mut left = count - self.pool.take(count);
        while left > 0 {
            let id = self.pool.first();
            let hash = self.pool.key(id);
            self.index.remove(&mut self.pool, id);
            self.pool.evict(id);
            self.note(KvEvent::Removed { hash });
            left -= 1;
            left -= self.pool.take(left);
        }
    }

    /// Tokens that fit into so many blocks.
    fn tokens_in(&self, blocks: usize) -> u32 {
        block_count(blocks).saturating_mul(self.block_size)
    }

    /// Whether any block that is full with the first `tokens` tokens has still to be
    /// [registered](Self::register).
    #[inline]
    pub fn has_unregistered(&self, table: &BlockTable, tokens: u32) -> bool {
        self.caching && tokens >= table.registered.saturating_add(self.block_size)
    }

    /// Below so many tokens one more needs no block and fills none that would have to be registered,
    /// which is done so many tokens late.
    pub(crate) fn quiet_below(&self, table: &BlockTable, lag: u32) -> u32 {
        let full = table.registered.saturating_add(self.block_size);
        if self.caching {
            table.room.min(full - 1 + lag)
        } else {
            table.room
        }
    }

    /// Makes the full blocks among the first `tokens` tokens findable under their keys. Of those for
    /// which `chain` is too short nobody will ever look for, nor for any that follow; they are counted
    /// until they are published, if ever.
    #[inline]
    pub fn register(&mut self, table: &mut BlockTable, chain: &[BlockHash], tokens: u32) {
        if !self.has_unregistered(table, tokens) {
            return;
        }
        let all_keyed = table.registered == self.tokens_in(table.keyed.len());
        table.registered = tokens - tokens % self.block_size;
        if all_keyed && chain.len() > table.keyed.len() {
            self.publish(table, chain);
        }
    }

    /// Makes those registered blocks of `table` findable that have no keys yet; `chain` has them.
    pub(crate) fn publish(&mut self, table: &mut BlockTable, chain: &[BlockHash]) {
        let full = table.registered.min(table.room) / self.block_size;
        let keyed = table.keyed.len();
        let fresh = chain.iter().take(full as usize).skip(keyed);
        for &hash in fresh {
            let id = self.pool.name(hash);
            self.index.insert(&mut self.pool, id);
            table.keyed.push(id);
            self.note(KvEvent::Stored { hash });
        }
        table.rest -= block_count(table.keyed.len() - keyed);
    }

    /// Releases all blocks of `table`, the last one first, so that the tail of a prefix is reused
    /// before its head.
    pub fn release(&mut self, table: &mut BlockTable) {
        let registered = table.registered / self.block_size;
        let uncached = table.len().saturating_sub(registered);
        if self.uncached_first {
            self.pool.prepend(uncached);
            self.pool.append(table.rest - uncached);
        } else {
            self.pool.append(table.rest);
        }
        for id in table.keyed.drain(..).rev() {
            self.pool.release(id);
        }
        table.rest = 0;
        table.room = 0;
        table.registered = 0;
    }

    /// Forgets all keys and leaves the free queue as it is; refused while any block is in use.
    pub fn forget_all(&mut self) -> bool {
        if self.used() > 0 {
            return false;
        }
        self.index.clear();
        self.pool.clear_keys();
        self.note(KvEvent::Cleared);
        true
    }

    fn note(&mut self, event: KvEvent) {
        if let Some(events) = &mut self.events {
            events.push(event);
        }
    }
}

/// A number of blocks of a pool.
pub(crate) fn block_count(blocks: usize) -> u32 {
    u32::try_from(blocks).expect("a pool has fewer than 2^32 blocks")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_SIZE: u32 = 4;

    fn cache(usable: u32) -> KvCache {
        KvCache::new(usable + 1, BLOCK_SIZE, true, false)
    }

    fn chain(numbers: &[u64]) -> Vec<BlockHash> {
        numbers
            .iter()
            .map(|&number| BlockHash::root(number))
            .collect()
    }

    /// Computes `keys` as new blocks, one key a block.
    fn compute(cache: &mut KvCache, keys: &[u64]) -> BlockTable {
        let mut table = BlockTable::default();
        let tokens = BLOCK_SIZE * u32::try_from(keys.len()).expect("few");
        assert!(cache.allocate(&mut table, &[], tokens));
        cache.register(&mut table, &chain(keys), tokens);
        table
    }

    fn found(cache: &KvCache, keys: &[u64]) -> Vec<BlockId> {
        let mut hits = Vec::new();
        cache.lookup(&chain(keys), &mut hits);
        assert_eq!(cache.matching(&chain(keys)) as usize, hits.len());
        hits
    }

    #[test]
    fn the_oldest_surviving_copy_of_a_block_is_found() {
        let mut cache = cache(4);
        let mut first = compute(&mut cache, &[1]);
        let mut second = compute(&mut cache, &[1]);
        let mut other = compute(&mut cache, &[2]);
        assert_eq!(found(&cache, &[1]), first.keyed);
        let copy = second.keyed.clone();
        cache.release(&mut first);
        assert_ne!(found(&cache, &[1]), copy);
        // One block was never used, then comes the first copy.
        let mut taken = compute(&mut cache, &[3, 4]);
        assert_eq!(found(&cache, &[1]), copy);
        for table in [&mut second, &mut other, &mut taken] {
            cache.release(table);
        }
        assert_eq!((cache.used(), cache.free()), (0, 4));
    }

    #[test]
    fn a_lookup_stops_at_the_first_block_that_is_missing() {
        let mut cache = cache(4);
        let table = compute(&mut cache, &[1, 2, 3]);
        assert_eq!(found(&cache, &[1, 2, 9, 3]), table.keyed[..2]);
        assert_eq!(found(&cache, &[9, 1]), []);
    }

    #[test]
    fn the_tail_of_a_prefix_is_evicted_before_its_head() {
        let mut cache = cache(3);
        let mut table = compute(&mut cache, &[1, 2, 3]);
        cache.release(&mut table);
        let mut evictor = compute(&mut cache, &[8]);
        assert_eq!(found(&cache, &[1, 2, 3]).len(), 2);
        cache.release(&mut evictor);
        let _two = compute(&mut cache, &[8, 9]);
        assert_eq!(found(&cache, &[1, 2, 3]).len(), 0);
    }

    #[test]
    fn a_hit_on_a_free_block_counts_as_taken() {
        let mut cache = cache(3);
        let mut table = compute(&mut cache, &[1, 2]);
        cache.release(&mut table);
        let hits = found(&cache, &[1, 2]);
        // Two revived blocks and one new one, then one too many.
        assert_eq!(cache.wanted(&table, &hits, 12), 3);
        assert!(!cache.allocate(&mut table, &hits, 16));
        assert_eq!(
            (cache.free(), table.len()),
            (3, 0),
            "a failure changes nothing"
        );
        assert!(cache.allocate(&mut table, &hits, 12));
        assert_eq!((cache.free(), table.len()), (0, 3));
        // Shared by a second holder, the hits take nothing.
        let mut second = BlockTable::default();
        assert_eq!(cache.wanted(&second, &hits, 8), 0);
        assert!(cache.allocate(&mut second, &hits, 8));
        cache.release(&mut table);
        assert_eq!(cache.used(), 2);
        cache.release(&mut second);
        assert!(second.is_empty() && cache.used() == 0);
    }

    #[test]
    fn a_block_is_found_only_once_it_is_full() {
        let mut cache = cache(3);
        let mut table = BlockTable::default();
        assert!(cache.allocate(&mut table, &[], 7));
        cache.register(&mut table, &chain(&[1]), 7);
        assert_eq!(found(&cache, &[1, 2]).len(), 1);
        cache.register(&mut table, &chain(&[1, 2]), 8);
        assert_eq!(found(&cache, &[1, 2]).len(), 2);
    }

    #[test]
    fn blocks_without_a_key_can_be_reused_first() {
        let mut cache = KvCache::new(4, BLOCK_SIZE, true, true);
        let mut table = BlockTable::default();
        assert!(cache.allocate(&mut table, &[], 12));
        cache.register(&mut table, &chain(&[1, 2]), 8);
        cache.release(&mut table);
        assert!(cache.allocate(&mut table, &[], 1));
        assert_eq!(found(&cache, &[1, 2]).len(), 2);
        // The next one is the last that was released with a key.
        assert!(cache.allocate(&mut table, &[], 5));
        assert_eq!(found(&cache, &[1, 2]).len(), 1);
    }

    #[test]
    fn a_shared_block_is_registered_once_and_a_table_can_be_used_again() {
        let mut cache = cache(4);
        let mut first = compute(&mut cache, &[1, 2]);
        let hits = found(&cache, &[1]);
        let mut second = BlockTable::default();
        assert!(cache.allocate(&mut second, &hits, 8));
        cache.register(&mut second, &chain(&[1, 3]), 8);
        assert_eq!(found(&cache, &[1, 3]), second.keyed);
        cache.release(&mut second);
        assert!(cache.allocate(&mut second, &[], 8));
        cache.register(&mut second, &chain(&[4, 5]), 8);
        assert_eq!(found(&cache, &[4, 5]), second.keyed);
        cache.release(&mut first);
    }

    #[test]
    fn without_caching_nothing_is_found() {
        let mut cache = KvCache::new(4, BLOCK_SIZE, false, false);
        let _table = compute(&mut cache, &[1, 2]);
        assert_eq!(found(&cache, &[1]), []);
    }

    #[test]
    fn forgetting_is_refused_while_blocks_are_in_use() {
        let mut cache = cache(3);
        let mut table = compute(&mut cache, &[1, 2, 3]);
        assert!(!cache.forget_all());
        cache.release(&mut table);
        assert!(cache.forget_all());
        assert_eq!(found(&cache, &[1]), []);
        assert_eq!(
            (cache.free(), compute(&mut cache, &[4, 5, 6]).len()),
            (3, 3)
        );
    }
}

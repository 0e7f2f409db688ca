//! `approx-prefix-cache-producer`: guesses which prompts an endpoint holds from where they were sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{BlockHash, RequestView};
use hashbrown::HashMap;
use lru::LruCache;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::producer::chain::Chain;
use crate::producer::{DataProducer, place};
use crate::router::Placement;
use crate::signals::{APPROXIMATE_PREFIX, PrefixMatch, Signals};
use crate::view::{EndpointId, EndpointView};

/// Blocks are at least this long, whatever engines or settings say (llm-d).
const SHORTEST_BLOCK: u32 = 64;

/// How often endpoints that went away are dropped from the index (llm-d).
const SWEEP: SimDuration = SimDuration::from_secs(120);

/// Settings of [`ApproximatePrefix`], named as llm-d's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproximatePrefixConfig {
    /// Take block size and capacity from the engines' metrics where they are reported; on by default.
    pub auto_tune: bool,
    /// Tokens in a block, 16 by default; below 64 is raised to 64.
    pub block_size_tokens: u32,
    /// Tokens of a prompt that are looked at, 131072 by default; 0 leaves the limit to the next field.
    pub max_prefix_tokens_to_match: u32,
    /// Blocks of a prompt that are looked at if the limit of tokens is 0; 2048 by default, 0 is no
    /// limit.
    pub max_prefix_blocks_to_match: u32,
    /// Blocks remembered for each endpoint, 31250 by default.
    pub lru_capacity_per_server: u32,
    /// In which order the blocks of a prompt enter the index.
    pub insertion: Insertion,
}

impl Default for ApproximatePrefixConfig {
    fn default() -> Self {
        Self {
            auto_tune: true,
            block_size_tokens: 16,
            max_prefix_tokens_to_match: 131_072,
            max_prefix_blocks_to_match: 2048,
            lru_capacity_per_server: 31_250,
            insertion: Insertion::HeadFirst,
        }
    }
}

/// In which order the blocks of a prompt enter the index: the first to enter is the first to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Insertion {
    /// The head first, so that one eviction makes the rest of a prompt worthless (llm-d v0.10).
    #[default]
    HeadFirst,
    /// The tail first (llm-d since September 2026).
    TailFirst,
}

/// Keeps for each endpoint a guess of the prompt blocks that it holds, learned from this gateway's own
/// decisions. It believes in a block from the moment a request is placed.
///
/// A lookup walks the blocks of a prompt and stops at the first that *no* endpoint holds; each endpoint
/// counts the blocks it holds on the way. The count is therefore not a contiguous prefix: an endpoint
/// that lost the head still counts later blocks as long as another one holds the head.
#[derive(Debug)]
pub struct ApproximatePrefix {
    name: Arc<str>,
    config: ApproximatePrefixConfig,
    /// Who holds a block.
    holders: HashMap<BlockHash, SmallVec<[EndpointId; 2]>, FxBuildHasher>,
    /// What each endpoint holds, by id.
    endpoints: Vec<Option<Remembered>>,
    gone: BTreeSet<EndpointId>,
    next_sweep: SimTime,
    /// The blocks of the prompt in hand.
    chain: Chain,
    /// Where each endpoint stands in the decision, by id.
    positions: Vec<Option<usize>>,
}

#[derive(Debug)]
struct Remembered {
    blocks: LruCache<BlockHash, (), FxBuildHasher>,
    capacity: usize,
}

impl Default for ApproximatePrefix {
    fn default() -> Self {
        Self::new(APPROXIMATE_PREFIX, ApproximatePrefixConfig::default())
    }
}

impl ApproximatePrefix {
    /// An empty index whose attributes carry the producer's `name`.
    pub fn new(name: impl Into<Arc<str>>, config: ApproximatePrefixConfig) -> Self {
        Self {
            name: name.into(),
            config,
            holders: HashMap::with_hasher(FxBuildHasher),
            endpoints: Vec::new(),
            gone: BTreeSet::new(),
            next_sweep: SimTime::ZERO + SWEEP,
            chain: Chain::default(),
            positions: Vec::new(),
        }
    }

    /// Length of the blocks of a decision among `endpoints`: the first of them decides for all.
    fn block_size(&self, endpoints: &[EndpointView]) -> u32 {
        let reported = endpoints
            .first()
            .map(|endpoint| endpoint.block_size)
            .filter(|&size| self.config.auto_tune && size > 0);
        reported
            .unwrap_or(self.config.block_size_tokens)
            .max(SHORTEST_BLOCK)
    }

    fn hash(&mut self, request: &RequestView<'_>, block_size: u32) {
        let limit = match self.config.max_prefix_tokens_to_match {
            0 => Some(self.config.max_prefix_blocks_to_match).filter(|&blocks| blocks > 0),
            tokens => Some(tokens / block_size),
        };
        self.chain.of(request, block_size, |root, chain| {
            request.prompt.hash_blocks(root, block_size, chain);
            if let Some(limit) = limit {
                chain.truncate(limit as usize);
            }
        });
    }

    fn record(&mut self, endpoint: &EndpointView) {
        let index = endpoint.id.index();
        if self.endpoints.len() <= index {
            self.endpoints.resize_with(index + 1, || None);
        }
        let capacity = match endpoint.kv_blocks {
            blocks if self.config.auto_tune && blocks > 0 => blocks,
            _ => self.config.lru_capacity_per_server,
        };
        let remembered = self.endpoints[index].get_or_insert_with(|| Remembered {
            blocks: LruCache::unbounded_with_hasher(FxBuildHasher),
            capacity: capacity as usize,
        });
        let mut insert = |key: BlockHash| {
            if remembered.blocks.put(key, ()).is_none() {
                self.holders.entry(key).or_default().push(endpoint.id);
            }
            if remembered.blocks.len() > remembered.capacity
                && let Some((oldest, ())) = remembered.blocks.pop_lru()
            {
                forget(&mut self.holders, oldest, endpoint.id);
            }
        };
        match self.config.insertion {
            Insertion::HeadFirst => self.chain.keys().iter().for_each(|&key| insert(key)),
            Insertion::TailFirst => self.chain.keys().iter().rev().for_each(|&key| insert(key)),
        }
    }

    /// Every two minutes endpoints that went away and did not return are dropped.
    fn sweep(&mut self, now: SimTime) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now.next_tick(SWEEP);
        for id in core::mem::take(&mut self.gone) {
            let remembered = self.endpoints.get_mut(id.index()).and_then(Option::take);
            for (&key, ()) in remembered.iter().flat_map(|remembered| &remembered.blocks) {
                forget(&mut self.holders, key, id);
            }
        }
    }
}

fn forget(
    holders: &mut HashMap<BlockHash, SmallVec<[EndpointId; 2]>, FxBuildHasher>,
    key: BlockHash,
    endpoint: EndpointId,
) {
    if let Some(of_key) = holders.get_mut(&key) {
        of_key.retain(|&mut other| other != endpoint);
        if of_key.is_empty() {
            holders.remove(&key);
        }
    }
}

impl DataProducer for ApproximatePrefix {
    fn produce(
        &mut self,
        request: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        now: SimTime,
        signals: &mut Signals,
    ) {
        let Some(request) = request else { return };
        self.sweep(now);
        let block_size = self.block_size(endpoints);
        self.hash(request, block_size);
        let total = u32::try_from(self.chain.keys().len()).unwrap_or(u32::MAX);
        let column = signals.prefix.begin(&self.name, endpoints.len());
        column.fill(Some(PrefixMatch::new(0, total, block_size)));
        place(&mut self.positions, endpoints);
        for key in self.chain.keys() {
            let Some(holders) = self.holders.get(key) else {
                break;
            };
            for holder in holders {
                let position = self.positions.get(holder.index()).copied().flatten();
                if let Some(found) = position.and_then(|position| column[position].as_mut()) {
                    found.matched += 1;
                    found.unweighted += 1;
                }
            }
        }
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        endpoints: &[EndpointView],
        _signals: &Signals,
        _now: SimTime,
    ) {
        let block_size = self.block_size(endpoints);
        self.hash(request, block_size);
        for target in placement.known_endpoints() {
            let endpoint = endpoints.iter().find(|endpoint| endpoint.id == target);
            if let Some(endpoint) = endpoint {
                self.record(endpoint);
            }
        }
    }

    fn removed(&mut self, endpoint: EndpointId, _now: SimTime) {
        self.gone.insert(endpoint);
    }

    fn added(&mut self, endpoint: EndpointId, _now: SimTime) {
        self.gone.remove(&endpoint);
    }
}

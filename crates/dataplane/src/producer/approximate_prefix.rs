//! `approx-prefix-cache-producer`: guesses which prompts an endpoint holds from where they were sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::RequestView;

use crate::producer::DataProducer;
use crate::producer::chain::Chain;
use crate::producer::holders::Holders;
use crate::router::Placement;
use crate::signals::{APPROXIMATE_PREFIX, PrefixMatch, Signals};
use crate::view::{EndpointId, EndpointView, position};

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
    holders: Holders,
    gone: BTreeSet<EndpointId>,
    next_sweep: SimTime,
    /// The blocks of the prompt in hand.
    chain: Chain,
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
            holders: Holders::new(config.insertion),
            config,
            gone: BTreeSet::new(),
            next_sweep: SimTime::ZERO + SWEEP,
            chain: Chain::default(),
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
        let capacity = match endpoint.kv_blocks {
            blocks if self.config.auto_tune && blocks > 0 => blocks,
            _ => self.config.lru_capacity_per_server,
        };
        let keys = self.chain.keys();
        self.holders.record(endpoint.id, capacity as usize, keys);
    }

    /// Every two minutes endpoints that went away and did not return are dropped.
    fn sweep(&mut self, now: SimTime) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now.next_tick(SWEEP);
        for id in core::mem::take(&mut self.gone) {
            self.holders.clear(id);
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
        let nothing = PrefixMatch::new(0, total, block_size);
        signals
            .prefix
            .begin_with(&self.name, endpoints.len(), nothing);
        // Most prompts are held by nobody.
        let (mut prefixes, mut column) = (Some(&mut signals.prefix), None);
        self.holders.count(self.chain.keys(), |holder, blocks| {
            let position = position(endpoints, holder);
            if let Some(prefixes) = prefixes.take() {
                column = Some(prefixes.values(&self.name));
            }
            let found = column.as_mut().zip(position);
            if let Some(found) = found.and_then(|(column, position)| column[position].as_mut()) {
                found.matched += blocks;
                found.unweighted += blocks;
            }
        });
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
            if let Some(position) = position(endpoints, target) {
                self.record(&endpoints[position]);
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

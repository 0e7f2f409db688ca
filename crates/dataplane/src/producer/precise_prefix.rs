//! `precise-prefix-cache-producer`: learns what engines hold from the KV events that they publish.

use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{BlockHash, BlockHasher, ContentId, RequestView};
use smallvec::SmallVec;

use crate::producer::chain::Chain;
use crate::producer::lru_index::{Fate, LruIndex};
use crate::producer::{DataProducer, KvEvent, Tier};
use crate::router::Placement;
use crate::signals::{PRECISE_PREFIX, PrefixMatch, Signals};
use crate::view::{EndpointId, EndpointView, position};

/// Settings of [`PrecisePrefix`], named as llm-d's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct PrecisePrefixConfig {
    /// Tokens in a block, 16 by default. Engines publish their own blocks: another length finds
    /// nothing.
    pub block_size_tokens: u32,
    /// Keys that the index holds, 100000000 by default; the least recently used ones go first.
    pub index_size: usize,
    /// Endpoints remembered for each key, 10 by default; the one added first goes first.
    pub pod_cache_size: usize,
    /// What a block on the accelerator is worth, 1 by default.
    pub gpu_weight: f64,
    /// What a block in the host's memory is worth, 0.8 by default.
    pub cpu_weight: f64,
    /// Believe in the blocks of a placed request for this long without an event; off by default.
    pub speculative_ttl: Option<SimDuration>,
}

impl Default for PrecisePrefixConfig {
    fn default() -> Self {
        Self {
            block_size_tokens: 16,
            index_size: 100_000_000,
            pod_cache_size: 10,
            gpu_weight: 1.0,
            cpu_weight: 0.8,
            speculative_ttl: None,
        }
    }
}

impl PrecisePrefixConfig {
    fn weight(&self, place: Place, now: SimTime) -> Option<f64> {
        match place {
            Place::Confirmed(Tier::Gpu) => Some(self.gpu_weight),
            Place::Confirmed(Tier::Cpu) => Some(self.cpu_weight),
            // A speculative copy has no tier.
            Place::Speculative(until) => (now < until).then_some(1.0),
        }
    }
}

/// One copy of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holding {
    endpoint: EndpointId,
    place: Place,
}

impl Holding {
    /// Whether it was a guess that is not believed any more.
    fn is_over(&self, now: SimTime) -> bool {
        matches!(self.place, Place::Speculative(until) if now >= until)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// An event said so.
    Confirmed(Tier),
    /// A request was sent there; to be believed until then.
    Speculative(SimTime),
}

/// What is known of one key: its copies, the first added first.
type Copies = SmallVec<[Holding; 2]>;

/// Knows the KV blocks of the engines from their events.
///
/// A prompt's trailing partial block does not count. For each endpoint the blocks are walked from the
/// first to its first gap; a block is worth the largest weight among the tiers in which the endpoint
/// has it.
#[derive(Debug)]
pub struct PrecisePrefix {
    name: Arc<str>,
    config: PrecisePrefixConfig,
    index: LruIndex<Copies>,
    chain: Chain,
    /// For each endpoint of the decision the worth found so far and the number of blocks; the walk is
    /// over where the number lags behind.
    found: Vec<(f64, u32)>,
}

impl Default for PrecisePrefix {
    fn default() -> Self {
        Self::new(PRECISE_PREFIX, PrecisePrefixConfig::default())
    }
}

impl PrecisePrefix {
    /// An empty index whose attributes carry the producer's `name`.
    pub fn new(name: impl Into<Arc<str>>, config: PrecisePrefixConfig) -> Self {
        Self {
            name: name.into(),
            config,
            index: LruIndex::new(),
            chain: Chain::default(),
            found: Vec::new(),
        }
    }

    fn hash(&mut self, request: &RequestView<'_>) {
        let block_size = self.config.block_size_tokens.max(1);
        self.chain.of(request, block_size, |root, chain| {
            // Full blocks of the prompt do not reach into what follows it.
            let output = ContentId::output_of(request.id);
            BlockHasher::new(request.prompt, output, block_size).extend(
                root,
                request.prompt_tokens(),
                chain,
            );
        });
    }

    fn add(&mut self, key: BlockHash, copy: Holding, now: SimTime) {
        let copies = self.index.entry(key);
        copies.retain(|other| !other.is_over(now));
        copies.retain(|other| match (other.place, copy.place) {
            (Place::Speculative(_), Place::Speculative(_)) => other.endpoint != copy.endpoint,
            _ => *other != copy,
        });
        let known = copies.iter().any(|other| other.endpoint == copy.endpoint);
        if !known {
            let mut endpoints: SmallVec<[EndpointId; 10]> = SmallVec::new();
            for other in copies.iter() {
                if !endpoints.contains(&other.endpoint) {
                    endpoints.push(other.endpoint);
                }
            }
            if endpoints.len() >= self.config.pod_cache_size.max(1) {
                copies.retain(|other| other.endpoint != endpoints[0]);
            }
        }
        copies.push(copy);
        if self.index.len() > self.config.index_size.max(1) {
            self.index.pop();
        }
    }

    fn drop_where(&mut self, key: BlockHash, gone: impl Fn(&Holding) -> bool) {
        self.index.change(key, |copies| {
            copies.retain(|copy| !gone(copy));
            if copies.is_empty() {
                Fate::Goes
            } else {
                Fate::Stays
            }
        });
    }

    fn drop_all(&mut self, endpoint: EndpointId) {
        let keys: Vec<BlockHash> = self.index.keys().collect();
        for key in keys {
            self.drop_where(key, |copy| copy.endpoint == endpoint);
        }
    }
}

impl DataProducer for PrecisePrefix {
    fn produce(
        &mut self,
        request: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        now: SimTime,
        signals: &mut Signals,
    ) {
        let Some(request) = request else { return };
        self.hash(request);
        self.found.clear();
        self.found.resize(endpoints.len(), (0.0, 0));
        for (walked, &key) in (0..).zip(self.chain.keys()) {
            let Some(copies) = self.index.touch(key) else {
                break;
            };
            let mut anyone = false;
            for (place, copy) in copies.iter().enumerate() {
                let position = position(endpoints, copy.endpoint);
                // Copies of one endpoint count once, by the best of them.
                let seen = copies[..place].iter().any(|o| o.endpoint == copy.endpoint);
                let Some(position) = position.filter(|&p| !seen && self.found[p].1 == walked)
                else {
                    continue;
                };
                let of_endpoint = copies.iter().filter(|o| o.endpoint == copy.endpoint);
                let best = of_endpoint
                    .filter_map(|o| self.config.weight(o.place, now))
                    .max_by(f64::total_cmp);
                if let Some(best) = best {
                    let found = &mut self.found[position];
                    *found = (found.0 + best, found.1 + 1);
                    anyone = true;
                }
            }
            if !anyone {
                break;
            }
        }
        let total = u32::try_from(self.chain.keys().len()).unwrap_or(u32::MAX);
        let column = signals.prefix.begin(&self.name, endpoints.len());
        for (value, &(worth, unweighted)) in column.iter_mut().zip(&self.found) {
            *value = Some(PrefixMatch {
                matched: truncate(worth),
                total,
                block_size: self.config.block_size_tokens,
                unweighted,
            });
        }
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        _endpoints: &[EndpointView],
        _signals: &Signals,
        now: SimTime,
    ) {
        let Some(ttl) = self.config.speculative_ttl else {
            return;
        };
        self.hash(request);
        let place = Place::Speculative(now + ttl);
        for endpoint in placement.known_endpoints() {
            for index in 0..self.chain.keys().len() {
                self.add(self.chain.keys()[index], Holding { endpoint, place }, now);
            }
        }
    }

    fn wants_kv_events(&self) -> bool {
        true
    }

    fn kv_event(&mut self, endpoint: EndpointId, event: &KvEvent, now: SimTime) {
        match *event {
            KvEvent::Stored { block, tier } => {
                let place = Place::Confirmed(tier);
                self.add(block, Holding { endpoint, place }, now);
            }
            KvEvent::Removed { block, tier } => {
                let gone = Holding {
                    endpoint,
                    place: Place::Confirmed(tier),
                };
                self.drop_where(block, |copy| *copy == gone);
            }
            KvEvent::Cleared => self.drop_all(endpoint),
        }
    }

    fn removed(&mut self, endpoint: EndpointId, _now: SimTime) {
        self.drop_all(endpoint);
    }
}

/// Rounds towards zero.
fn truncate(worth: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is what is wanted; negative weights are worth nothing"
    )]
    {
        worth as u32
    }
}

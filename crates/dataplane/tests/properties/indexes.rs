//! The prefix indexes answer like lists that are searched from end to end.

use foretoken_dataplane::producer::{
    ApproximatePrefix, ApproximatePrefixConfig, Insertion, PrecisePrefix, PrecisePrefixConfig,
};
use foretoken_dataplane::signals::{APPROXIMATE_PREFIX, PRECISE_PREFIX};
use foretoken_dataplane::{DataProducer, EndpointId, EndpointView, KvEvent, Signals, Tier};
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{BlockHash, ContentId, Prompt, Request, RequestId, Segment};
use proptest::collection::vec;
use proptest::prelude::*;

const ENDPOINTS: usize = 4;
const BLOCK: u32 = 64;

/// A prompt: so many tokens of a text, then so many of another one.
type Texts = (u32, u32, u32);

#[derive(Debug, Clone)]
enum Step {
    LookUp(Texts),
    Place(Texts, usize),
    Store(Texts, usize, usize),
    Drop(Texts, usize, usize),
    Clear(usize),
    Leave(usize),
    Join(usize),
    Wait(u64),
}

fn texts() -> impl Strategy<Value = Texts> {
    // Of whole blocks mostly, so that prompts share what they can.
    (0..6_u32, 0..3_u32, prop_oneof![Just(0), 1..7_u32])
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let endpoint = || 0..ENDPOINTS;
    let step = prop_oneof![
        4 => texts().prop_map(Step::LookUp),
        6 => (texts(), endpoint()).prop_map(|(texts, endpoint)| Step::Place(texts, endpoint)),
        4 => (texts(), endpoint(), 0..9_usize).prop_map(|(t, e, block)| Step::Store(t, e, block)),
        2 => (texts(), endpoint(), 0..9_usize).prop_map(|(t, e, block)| Step::Drop(t, e, block)),
        1 => endpoint().prop_map(Step::Clear),
        1 => endpoint().prop_map(Step::Leave),
        1 => endpoint().prop_map(Step::Join),
        1 => (0..100_u64).prop_map(Step::Wait),
    ];
    vec(step, 0..80)
}

fn request((first, text, second): Texts, id: u32) -> Request {
    let common = Segment::new(ContentId::new(0), first * BLOCK + 1);
    let own = Segment::new(ContentId::new(1 + u64::from(text)), second * BLOCK);
    let prompt = Prompt::new([common, own]).expect("one token at least");
    Request::new(RequestId::new(id), SimTime::ZERO, prompt, 1)
}

fn keys(request: &Request) -> Vec<BlockHash> {
    let (view, mut keys) = (request.view(), Vec::new());
    view.prompt.hash_blocks(view.cache_root(), BLOCK, &mut keys);
    keys
}

fn id(endpoint: usize) -> EndpointId {
    EndpointId::new(u32::try_from(endpoint).expect("there are few"))
}

/// The endpoints that are there.
struct Pool(Vec<EndpointView>);

impl Pool {
    fn new(capacities: &[u32]) -> Self {
        let view = |(endpoint, &blocks)| {
            let mut view = EndpointView::new(id(endpoint));
            view.kv_blocks = blocks;
            view
        };
        Self(capacities.iter().enumerate().map(view).collect())
    }

    fn leave(&mut self, endpoint: usize) {
        self.0.retain(|view| view.id != id(endpoint));
    }

    fn join(&mut self, endpoint: usize, capacities: &[u32]) {
        if self.0.iter().all(|view| view.id != id(endpoint)) {
            self.0.push(Self::new(capacities).0.swap_remove(endpoint));
            self.0.sort_by_key(|view| view.id);
        }
    }

    fn has(&self, endpoint: usize) -> bool {
        self.0.iter().any(|view| view.id == id(endpoint))
    }

    /// How many blocks of the prompt the producer finds on each.
    fn found(
        &self,
        index: &mut dyn DataProducer,
        name: &str,
        request: &Request,
        now: SimTime,
    ) -> Vec<u32> {
        let mut signals = Signals::new();
        index.produce(Some(&request.view()), &self.0, now, &mut signals);
        let matched = |position| {
            signals
                .prefix
                .get(name, position)
                .map(|found| found.matched)
        };
        (0..self.0.len()).filter_map(matched).collect()
    }

    fn place(
        &self,
        index: &mut dyn DataProducer,
        endpoint: usize,
        request: &Request,
        now: SimTime,
    ) {
        let placement = id(endpoint).into();
        index.placed(&request.view(), &placement, &self.0, &Signals::new(), now);
    }
}

/// What each endpoint was sent, the oldest block first.
#[derive(Default)]
struct Sent {
    blocks: [Option<(u32, Vec<BlockHash>)>; ENDPOINTS],
    gone: [bool; ENDPOINTS],
    sweeps: u64,
}

impl Sent {
    fn place(&mut self, endpoint: usize, capacity: u32, keys: impl Iterator<Item = BlockHash>) {
        let (capacity, held) = self.blocks[endpoint].get_or_insert((capacity, Vec::new()));
        for key in keys {
            held.retain(|other| *other != key);
            held.push(key);
            if held.len() > *capacity as usize {
                held.remove(0);
            }
        }
    }

    fn sweep(&mut self, seconds: u64) {
        if seconds / 120 > self.sweeps {
            self.sweeps = seconds / 120;
            for (held, gone) in self.blocks.iter_mut().zip(&mut self.gone) {
                if core::mem::take(gone) {
                    *held = None;
                }
            }
        }
    }

    fn found(&self, pool: &Pool, keys: &[BlockHash]) -> Vec<u32> {
        let holds = |endpoint: usize, key: &BlockHash| {
            let held = self.blocks[endpoint].as_ref();
            held.is_some_and(|(_, held)| held.contains(key))
        };
        let anybody = |key: &&BlockHash| (0..ENDPOINTS).any(|endpoint| holds(endpoint, key));
        let walked: Vec<_> = keys.iter().take_while(anybody).collect();
        let count = |view: &EndpointView| {
            let here = walked.iter().filter(|key| holds(view.id.index(), key));
            u32::try_from(here.count()).expect("there are few")
        };
        pool.0.iter().map(count).collect()
    }
}

/// Copies of each block, the block that was used least recently first; a copy with a time is believed
/// until then.
#[derive(Default)]
struct Published(Vec<(BlockHash, Vec<Held>)>);

/// Where a copy is, and until when it is believed.
type Held = (usize, Option<u64>);

impl Published {
    fn add(&mut self, key: BlockHash, copy: Held, seconds: u64) {
        let place = self.0.iter().position(|(other, _)| *other == key);
        let (_, mut copies) = place
            .map(|place| self.0.remove(place))
            .unwrap_or((key, vec![]));
        copies.retain(|(_, until)| until.is_none_or(|until| seconds < until));
        copies.retain(|other| other.0 != copy.0 || other.1.is_some() != copy.1.is_some());
        let mut endpoints = Vec::new();
        for &(endpoint, _) in &copies {
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        if !endpoints.contains(&copy.0) && endpoints.len() >= 2 {
            copies.retain(|other| other.0 != endpoints[0]);
        }
        copies.push(copy);
        self.0.push((key, copies));
        if self.0.len() > 10 {
            self.0.remove(0);
        }
    }

    fn drop(&mut self, gone: impl Fn(BlockHash, Held) -> bool) {
        for (key, copies) in &mut self.0 {
            copies.retain(|copy| !gone(*key, *copy));
        }
        self.0.retain(|(_, copies)| !copies.is_empty());
    }

    fn found(&mut self, pool: &Pool, keys: &[BlockHash], seconds: u64) -> Vec<u32> {
        let mut found = vec![0; pool.0.len()];
        for (walked, key) in (0..).zip(keys) {
            let Some(place) = self.0.iter().position(|(other, _)| other == key) else {
                break;
            };
            let used = self.0.remove(place);
            self.0.push(used.clone());
            let believed = |&&(_, until): &&Held| until.is_none_or(|until| seconds < until);
            let mut anyone = false;
            for (view, found) in pool.0.iter().zip(&mut found) {
                let mut here = used.1.iter().filter(believed);
                if *found == walked && here.any(|copy| copy.0 == view.id.index()) {
                    *found += 1;
                    anyone = true;
                }
            }
            if !anyone {
                break;
            }
        }
        found
    }
}

proptest! {
    #[test]
    fn the_approximate_index_remembers_what_was_sent(
        steps in steps(),
        capacities in [1..14_u32, 1..14_u32, 1..14_u32, 1..14_u32],
        tail_first in any::<bool>(),
    ) {
        let insertion = if tail_first { Insertion::TailFirst } else { Insertion::HeadFirst };
        let config = ApproximatePrefixConfig { insertion, ..ApproximatePrefixConfig::default() };
        let mut index = ApproximatePrefix::new(APPROXIMATE_PREFIX, config);
        let (mut pool, mut model) = (Pool::new(&capacities), Sent::default());
        let mut seconds = 0;
        for (number, step) in (0..).zip(steps) {
            let now = SimTime::ZERO + SimDuration::from_secs(seconds);
            match step {
                Step::LookUp(texts) => {
                    let request = request(texts, number);
                    model.sweep(seconds);
                    let found = pool.found(&mut index, APPROXIMATE_PREFIX, &request, now);
                    prop_assert_eq!(found, model.found(&pool, &keys(&request)));
                }
                Step::Place(texts, endpoint) if pool.has(endpoint) => {
                    let request = request(texts, number);
                    pool.place(&mut index, endpoint, &request, now);
                    let (keys, capacity) = (keys(&request).into_iter(), capacities[endpoint]);
                    if tail_first {
                        model.place(endpoint, capacity, keys.rev());
                    } else {
                        model.place(endpoint, capacity, keys);
                    }
                }
                Step::Leave(endpoint) => {
                    pool.leave(endpoint);
                    index.removed(id(endpoint), now);
                    model.gone[endpoint] = true;
                }
                Step::Join(endpoint) => {
                    pool.join(endpoint, &capacities);
                    index.added(id(endpoint), now);
                    model.gone[endpoint] = false;
                }
                Step::Wait(more) => seconds += more,
                _ => {}
            }
        }
    }

    #[test]
    fn the_precise_index_knows_what_was_published(steps in steps(), guesses in any::<bool>()) {
        let config = PrecisePrefixConfig {
            block_size_tokens: BLOCK,
            index_size: 10,
            pod_cache_size: 2,
            speculative_ttl: guesses.then_some(SimDuration::from_secs(60)),
            ..PrecisePrefixConfig::default()
        };
        let mut index = PrecisePrefix::new(PRECISE_PREFIX, config);
        let (mut pool, mut model) = (Pool::new(&[0; ENDPOINTS]), Published::default());
        let (mut seconds, tier) = (0, Tier::Gpu);
        for (number, step) in (0..).zip(steps) {
            let now = SimTime::ZERO + SimDuration::from_secs(seconds);
            // The trailing partial block of a prompt does not count.
            let full = |request: &Request| {
                let mut keys = keys(request);
                keys.truncate((request.prompt.tokens() / BLOCK) as usize);
                keys
            };
            match step {
                Step::LookUp(texts) => {
                    let request = request(texts, number);
                    let found = pool.found(&mut index, PRECISE_PREFIX, &request, now);
                    prop_assert_eq!(found, model.found(&pool, &full(&request), seconds));
                }
                Step::Place(texts, endpoint) if guesses => {
                    let request = request(texts, number);
                    pool.place(&mut index, endpoint, &request, now);
                    for key in full(&request) {
                        model.add(key, (endpoint, Some(seconds + 60)), seconds);
                    }
                }
                Step::Store(texts, endpoint, block) => {
                    for &block in full(&request(texts, number)).get(block).iter().copied() {
                        index.kv_event(id(endpoint), &KvEvent::Stored { block, tier }, now);
                        model.add(block, (endpoint, None), seconds);
                    }
                }
                Step::Drop(texts, endpoint, block) => {
                    for &block in full(&request(texts, number)).get(block).iter().copied() {
                        index.kv_event(id(endpoint), &KvEvent::Removed { block, tier }, now);
                        model.drop(|key, copy| key == block && copy == (endpoint, None));
                    }
                }
                Step::Clear(endpoint) => {
                    index.kv_event(id(endpoint), &KvEvent::Cleared, now);
                    model.drop(|_, copy| copy.0 == endpoint);
                }
                Step::Leave(endpoint) => {
                    pool.leave(endpoint);
                    index.removed(id(endpoint), now);
                    model.drop(|_, copy| copy.0 == endpoint);
                }
                Step::Join(endpoint) => pool.join(endpoint, &[0; ENDPOINTS]),
                Step::Wait(more) => seconds += more,
                Step::Place(..) => {}
            }
        }
    }
}

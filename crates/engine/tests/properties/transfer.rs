//! Properties of engines that load KV, keep it for others, and publish what they cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_engine::{
    Engine, EngineConfig, EngineEvent, EngineStats, KvEvent, KvLoad, KvOffer, KvTransfer, Semantics,
};
use foretoken_latency_model::HostCosts;
use foretoken_workload::{
    BlockHash, BlockHasher, ContentId, FinishReason, Lifecycle, Prompt, Request, RequestId, Segment,
};
use proptest::prelude::*;

use crate::cases;
use crate::engine::{Proportional, hosts};
use crate::load::{BLOCK_SIZE, Client, Setup, loads, setups};

/// How KV crosses the border for a request, and how long that takes once it has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) transfer: KvTransfer,
    pub(crate) delay: SimDuration,
}

impl Link {
    fn is_partial(&self) -> bool {
        matches!(self.transfer.offer, KvOffer::Load { tokens } if tokens < u32::MAX)
    }
}

pub(crate) fn links() -> impl Strategy<Value = Vec<Link>> {
    let blocks = 0_u32..4;
    let transfer = prop_oneof![
        3 => Just(KvTransfer::local()),
        2 => Just(KvTransfer::produce()),
        3 => Just(KvTransfer::consume()),
        1 => blocks.clone().prop_map(|blocks| {
            KvTransfer::offering(KvOffer::Load { tokens: blocks * BLOCK_SIZE })
        }),
        1 => blocks.prop_map(|blocks| {
            KvTransfer::offering(KvOffer::InStep { tokens: blocks * BLOCK_SIZE })
        }),
    ];
    let delay = prop_oneof![Just(0), 0_u64..2_000_000, 0_u64..30_000_000];
    let delay = delay.prop_map(SimDuration::from_nanos);
    let link = (transfer, delay).prop_map(|(transfer, delay)| Link { transfer, delay });
    prop::collection::vec(link, 12)
}

/// What a host does at an instant.
#[derive(Debug)]
enum Input {
    Submit(Box<Request>),
    Abort(RequestId),
    Loaded(RequestId),
    Release(RequestId),
}

/// Wakes after which an engine makes no progress.
const FRUITLESS: u32 = 5_000;

pub(crate) struct Host {
    engine: Engine,
    links: Vec<Link>,
    inputs: BTreeMap<(SimTime, u64), Input>,
    number: u64,
    pub(crate) events: Vec<(SimTime, EngineEvent<'static>)>,
    /// What a scraper would see after each wake.
    pub(crate) levels: Vec<EngineStats>,
}

/// An engine that publishes nothing of its cache.
pub(crate) fn engine(setup: &Setup, host: HostCosts) -> Engine {
    let config = EngineConfig {
        scheduler: setup.config.clone(),
        host,
        ..EngineConfig::default()
    };
    let engine = Engine::new(config, Arc::new(Proportional), setup.policies());
    engine.expect("the settings are in range")
}

impl Host {
    fn new(setup: &Setup, host: HostCosts, load: &[Client], links: &[Link]) -> Self {
        let engine = engine(setup, host).with_kv_events();
        Self::with_engine(engine, load, links)
    }

    pub(crate) fn with_engine(engine: Engine, load: &[Client], links: &[Link]) -> Self {
        let mut this = Self {
            engine,
            links: links.to_vec(),
            inputs: BTreeMap::new(),
            number: 0,
            events: Vec::new(),
            levels: Vec::new(),
        };
        for client in load {
            let request = client.request.clone();
            let id = request.id;
            this.input(request.arrival, Input::Submit(Box::new(request)));
            if let Some(at) = client.aborts {
                let at = SimTime::ZERO + SimDuration::from_millis(at);
                this.input(at, Input::Abort(id));
            }
        }
        this
    }

    fn input(&mut self, at: SimTime, input: Input) {
        self.number += 1;
        self.inputs.insert((at, self.number), input);
    }

    /// Plays until nothing is left to happen; `false` if the engine makes no progress any more.
    pub(crate) fn run(&mut self) -> bool {
        let mut fruitless = 0;
        loop {
            let input = self.inputs.first_key_value().map(|(key, _)| key.0);
            let Some(now) = input.into_iter().chain(self.engine.next_wake()).min() else {
                return !self.engine.is_stalled();
            };
            while let Some(entry) = self.inputs.first_entry().filter(|it| it.key().0 == now) {
                fruitless = 0;
                match entry.remove() {
                    Input::Submit(request) => {
                        let transfer = self.links[request.id.index()].transfer;
                        self.engine.submit_remote(now, *request, transfer);
                    }
                    Input::Abort(id) => self.engine.abort(now, id),
                    Input::Loaded(id) => self.engine.kv_loaded(now, id),
                    Input::Release(id) => self.engine.release_kv(now, id),
                }
            }
            if self.engine.next_wake() == Some(now) {
                fruitless += 1;
                if self.advance(now) {
                    fruitless = 0;
                }
                if fruitless > FRUITLESS {
                    return false;
                }
            }
        }
    }

    /// Whether any client got anything.
    fn advance(&mut self, now: SimTime) -> bool {
        let mut new = Vec::new();
        self.engine
            .advance(now, &mut |event| event.one_by_one(|event| new.push(event)));
        let stats = self.engine.stats();
        assert!(stats.kv_used <= stats.kv_total);
        assert!(self.engine.scheduler().held_blocks() <= stats.kv_used);
        self.levels.push(stats);
        let mut fruitful = false;
        for event in new {
            match event {
                EngineEvent::KvLoad { at, load } if !load.is_confirmation() => {
                    let at = at + self.links[load.request.index()].delay;
                    self.input(at.max(now), Input::Loaded(load.request));
                }
                EngineEvent::Request(it) => {
                    fruitful |= !matches!(
                        it.what,
                        Lifecycle::Scheduled { .. }
                            | Lifecycle::Resumed { .. }
                            | Lifecycle::Preempted
                    );
                    let link = self.links[it.request.index()];
                    let ended = Lifecycle::Finished {
                        reason: FinishReason::Length,
                    };
                    if link.transfer == KvTransfer::produce() && it.what == ended {
                        let at = it.at.max(now) + link.delay;
                        self.input(at, Input::Release(it.request));
                    }
                }
                _ => {}
            }
            self.events.push((now, event));
        }
        fruitful
    }

    /// One more request, so that the engine notices all that it has not noticed while it slept.
    fn flush(&mut self) {
        let id = RequestId::new(u32::try_from(self.links.len()).expect("few"));
        self.links.push(Link {
            transfer: KvTransfer::local(),
            delay: SimDuration::ZERO,
        });
        let prompt = Prompt::new([Segment::new(ContentId::new(77), 1)]).expect("not empty");
        let last = self.events.last().map_or(SimTime::ZERO, |last| last.0);
        // After the last input and the last output.
        let now = last + SimDuration::from_millis(10_000);
        self.input(
            now,
            Input::Submit(Box::new(Request::new(id, now, prompt, 1))),
        );
    }

    fn of(&self, id: RequestId) -> Vec<(SimTime, Lifecycle)> {
        let mine = self.events.iter().filter_map(|(_, event)| match event {
            EngineEvent::Request(it) if it.request == id => Some((it.at, it.what)),
            _ => None,
        });
        mine.collect()
    }

    fn loads(&self, id: RequestId) -> Vec<(SimTime, KvLoad)> {
        let mine = self.events.iter().filter_map(|(_, event)| match event {
            EngineEvent::KvLoad { at, load } if load.request == id => Some((*at, *load)),
            _ => None,
        });
        mine.collect()
    }
}

/// Whether it has been seen that requests whose KV has arrived get stuck: behind the head of the queue
/// in vLLM 0.15.1, and anywhere if they lack more than the blocks that they hold.
fn may_stall(setup: &Setup, links: &[Link]) -> bool {
    !setup.config.semantics.block_holders_first || links.iter().any(Link::is_partial)
}

fn check_ends(setup: &Setup, host: &Host, load: &[Client]) -> Result<(), TestCaseError> {
    let longest = setup.config.max_model_len;
    for client in load {
        let request = &client.request;
        let link = host.links[request.id.index()];
        let mine = host.of(request.id);
        let tokens = |it: &&(SimTime, Lifecycle)| matches!(it.1, Lifecycle::Tokens { .. });
        let tokens = u32::try_from(mine.iter().filter(tokens).count()).expect("few");
        let loads = host.loads(request.id);
        match mine.last().map(|last| last.1) {
            Some(Lifecycle::Rejected { .. }) => {
                prop_assert!(mine.len() == 1 && loads.is_empty());
                continue;
            }
            Some(Lifecycle::Finished {
                reason: FinishReason::Abort,
            }) => {
                prop_assert!(client.aborts.is_some());
            }
            Some(Lifecycle::Finished { reason }) => {
                prop_assert_eq!(reason, client.reason(longest));
                prop_assert_eq!(tokens, client.expected(longest));
            }
            other => prop_assert!(false, "the last of {:?} is {:?}", request.id, other),
        }
        let ends = mine
            .iter()
            .filter(|it| matches!(it.1, Lifecycle::Finished { .. }));
        prop_assert_eq!(ends.count(), 1);
        // Once per request, whatever becomes of it.
        let offered = matches!(link.transfer.offer, KvOffer::Load { .. });
        prop_assert_eq!(loads.len(), usize::from(offered), "{:?}", loads);
        for (at, load) in loads {
            prop_assert!(load.tokens <= request.prompt.tokens());
            prop_assert_eq!(load.blocks, load.tokens.div_ceil(BLOCK_SIZE));
            let scheduled = mine
                .iter()
                .find(|it| matches!(it.1, Lifecycle::Scheduled { .. }));
            if let Some(&(when, Lifecycle::Scheduled { cached_tokens })) = scheduled
                && !load.is_confirmation()
            {
                prop_assert!(
                    at + link.delay <= when,
                    "nobody goes on before its load has ended"
                );
                prop_assert!(cached_tokens + 1 >= load.tokens);
            }
        }
    }
    Ok(())
}

/// The key at which the chain of a request starts.
fn root(request: &Request) -> BlockHash {
    let salt = request
        .cache_salt
        .map_or(0, |salt| BlockHash::root(salt).get());
    BlockHash::root(salt)
}

/// How often each key is stored and not removed, by the events.
fn followed(host: &Host) -> Result<BTreeMap<BlockHash, u32>, TestCaseError> {
    let mut index: BTreeMap<BlockHash, u32> = BTreeMap::new();
    for (now, event) in &host.events {
        let EngineEvent::Kv { at, event } = event else {
            continue;
        };
        prop_assert_eq!(at, now);
        match *event {
            KvEvent::Stored { hash } => *index.entry(hash).or_default() += 1,
            KvEvent::Removed { hash } => {
                let count = index.get_mut(&hash).filter(|count| **count > 0);
                *count.expect("only what is stored is removed") -= 1;
            }
            other => prop_assert!(false, "nobody resets the cache: {:?}", other),
        }
    }
    Ok(index)
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn every_request_ends_and_every_block_comes_back(
        setup in setups(),
        costs in hosts(),
        load in loads(),
        links in links(),
    ) {
        let mut host = Host::new(&setup, costs, &load, &links);
        if !host.run() {
            prop_assert!(may_stall(&setup, &links), "the engine makes no progress");
            return Ok(());
        }
        prop_assert!(host.engine.is_drained());
        check_ends(&setup, &host, &load)?;
        host.flush();
        prop_assert!(host.run() && host.engine.is_drained());
        prop_assert_eq!(host.engine.stats().kv_used, 0);
    }

    /// With memory for all nobody is stuck, whatever the version.
    #[test]
    fn without_scarcity_every_load_is_served(
        setup in setups(),
        costs in hosts(),
        load in loads(),
        links in links(),
    ) {
        let mut setup = setup;
        setup.config.num_gpu_blocks = 1000;
        let mut host = Host::new(&setup, costs, &load, &links);
        prop_assert!(host.run(), "the engine makes no progress");
        check_ends(&setup, &host, &load)?;
        for client in &load {
            let preempted = host.of(client.request.id).iter().any(|it| it.1 == Lifecycle::Preempted);
            prop_assert!(!preempted);
        }
    }

    #[test]
    fn whoever_follows_the_events_knows_the_cache(
        setup in setups(),
        costs in hosts(),
        load in loads(),
        links in links(),
    ) {
        let mut host = Host::new(&setup, costs, &load, &links);
        host.run();
        let index = followed(&host)?;
        prop_assert!(setup.config.prefix_caching || index.is_empty());
        let cached: u32 = index.values().sum();
        prop_assert!(cached <= setup.config.usable_blocks());
        let kv = host.engine.scheduler().kv();
        for client in &load {
            let request = &client.request;
            let hasher = BlockHasher::new(&request.prompt, request.output_content, BLOCK_SIZE);
            let mut chain = Vec::new();
            let tokens = request.prompt.tokens() + client.request.output_tokens();
            hasher.extend(root(request), tokens, &mut chain);
            let known = |key: &&BlockHash| index.get(key).is_some_and(|&count| count > 0);
            let known = chain.iter().take_while(known).count();
            prop_assert_eq!(kv.matching(&chain) as usize, known);
        }
    }

    #[test]
    fn the_same_transfers_give_the_same_events(
        setup in setups(),
        costs in hosts(),
        load in loads(),
        links in links(),
    ) {
        let play = || {
            let mut host = Host::new(&setup, costs, &load, &links);
            host.run();
            host.events
        };
        prop_assert_eq!(play(), play());
    }
}

/// The stall is real: the random loads above do meet it.
#[test]
fn a_small_pool_of_the_old_version_can_stall() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut draw = || {
        let tree = (setups(), loads(), links()).new_tree(&mut runner);
        tree.expect("nothing is filtered").current()
    };
    let stalls = (0..400).filter(|_| {
        let (mut setup, load, links) = draw();
        setup.config.semantics = Semantics::V0_15;
        !Host::new(&setup, HostCosts::default(), &load, &links).run()
    });
    assert!(stalls.count() > 0);
}

//! Prefix indexes that do not know what engines hold.

use foretoken::cluster::PoolChange;
use foretoken::dataplane::pipeline::scorers::{ActiveRequestScorer, PrefixCacheScorer};
use foretoken::dataplane::producer::{
    ApproximatePrefix, ApproximatePrefixConfig, InFlightLoad, Insertion, PrecisePrefix,
};
use foretoken::dataplane::signals::{APPROXIMATE_PREFIX, PRECISE_PREFIX};
use foretoken::dataplane::{DataProducer, KvEvent, Pipeline, Placement, Signals};
use foretoken::prelude::*;

use super::setting::{
    Ask, Shared, all, at, draws, engines, gateway_with, llama, poisson, refreshed_every, run,
};
use super::table::Table;

/// Adds up what an index promises of the endpoints that are chosen; comes after it.
struct Promises {
    index: &'static str,
    /// Tokens that were promised, and all.
    tokens: Shared<(u64, u64)>,
}

impl DataProducer for Promises {
    fn produce(
        &mut self,
        _: Option<&RequestView<'_>>,
        _: &[EndpointView],
        _: SimTime,
        _: &mut Signals,
    ) {
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        endpoints: &[EndpointView],
        signals: &Signals,
        _: SimTime,
    ) {
        let chosen = endpoints.iter().position(|e| e.id == placement.endpoint);
        let found = chosen.and_then(|position| signals.prefix.get(self.index, position));
        let prompt = request.prompt_tokens();
        let promised = found.map_or(0, |found| (found.matched * found.block_size).min(prompt));
        self.tokens.update(|(sum, total)| {
            *sum += u64::from(promised);
            *total += u64::from(prompt);
        });
    }
}

/// What an index promised and what engines found, as shares of all prompt tokens; TTFT p50.
fn promised_and_found(
    index: Box<dyn DataProducer>,
    name: &'static str,
    pool: Vec<Instance>,
    wiring: Wiring,
    asks: Vec<Ask>,
) -> Result<[Option<f64>; 3], Error> {
    let tokens = Shared::<(u64, u64)>::default();
    let promises = Promises {
        index: name,
        tokens: tokens.clone(),
    };
    let producers: Vec<Box<dyn DataProducer>> =
        vec![index, Box::new(InFlightLoad::default()), Box::new(promises)];
    let router = Pipeline::new()
        .scorer(3.0, PrefixCacheScorer::of(name))
        .scorer(1.0, ActiveRequestScorer::default());
    let policies = vec![gateway_with(producers, router)];
    let seen = run(pool, policies, wiring, asks)?;
    let (promised, total) = tokens.get();
    Ok([
        Some(100.0 * promised as f64 / total as f64),
        seen.hit_ratio().map(|ratio| 100.0 * ratio),
        seen.ttft(0.5, all),
    ])
}

/// Requests that begin with one of `texts` texts of `tokens` tokens, each as likely as the other.
fn about(texts: u64, tokens: u32, rate: f64) -> Vec<Ask> {
    let mut rng = draws("texts");
    poisson(&mut rng, rate, 0.0, 60.0)
        .into_iter()
        .map(|at| {
            let text = u32::try_from(rng.below(texts)).expect("a few texts");
            Ask::new(at, 100, 40).after(text, tokens)
        })
        .collect()
}

const PROMISED_AND_FOUND: &[(&str, usize)] =
    &[("promised, %", 1), ("found, %", 1), ("TTFT p50, ms", 0)];

/// 9.
pub(crate) fn another_size_than_the_cache() -> Result<Table, Error> {
    // 65,536 tokens for each of 4 engines, and 120 texts of 3,000.
    let engine = llama(|engine| engine.num_gpu_blocks_override = Some(4096))?;
    let asks = about(120, 3000, 20.0);
    let cases = [
        ("as many blocks as the engine, of 64 tokens", None),
        ("as many tokens as the engine", Some(1024)),
        ("a quarter of them", Some(256)),
        ("a sixteenth of them", Some(64)),
    ];
    Ok(Table::new(
        "Prefix index not matching the engine: 120 texts of 3000 tokens, 4 engines that hold 20 each",
        "sized in blocks of 64 against 16 the index promises what is gone; smaller than the cache (as beside \
         an engine that offloads to host memory) it does not know what is there.",
        PROMISED_AND_FOUND,
    )
    .measure(&cases, |&capacity| {
        let mut config = ApproximatePrefixConfig::default();
        if let Some(blocks) = capacity {
            config.auto_tune = false;
            config.lru_capacity_per_server = blocks;
        }
        let index = ApproximatePrefix::new(APPROXIMATE_PREFIX, config);
        let pool = engines(4, &engine);
        promised_and_found(Box::new(index), APPROXIMATE_PREFIX, pool, refreshed_every(50), asks.clone())
    })?
    .conclude(
        |table| {
            let gap = |row| table.at(row, "promised, %") - table.at(row, "found, %");
            gap("as many blocks as the engine, of 64 tokens") > 10.0
                && gap("a quarter of them") < -5.0
        },
        "engines here have no host memory: the ratio of index to cache stands for the offload ratio",
    ))
}

/// 10.
pub(crate) fn head_evicted_first() -> Result<Table, Error> {
    // 81,920 tokens for each of 2 engines: five texts of 16,000, of ten.
    let engine = llama(|engine| engine.num_gpu_blocks_override = Some(5200))?;
    let asks = about(8, 16_000, 2.0);
    let (head, tail) = (Insertion::HeadFirst, Insertion::TailFirst);
    let cases = [
        ("head first, 5 texts", (head, 1280)),
        ("tail first, 5 texts", (tail, 1280)),
        ("head first, 3.9 texts", (head, 1000)),
        ("tail first, 3.9 texts", (tail, 1000)),
        ("head first, 2.9 texts", (head, 750)),
        ("tail first, 2.9 texts", (tail, 750)),
        ("head first, 0.9 texts", (head, 230)),
        ("tail first, 0.9 texts", (tail, 230)),
    ];
    Ok(Table::new(
        "Head evicted first: 8 texts of 16,000 tokens on 2 endpoints, an index for a few of them each",
        "close to the capacity of the index one eviction at the head of a prompt makes the rest worthless; \
         inserted tail first it keeps its head.",
        PROMISED_AND_FOUND,
    )
    .measure(&cases, |&(insertion, blocks)| {
        let config = ApproximatePrefixConfig {
            auto_tune: false,
            lru_capacity_per_server: blocks,
            insertion,
            ..ApproximatePrefixConfig::default()
        };
        let index = ApproximatePrefix::new(APPROXIMATE_PREFIX, config);
        let pool = engines(2, &engine);
        promised_and_found(Box::new(index), APPROXIMATE_PREFIX, pool, refreshed_every(50), asks.clone())
    })?
    .conclude(
        |table| {
            let promised = |row| table.at(row, "promised, %");
            promised("tail first, 2.9 texts") > promised("head first, 2.9 texts") + 5.0
                && promised("tail first, 0.9 texts") > promised("head first, 0.9 texts") + 10.0
        },
        "",
    ))
}

/// A precise index that does not hear everything.
struct Deaf {
    index: PrecisePrefix,
    misses: Misses,
    rng: SimRng,
}

#[derive(Clone, Copy)]
enum Misses {
    /// This share of the events.
    Share(f64),
    /// All of endpoint 0's from 20 s to 40 s.
    Connection,
    /// That the engine behind endpoint 0's address is another one from 30 s on, with an empty cache.
    Restart,
    /// Not that one either: the blocks of the old engine are cleared.
    NothingOfARestart,
}

/// The engine that takes the place of engine 0.
const SUCCESSOR: u32 = 4;

impl Misses {
    const fn restarts(self) -> bool {
        matches!(self, Self::Restart | Self::NothingOfARestart)
    }
}

/// The address of an endpoint: a restarted engine has that of its predecessor.
const fn address(endpoint: EndpointId) -> EndpointId {
    match endpoint.get() {
        SUCCESSOR => EndpointId::new(0),
        _ => endpoint,
    }
}

impl DataProducer for Deaf {
    fn produce(
        &mut self,
        request: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        now: SimTime,
        signals: &mut Signals,
    ) {
        let mut known = endpoints.to_vec();
        for endpoint in &mut known {
            endpoint.id = address(endpoint.id);
        }
        self.index.produce(request, &known, now, signals);
    }

    fn wants_kv_events(&self) -> bool {
        true
    }

    fn kv_event(&mut self, endpoint: EndpointId, event: &KvEvent, now: SimTime) {
        let lost = match self.misses {
            Misses::Share(share) => self.rng.unit() < share,
            Misses::Connection => endpoint.get() == 0 && (at(20.0)..at(40.0)).contains(&now),
            Misses::Restart | Misses::NothingOfARestart => false,
        };
        if !lost {
            self.index.kv_event(address(endpoint), event, now);
        }
    }

    fn removed(&mut self, endpoint: EndpointId, now: SimTime) {
        // The successor is not there at the start, which tells nothing of endpoint 0.
        if endpoint.get() != SUCCESSOR && !matches!(self.misses, Misses::Restart) {
            self.index.removed(endpoint, now);
        }
    }
}

/// 21.
pub(crate) fn lost_events() -> Result<Table, Error> {
    let engine = llama(|engine| engine.num_gpu_blocks_override = Some(4096))?;
    // Texts that fit into the caches together, and texts that push each other out.
    let (fitting, crowding) = (about(60, 3000, 20.0), about(120, 3000, 20.0));
    let cases = [
        ("60 texts, all events", (&fitting, Misses::Share(0.0))),
        ("60 texts, 1 % lost", (&fitting, Misses::Share(0.01))),
        ("60 texts, 10 % lost", (&fitting, Misses::Share(0.1))),
        (
            "60 texts, restart, cleared",
            (&fitting, Misses::NothingOfARestart),
        ),
        (
            "60 texts, restart, not cleared",
            (&fitting, Misses::Restart),
        ),
        ("120 texts, all events", (&crowding, Misses::Share(0.0))),
        ("120 texts, 1 % lost", (&crowding, Misses::Share(0.01))),
        (
            "120 texts, endpoint 0 unheard for 20 s",
            (&crowding, Misses::Connection),
        ),
        (
            "120 texts, restart, cleared",
            (&crowding, Misses::NothingOfARestart),
        ),
        (
            "120 texts, restart, not cleared",
            (&crowding, Misses::Restart),
        ),
    ];
    Ok(Table::new(
        "KV events lost, or an engine restarted: a precise index before 4 engines that hold 20 texts each",
        "the index points at blocks that are gone: regret against an index that hears everything.",
        PROMISED_AND_FOUND,
    )
    .measure(&cases, |&(asks, misses)| {
        let index = Deaf {
            index: PrecisePrefix::default(),
            misses,
            rng: draws("events"),
        };
        let mut wiring = refreshed_every(50);
        let mut pool = engines(4, &engine);
        if misses.restarts() {
            pool.push(engine.instance());
            wiring.changes = vec![
                PoolChange { at: at(0.0), engine: 4, up: false },
                PoolChange { at: at(30.0), engine: 0, up: false },
                PoolChange { at: at(30.0), engine: 4, up: true },
            ];
        }
        promised_and_found(Box::new(index), PRECISE_PREFIX, pool, wiring, asks.clone())
    })?
    .conclude(
        |table| {
            let found = |row| table.at(row, "found, %");
            let gap = |row| table.at(row, "promised, %") - table.at(row, "found, %");
            found("60 texts, 1 % lost") < found("60 texts, all events") - 1.0
                && gap("120 texts, restart, not cleared") > gap("120 texts, restart, cleared") + 1.0
        },
        "a lost removal is one block too many, a lost store hides the rest of its text and weighs more",
    ))
}

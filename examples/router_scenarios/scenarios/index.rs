//! Prefix indexes that do not know what engines hold.

use foretoken::dataplane::pipeline::scorers::{ActiveRequestScorer, PrefixCacheScorer};
use foretoken::dataplane::producer::{
    ApproximatePrefix, ApproximatePrefixConfig, InFlightLoad, Insertion,
};
use foretoken::dataplane::signals::APPROXIMATE_PREFIX;
use foretoken::dataplane::{DataProducer, Pipeline, Placement, Signals};
use foretoken::prelude::*;

use super::seen::{all, run};
use super::setting::{Ask, Shared, draws, engines, gateway_with, llama, poisson, refreshed_every};
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
pub(super) fn promised_and_found(
    index: Box<dyn DataProducer>,
    name: &'static str,
    pool: Vec<Instance>,
    wiring: Wiring,
    asks: Vec<Ask>,
) -> Result<[Option<f64>; 3], Error> {
    let tokens = Shared::<(u64, u64)>::default();
    let sum = Promises {
        index: name,
        tokens: tokens.clone(),
    };
    let producers: Vec<Box<dyn DataProducer>> =
        vec![index, Box::new(InFlightLoad::default()), Box::new(sum)];
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
pub(super) fn about(texts: u64, tokens: u32, rate: f64) -> Vec<Ask> {
    let mut rng = draws("texts");
    poisson(&mut rng, rate, 0.0, 60.0)
        .into_iter()
        .map(|at| {
            let text = u32::try_from(rng.below(texts)).expect("a few texts");
            Ask::new(at, 100, 40).after(text, tokens)
        })
        .collect()
}

pub(super) const PROMISED_AND_FOUND: &[(&str, usize)] =
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

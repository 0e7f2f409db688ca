//! What a gate goes by: the mean of endpoints or the fullest of them, and a counter that nobody writes.

use foretoken::dataplane::pipeline::scorers::{
    ActiveRequestScorer, KvCacheUtilizationScorer, PrefixCacheScorer, QueueScorer,
};
use foretoken::dataplane::saturation::{Aggregate, ConcurrencyDetector, UtilizationDetector};
use foretoken::dataplane::signals::IN_FLIGHT_LOAD;
use foretoken::dataplane::{Pipeline, RoundRobin};
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;

use super::seen::{all, run};
use super::setting::{
    Ask, at, at_most, draws, engines, gated, gateway, llama, on_gpu, poisson, refreshed_every,
};
use super::table::Table;

#[derive(Clone, Copy)]
enum Trouble {
    /// Two requests out of five have a prompt that one endpoint holds.
    HotPrefix,
    /// Endpoint 0 is an L4 among H100s.
    Straggler,
}

/// The tenant of requests with the hot prefix.
const HOT: u32 = 1;

/// 3.
pub(crate) fn hidden_by_the_mean() -> Result<Table, Error> {
    let small_batches = |engine: &mut EngineOptions| engine.max_num_seqs = Some(32);
    let engine = llama(small_batches)?;
    let slow = on_gpu("L4-24GB", |engine| {
        small_batches(engine);
        engine.max_model_len = Some(8192);
    })?;
    let mut rng = draws("mean");
    let hot = poisson(&mut rng, 41.0, 1.0, 16.0).into_iter();
    let hot = hot.map(|at| Ask::new(at, 100, 100).after(1, 2000).priority(0, HOT));
    let cold = poisson(&mut rng, 60.0, 1.0, 16.0).into_iter();
    let skewed: Vec<Ask> = hot.chain(cold.map(|at| Ask::new(at, 500, 100))).collect();
    let even = poisson(&mut rng, 80.0, 1.0, 16.0).into_iter();
    let even: Vec<Ask> = even.map(|at| Ask::new(at, 500, 100)).collect();
    let (quantile, max) = (Aggregate::Quantile(0.75), Aggregate::Max);
    let cases = [
        ("hot prefix, mean", (Trouble::HotPrefix, Aggregate::Mean)),
        ("hot prefix, quantile 0.75", (Trouble::HotPrefix, quantile)),
        ("hot prefix, max", (Trouble::HotPrefix, max)),
        ("straggler, mean", (Trouble::Straggler, Aggregate::Mean)),
        ("straggler, quantile 0.75", (Trouble::Straggler, quantile)),
        ("straggler, max", (Trouble::Straggler, max)),
    ];
    Ok(Table::new(
        "Hot endpoint hidden by the mean: 16 endpoints, full with 5 waiting, utilization detector",
        "the mean stays below 1 while one endpoint is far above its limit; max sees it, but holds everybody \
         back for the sake of a single slow endpoint.",
        &[
            ("longest queue", 0),
            ("in gateway p99, ms", 0),
            ("TTFT p99 elsewhere, ms", 0),
            ("answers/s", 1),
        ],
    )
    .measure(&cases, |&(trouble, aggregate)| {
        let detector = UtilizationDetector {
            aggregate,
            ..UtilizationDetector::default()
        };
        let mut pool = engines(16, &engine);
        let (router, asks) = match trouble {
            Trouble::HotPrefix => {
                let router = Pipeline::new()
                    .scorer(3.0, PrefixCacheScorer::default())
                    .scorer(1.0, KvCacheUtilizationScorer)
                    .scorer(1.0, ActiveRequestScorer::default());
                (gateway(router), &skewed)
            }
            Trouble::Straggler => {
                pool[0] = slow.instance();
                (gateway(RoundRobin::default()), &even)
            }
        };
        let policies = vec![gated(router, detector)];
        let seen = run(pool, policies, refreshed_every(50), asks.clone())?;
        let elsewhere = |record: &RequestRecord| match trouble {
            Trouble::HotPrefix => record.flow.get() != HOT,
            Trouble::Straggler => record.endpoint != Some(0),
        };
        Ok([
            Some(seen.longest_queue()),
            seen.held(0.99, all),
            seen.ttft(0.99, elsewhere),
            Some(seen.report.overall.throughput.requests_per_s),
        ])
    })?
    .conclude(
        |table| {
            let queue = |row| table.at(row, "longest queue");
            let elsewhere = |row| table.at(row, "TTFT p99 elsewhere, ms");
            queue("hot prefix, mean") > 3.0 * 5.0
                && table.at("hot prefix, mean", "in gateway p99, ms") < 1.0
                && queue("hot prefix, max") < 0.7 * queue("hot prefix, mean")
                && elsewhere("straggler, max") > 5.0 * elsewhere("straggler, mean")
        },
        "",
    ))
}

/// 8.
pub(crate) fn blind_detector() -> Result<Table, Error> {
    let engine = llama(|engine| engine.max_num_seqs = Some(16))?;
    let mut rng = draws("blind");
    let batch = (0..400).map(|_| Ask::new(at(1.0), 500, 100).class(SloClass::Batch));
    let urgent = poisson(&mut rng, 2.0, 1.5, 11.5).into_iter();
    let urgent = urgent.map(|at| Ask::new(at, 500, 100).class(SloClass::Critical));
    let asks: Vec<Ask> = batch.chain(urgent).collect();
    let cases = [
        ("the producer's name", IN_FLIGHT_LOAD),
        ("another name", "inflight-load"),
    ];
    Ok(Table::new(
        "Detector reading zero for ever: concurrency detector (20), a burst of 400, 2 endpoints",
        "detector and producer under different names: S = 0, nothing is held back and priorities have no \
         effect.",
        &[
            ("longest queue in an engine", 0),
            ("in gateway p99, ms", 0),
            ("critical TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&name| {
        let detector = ConcurrencyDetector {
            producer: name.to_owned(),
            ..at_most(20.0)
        };
        let router = Pipeline::new()
            .scorer(1.0, ActiveRequestScorer::default())
            .scorer(1.0, QueueScorer);
        let policies = vec![gated(gateway(router), detector)];
        let seen = run(engines(2, &engine), policies, refreshed_every(50), asks.clone())?;
        let critical = |record: &RequestRecord| record.class == SloClass::Critical;
        Ok([
            Some(seen.longest_queue()),
            seen.held(0.99, all),
            seen.ttft(0.99, critical),
        ])
    })?
    .conclude(
        |table| {
            let queue = |row| table.at(row, "longest queue in an engine");
            queue("another name") > 5.0 * queue("the producer's name")
        },
        "nothing warns of it when a gateway is built in Rust; a configuration file would have to be checked",
    ))
}

//! Prefix affinity against load.

use foretoken::dataplane::pipeline::filters::{PrefixCacheAffinityFilter, TtftSource};
use foretoken::dataplane::pipeline::pickers::WeightedRandomPicker;
use foretoken::dataplane::pipeline::scorers::{
    KvCacheUtilizationScorer, NoHitLruScorer, PrefixCacheScorer, QueueScorer, TokenLoadScorer,
};
use foretoken::dataplane::saturation::UtilizationDetector;
use foretoken::dataplane::{Pipeline, RoundRobin};
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;

use super::seen::{Seen, all, most_on_one, run};
use super::setting::{Ask, at, draws, engines, gateway, llama, poisson, refreshed_every};
use super::table::Table;

/// llm-d's scorers by their weights: queue, KV usage, prefix.
fn weights(queue: f64, kv: f64, prefix: f64) -> Pipeline {
    Pipeline::new()
        .scorer(queue, QueueScorer)
        .scorer(kv, KvCacheUtilizationScorer)
        .scorer(prefix, PrefixCacheScorer::default())
}

/// llm-d's affinity filter, with another price than 18 s.
fn affinity(max_ttft_penalty_ms: f64) -> Pipeline {
    let source = TtftSource::prefill_throughput(15_928.0);
    let filter = PrefixCacheAffinityFilter {
        max_ttft_penalty_ms,
        ttft_source: source,
        ..PrefixCacheAffinityFilter::default()
    };
    Pipeline::new()
        .filter(filter)
        .scorer(1.0, TokenLoadScorer::default())
}

fn hot_spot(seen: &Seen) -> [Option<f64>; 5] {
    [
        seen.busiest_share(all),
        Some(seen.longest_queue()),
        seen.hit_ratio().map(|ratio| 100.0 * ratio),
        seen.ttft(0.5, all),
        seen.ttft(0.99, all),
    ]
}

/// 11.
pub(crate) fn hot_prefix() -> Result<Table, Error> {
    // Beside it 60 texts on engines that hold 20 each: what spreads a text pushes others out.
    let small = llama(|engine| engine.num_gpu_blocks_override = Some(4096))?;
    let mut rng = draws("many");
    let many: Vec<Ask> = poisson(&mut rng, 40.0, 0.0, 30.0)
        .into_iter()
        .map(|at| {
            let text = u32::try_from(rng.below(60)).expect("sixty texts");
            Ask::new(at, 100, 50).after(text, 3000)
        })
        .collect();
    let engine = llama(|engine| engine.max_num_seqs = Some(64))?;
    let mut rng = draws("hot");
    let hot = poisson(&mut rng, 90.0, 1.0, 21.0).into_iter();
    let hot = hot.map(|at| Ask::new(at, 200, 100).after(1, 4000).priority(0, 1));
    let cold = poisson(&mut rng, 60.0, 1.0, 21.0).into_iter();
    let cold = cold.map(|at| Ask::new(at, 1000, 100));
    let asks: Vec<Ask> = hot.chain(cold).collect();
    let cases = [
        ("queue 2, KV 2, prefix 3", 0),
        ("queue 2, KV 2, prefix 1", 1),
        ("queue 2, KV 2, prefix 3, gate filter", 2),
        ("weighted random 2/2/3", 3),
        ("affinity filter, 18 s", 4),
        ("affinity filter, 200 ms", 5),
        ("round robin", 6),
    ];
    let many_cases = [
        ("60 texts, queue 2, KV 2, prefix 3", false),
        ("60 texts, weighted random 2/2/3", true),
    ];
    Ok(Table::new(
        "Prefix hot spot: 60 % of 150 requests/s share 4000 tokens, 8 endpoints with batches of 64",
        "with weights 2/2/3, or an affinity filter that pays any price, one endpoint saturates while others \
         idle. Weighted-random spreads the prefix and costs hits.",
        &[
            ("busiest, share", 2),
            ("longest queue", 0),
            ("hit ratio, %", 1),
            ("TTFT p50, ms", 0),
            ("TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&case| {
        let policies = match case {
            0 => gateway(weights(2.0, 2.0, 3.0)),
            1 => gateway(weights(2.0, 2.0, 1.0)),
            2 => gateway(weights(2.0, 2.0, 3.0).filter(UtilizationDetector::default())),
            3 => gateway(weights(2.0, 2.0, 3.0).picker(WeightedRandomPicker::default())),
            4 => gateway(affinity(18_000.0)),
            5 => gateway(affinity(200.0)),
            _ => gateway(RoundRobin::default()),
        };
        let wiring = refreshed_every(50);
        let seen = run(engines(8, &engine), vec![policies], wiring, asks.clone())?;
        Ok(hot_spot(&seen))
    })?
    .measure(&many_cases, |&random| {
        let mut router = weights(2.0, 2.0, 3.0);
        if random {
            router = router.picker(WeightedRandomPicker::default());
        }
        let (pool, wiring) = (engines(4, &small), refreshed_every(50));
        let seen = run(pool, vec![gateway(router)], wiring, many.clone())?;
        Ok(hot_spot(&seen))
    })?
    .conclude(
        |table| {
            let busiest = |row| table.at(row, "busiest, share");
            let tail = |row| table.at(row, "TTFT p99, ms");
            busiest("queue 2, KV 2, prefix 3") > 0.4
                && busiest("affinity filter, 18 s") > 0.4
                && tail("queue 2, KV 2, prefix 3") > 5.0 * tail("queue 2, KV 2, prefix 1")
        },
        "weighted-random costs no hits where one text is hot, for soon all endpoints have it; among many \
         texts it does",
    ))
}

/// 13.
pub(crate) fn cold_groups() -> Result<Table, Error> {
    const GROUPS: u32 = 32;
    let engine = llama(|_| ())?;
    let mut rng = draws("cold");
    // All groups begin within 200 ms; then each asks three times a second.
    let mut asks = Vec::new();
    for group in 0..GROUPS {
        let first = 1.0 + 0.2 * rng.unit();
        asks.push(
            Ask::new(at(first), 100, 50)
                .after(group, 6000)
                .priority(0, group),
        );
        for at in poisson(&mut rng, 3.0, first + 0.5, 20.0) {
            asks.push(Ask::new(at, 100, 50).after(group, 6000).priority(0, group));
        }
    }
    let cases = [("2/2/3", false), ("2/2/3, no-hit-LRU 2", true)];
    Ok(Table::new(
        "Cold groups cluster: 32 groups of 6000 shared tokens start at once before 8 endpoints",
        "ties by queue and KV send several groups to the same endpoint; no-hit-LRU spreads them.",
        &[
            ("most groups first on one, share", 2),
            ("busiest, share", 2),
            ("TTFT p99 of the first, ms", 0),
            ("TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&no_hit_lru| {
        let mut router = weights(2.0, 2.0, 3.0);
        if no_hit_lru {
            router = router.scorer(2.0, NoHitLruScorer::default());
        }
        let policies = vec![gateway(router)];
        let wiring = refreshed_every(50);
        let seen = run(engines(8, &engine), policies, wiring, asks.clone())?;
        let first = |record: &RequestRecord| record.arrival < at(1.2);
        let firsts = seen.records.iter().filter(|record| first(record));
        Ok([
            most_on_one(firsts.filter_map(|record| record.endpoint)),
            seen.busiest_share(all),
            seen.ttft(0.99, first),
            seen.ttft(0.99, all),
        ])
    })?
    .conclude(
        |table| {
            let most = |row| table.at(row, "most groups first on one, share");
            most("2/2/3") > 1.5 * most("2/2/3, no-hit-LRU 2")
        },
        "",
    ))
}

/// 24.
pub(crate) fn kv_usage_term() -> Result<Table, Error> {
    // Little memory, so that KV usage differs between endpoints.
    let engine = llama(|engine| engine.num_gpu_blocks_override = Some(8192))?;
    let load = |rate| {
        let mut rng = draws("kv");
        let arrivals = poisson(&mut rng, rate, 0.0, 20.0).into_iter();
        let asks = arrivals.map(|at| {
            let group = u32::try_from(rng.below(40)).expect("forty groups");
            let own = u32::try_from(100 + rng.below(800)).expect("a prompt");
            Ask::new(at, own, 100).after(group, 1000)
        });
        asks.collect::<Vec<Ask>>()
    };
    let with_kv = Some((2.0, 2.0, 3.0));
    let without = Some((3.0, 0.0, 4.0));
    let cases = [
        ("120/s, round robin", (120.0, None)),
        ("120/s, prefix 3, queue 2, KV 2", (120.0, with_kv)),
        ("120/s, prefix 4, queue 3", (120.0, without)),
        ("240/s, round robin", (240.0, None)),
        ("240/s, prefix 3, queue 2, KV 2", (240.0, with_kv)),
        ("240/s, prefix 4, queue 3", (240.0, without)),
    ];
    Ok(Table::new(
        "Does the KV-usage term hurt? 40 groups of 1000 shared tokens, 8 endpoints",
        "reported (simulated, at another scale) TTFT p99: round robin 266 ms; prefix 3, queue 2, KV 2 280 ms; \
         prefix 4, queue 3 without KV and with deadline-gated admission 120 ms.",
        &[
            ("hit ratio, %", 1),
            ("busiest, share", 2),
            ("TTFT p50, ms", 0),
            ("TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&(rate, weighed)| {
        let policies = match weighed {
            None => gateway(RoundRobin::default()),
            Some((queue, kv, prefix)) => gateway(weights(queue, kv, prefix)),
        };
        let wiring = refreshed_every(50);
        let seen = run(engines(8, &engine), vec![policies], wiring, load(rate))?;
        Ok([
            seen.hit_ratio().map(|ratio| 100.0 * ratio),
            seen.busiest_share(all),
            seen.ttft(0.5, all),
            seen.ttft(0.99, all),
        ])
    })?
    .conclude(
        |table| {
            let tail = |row| table.at(row, "TTFT p99, ms");
            tail("240/s, prefix 3, queue 2, KV 2") > 1.1 * tail("240/s, prefix 4, queue 3")
        },
        "both prefix policies lose to round robin in the tail here, and the KV term does not make it worse: \
         without it totals are equal but for the prefix. Without the deadline-gated admission, which llm-d \
         does not have",
    ))
}

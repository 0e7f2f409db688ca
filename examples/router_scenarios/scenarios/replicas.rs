//! Several gateways side by side, each with counters and indexes of its own.

use foretoken::dataplane::Pipeline;
use foretoken::dataplane::pipeline::scorers::{ActiveRequestScorer, PrefixCacheScorer};
use foretoken::dataplane::producer::{ApproximatePrefix, InFlightLoad, PrecisePrefix};
use foretoken::dataplane::signals::{APPROXIMATE_PREFIX, PRECISE_PREFIX};
use foretoken::dataplane::{DataProducer, GatewayPolicies};
use foretoken::prelude::*;

use super::seen::{all, run};
use super::setting::{
    Ask, at, at_most, draws, engines, gated, gateway_with, llama, refreshed_every,
};
use super::table::Table;

/// Requests that an endpoint may have.
const LIMIT: f64 = 8.0;

fn one_of_them(precise: bool) -> GatewayPolicies {
    let (index, name): (Box<dyn DataProducer>, _) = if precise {
        (Box::new(PrecisePrefix::default()), PRECISE_PREFIX)
    } else {
        (Box::new(ApproximatePrefix::default()), APPROXIMATE_PREFIX)
    };
    let router = Pipeline::new()
        .scorer(3.0, PrefixCacheScorer::of(name))
        .scorer(1.0, ActiveRequestScorer::default());
    gated(
        gateway_with(vec![index, Box::new(InFlightLoad::default())], router),
        at_most(LIMIT),
    )
}

/// 16.
pub(crate) fn partial_knowledge() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    let mut rng = draws("replicas");
    // 80 conversations of 8 turns, one every 4 s, each with 800 tokens more than the last.
    let mut asks = Vec::new();
    for conversation in 0..80 {
        let start = 8.0 * rng.unit();
        for turn in 0..8_u32 {
            let at = at(start + 4.0 * f64::from(turn) + rng.unit());
            let tokens = 1000 + 800 * turn;
            asks.push(Ask::new(at, 50, 50).after(conversation, tokens));
        }
    }
    // And a burst that has to wait for its turn.
    asks.extend((0..300).map(|_| Ask::new(at(45.0), 500, 100)));
    let cases = [
        ("1, approximate", (1, false)),
        ("2, approximate", (2, false)),
        ("4, approximate", (4, false)),
        ("1, precise", (1, true)),
        ("2, precise", (2, true)),
        ("4, precise", (4, true)),
    ];
    Ok(Table::new(
        "Several active routers: conversations and a burst, 4 endpoints, at most 8 requests each",
        "the hit ratio falls with the number of replicas, and limits are exceeded by up to that number; with \
         the precise index the hit ratio holds.",
        &[
            ("hit ratio, %", 1),
            ("TTFT p50, ms", 0),
            ("TTFT p99, ms", 0),
            ("most in flight", 0),
            ("limit", 0),
        ],
    )
    .measure(&cases, |&(replicas, precise)| {
        let gateways = (0..replicas).map(|_| one_of_them(precise)).collect();
        let seen = run(engines(4, &engine), gateways, refreshed_every(50), asks.clone())?;
        Ok([
            seen.hit_ratio().map(|ratio| 100.0 * ratio),
            seen.ttft(0.5, all),
            seen.ttft(0.99, all),
            Some(seen.most_in_flight(all)),
            Some(4.0 * LIMIT),
        ])
    })?
    .conclude(
        |table| {
            let hits = |row| table.at(row, "hit ratio, %");
            let most = |row| table.at(row, "most in flight");
            hits("4, approximate") < hits("1, approximate") - 10.0
                && hits("4, precise") > hits("1, precise") - 3.0
                && most("4, approximate") > 2.0 * most("1, approximate")
        },
        "",
    ))
}

//! Adapters, which engines show only while somebody uses them.

use foretoken::dataplane::Pipeline;
use foretoken::dataplane::pipeline::scorers::{ActiveRequestScorer, LoraAffinityScorer};
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;

use super::seen::{Seen, all, mean, run};
use super::setting::{Ask, at, draws, engines, gateway, llama, refreshed_every};
use super::table::Table;

/// Adapters that an engine holds.
const SLOTS: usize = 4;
/// Requests of a burst, all for one adapter.
const BURST: u32 = 8;

#[derive(Clone, Copy)]
enum Choice {
    /// LoRA affinity alone.
    Affinity,
    /// LoRA affinity 2, in-flight 1.
    WithLoad,
    InFlight,
    /// Each adapter has its endpoint.
    Sticky,
}

/// 320 bursts, `gap` seconds from one to the next, each of any adapter.
fn bursts(adapters: u32, gap: f64) -> Vec<Ask> {
    let mut rng = draws("adapters");
    let mut asks = Vec::new();
    for burst in 0..320 {
        let start = 1.0 + gap * f64::from(burst);
        let adapter = u32::try_from(rng.below(adapters.into())).expect("a few adapters");
        for _ in 0..BURST {
            let at = at(start + 0.2 * rng.unit());
            // The tenant tells adapters apart in the records.
            let ask = Ask::new(at, 300, 40).priority(0, adapter);
            asks.push(ask.adapter(format!("adapter-{adapter}")));
        }
    }
    asks
}

/// How often an endpoint gets a request for an adapter that is not among the last that it served.
fn loads(seen: &Seen, endpoints: usize) -> f64 {
    let mut held = vec![Vec::<u32>::new(); endpoints];
    let mut loads = 0.0;
    for record in &seen.records {
        let Some(endpoint) = record.endpoint else {
            continue;
        };
        let slots = &mut held[endpoint as usize];
        let adapter = record.flow.get();
        match slots.iter().position(|&other| other == adapter) {
            Some(place) => {
                slots.remove(place);
            }
            None => loads += 1.0,
        }
        slots.push(adapter);
        if slots.len() > SLOTS {
            slots.remove(0);
        }
    }
    loads
}

/// Endpoints that a burst goes to, in the mean.
fn spread(records: &[RequestRecord]) -> Option<f64> {
    mean(records.chunks_exact(BURST as usize).map(|burst| {
        let mut endpoints: Vec<_> = burst.iter().map(|record| record.endpoint).collect();
        endpoints.sort_unstable();
        endpoints.dedup();
        endpoints.len() as f64
    }))
}

/// 12.
pub(crate) fn invisible_when_idle() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    let cases = [
        ("8, every 0.3 s, LoRA affinity", (8, 0.3, Choice::Affinity)),
        ("8, every 2 s, LoRA affinity", (8, 2.0, Choice::Affinity)),
        (
            "8, every 2 s, LoRA affinity 2, in-flight 1",
            (8, 2.0, Choice::WithLoad),
        ),
        ("8, every 2 s, in-flight scorer", (8, 2.0, Choice::InFlight)),
        (
            "8, every 2 s, an endpoint for each",
            (8, 2.0, Choice::Sticky),
        ),
        ("16, every 2 s, LoRA affinity", (16, 2.0, Choice::Affinity)),
        (
            "16, every 2 s, an endpoint for each",
            (16, 2.0, Choice::Sticky),
        ),
        ("64, every 2 s, LoRA affinity", (64, 2.0, Choice::Affinity)),
        (
            "64, every 2 s, an endpoint for each",
            (64, 2.0, Choice::Sticky),
        ),
    ];
    Ok(Table::new(
        "Adapters invisible when idle: bursts of 8 requests for one adapter, 4 endpoints that hold 4 each",
        "engines list only adapters in use, so after an idle gap a burst spreads over all endpoints and \
         loads its adapter again on each.",
        &[
            ("endpoints per burst", 2),
            ("loads per 100 requests", 1),
            ("TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&(adapters, gap, choice)| {
        let policies = match choice {
            Choice::Affinity => gateway(Pipeline::new().scorer(1.0, LoraAffinityScorer)),
            Choice::WithLoad => gateway(
                Pipeline::new()
                    .scorer(2.0, LoraAffinityScorer)
                    .scorer(1.0, ActiveRequestScorer::default()),
            ),
            Choice::InFlight => {
                gateway(Pipeline::new().scorer(1.0, ActiveRequestScorer::default()))
            }
            Choice::Sticky => gateway(|request: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
                let place = request.flow.get() as usize % cx.endpoints.len();
                Some(cx.endpoints[place].id.into())
            }),
        };
        let pool = engines(4, &engine).into_iter().map(|e| e.max_adapters(4));
        let asks = bursts(adapters, gap);
        let seen = run(pool.collect(), vec![policies], refreshed_every(50), asks)?;
        Ok([
            spread(&seen.records),
            Some(100.0 * loads(&seen, 4) / seen.records.len() as f64),
            seen.ttft(0.99, all),
        ])
    })?
    .conclude(
        |table| {
            let loads = |row| table.at(row, "loads per 100 requests");
            loads("8, every 2 s, LoRA affinity")
                > 3.0 * loads("8, every 2 s, an endpoint for each").max(1.0)
        },
        "a free slot scores 0.8 against 1.0 for an adapter that is there, so any load scorer outweighs it. Loads \
         are counted from the placements; engines here load adapters in no time",
    ))
}

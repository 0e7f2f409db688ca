//! Prefill and decode apart: who notices when they are not, or when one of them is full.

use foretoken::dataplane::pipeline::deciders::{AlwaysDisaggregate, PrefixBasedDecider};
use foretoken::dataplane::pipeline::filters::RoleFilter;
use foretoken::dataplane::pipeline::handlers::DisaggHandler;
use foretoken::dataplane::pipeline::scorers::{ActiveRequestScorer, TokenLoadScorer};
use foretoken::dataplane::pipeline::{Decider, Pipeline};
use foretoken::dataplane::signals::IN_FLIGHT_LOAD;
use foretoken::dataplane::view::ROLE_LABEL;
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;

use super::seen::{Seen, all, run};
use super::setting::{Ask, at, draws, gateway, llama, outages, poisson, refreshed_every};
use super::table::Table;

fn split(decider: impl Decider + 'static) -> Pipeline {
    Pipeline::starting_with("decode")
        .filter(RoleFilter::Decode)
        .scorer(1.0, ActiveRequestScorer::default())
        .and_profile("prefill")
        .filter(RoleFilter::Prefill)
        .scorer(1.0, TokenLoadScorer::default())
        .handler(DisaggHandler::decode_first(decider))
}

fn pool(prefill: usize, decode: usize) -> Result<Vec<Instance>, Error> {
    let engine = llama(|_| ())?;
    let roles =
        core::iter::repeat_n("prefill", prefill).chain(core::iter::repeat_n("decode", decode));
    Ok(roles
        .map(|role| engine.instance().label(ROLE_LABEL, role))
        .collect())
}

fn disaggregated(seen: &Seen, of: impl Fn(&RequestRecord) -> bool) -> f64 {
    let some: Vec<_> = seen.records.iter().filter(|record| of(record)).collect();
    let apart = some
        .iter()
        .filter(|record| record.prefill_endpoint.is_some());
    100.0 * apart.count() as f64 / some.len() as f64
}

/// 14.
pub(crate) fn silently_together() -> Result<Table, Error> {
    let arrivals = poisson(&mut draws("always"), 10.0, 0.0, 80.0);
    let asks: Vec<Ask> = arrivals
        .into_iter()
        .map(|at| Ask::new(at, 4000, 200))
        .collect();
    let cases = [
        ("both prefill endpoints", 0),
        ("one of them", 1),
        ("none", 2),
    ];
    Ok(Table::new(
        "Always-disaggregate quietly stops: 2 prefill, 2 decode, 10 requests/s of 4000 tokens, 20 s to 60 s \
         without some",
        "requests succeed on decode, whose TPOT collapses; vary prefill failures and see whether any signal \
         shows it.",
        &[
            ("disaggregated, %", 0),
            ("refused", 0),
            ("lost", 0),
            ("TTFT p99, ms", 0),
            ("TPOT p50, ms", 1),
            ("TPOT p99, ms", 1),
        ],
    )
    .measure(&cases, |&lost| {
        let away: Vec<_> = (0..lost).map(|engine| (engine, 20.0, 60.0)).collect();
        let policies = vec![gateway(split(AlwaysDisaggregate))];
        let seen = run(pool(2, 2)?, policies, outages(&away), asks.clone())?;
        let then = |record: &RequestRecord| (at(21.0)..at(60.0)).contains(&record.arrival);
        let counts = &seen.report.overall.counts;
        Ok([
            Some(disaggregated(&seen, then)),
            Some(counts.rejected_total() as f64),
            Some(counts.endpoint_lost as f64),
            seen.ttft(0.99, then),
            seen.tpot(0.5, then),
            seen.tpot(0.99, then),
        ])
    })?
    .conclude(
        |table| {
            let tpot = |row| table.at(row, "TPOT p99, ms");
            table.at("none", "refused") < 1.0
                && table.at("none", "disaggregated, %") < 1.0
                && tpot("none") > 2.0 * tpot("both prefill endpoints")
        },
        "no refusal and no error after the first moment; only the missing prefill and the TPOT show it",
    ))
}

/// Disaggregates long prompts, unless all prefill endpoints have that much to do.
struct LoadAware {
    long: PrefixBasedDecider,
    most_tokens: u64,
}

impl Decider for LoadAware {
    fn wants_stage(
        &mut self,
        request: &RequestView<'_>,
        decode: usize,
        cx: &GatewayContext<'_>,
    ) -> bool {
        let loads = cx.signals.in_flight.column(IN_FLIGHT_LOAD);
        let room = cx.endpoints.iter().zip(loads).any(|(endpoint, load)| {
            let tokens = load.map_or(0, |load| load.tokens);
            endpoint.role().prefills() && tokens < self.most_tokens
        });
        room && self.long.wants_stage(request, decode, cx)
    }
}

/// 15.
pub(crate) fn static_threshold() -> Result<Table, Error> {
    let cases = [
        ("static, 8/s", (8.0, false)),
        ("load-aware, 8/s", (8.0, true)),
        ("static, 16/s", (16.0, false)),
        ("load-aware, 16/s", (16.0, true)),
    ];
    Ok(Table::new(
        "Static P/D threshold: 1 prefill and 3 decode endpoints, prompts of 3000 tokens, nonCachedTokens 512",
        "with prefill saturated and decode idle TTFT explodes; a load-aware decider computes some prompts on \
         decode.",
        &[
            ("disaggregated, %", 0),
            ("TTFT p50, ms", 0),
            ("TTFT p99, ms", 0),
            ("TPOT p50, ms", 1),
        ],
    )
    .measure(&cases, |&(rate, load_aware)| {
        let long = PrefixBasedDecider {
            non_cached_tokens: 512,
            prompt_tokens: 0,
        };
        let router = if load_aware {
            let most_tokens = 12_000;
            split(LoadAware { long, most_tokens })
        } else {
            split(long)
        };
        let arrivals = poisson(&mut draws("threshold"), rate, 0.0, 40.0);
        let asks = arrivals.into_iter().map(|at| Ask::new(at, 3000, 150)).collect();
        let seen = run(pool(1, 3)?, vec![gateway(router)], refreshed_every(50), asks)?;
        Ok([
            Some(disaggregated(&seen, all)),
            seen.ttft(0.5, all),
            seen.ttft(0.99, all),
            seen.tpot(0.5, all),
        ])
    })?
    .conclude(
        |table| {
            let ttft = |row| table.at(row, "TTFT p50, ms");
            ttft("static, 16/s") > 3.0 * ttft("load-aware, 16/s")
        },
        "",
    ))
}

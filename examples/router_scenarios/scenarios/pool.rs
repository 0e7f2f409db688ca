//! What the pool is: empty for a while, full of dead endpoints, or idle.

use foretoken::dataplane::admission::LegacyAdmission;
use foretoken::dataplane::flow::{FlowConfig, StaticLimit};
use foretoken::dataplane::pipeline::pickers::{MaxScorePicker, Ties};
use foretoken::dataplane::pipeline::scorers::ActiveRequestScorer;
use foretoken::dataplane::saturation::UtilizationDetector;
use foretoken::dataplane::{Admission, Pipeline, RoundRobin};
use foretoken::metrics::{Outcome, RequestRecord};
use foretoken::prelude::*;

use super::seen::{all, run};
use super::setting::{
    Ask, draws, engines, gateway, llama, outages, poisson, queue_and_kv, refreshed_every, with_flow,
};
use super::table::Table;

fn status(record: &RequestRecord) -> Option<u16> {
    match record.outcome {
        Outcome::Rejected(reason) => Some(reason.http_status()),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Door {
    Legacy(SloClass),
    /// With a time to live while there is no endpoint, in seconds.
    Flow(Option<u64>),
}

/// 5.
pub(crate) fn scaled_to_zero() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    let arrivals = poisson(&mut draws("zero"), 5.0, 0.0, 120.0);
    let cases = [
        ("no flow control", Door::Legacy(SloClass::Standard)),
        (
            "no flow control, sheddable",
            Door::Legacy(SloClass::Sheddable),
        ),
        ("flow control, TTL 10 s", Door::Flow(Some(10))),
        ("flow control, TTL 60 s", Door::Flow(Some(60))),
        ("flow control, no TTL", Door::Flow(None)),
    ];
    Ok(Table::new(
        "Empty or scaling pool reported as overload: 2 endpoints, none from 30 s to 75 s, 5 requests/s",
        "clients are told 429, overload, where there is no endpoint, which is 503; a long time to live without \
         endpoints carries requests over.",
        &[
            ("429", 0),
            ("503", 0),
            ("lost", 0),
            ("answered", 0),
            ("longest in gateway, ms", 0),
        ],
    )
    .measure(&cases, |&door| {
        let router = gateway(Pipeline::llm_d_default());
        let (policies, class) = match door {
            Door::Legacy(class) => {
                let mut policies = router;
                policies.admission = Admission::Legacy(LegacyAdmission::default());
                (policies, class)
            }
            Door::Flow(ttl) => {
                let mut config = FlowConfig::default();
                config.no_endpoint_ttl = ttl.map(SimDuration::from_secs);
                let detector = UtilizationDetector::default();
                let policies = with_flow(router, config, detector, StaticLimit::default());
                (policies, SloClass::Standard)
            }
        };
        let asks = arrivals.iter().map(|&at| Ask::new(at, 500, 100).class(class));
        let wiring = outages(&[(0, 30.0, 75.0), (1, 30.0, 75.0)]);
        let seen = run(engines(2, &engine), vec![policies], wiring, asks.collect())?;
        let told = |code| seen.records.iter().filter(|r| status(r) == Some(code)).count() as f64;
        let counts = &seen.report.overall.counts;
        Ok([
            Some(told(429)),
            Some(told(503)),
            Some(counts.endpoint_lost as f64),
            Some(counts.finished as f64),
            seen.held(1.0, all),
        ])
    })?
    .conclude(
        |table| {
            table.at("no flow control, sheddable", "429") > 100.0
                && table.at("flow control, TTL 60 s", "answered")
                    > table.at("flow control, TTL 10 s", "answered")
        },
        "only sheddable requests are told 429; all others 503",
    ))
}

/// 17.
pub(crate) fn dead_ports() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    // Nothing fits into it: it refuses everything at once, as a port does that nobody listens on.
    let dead = llama(|engine| engine.max_model_len = Some(16))?;
    let arrivals = poisson(&mut draws("ports"), 20.0, 0.0, 30.0);
    let cases = [
        ("round robin", 0),
        ("random", 1),
        ("in-flight scorer", 2),
        ("queue 2, KV 2", 3),
    ];
    Ok(Table::new(
        "Wrong target ports: eight listed, one rank running",
        "7/8 = 87.5 % of the requests fail.",
        &[("failed, %", 1)],
    )
    .measure(&cases, |&case| {
        let policies = match case {
            0 => gateway(RoundRobin::default()),
            1 => gateway(Pipeline::new()),
            2 => gateway(Pipeline::new().scorer(1.0, ActiveRequestScorer::default())),
            _ => gateway(queue_and_kv()),
        };
        let mut pool = vec![engine.instance()];
        pool.extend(engines(7, &dead));
        let asks = arrivals.iter().map(|&at| Ask::new(at, 500, 50)).collect();
        let seen = run(pool, vec![policies], refreshed_every(50), asks)?;
        Ok([Some(100.0 * (1.0 - seen.answered()))])
    })?
    .conclude(
        |table| (table.at("round robin", "failed, %") - 87.5).abs() < 1.0,
        "load scorers do worse, since what fails at once looks idle. A dead port is scraped here, which \
         a real one is not",
    ))
}

/// 20.
pub(crate) fn ties() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    let arrivals = poisson(&mut draws("ties"), 1.0, 0.0, 300.0);
    let cases = [
        ("ties to the first", Ties::First),
        ("ties at random", Ties::Random),
    ];
    Ok(Table::new(
        "Ties always on one pod: 4 idle endpoints, 1 request/s, queue 2, KV 2",
        "all scores are equal; without a random tie-break everything goes to the first.",
        &[("busiest, share", 2)],
    )
    .measure(&cases, |&ties| {
        let router = queue_and_kv().picker(MaxScorePicker::new(1, ties));
        let asks = arrivals.iter().map(|&at| Ask::new(at, 300, 20)).collect();
        let policies = vec![gateway(router)];
        let seen = run(engines(4, &engine), policies, refreshed_every(50), asks)?;
        Ok([seen.busiest_share(all)])
    })?
    .conclude(
        |table| {
            let busiest = |row| table.at(row, "busiest, share");
            busiest("ties to the first") > 0.8 && busiest("ties at random") < 0.4
        },
        "",
    ))
}

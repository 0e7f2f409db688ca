//! Counters of what is in flight that do not tell the truth.

use foretoken::dataplane::flow::{FlowConfig, StaticLimit};
use foretoken::dataplane::pipeline::scorers::ActiveRequestScorer;
use foretoken::dataplane::producer::{InFlightLoad, InFlightLoadConfig};
use foretoken::dataplane::signals::{IN_FLIGHT_LOAD, InFlight};
use foretoken::dataplane::{DataProducer, Pipeline, Placement, Response, Signals};
use foretoken::metrics::RequestRecord;
use foretoken::prelude::*;

use super::seen::{all, run};
use super::setting::{
    Ask, Probe, Shared, at, at_most, draws, engines, gateway_with, llama, outages, poisson,
    refreshed_every, with_flow,
};
use super::table::Table;

/// 6.
pub(crate) fn lost_accounting() -> Result<Table, Error> {
    let engine = llama(|engine| engine.max_model_len = Some(80_000))?;
    // Each takes seven minutes and its answer streams; the gateway sees it begin and end.
    let asks: Vec<Ask> = (0..30)
        .map(|number| Ask::new(at(1.0 + f64::from(number)), 1000, 40_000))
        .collect();
    let cases = [
        ("bound to the connection", None),
        (
            "dropped after 5 min of silence",
            Some(SimDuration::from_secs(300)),
        ),
    ];
    Ok(Table::new(
        "Lost in-flight accounting of long requests: 2 endpoints, at most 6 requests each, 30 in the queue",
        "counters of requests silent for 5 minutes are dropped (588 counted against 1029 real): over-dispatch \
         with the concurrency detector.",
        &[
            ("real at the worst moment", 0),
            ("counted then", 0),
            ("preemptions", 0),
            ("TPOT p50, ms", 2),
        ],
    )
    .measure(&cases, |&silence| {
        let config = InFlightLoadConfig {
            drop_silent_after: silence,
            ..InFlightLoadConfig::default()
        };
        let worst = Shared::<(u64, u64)>::default();
        let written = worst.clone();
        let probe = Probe(move |_: SimTime, pool: &[EndpointView], signals: &Signals| {
            // The gateway's own book of connections beside the producer's counters.
            let real = pool.iter().map(|endpoint| u64::from(endpoint.in_flight)).sum();
            let column = signals.in_flight.column(IN_FLIGHT_LOAD).iter().flatten();
            let counted: u64 = column.map(|load| load.requests).sum();
            written.update(|worst| {
                if real > worst.0 {
                    *worst = (real, counted);
                }
            });
        });
        let producers: Vec<Box<dyn DataProducer>> = vec![
            Box::new(InFlightLoad::new(IN_FLIGHT_LOAD, config)),
            Box::new(probe),
        ];
        let router = Pipeline::new().scorer(1.0, ActiveRequestScorer::default());
        let mut flow = FlowConfig::default();
        flow.request_ttl = None;
        let policies = with_flow(
            gateway_with(producers, router),
            flow,
            at_most(6.0),
            StaticLimit::default(),
        );
        let wiring = refreshed_every(1000);
        let seen = run(engines(2, &engine), vec![policies], wiring, asks.clone())?;
        let (real, counted) = worst.get();
        Ok([
            Some(real as f64),
            Some(counted as f64),
            Some(seen.report.overall.preemptions as f64),
            seen.tpot(0.5, all),
        ])
    })?
    .conclude(
        |table| {
            let real = |row| table.at(row, "real at the worst moment");
            real("dropped after 5 min of silence") > 1.5 * real("bound to the connection")
        },
        "",
    ))
}

/// A counter by name of the endpoint and nothing else: it is at 0 when an endpoint goes away, and the
/// requests that went with it are taken off nevertheless.
struct Drifting {
    counters: Vec<i64>,
    open: Vec<Option<EndpointId>>,
    lowest: Shared<i64>,
}

impl Drifting {
    fn add(&mut self, endpoint: EndpointId, change: i64) {
        let counter = &mut self.counters[endpoint.index()];
        *counter += change;
        let counter = *counter;
        self.lowest.update(|lowest| *lowest = counter.min(*lowest));
    }
}

impl DataProducer for Drifting {
    fn produce(
        &mut self,
        _: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        _: SimTime,
        signals: &mut Signals,
    ) {
        let column = signals.in_flight.begin(IN_FLIGHT_LOAD, endpoints.len());
        for (value, endpoint) in column.iter_mut().zip(endpoints) {
            let requests = self.counters[endpoint.id.index()].try_into().unwrap_or(0);
            *value = Some(InFlight::new(requests, 0));
        }
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        _: &[EndpointView],
        _: &Signals,
        _: SimTime,
    ) {
        self.add(placement.endpoint, 1);
        let place = request.id.index();
        self.open.resize(self.open.len().max(place + 1), None);
        self.open[place] = Some(placement.endpoint);
    }

    fn responded(&mut self, request: RequestId, response: Response, _: SimTime) {
        if let Response::End { .. } = response
            && let Some(endpoint) = self.open.get_mut(request.index()).and_then(Option::take)
        {
            self.add(endpoint, -1);
        }
    }

    fn removed(&mut self, endpoint: EndpointId, _: SimTime) {
        self.counters[endpoint.index()] = 0;
    }
}

/// 7.
pub(crate) fn drift_after_flaps() -> Result<Table, Error> {
    let engine = llama(|_| ())?;
    let arrivals = poisson(&mut draws("flaps"), 40.0, 0.0, 40.0);
    let asks: Vec<Ask> = arrivals
        .into_iter()
        .map(|at| Ask::new(at, 1000, 200))
        .collect();
    let cases = [("counters with a life", true), ("counters by name", false)];
    Ok(Table::new(
        "Counter drift after endpoint flaps: endpoint 0 of 4 is away for 100 ms, three times in 30 s",
        "old releases must not make the new counter negative: a negative counter attracts all traffic.",
        &[
            ("lowest counter", 0),
            ("endpoint 0 got in 0.5 s after its return, share", 2),
            ("TTFT p99, ms", 0),
        ],
    )
    .measure(&cases, |&with_life| {
        let lowest = Shared::<i64>::default();
        let producer: Box<dyn DataProducer> = if with_life {
            Box::new(InFlightLoad::default())
        } else {
            Box::new(Drifting {
                counters: vec![0; 4],
                open: Vec::new(),
                lowest: lowest.clone(),
            })
        };
        let router = Pipeline::new().scorer(1.0, ActiveRequestScorer::default());
        let away = [10.0, 20.0, 30.0].map(|from| (0, from, from + 0.1));
        let policies = vec![gateway_with(vec![producer], router)];
        let seen = run(engines(4, &engine), policies, outages(&away), asks.clone())?;
        let after = |record: &&RequestRecord| {
            let since = |&(_, _, back): &(usize, f64, f64)| {
                (at(back)..at(back + 0.5)).contains(&record.arrival)
            };
            away.iter().any(since)
        };
        let after: Vec<u32> = seen
            .records
            .iter()
            .filter(after)
            .filter_map(|record| record.endpoint)
            .collect();
        let first = after.iter().filter(|&&endpoint| endpoint == 0).count();
        Ok([
            Some(lowest.get() as f64),
            Some(first as f64 / after.len() as f64),
            seen.ttft(0.99, all),
        ])
    })?
    .conclude(
        |table| table.at("counters by name", "lowest counter") < 0.0,
        "the counters here have a life each and do not drift",
    ))
}

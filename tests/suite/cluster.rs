//! Gateways, engines, the network and the links between them: nothing is lost, whatever happens.

use std::sync::{Arc, Mutex};

use foretoken::cluster::{PoolChange, Scraping};
use foretoken::dataplane::admission::{LegacyAdmission, ProbabilisticAdmitter};
use foretoken::dataplane::flow::{
    BandConfig, Eviction, FlowConfig, FlowControl, SoftReflective, StaticLimit, fairness,
};
use foretoken::dataplane::pipeline::deciders::AlwaysDisaggregate;
use foretoken::dataplane::pipeline::filters::RoleFilter;
use foretoken::dataplane::pipeline::handlers::DisaggHandler;
use foretoken::dataplane::pipeline::scorers::{
    KvCacheUtilizationScorer, NoHitLruScorer, PrefixCacheScorer, QueueScorer,
};
use foretoken::dataplane::producer::{ApproximatePrefix, InFlightLoad, PrecisePrefix};
use foretoken::dataplane::saturation::{ConcurrencyDetector, Unseen, UtilizationDetector};
use foretoken::dataplane::transfer::LinkConfig;
use foretoken::dataplane::{Admission, GatewayPolicies, Pipeline};
use foretoken::metrics::{Outcome, Recording, RequestRecord};
use foretoken::prelude::*;
use foretoken::workload::{
    ContentId, FinishReason, RejectReason, Replay, RetrySpec, Seconds, Segment,
};
use proptest::prelude::*;

use crate::support::{affine, host, load, replay, simulation, synchronous};

const fn ms(millis: u64) -> SimDuration {
    SimDuration::from_millis(millis)
}

fn at(millis: u64) -> SimTime {
    SimTime::ZERO + ms(millis)
}

fn record(simulation: Simulation) -> Recording {
    let (recorder, end) = simulation.run_with(Recorder::new()).expect("valid");
    recorder.finish(end.at)
}

fn role(role: &str) -> Instance {
    Instance::new(synchronous()).label("llm-d.ai/role", role)
}

/// Prefill on one endpoint, decode on another, always.
fn split() -> Pipeline {
    Pipeline::starting_with("decode")
        .filter(RoleFilter::Decode)
        .scorer(1.0, QueueScorer)
        .and_profile("prefill")
        .filter(RoleFilter::Prefill)
        .scorer(1.0, QueueScorer)
        .handler(DisaggHandler::decode_first(AlwaysDisaggregate))
}

/// One prefill and one decode endpoint whose blocks of 16 tokens are a megabyte, linked at a
/// gigabyte a second.
fn pair(requests: Replay) -> Simulation {
    let mut wiring = Wiring::default();
    wiring.network_delay = ms(3);
    wiring.links = LinkConfig {
        latency: ms(1),
        bytes_per_s: 1e9,
    };
    Simulation::new()
        .instance(role("prefill").block_bytes(1_000_000))
        .instance(role("decode").block_bytes(1_000_000))
        .latency(Affine::new(ms(10)))
        .requests(requests)
        .router(split())
        .wiring(wiring)
}

#[test]
fn a_lone_disaggregated_request_takes_the_sum_of_its_parts() {
    let recording = record(pair(replay([(0, 64, 3)])));
    let [one] = recording.records() else {
        panic!("one request arrived")
    };
    // Gateway to decode to prefill 6 ms; a step 10; the answer back 3; 1 + 4 on the link; an engine that
    // waits plans an empty step each millisecond, and what one notes the next one uses: 1; a step 10;
    // the token back 3.
    let transfer = one.transfer.expect("blocks were moved");
    assert_eq!((transfer.bytes, transfer.took), (4_000_000, ms(5)));
    assert_eq!(one.ttft, Some(ms(6 + 10 + 3 + 5 + 1 + 10 + 3)));
    assert_eq!(one.e2e, Some(ms(6 + 10 + 3 + 5 + 1 + 10 + 3 + 20)));
    assert_eq!(
        (one.endpoint, one.prefill_endpoint, one.output_tokens),
        (Some(1), Some(0), 3)
    );
}

#[test]
fn blocks_that_the_answering_endpoint_has_are_not_moved_again() {
    let question = |id: u32, at: u64| {
        let shared = Segment::new(ContentId::new(0), 64);
        let own = Segment::new(ContentId::new(10 + u64::from(id)), 32);
        let prompt = Prompt::new([shared, own]).expect("96 tokens");
        Request::new(RequestId::new(id), SimTime::from_nanos(at), prompt, 2)
    };
    let requests = vec![question(0, 0), question(1, 1_000_000_000)];
    let recording = record(pair(Replay::new(requests).expect("in order")));
    let moved = recording.records().iter().map(|r| r.transfer);
    let bytes: Vec<u64> = moved.map(|t| t.expect("both moved").bytes).collect();
    assert_eq!(bytes, [6_000_000, 2_000_000]);
}

#[test]
fn an_engine_that_waits_for_a_slow_link_is_not_stuck() {
    let mut wiring = Wiring::default();
    wiring.links = LinkConfig {
        latency: ms(1),
        bytes_per_s: 1000.0,
    };
    // Four megabytes take more than an hour, in which the engine looks for them millions of times.
    let recording = record(pair(replay([(0, 64, 3)])).wiring(wiring));
    let ttft = recording.records()[0].ttft;
    assert!(ttft.is_some_and(|ttft| ttft > SimDuration::from_secs(4000)));
}

#[test]
fn an_endpoint_that_is_picked_for_prefill_and_decode_serves_by_itself() {
    let recording = record(
        Simulation::new()
            .instance(role("both"))
            .latency(Affine::new(ms(10)))
            .requests(replay([(0, 64, 3), (1, 64, 3)]))
            .router(split()),
    );
    for one in recording.records() {
        assert!(one.outcome.is_complete());
        assert_eq!((one.prefill_endpoint, one.transfer), (None, None));
    }
}

#[test]
fn the_network_takes_its_time_both_ways() {
    let lone = |delay| {
        let mut wiring = Wiring::default();
        wiring.network_delay = delay;
        let recording = record(
            Simulation::new()
                .engines(1, synchronous())
                .latency(Affine::new(ms(10)))
                .requests(replay([(0, 64, 3)]))
                .wiring(wiring),
        );
        recording.records()[0].clone()
    };
    let (near, far) = (lone(SimDuration::ZERO), lone(ms(4)));
    let plus = |span: Option<SimDuration>| span.map(|span| span + ms(8));
    assert_eq!(far.ttft, plus(near.ttft));
    assert_eq!(far.e2e, plus(near.e2e));
    assert_eq!(far.queue, near.queue.map(|span| span + ms(4)));
}

#[test]
fn an_endpoint_that_leaves_takes_its_requests_along_and_serves_again_when_it_returns() {
    let mut wiring = Wiring::default();
    for (time, up) in [(2000, false), (4000, true)] {
        let at = at(time);
        wiring.changes.push(PoolChange { at, engine: 1, up });
    }
    let recording = record(simulation(20.0, 200).wiring(wiring));
    let on = |record: &&RequestRecord| record.endpoint == Some(1);
    let lost = Outcome::Finished(FinishReason::EndpointLost);
    let records = recording.records();
    for record in records.iter().filter(on) {
        let away = (at(2000)..at(4000)).contains(&record.arrival);
        assert!(!away, "{} was sent to an endpoint that is away", record.id);
    }
    let ended: Vec<_> = records.iter().filter(|r| r.outcome == lost).collect();
    assert!(!ended.is_empty());
    for record in ended {
        assert_eq!(record.endpoint, Some(1));
        assert!(record.end().is_some_and(|end| end >= at(2000)));
        assert!(record.arrival < at(2000));
    }
    assert!(records.iter().filter(on).any(|r| r.arrival > at(4000)));
}

#[test]
fn what_was_meant_for_an_endpoint_that_has_left_is_lost() {
    let mut policies = GatewayPolicies::default();
    policies.decision_time = ms(500);
    let mut wiring = Wiring::default();
    wiring.changes.push(PoolChange {
        at: at(2000),
        engine: 1,
        up: false,
    });
    let recording = record(simulation(20.0, 200).gateways([policies]).wiring(wiring));
    let late = recording.records().iter().filter(|record| {
        let sent = record.gateway.map(|held| record.arrival + held);
        record.endpoint == Some(1) && sent >= Some(at(2000))
    });
    let outcomes: Vec<_> = late.map(|record| record.outcome).collect();
    assert!(!outcomes.is_empty());
    let lost = Outcome::Finished(FinishReason::EndpointLost);
    assert!(outcomes.iter().all(|&outcome| outcome == lost));
}

#[test]
fn metrics_that_take_longer_than_they_count_as_fresh_close_the_gate_until_the_next_ones_come() {
    let held = |delay| {
        let mut wiring = Wiring::default();
        let mut scraping = Scraping::every(ms(50));
        scraping.delay = ms(delay);
        wiring.freshness = Freshness::Scraped(scraping);
        let detector = UtilizationDetector::default();
        let usage = StaticLimit::default();
        let flow = FlowControl::new(FlowConfig::default(), detector, usage);
        let arrivals = (0..100).map(|number| (500_000_000 + 77_000_000 * number, 50, 5));
        let recording = record(
            Simulation::new()
                .engines(1, synchronous())
                .latency(affine(1))
                .requests(replay(arrivals))
                .wiring(wiring)
                .admission(Admission::Flow(Box::new(flow))),
        );
        let gateway = recording.records().iter().map(|record| record.gateway);
        gateway
            .map(|held| held.expect("all are sent"))
            .collect::<Vec<_>>()
    };
    assert!(held(190).iter().all(|held| held.is_zero()));
    // One answer follows the other, 250 ms later; the last 50 of them the metrics are stale.
    let late = held(250);
    let waited = late.iter().filter(|held| !held.is_zero()).count();
    assert!((10..30).contains(&waited), "{waited}");
    assert!(late.iter().all(|&held| held <= ms(51)));
}

#[test]
fn an_empty_pool_refuses_what_arrives() {
    let mut wiring = Wiring::default();
    for engine in [0, 1] {
        let (at, up) = (at(2000), false);
        wiring.changes.push(PoolChange { at, engine, up });
    }
    let recording = record(simulation(20.0, 100).wiring(wiring));
    for record in recording.records() {
        let refused = record.outcome == Outcome::Rejected(RejectReason::NoEndpoint);
        assert_eq!(refused, record.arrival >= at(2000), "{}", record.id);
    }
}

/// Full at so many requests an endpoint.
fn at_most(max_requests: f64) -> ConcurrencyDetector {
    ConcurrencyDetector {
        max_requests: max_requests.try_into().expect("positive"),
        ..ConcurrencyDetector::default()
    }
}

/// A pool of one that lets four requests in at a time, with bands 10 and -10.
fn gated(eviction: Option<Eviction>) -> Admission {
    let mut config = FlowConfig::default()
        .with_band(
            10,
            BandConfig::default().with_fairness(fairness::RoundRobin::default),
        )
        .with_band(-10, BandConfig::default());
    config.eviction = eviction;
    let detector = at_most(4.0);
    Admission::Flow(Box::new(FlowControl::new(
        config,
        detector,
        StaticLimit::default(),
    )))
}

/// Eight long sheddable requests at once, then two short critical ones.
fn contested() -> Replay {
    let requests = (0..10).map(|id| {
        let urgent = id >= 8;
        let text = Segment::new(ContentId::new(id.into()), 64);
        let prompt = Prompt::new([text]).expect("64 tokens");
        let (arrival, output) = if urgent { (at(1000), 5) } else { (at(0), 500) };
        let mut request = Request::new(RequestId::new(id), arrival, prompt, output);
        request.objective = ObjectivePriority::new(if urgent { 10 } else { -10 });
        request
    });
    Replay::new(requests.collect()).expect("in order")
}

fn lone_engine(eviction: Option<Eviction>) -> Recording {
    record(
        Simulation::new()
            .engines(1, synchronous())
            .latency(Affine::new(ms(10)))
            .producer(InFlightLoad::default())
            .admission(gated(eviction))
            .requests(contested()),
    )
}

#[test]
fn requests_wait_in_the_gateway_while_the_pool_is_full() {
    let recording = lone_engine(None);
    let waits: Vec<u64> = recording
        .records()
        .iter()
        .map(|r| r.gateway.expect("all were dispatched").as_nanos() / 1_000_000)
        .collect();
    // The first four go at once; the critical ones go when those end, after 500 steps, before the
    // four that were there before them.
    assert_eq!(waits[..4], [0; 4]);
    assert!(waits[8] > 3900 && waits[9] > 3900 && waits[9] < 4200);
    assert!(waits[4..8].iter().all(|&wait| wait >= 5000));
}

#[test]
fn eviction_makes_room_for_more_important_requests() {
    let recording = lone_engine(Some(Eviction::after_live_counters()));
    let evicted = Outcome::Finished(FinishReason::Evicted);
    let records = recording.records();
    let victims: Vec<u32> = records
        .iter()
        .filter(|record| record.outcome == evicted)
        .map(|record| record.id.get())
        .collect();
    // The newest first.
    assert!(victims.contains(&3), "{victims:?}");
    assert!(victims.iter().all(|&id| id < 8));
    for urgent in &records[8..] {
        assert!(urgent.outcome.is_complete());
        assert!(urgent.ttft.is_some_and(|ttft| ttft < ms(200)), "{urgent:?}");
    }
}

/// Everything that may differ between clusters.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct Shape {
    seed: u64,
    rate: f64,
    gateways: usize,
    scrape_ms: u64,
    delay_us: u64,
    decision_us: u64,
    flow: bool,
    disaggregated: bool,
    precise: bool,
    shed: bool,
    outage: Option<(usize, u64, u64)>,
    horizon_ms: Option<u64>,
    /// How long clients wait: for the first token, and for the whole answer.
    patience_ms: [Option<u64>; 2],
    /// How often one of the two clients asks again.
    retries: u32,
}

fn shape() -> impl Strategy<Value = Shape> {
    let outage = proptest::option::of((0_usize..4, 0_u64..4000, 0_u64..4000));
    let switches = any::<[bool; 4]>();
    let spans = (0_u64..300, 0_u64..3000, 0_u64..3000);
    let horizon = proptest::option::of(500_u64..6000);
    let patience = (
        proptest::option::of(1_u64..800),
        proptest::option::of(1_u64..4000),
        0_u32..3,
    );
    (
        0_u64..1000,
        5.0..80.0,
        1_usize..4,
        spans,
        switches,
        outage,
        horizon,
        patience,
    )
        .prop_map(
            |(seed, rate, gateways, spans, switches, outage, horizon_ms, patience)| Shape {
                seed,
                rate,
                gateways,
                scrape_ms: spans.0,
                delay_us: spans.1,
                decision_us: spans.2,
                flow: switches[0],
                disaggregated: switches[1],
                precise: switches[2],
                shed: switches[3],
                outage,
                horizon_ms,
                patience_ms: [patience.0, patience.1],
                retries: patience.2,
            },
        )
}

impl Shape {
    fn policies(&self) -> GatewayPolicies {
        let mut policies = GatewayPolicies::default();
        policies
            .producers
            .push(Box::new(ApproximatePrefix::default()));
        if self.precise {
            policies.producers.push(Box::new(PrecisePrefix::default()));
        }
        policies.producers.push(Box::new(InFlightLoad::default()));
        policies.decision_time = SimDuration::from_micros(self.decision_us);
        policies.admission = if self.flow {
            let mut config = FlowConfig::default();
            config.eviction = self.shed.then(Eviction::after_live_counters);
            config.request_ttl = Some(ms(2500));
            let detector = at_most(6.0);
            let usage = SoftReflective::default();
            Admission::Flow(Box::new(FlowControl::new(config, detector, usage)))
        } else {
            Admission::Legacy(LegacyAdmission::default())
        };
        if self.shed {
            policies
                .admitters
                .push(Box::new(ProbabilisticAdmitter::default()));
        }
        let router = if self.disaggregated {
            split()
        } else {
            Pipeline::new()
                .scorer(2.0, QueueScorer)
                .scorer(2.0, KvCacheUtilizationScorer)
                .scorer(3.0, PrefixCacheScorer::default())
                .scorer(1.0, NoHitLruScorer::default())
        };
        policies.router = Some(Box::new(router));
        policies
    }

    fn simulation(&self) -> Simulation {
        let mut wiring = Wiring::default();
        if self.scrape_ms > 0 {
            let mut scraping = Scraping::every(ms(self.scrape_ms));
            scraping.jitter = ms(self.scrape_ms / 7);
            scraping.delay_jitter = ms(self.scrape_ms / 3);
            wiring.freshness = Freshness::Scraped(scraping);
        }
        wiring.network_delay = SimDuration::from_micros(self.delay_us);
        if let Some((engine, from, long)) = self.outage {
            for (time, up) in [(from, false), (from + long, true)] {
                let at = at(time);
                wiring.changes.push(PoolChange { at, engine, up });
            }
        }
        let classes = [SloClass::Critical, SloClass::Sheddable];
        let mix = (1..).zip(classes).map(|(flow, class)| {
            let mut part = load(self.rate / 2.0, 60);
            part.system_prompt_tokens = 200;
            part.client.class = class;
            part.client.flow = flow;
            part.client.stream = flow != self.retries;
            let limit = |ms: u64| Seconds::new(ms as f64 / 1e3).expect("above 0");
            part.client.first_token_timeout_s = self.patience_ms[0].map(limit);
            part.client.timeout_s = self.patience_ms[1].map(limit);
            if flow == 1 && self.retries > 0 {
                part.client.retry = Some(RetrySpec::new(self.retries));
            }
            WorkloadSpec::from(part)
        });
        let mut simulation = Simulation::new()
            .latency(affine(1))
            .workload(WorkloadSpec::Mix(mix.collect()))
            .gateways((0..self.gateways).map(|_| self.policies()))
            .wiring(wiring)
            .seed(self.seed);
        for engine in 0..4 {
            let config = EngineConfig {
                host: host(1),
                ..EngineConfig::default()
            };
            let kind = ["prefill", "decode", "both"][engine % 3];
            let role = if self.disaggregated { kind } else { "both" };
            simulation = simulation.instance(Instance::new(config).label("llm-d.ai/role", role));
        }
        match self.horizon_ms {
            Some(horizon) => simulation.horizon(at(horizon)),
            None => simulation,
        }
    }
}

/// What was sent is forgotten with every look at the engines, also where a gateway sees the present.
#[test]
fn what_was_sent_does_not_pile_up_where_metrics_are_never_old() {
    let mut policies = GatewayPolicies::default();
    policies.admission = Admission::Legacy(LegacyAdmission::new(UtilizationDetector {
        unseen: Unseen::Waiting,
        ..UtilizationDetector::default()
    }));
    let mut requests = load(2.0, 60);
    requests.client.class = SloClass::Sheddable;
    let simulation = Simulation::new()
        .latency(affine(1))
        .workload(WorkloadSpec::from(requests))
        .gateways([policies])
        .instance(Instance::new(EngineConfig::default()));
    let counts = Report::new(&record(simulation), 0, 0).overall.counts;
    assert_eq!(counts.finished, 60, "refused: {:?}", counts.rejected);
}

/// Gauges change with the steps that engines do, and a scraper is told of them whether or not these have been
/// simulated already.
#[test]
fn scrapers_see_adapters_as_they_are_whether_or_not_steps_are_counted() {
    let requests = (0..60).map(|id| {
        let text = Segment::new(ContentId::new(id.into()), 40);
        let prompt = Prompt::new([text]).expect("it has tokens");
        let at = SimTime::from_nanos(u64::from(id) * 7_300_000);
        let mut request = Request::new(RequestId::new(id), at, prompt, 30);
        request.model = Some(format!("adapter-{}", id % 3).into());
        request
    });
    let requests: Vec<Request> = requests.collect();
    let seen = |simulation: Simulation| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let views = seen.clone();
        let mut config = EngineConfig::default();
        config.host.ingest = SimDuration::from_millis(20);
        let mut wiring = Wiring::default();
        wiring.freshness = Freshness::Scraped(Scraping::every(SimDuration::from_millis(3)));
        let simulation = simulation
            .instance(Instance::new(config.clone()).max_adapters(4))
            .instance(Instance::new(config).max_adapters(4))
            .latency(affine(1))
            .requests(Replay::new(requests.clone()).expect("in order of arrival"))
            .wiring(wiring)
            .router(
                move |request: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
                    let mut views = views.lock().expect("one thread");
                    views.extend(cx.endpoints.iter().map(|view| format!("{view:?}")));
                    Some(EndpointId::new(request.id.get() % 2).into())
                },
            );
        simulation.run().expect("valid");
        Arc::into_inner(seen).expect("the run is over").into_inner()
    };
    let counted = seen(Simulation::new()).expect("one thread");
    assert!(counted.iter().any(|view| view.contains("adapter-2")));
    let stepped = seen(Simulation::new().step_by_step());
    assert_eq!(counted, stepped.expect("one thread"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The run itself checks the conservation of requests, in the world and in the report, that no KV
    /// block leaks and that nothing is left undone.
    #[test]
    fn whatever_a_cluster_is_like_no_request_is_lost_and_the_same_seed_gives_the_same_run(
        shape in shape()
    ) {
        let first = record(shape.simulation());
        let report = Report::new(&first, shape.seed, 0);
        let counts = &report.overall.counts;
        let asked = counts.arrived - counts.retries;
        prop_assert!(asked <= 120);
        if shape.horizon_ms.is_none() {
            prop_assert_eq!((asked, counts.in_flight), (120, 0));
        }
        let second = record(shape.simulation().step_by_step());
        prop_assert_eq!(first.fingerprint(), second.fingerprint());
        prop_assert_eq!(report, Report::new(&second, shape.seed, 0));
    }
}

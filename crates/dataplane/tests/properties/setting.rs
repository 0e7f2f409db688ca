//! Arbitrary endpoints with whatever producers may know of them.

use foretoken_dataplane::pipeline::ContextLengthAware;
use foretoken_dataplane::pipeline::scorers::{
    ActiveRequestScorer, Better, EndpointAttributeScorer, HeaderLabelAffinityScorer,
    HeadroomSelection, KvCacheUtilizationScorer, LatencyScorer, LoadAwareScorer,
    LoraAffinityScorer, MmEmbeddingsCacheScorer, NoHitLruScorer, PrefixCacheScorer, QueueScorer,
    RunningRequestsScorer, SessionAffinityScorer, TokenLoadScorer, TopologyAffinityScorer,
};
use foretoken_dataplane::signals::{
    APPROXIMATE_PREFIX, IN_FLIGHT_LOAD, InFlight, LatencyEstimate, PREDICTED_LATENCY, PrefixMatch,
};
use foretoken_dataplane::{Adapters, EndpointId, EndpointView, Scorer, Signals};
use foretoken_des_kernel::SimTime;
use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) const NUMBER: &str = "gpu/dcgm";
pub(crate) const LABEL: &str = "llm-d.ai/context-length-range";

/// One endpoint and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    queued: u32,
    running: u32,
    kv_usage: f64,
    label: Option<String>,
    adapters: [Vec<String>; 2],
    max_adapters: u32,
    prefix: Option<(u32, u32)>,
    in_flight: Option<(u64, u64)>,
    uncached: Option<u64>,
    headroom: Option<(f64, f64)>,
    number: Option<f64>,
}

/// Few different values, so that ties are frequent, and unlikely ones.
fn known() -> impl Strategy<Value = Known> {
    let adapters = || vec("[ab]".prop_map(String::from), 0..3);
    let engine = (
        prop_oneof![0..4_u32, any::<u32>()],
        prop_oneof![0..4_u32, any::<u32>()],
        prop_oneof![Just(0.5), 0.0..1.5],
        option::of("(0-100|50-5000|7-7|9-3|x|-)".prop_map(String::from)),
        [adapters(), adapters()],
        0..4_u32,
    );
    let headroom = || prop_oneof![Just(1.0), Just(-1.0), -1e4..1e4];
    let gateway = (
        option::of((0..=8_u32, 0..=8_u32)),
        option::of((0..9_u64, prop_oneof![0..9_u64, any::<u64>()])),
        option::of(prop_oneof![0..9_u64, any::<u64>()]),
        option::of((headroom(), headroom())),
        option::of(-1e6..1e6),
    );
    (engine, gateway).prop_map(|(engine, gateway)| {
        let (queued, running, kv_usage, label, adapters, max_adapters) = engine;
        let (prefix, in_flight, uncached, headroom, number) = gateway;
        Known {
            queued,
            running,
            kv_usage,
            label,
            adapters,
            max_adapters,
            prefix: prefix.map(|(matched, total)| (matched.min(total), total)),
            in_flight,
            uncached,
            headroom,
            number,
        }
    })
}

pub(crate) fn pool() -> impl Strategy<Value = Vec<Known>> {
    vec(known(), 1..8)
}

/// The endpoints as policies see them, and their attributes.
pub(crate) fn views(pool: &[Known]) -> (Vec<EndpointView>, Signals) {
    let mut signals = Signals::new();
    let endpoints = pool.iter().zip(0..).map(|(known, id)| {
        let mut view = EndpointView::new(EndpointId::new(id));
        view.queued = known.queued;
        view.running = known.running;
        view.kv_usage = known.kv_usage;
        let label = known.label.clone().map(|label| (LABEL.to_owned(), label));
        view.labels = label
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>()
            .into();
        let names = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        view.adapters = Adapters {
            running: names(&known.adapters[0]),
            waiting: names(&known.adapters[1]),
            max: known.max_adapters,
        }
        .into();
        let position = view.id.index();
        if let Some((matched, total)) = known.prefix {
            let found = PrefixMatch::new(matched, total, 64);
            signals.prefix.set(APPROXIMATE_PREFIX, position, found);
        }
        if let Some((requests, tokens)) = known.in_flight {
            let load = InFlight::new(requests, tokens);
            signals.in_flight.set(IN_FLIGHT_LOAD, position, load);
        }
        if let Some(uncached) = known.uncached {
            signals.uncached.set(IN_FLIGHT_LOAD, position, uncached);
        }
        if let Some((ttft, tpot)) = known.headroom {
            let estimate = LatencyEstimate::with_headroom(ttft, tpot);
            signals.latency.set(PREDICTED_LATENCY, position, estimate);
        }
        if let Some(number) = known.number {
            signals.numbers.set(NUMBER, position, number);
        }
        view
    });
    (endpoints.collect(), signals)
}

/// A request for adapter `a` with headers of every kind.
pub(crate) fn request(tokens: u32) -> Request {
    let prompt = Prompt::new([Segment::new(ContentId::new(0), tokens)]).expect("a prompt");
    let mut request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1);
    request.model = Some("a".into());
    let headers = [
        ("range", "0-100"),
        // The base64 of `default/endpoint-0`.
        ("x-session-token", "ZGVmYXVsdC9lbmRwb2ludC0w"),
    ];
    request.headers = headers.into_iter().collect();
    request
}

/// Scorers that look at nothing but the endpoints' metrics, labels and attributes: neither at ids nor
/// at the order of the candidates.
pub(crate) fn order_free_scorers() -> Vec<Box<dyn Scorer>> {
    let length_bonus = PrefixCacheScorer {
        match_length_weight: 0.5,
        ..PrefixCacheScorer::default()
    };
    vec![
        Box::new(QueueScorer),
        Box::new(RunningRequestsScorer),
        Box::new(KvCacheUtilizationScorer),
        Box::new(LoadAwareScorer { threshold: -1 }),
        Box::new(ActiveRequestScorer::default()),
        Box::new(TokenLoadScorer::default()),
        Box::new(PrefixCacheScorer::default()),
        Box::new(length_bonus),
        Box::new(LoraAffinityScorer),
        Box::new(ContextLengthAware::default()),
        Box::new(LatencyScorer::default()),
        Box::new(LatencyScorer::new(HeadroomSelection::Most)),
        Box::new(HeaderLabelAffinityScorer::new("range", LABEL)),
        Box::new(EndpointAttributeScorer::new("gpu", "dcgm", Better::Lower)),
        Box::new(EndpointAttributeScorer::new("gpu", "dcgm", Better::Higher)),
        Box::new(TopologyAffinityScorer::default()),
        Box::new(MmEmbeddingsCacheScorer),
    ]
}

/// All scorers.
pub(crate) fn all_scorers() -> Vec<Box<dyn Scorer>> {
    let mut scorers = order_free_scorers();
    scorers.push(Box::new(NoHitLruScorer::default()));
    scorers.push(Box::new(SessionAffinityScorer::default()));
    scorers
}

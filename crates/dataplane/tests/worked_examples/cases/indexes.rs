//! Prefix indexes (9.3) and counters of what is in flight (9.7).

use foretoken_dataplane::producer::{
    ApproximatePrefix, ApproximatePrefixConfig, InFlightLoad, PrecisePrefix,
};
use foretoken_dataplane::signals::{
    APPROXIMATE_PREFIX, InFlight, PRECISE_PREFIX, PrefixMatch, Signals,
};
use foretoken_dataplane::{
    DataProducer, EndpointId, EndpointView, KvEvent, Placement, Response, Tier,
};
use foretoken_des_kernel::SimTime;
use foretoken_workload::{BlockHash, BlockHasher, ContentId, Prompt, Request, RequestId, Segment};

use super::support::{Outcome, equal};

worked_examples! {
    "W22" w22 "blocks of the approximate index";
    "W23" w23 "the head of a prompt is evicted first";
    "W24" w24 "the block size comes from the first candidate";
    "W25" w25 "the precise index: tiers, and each endpoint's own gap";
    "W54" w54 "counters of an aggregated pool";
    "W55" w55 "counters of a disaggregated pool";
}

const NOW: SimTime = SimTime::ZERO;

fn pool(size: u32) -> Vec<EndpointView> {
    (0..size)
        .map(|id| EndpointView::new(EndpointId::new(id)))
        .collect()
}

/// A request of `(text, from, to)` pieces.
fn request(id: u32, pieces: &[(u64, u32, u32)]) -> Request {
    let segments = pieces.iter().map(|&(text, from, to)| Segment {
        content: ContentId::new(text),
        offset: from,
        len: to - from,
    });
    let prompt = Prompt::new(segments).expect("examples have prompts");
    Request::new(RequestId::new(id), NOW, prompt, 100)
}

/// What the index says of a prompt, by endpoint: matched and total.
fn lookup(
    index: &mut ApproximatePrefix,
    endpoints: &[EndpointView],
    pieces: &[(u64, u32, u32)],
) -> Vec<(u32, u32, u32)> {
    let mut signals = Signals::new();
    let request = request(9, pieces);
    index.produce(Some(&request.view()), endpoints, NOW, &mut signals);
    let column = signals.prefix.column(APPROXIMATE_PREFIX).iter().flatten();
    column
        .map(|found| (found.matched, found.total, found.block_size))
        .collect()
}

fn route(
    index: &mut ApproximatePrefix,
    endpoints: &[EndpointView],
    pieces: &[(u64, u32, u32)],
    to: u32,
) {
    let placement = Placement::from(EndpointId::new(to));
    let request = request(1, pieces);
    index.placed(&request.view(), &placement, endpoints, &Signals::new(), NOW);
}

fn fixed() -> ApproximatePrefixConfig {
    ApproximatePrefixConfig {
        auto_tune: false,
        ..ApproximatePrefixConfig::default()
    }
}

fn w22() -> Outcome {
    let (endpoints, mut index) = (pool(2), ApproximatePrefix::new(APPROXIMATE_PREFIX, fixed()));
    route(&mut index, &endpoints, &[(0, 0, 130)], 0);
    let mut found = |pieces: &[(u64, u32, u32)]| lookup(&mut index, &endpoints, pieces);
    equal(
        "P again",
        found(&[(0, 0, 130)]),
        vec![(3, 3, 64), (0, 3, 64)],
    )?;
    equal(
        "128 of P, 64 others",
        found(&[(0, 0, 128), (7, 0, 64)])[0],
        (2, 3, 64),
    )?;
    equal(
        "64 others, 128 of P",
        found(&[(7, 0, 64), (0, 0, 128)])[0],
        (0, 3, 64),
    )?;
    equal("129 of P", found(&[(0, 0, 129)])[0], (2, 3, 64))
}

fn w23() -> Outcome {
    let config = ApproximatePrefixConfig {
        lru_capacity_per_server: 4,
        ..fixed()
    };
    let (endpoints, mut index) = (pool(1), ApproximatePrefix::new(APPROXIMATE_PREFIX, config));
    route(&mut index, &endpoints, &[(0, 0, 192)], 0);
    route(&mut index, &endpoints, &[(1, 0, 128)], 0);
    equal(
        "X",
        lookup(&mut index, &endpoints, &[(0, 0, 192)])[0],
        (0, 3, 64),
    )?;
    equal(
        "Y",
        lookup(&mut index, &endpoints, &[(1, 0, 128)])[0],
        (2, 2, 64),
    )
}

fn w24() -> Outcome {
    let mut endpoints = pool(2);
    (endpoints[0].block_size, endpoints[1].block_size) = (16, 128);
    let mut index = ApproximatePrefix::default();
    let prompt = [(0, 0, 256)];
    let found = lookup(&mut index, &endpoints, &prompt);
    equal("order a, b", found, vec![(0, 4, 64), (0, 4, 64)])?;
    endpoints.reverse();
    let found = lookup(&mut index, &endpoints, &prompt);
    equal("order b, a", found, vec![(0, 2, 128), (0, 2, 128)])
}

fn w25() -> Outcome {
    let request = request(0, &[(0, 0, 64)]);
    let mut keys: Vec<BlockHash> = Vec::new();
    let output = ContentId::output_of(request.id);
    BlockHasher::new(&request.prompt, output, 16).extend(
        request.view().cache_root(),
        64,
        &mut keys,
    );
    let (endpoints, mut index) = (pool(2), PrecisePrefix::default());
    let stored = [
        (0, 0, Tier::Gpu),
        (0, 1, Tier::Gpu),
        (0, 2, Tier::Cpu),
        (0, 3, Tier::Gpu),
        (1, 0, Tier::Cpu),
        (1, 1, Tier::Cpu),
        (1, 1, Tier::Gpu),
        (1, 3, Tier::Gpu),
    ];
    for (endpoint, block, tier) in stored {
        let block = keys[block];
        let event = KvEvent::Stored { block, tier };
        index.kv_event(EndpointId::new(endpoint), &event, NOW);
    }
    let mut signals = Signals::new();
    index.produce(Some(&request.view()), &endpoints, NOW, &mut signals);
    let of = |position| signals.prefix.get(PRECISE_PREFIX, position);
    let found = |m: PrefixMatch| (m.matched, m.total, m.unweighted);
    equal("a", of(0).map(found), Some((3, 4, 4)))?;
    equal("b", of(1).map(found), Some((1, 4, 2)))
}

fn w54() -> Outcome {
    let (endpoints, mut load) = (pool(1), InFlightLoad::default());
    let a = EndpointId::new(0);
    let mut signals = Signals::new();
    let (r1, r2) = (request(1, &[(0, 0, 100)]), request(2, &[(1, 0, 100)]));
    load.placed(&r1.view(), &a.into(), &endpoints, &signals, NOW);
    equal("r1", load.load(a), InFlight::new(1, 100))?;
    signals
        .prefix
        .set(APPROXIMATE_PREFIX, 0, PrefixMatch::new(0, 2, 64));
    load.placed(&r2.view(), &a.into(), &endpoints, &signals, NOW);
    equal("r2", load.load(a), InFlight::new(2, 228))?;
    load.responded(r1.id, Response::FirstChunk, NOW);
    equal("first chunk of r1", load.load(a), InFlight::new(2, 128))?;
    let end = Response::End { output_tokens: 1 };
    load.responded(r1.id, end, NOW);
    equal("end of r1", load.load(a), InFlight::new(1, 128))?;
    load.responded(r2.id, end, NOW);
    equal("r2 at once", load.load(a), InFlight::new(0, 0))
}

fn w55() -> Outcome {
    let (endpoints, mut load) = (pool(2), InFlightLoad::default());
    let (p1, d1) = (EndpointId::new(0), EndpointId::new(1));
    let mut signals = Signals::new();
    signals
        .prefix
        .set(APPROXIMATE_PREFIX, 0, PrefixMatch::new(4, 10, 64));
    signals
        .prefix
        .set(APPROXIMATE_PREFIX, 1, PrefixMatch::new(0, 10, 64));
    let r1 = request(1, &[(0, 0, 640)]);
    let placement = Placement::disaggregated(d1, p1);
    load.placed(&r1.view(), &placement, &endpoints, &signals, NOW);
    let both = |load: &InFlightLoad| (load.load(p1), load.load(d1));
    let count = InFlight::new;
    equal("dispatch", both(&load), (count(1, 384), count(1, 640)))?;
    load.responded(r1.id, Response::FirstChunk, NOW);
    equal("first chunk", both(&load), (count(0, 0), count(1, 0)))?;
    load.responded(r1.id, Response::End { output_tokens: 9 }, NOW);
    equal("end", both(&load), (count(0, 0), count(0, 0)))
}

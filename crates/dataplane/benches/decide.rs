//! What a gateway costs the host that simulates it: a request from its arrival to the end of its answer,
//! the look-up of a prompt, a scrape.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use foretoken_dataplane::config::{BuildOptions, RouterConfig};
use foretoken_dataplane::gateway::{EngineMetrics, Gateway, GatewayPolicies, GatewayStreams};
use foretoken_dataplane::producer::{ApproximatePrefix, KvEvent, PrecisePrefix, Tier};
use foretoken_dataplane::{DataProducer, EndpointId, EndpointView, Response, Signals};
use foretoken_des_kernel::{RngStreams, SimTime};
use foretoken_workload::{BlockHash, ContentId, Prompt, Request, RequestId, Segment};

/// Tokens in a block of the approximate index, and of the precise one here.
const BLOCK: u32 = 64;

fn pool(endpoints: u32) -> Vec<EndpointView> {
    let view = |id| {
        let mut view = EndpointView::new(EndpointId::new(id));
        view.observed_at = Some(SimTime::ZERO);
        view.queued = id % 3;
        view.running = 10 + id % 7;
        view.kv_usage = f64::from(id % 50) / 100.0;
        view.kv_blocks = 2_000;
        view.block_size = 16;
        view
    };
    (0..endpoints).map(view).collect()
}

fn gateway(policies: GatewayPolicies, endpoints: u32) -> Gateway {
    let streams = GatewayStreams::new(&RngStreams::new(1, 0), 0);
    Gateway::new(policies, pool(endpoints), streams)
}

/// Queue 2, KV usage 2, prefix match 3.
fn weighted() -> GatewayPolicies {
    RouterConfig::builtin_default().build(&BuildOptions::default())
}

fn request(id: u32, text: u64, tokens: u32) -> Request {
    let prompt = Prompt::new([Segment::new(ContentId::new(text), tokens)]).expect("not empty");
    Request::new(RequestId::new(id), SimTime::ZERO, prompt, 256)
}

/// Takes new prompts in one after the other; each is answered when ten more per endpoint have come.
fn serve(gateway: &mut Gateway, endpoints: u32, next: &mut u32) {
    let (now, id) = (SimTime::ZERO, *next);
    *next += 1;
    let arrived = request(id, u64::from(id), 512);
    let taken = gateway.submit(now, arrived, &mut |event| {
        black_box(event);
    });
    taken.expect("policies that answer sensibly");
    if let Some(old) = id.checked_sub(10 * endpoints) {
        let end = Response::End { output_tokens: 256 };
        gateway.responded(now, RequestId::new(old), Response::FirstChunk);
        gateway.responded(now, RequestId::new(old), end);
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request");
    for endpoints in [1, 16, 100] {
        for (name, policies) in [
            ("round-robin", GatewayPolicies::default()),
            ("weighted", weighted()),
        ] {
            let mut gateway = gateway(policies, endpoints);
            let mut next = 0;
            let id = BenchmarkId::new(name, endpoints);
            group.bench_function(id, |bencher| {
                bencher.iter(|| serve(&mut gateway, endpoints, &mut next));
            });
        }
    }
    group.finish();
}

/// A prompt of which every endpoint holds the first half, and one of them all.
fn lookups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lookup");
    let endpoints = pool(100);
    let mut signals = Signals::new();
    for blocks in [11, 100] {
        let half = blocks / 2 * BLOCK;
        let (whole, part) = (request(0, 0, blocks * BLOCK), request(1, 0, half));
        let other = request(2, 1, blocks * BLOCK);
        let mut index = ApproximatePrefix::default();
        for endpoint in &endpoints {
            let held = if endpoint.id.get() == 7 {
                &whole
            } else {
                &part
            };
            let placement = endpoint.id.into();
            index.placed(
                &held.view(),
                &placement,
                &endpoints,
                &signals,
                SimTime::ZERO,
            );
        }
        let mut precise = PrecisePrefix::default();
        let mut keys = Vec::new();
        let view = whole.view();
        view.prompt.hash_blocks(view.cache_root(), 16, &mut keys);
        for &block in &keys {
            let (tier, endpoint) = (Tier::Gpu, EndpointId::new(7));
            precise.kv_event(endpoint, &KvEvent::Stored { block, tier }, SimTime::ZERO);
        }
        let mut look_up = |name: &str, index: &mut dyn DataProducer, prompts: [&Request; 2]| {
            let mut turn = 0;
            group.bench_function(BenchmarkId::new(name, blocks), |bencher| {
                bencher.iter(|| {
                    // Two prompts in turn, so that the keys are made anew each time.
                    turn ^= 1;
                    let view = prompts[turn].view();
                    index.produce(Some(&view), &endpoints, SimTime::ZERO, &mut signals);
                });
            });
        };
        look_up("shared prefix", &mut index, [&whole, &part]);
        look_up(
            "new prompt",
            &mut index,
            [&other, &request(3, 2, blocks * BLOCK)],
        );
        look_up("precise", &mut precise, [&whole, &part]);
    }
    group.finish();
}

fn events(criterion: &mut Criterion) {
    let mut gateway = gateway(weighted(), 100);
    let metrics = EngineMetrics {
        queued: 3,
        running: 40,
        kv_usage: 0.4,
        kv_blocks: 2_000,
        block_size: 16,
        ..EngineMetrics::default()
    };
    let mut turn = 0;
    criterion.bench_function("scrape", |bencher| {
        bencher.iter(|| {
            turn = (turn + 1) % 100;
            gateway.scraped(EndpointId::new(turn), SimTime::ZERO, black_box(&metrics));
        });
    });

    let mut index = PrecisePrefix::default();
    let (mut hash, mut count, now) = (BlockHash::root(0), 0_u64, SimTime::ZERO);
    let mut stored = std::collections::VecDeque::new();
    criterion.bench_function("kv event", |bencher| {
        bencher.iter(|| {
            hash = BlockHash::root(hash.get());
            count += 1;
            let (block, tier) = (hash, Tier::Gpu);
            let endpoint = EndpointId::new(u32::try_from(count % 100).unwrap_or(0));
            index.kv_event(endpoint, &KvEvent::Stored { block, tier }, now);
            stored.push_back((endpoint, block));
            if stored.len() > 20_000
                && let Some((endpoint, block)) = stored.pop_front()
            {
                index.kv_event(endpoint, &KvEvent::Removed { block, tier }, now);
            }
        });
    });
}

criterion_group!(benches, decisions, lookups, events);
criterion_main!(benches);

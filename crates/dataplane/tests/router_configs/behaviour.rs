//! What the shipped files do with a few requests.

use foretoken_dataplane::config::{BuildOptions, RouterConfig};
use foretoken_dataplane::flow::FlowControl;
use foretoken_dataplane::gateway::{EngineMetrics, GatewayEvent};
use foretoken_dataplane::pipeline::pickers::Ties;
use foretoken_dataplane::producer::{LatencyFeatures, LatencyPredictor, PredictedLatency};
use foretoken_dataplane::{Admission, EndpointId, EndpointView, Gateway, Response, headers};
use foretoken_workload::{ObjectivePriority, RejectReason, Request, RequestId};

use super::support::{
    NOW, file, gateway, gateway_with, pool, request, route, submit, with_priority,
};

fn load(gateway: &mut Gateway, endpoint: u32, queued: u32, kv_usage: f64) {
    let metrics = EngineMetrics {
        queued,
        kv_usage,
        ..EngineMetrics::default()
    };
    gateway.scraped(EndpointId::new(endpoint), NOW, &metrics);
}

/// A request that may go to one endpoint only.
fn only_to(endpoint: u32, mut request: Request) -> Request {
    let name = format!("default/endpoint-{endpoint}");
    request.headers = [(headers::SUBSET, name.as_str())].into_iter().collect();
    request
}

fn with_header(mut request: Request, name: &str, value: &str) -> Request {
    request.headers = [(name, value)].into_iter().collect();
    request
}

/// The endpoints of an endless sequence of requests.
fn cold(gateway: &mut Gateway, requests: u32) -> Vec<u32> {
    let ids = 0..requests;
    ids.map(|id| route(gateway, request(id, id.into(), 640)))
        .collect()
}

#[test]
fn with_the_classic_weights_a_match_outweighs_any_queue() {
    for name in ["builtin-default", "optimized-baseline-older"] {
        let mut gateway = gateway(&file(name), pool(&["", ""]));
        load(&mut gateway, 1, 1, 0.0);
        assert_eq!(route(&mut gateway, request(0, 7, 640)), 0, "{name}");
        load(&mut gateway, 0, 200, 0.0);
        assert_eq!(route(&mut gateway, request(1, 7, 640)), 0, "{name}");
        assert_eq!(route(&mut gateway, request(2, 8, 640)), 1, "{name}");
    }
}

#[test]
fn no_file_is_the_builtin_default() {
    let builtin = RouterConfig::builtin_default();
    assert_eq!(builtin.to_string(), file("builtin-default").to_string());
}

#[test]
fn cold_requests_take_turns() {
    for name in ["optimized-baseline-older", "precise-prefix"] {
        let mut gateway = gateway(&file(name), pool(&["", "", ""]));
        assert_eq!(cold(&mut gateway, 6), [0, 1, 2, 0, 1, 2], "{name}");
    }
}

#[test]
fn the_mix_draws_by_weight() {
    let mut gateway = gateway(&file("classic-mix"), pool(&["", ""]));
    let picks = cold(&mut gateway, 100);
    assert!(picks.contains(&0) && picks.contains(&1));
}

#[test]
fn affinity_holds_until_it_costs_too_much() {
    // 18 s at 15928 tokens/s are 286704 tokens, at 9866 tokens/s 177588.
    for (name, stays) in [("optimized-baseline", true), ("multi-turn-coding", false)] {
        let mut gateway = gateway(&file(name), pool(&["", ""]));
        assert_eq!(route(&mut gateway, request(0, 7, 640)), 0);
        assert_eq!(route(&mut gateway, request(1, 8, 640)), 1);
        assert_eq!(route(&mut gateway, request(2, 7, 640)), 0);
        let long = only_to(0, request(3, 9, 200_000));
        assert_eq!(route(&mut gateway, long), 0);
        let after = route(&mut gateway, request(4, 7, 640));
        assert_eq!(after == 0, stays, "{name}");
    }
}

#[test]
fn the_precise_index_believes_in_placements_only_if_it_speculates() {
    for (name, expected) in [("precise-prefix", 0), ("precise-prefix-sample", 1)] {
        let mut gateway = gateway(&file(name), pool(&["", ""]));
        assert_eq!(route(&mut gateway, request(0, 7, 640)), 0);
        load(&mut gateway, 0, 0, 0.3);
        let again = route(&mut gateway, request(1, 7, 640));
        assert_eq!(again, expected, "{name}");
    }
}

#[test]
fn active_requests_outweigh_all_else_in_the_performance_tests() {
    for name in [
        "precise-prefix-performance",
        "precise-prefix-performance-later",
    ] {
        let mut gateway = gateway(&file(name), pool(&["", ""]));
        load(&mut gateway, 1, 0, 0.9);
        // 0.9 · 2 less for KV usage, 4 more for the idle one.
        assert_eq!(cold(&mut gateway, 2), [0, 1], "{name}");
    }
}

#[test]
fn prompts_are_computed_elsewhere_if_the_decider_says_so() {
    for (name, shortest) in [
        ("disaggregated", 1),
        ("wide-expert-parallelism", 1),
        ("disaggregated-sample", 16),
        ("disaggregated-uncached", 512),
    ] {
        let endpoints = pool(&["prefill", "decode"]);
        let mut gateway = gateway(&file(name), endpoints);
        let mut prefill = |id, tokens| {
            let placement = submit(&mut gateway, request(id, id.into(), tokens));
            let placement = placement.expect("no queue").expect("not refused");
            assert_eq!(placement.endpoint, EndpointId::new(1), "{name}");
            placement.prefill.map(|prefill| prefill.endpoint.get())
        };
        assert_eq!(prefill(0, shortest), Some(0), "{name}");
        if shortest > 1 {
            assert_eq!(prefill(1, shortest - 1), None, "{name}");
        }
    }
}

#[test]
fn a_missing_stage_is_the_decode_endpoint_or_429() {
    for name in ["disaggregated", "wide-expert-parallelism"] {
        let mut no_prefill = gateway(&file(name), pool(&["decode"]));
        let placement = submit(&mut no_prefill, request(0, 0, 640));
        let placement = placement.expect("no queue").expect("not refused");
        assert_eq!(placement.prefill, None);
        let mut no_decode = gateway(&file(name), pool(&["prefill"]));
        let refused = submit(&mut no_decode, request(0, 0, 640));
        assert_eq!(refused, Some(Err(RejectReason::NoCandidate)));
        assert_eq!(RejectReason::NoCandidate.http_status(), 429);
    }
}

#[test]
fn what_left_the_small_index_is_in_the_large_one() {
    let mut gateway = gateway(&file("tiered-prefix-cache"), pool(&["", ""]));
    assert_eq!(route(&mut gateway, request(0, 7, 64)), 0);
    // 2048 blocks each, so that there are more than 31250 and less than 41000.
    for id in 1..17 {
        let long = only_to(0, request(id, u64::from(id) + 100, 131_072));
        assert_eq!(route(&mut gateway, long), 0);
    }
    // One match makes up for 0.4 · 2 of KV usage and not for 0.6 · 2; two would.
    let again = request(20, 7, 64);
    load(&mut gateway, 0, 0, 0.6);
    let (mut a, mut b) = (again.clone(), again);
    (a.id, b.id) = (RequestId::new(21), RequestId::new(22));
    assert_eq!(route(&mut gateway, a), 1);
    load(&mut gateway, 0, 0, 0.4);
    load(&mut gateway, 1, 0, 0.9);
    assert_eq!(route(&mut gateway, b), 0);
}

/// Endpoint 0 needs a second, all others a hundredth of it.
struct FirstIsSlow;

impl LatencyPredictor for FirstIsSlow {
    fn predict(&mut self, features: &LatencyFeatures) -> Option<PredictedLatency> {
        let slow = features.endpoint == EndpointId::new(0);
        Some(PredictedLatency {
            ttft_ms: if slow { 1000.0 } else { 10.0 },
            tpot_ms: 20.0,
        })
    }
}

fn predicting(name: &str, endpoints: Vec<EndpointView>) -> Gateway {
    let options = BuildOptions::default().predictor(|| Box::new(FirstIsSlow));
    gateway_with(&file(name), endpoints, &options)
}

#[test]
fn predictions_keep_requests_where_targets_are_met() {
    let mut gateway = predicting("predicted-latency", pool(&["", ""]));
    let urgent = |id: u32| with_header(request(id, id.into(), 640), "x-llm-d-slo-ttft-ms", "500");
    let picks: Vec<_> = (0..200).map(|id| route(&mut gateway, urgent(id))).collect();
    let slow = picks.iter().filter(|&&pick| pick == 0).count();
    // One in a hundred explores.
    assert!(slow < 10, "{slow} of 200 went to the slow endpoint");
}

#[test]
fn what_would_come_too_late_is_shed() {
    let mut endpoints = pool(&[""]);
    (endpoints[0].running, endpoints[0].kv_usage) = (1, 0.5);
    let mut gateway = predicting("predicted-latency-guide", endpoints);
    let urgent = |id, priority| {
        let request = with_header(request(id, 0, 640), "x-llm-d-slo-ttft-ms", "500");
        with_priority(request, priority)
    };
    let shed = submit(&mut gateway, urgent(0, -1));
    assert_eq!(shed, Some(Err(RejectReason::Shed)));
    assert_eq!(RejectReason::Shed.http_status(), 500);
    assert_eq!(route(&mut gateway, urgent(1, 0)), 0);
}

#[test]
fn the_guide_of_flow_control_lets_132_requests_go() {
    let mut gateway = gateway(&file("flow-control"), pool(&[""]));
    let mut answers = (0..134).map(|id| submit(&mut gateway, request(id, id.into(), 64)));
    assert!(answers.by_ref().take(132).all(|answer| answer.is_some()));
    assert!(answers.all(|answer| answer.is_none()));
    let low = |id| with_priority(request(id, 0, 64), -10);
    let mut answers = (200..251).map(|id| submit(&mut gateway, low(id)));
    assert!(answers.by_ref().take(50).all(|answer| answer.is_none()));
    let full = answers.next().expect("there is one more");
    assert_eq!(full, Some(Err(RejectReason::QueueFull)));
    assert_eq!(RejectReason::QueueFull.http_status(), 429);
}

fn flow(name: &str) -> Box<FlowControl> {
    match file(name).build(&BuildOptions::default()).admission {
        Admission::Flow(flow) => flow,
        other => panic!("{name} is no flow control but {other:?}"),
    }
}

fn blocked(flow: &mut FlowControl, saturation: f64) -> Option<i32> {
    let cycle = flow.cycle_at(NOW, saturation).expect("sensible answers");
    cycle.blocked.map(ObjectivePriority::get)
}

#[test]
fn batch_with_holdback_has_seven_ceilings() {
    let mut flow = flow("batch-holdback");
    let bands: Vec<_> = flow.bands().map(|(band, _)| band.get()).collect();
    assert_eq!(bands, [100, 60, 30, 10, 0, -5, -10]);
    let ceilings = [1.0, 0.9167, 0.8333, 0.75, 0.6667, 0.5833, 0.5];
    for (band, ceiling) in bands.into_iter().zip(ceilings) {
        assert_eq!(blocked(&mut flow, ceiling + 1e-4), Some(band));
        assert_ne!(blocked(&mut flow, ceiling - 1e-4), Some(band));
    }
    assert_eq!(blocked(&mut flow, 0.4999), None);
}

#[test]
fn batch_with_eviction_makes_room() {
    let mut gateway = gateway(&file("batch-eviction"), pool(&[""]));
    for id in 0..10 {
        // Sheddable, and let go at the ceiling of 0.5 as long as five are in flight at most.
        let priority = if id < 5 { -10 } else { 100 };
        let request = with_priority(request(id, 0, 64), priority);
        assert_eq!(route(&mut gateway, request), 0);
    }
    let mut evicted = Vec::new();
    let urgent = with_priority(request(10, 0, 64), 100);
    let submitted = gateway.submit(NOW, urgent, &mut |event| {
        if let GatewayEvent::Evict { request, .. } = event {
            evicted.push(request.get());
        }
    });
    submitted.expect("sensible answers");
    assert_eq!(evicted, [4], "the latest of the batch");
}

#[test]
fn the_soft_reflective_sample_alternates() {
    let mut flow = flow("soft-reflective");
    flow.objective_added(NOW, ObjectivePriority::new(-10));
    let blocked: Vec<_> = (0..6).map(|_| blocked(&mut flow, 0.75)).collect();
    let held = Some(-10);
    assert_eq!(blocked, [held, held, None, held, held, None]);
}

#[test]
fn probability_alone_sheds() {
    for name in ["probabilistic", "shed-by-probability"] {
        let mut gateway = gateway(&file(name), pool(&["", ""]));
        load(&mut gateway, 0, 1000, 0.9);
        load(&mut gateway, 1, 1000, 0.9);
        let low = with_priority(request(0, 0, 64), -1);
        // By the detector it would be 429.
        let shed = submit(&mut gateway, low);
        assert_eq!(shed, Some(Err(RejectReason::Shed)), "{name}");
        assert!(submit(&mut gateway, request(1, 0, 64)).is_some_and(|answer| answer.is_ok()));
    }
}

#[test]
fn sessions_weigh_as_much_as_active_requests() {
    let mut gateway = gateway(&file("payload-agnostic"), pool(&["", ""]));
    let of = |id, session| {
        let mut request = request(id, id.into(), 64);
        request.session = Some(foretoken_workload::SessionId::new(session));
        request
    };
    assert_eq!(route(&mut gateway, of(0, 0)), 0);
    assert_eq!(route(&mut gateway, of(1, 1)), 1);
    gateway.responded(NOW, RequestId::new(1), Response::End { output_tokens: 1 });
    // The session says 0, active requests say 1; the tie goes to the first.
    assert_eq!(route(&mut gateway, of(2, 0)), 0);
    assert_eq!(route(&mut gateway, of(3, 1)), 1);
}

#[test]
fn without_telemetry_kv_usage_decides() {
    let mut gateway = gateway(&file("gpu-telemetry"), pool(&["", ""]));
    load(&mut gateway, 0, 0, 0.5);
    assert_eq!(route(&mut gateway, request(0, 0, 64)), 1);
}

#[test]
fn the_data_parallel_handler_runs_its_profile() {
    let mut gateway = gateway(&file("data-parallel"), pool(&["", ""]));
    let elsewhere = only_to(1, request(0, 7, 640));
    assert_eq!(route(&mut gateway, elsewhere), 1);
    assert_eq!(route(&mut gateway, request(1, 7, 640)), 1);
}

#[test]
fn the_cap_fails_closed() {
    let mut gateway = gateway(&file("affinity-with-cap"), pool(&[""]));
    // 64 requests and a quarter.
    let mut answers = (0..81).map(|id| submit(&mut gateway, request(id, 0, 64)));
    assert!(answers.by_ref().take(80).flatten().all(|a| a.is_ok()));
    let refused = answers.next().expect("there is one more");
    assert_eq!(refused, Some(Err(RejectReason::NoCandidate)));
}

#[test]
fn three_classes_stop_at_their_ceilings() {
    let mut flow = flow("three-classes");
    assert_eq!(blocked(&mut flow, 0.59), None);
    assert_eq!(blocked(&mut flow, 0.61), Some(-20));
    assert_eq!(blocked(&mut flow, 0.81), Some(0));
    assert_eq!(blocked(&mut flow, 1.0), Some(20));
}

#[test]
fn the_obsolete_generation_is_refused_with_its_successor_named() {
    let yaml = include_str!("../../configs/obsolete/optimized-baseline-intermediate.yaml");
    let error = RouterConfig::from_yaml(yaml).expect_err("a parameter is gone");
    assert_eq!(
        error.to_string(),
        "line 12: plugins[1].parameters.maxTokensInFlightPenalty: no longer exists: allowed is \
         maxTTFTPenaltyMs, in milliseconds of waiting at peakPrefillThroughput"
    );
}

#[test]
fn each_build_remembers_nothing_of_the_others() {
    let config = file("builtin-default");
    let options = BuildOptions::default().ties(Ties::First);
    let mut first = gateway_with(&config, pool(&["", ""]), &options);
    route(&mut first, only_to(1, request(0, 7, 640)));
    assert_eq!(route(&mut first, request(1, 7, 640)), 1);
    let mut second = gateway_with(&config, pool(&["", ""]), &options);
    assert_eq!(route(&mut second, request(1, 7, 640)), 0);
}

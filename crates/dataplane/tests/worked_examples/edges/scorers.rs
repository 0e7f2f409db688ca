//! Edges of scorers.

use foretoken_dataplane::pipeline::scorers::SessionAffinityScorer;
use foretoken_dataplane::pipeline::scorers::{
    ActiveRequestScorer, Better, CompositeWeights, EndpointAttributeScorer,
    HeaderLabelAffinityScorer, HeadroomSelection, LatencyScorer, LoadAwareScorer,
    LoraAffinityScorer, NoHitLruScorer, PrefixCacheScorer, ScoreRange, TokenLoadScorer,
    TopologyAffinityScorer,
};
use foretoken_dataplane::pipeline::{BoundPick, ContextLengthAware, SessionStrategy};
use foretoken_dataplane::signals::{PRECISE_PREFIX, PREDICTED_LATENCY, PrefixMatch};
use foretoken_dataplane::{EndpointId, Placement, Scorer};
use foretoken_workload::SessionId;

use crate::cases::support::Scene;

/// Tells a scorer that the scene's request was placed.
fn place(plugin: &mut dyn Scorer, scene: &mut Scene, placement: Placement) {
    let request = scene.request.clone();
    plugin.placed(&request.view(), &placement, &scene.context());
}

#[test]
fn senseless_parameters_mean_the_defaults() {
    let mut scene = Scene::of(2).queued(&[64, 128]).active(&[2, 1].map(Some));
    assert_eq!(
        scene.scores(&mut LoadAwareScorer { threshold: -3 }),
        [0.25, 0.0]
    );
    let mut active = ActiveRequestScorer {
        idle_threshold: -5,
        max_busy_score: f64::NAN,
        ..ActiveRequestScorer::default()
    };
    assert_eq!(scene.scores(&mut active), [0.0, 0.5]);
    let mut tokens = TokenLoadScorer {
        queue_threshold_tokens: 0,
        ..TokenLoadScorer::default()
    };
    let mut loaded = Scene::of(1).tokens(&[Some((1_048_576, 0))]);
    assert_eq!(loaded.scores(&mut tokens), [0.75]);
    let mut prefix = PrefixCacheScorer {
        match_length_weight: 1.0,
        match_length_scale_tokens: -1,
        ..PrefixCacheScorer::default()
    };
    let mut half = Scene::of(1).prefix(&[Some((64, 100, 64))]);
    assert_eq!(half.scores(&mut prefix), [0.25]);
}

#[test]
fn a_scorer_sees_its_producer_only() {
    let mut scene = Scene::of(2).prefix(&[Some((5, 10, 64)), None]);
    let found = PrefixMatch::new(1, 10, 16);
    scene.signals.prefix.set(PRECISE_PREFIX, 1, found);
    assert_eq!(scene.scores(&mut PrefixCacheScorer::default()), [0.5, 0.0]);
    let mut precise = PrefixCacheScorer::of(PRECISE_PREFIX);
    assert_eq!(scene.scores(&mut precise), [0.0, 0.1]);
    assert_eq!(
        scene.scores(&mut PrefixCacheScorer::of("other")),
        [0.0, 0.0]
    );
}

#[test]
fn the_base_model_wants_room_too() {
    let mut scene = Scene::of(2);
    scene.endpoints[0].adapters = foretoken_dataplane::Adapters {
        max: 1,
        ..Default::default()
    }
    .into();
    assert_eq!(scene.scores(&mut LoraAffinityScorer), [0.8, 0.0]);
}

#[test]
fn only_cold_requests_are_spread_and_recorded() {
    let mut lru = NoHitLruScorer::default();
    let mut warm = Scene::of(2).prefix(&[Some((1, 10, 64)), None]);
    assert_eq!(warm.scores(&mut lru), [0.5, 0.5]);
    place(&mut lru, &mut warm, EndpointId::new(0).into());
    assert_eq!(Scene::of(2).scores(&mut lru), [1.0, 0.0]);
    assert_eq!(Scene::of(1).scores(&mut lru), [1.0]);
}

#[test]
fn both_endpoints_of_a_cold_request_are_recorded() {
    let (mut lru, mut scene) = (NoHitLruScorer::default(), Scene::of(3));
    let placement = Placement::disaggregated(EndpointId::new(2), EndpointId::new(0));
    place(&mut lru, &mut scene, placement);
    // b is unused; c was recorded before a.
    assert_eq!(scene.scores(&mut lru), [0.0, 1.0, 0.5]);
}

#[test]
fn what_was_used_longest_ago_is_forgotten_first() {
    let (mut lru, mut scene) = (NoHitLruScorer::new(1, "none"), Scene::of(3));
    for endpoint in [0, 1] {
        place(&mut lru, &mut scene, EndpointId::new(endpoint).into());
    }
    assert_eq!(scene.scores(&mut lru), [1.0, 0.0, 0.5]);
}

#[test]
fn recorded_endpoints_count_even_where_they_are_no_candidates() {
    let (mut lru, mut scene) = (NoHitLruScorer::default(), Scene::of(4));
    for endpoint in [0, 1, 2] {
        place(&mut lru, &mut scene, EndpointId::new(endpoint).into());
    }
    let request = scene.request.clone();
    let mut scores = vec![0.0; 2];
    lru.score(&request.view(), &[2, 3], &mut scene.context(), &mut scores);
    // d is new (rank 0), c has one unused before it and two in the list: rank 3.
    assert_eq!(scores, [0.0, 1.0]);
}

#[test]
fn headers_are_compared_with_labels() {
    let mut by_tier = HeaderLabelAffinityScorer::new("x-tier", "tier");
    let labels = [Some("gold"), Some("iron"), None];
    let scene = || Scene::of(3).label("tier", &labels);
    let mut iron = scene().header("X-Tier", "iron");
    assert_eq!(iron.scores(&mut by_tier), [0.0, 1.0, 0.0]);
    assert_eq!(scene().scores(&mut by_tier), [0.0; 3]);
    let mut empty = scene().header("x-tier", "");
    assert_eq!(empty.scores(&mut by_tier), [0.0; 3]);
}

#[test]
fn neighbours_of_the_peer_score_by_distance() {
    let units = ["kubernetes.io/hostname", "topology.kubernetes.io/rack"];
    let scores = |unit, peer| {
        let mut scene = Scene::of(3).label(unit, &[Some("1"), Some("1"), Some("2")]);
        let request = scene.request.clone();
        let mut cx = scene.context();
        cx.peer = peer;
        let mut scores = vec![0.0; 3];
        let mut plugin = TopologyAffinityScorer::default();
        plugin.score(&request.view(), &[0, 1, 2], &mut cx, &mut scores);
        scores
    };
    assert_eq!(scores(units[0], Some(0)), [1.0, 1.0, 0.0]);
    assert_eq!(scores(units[1], Some(1)), [0.2, 0.2, 0.0]);
    assert_eq!(
        scores("topology.kubernetes.io/zone", Some(2)),
        [0.0, 0.0, 0.05]
    );
    assert_eq!(
        scores("topology.kubernetes.io/region", Some(2)),
        [0.0, 0.0, 0.02]
    );
    assert_eq!(scores(units[0], None), [0.0; 3]);
}

#[test]
fn attributes_are_scaled_over_what_is_seen_or_given() {
    let mut scene = Scene::of(4);
    for (position, number) in [(0, 10.0), (1, 20.0), (2, 15.0)] {
        scene.signals.numbers.set("gpu/dcgm", position, number);
    }
    let mut plugin = EndpointAttributeScorer::new("gpu", "dcgm", Better::Lower);
    assert_eq!(scene.scores(&mut plugin), [1.0, 0.0, 0.5, 0.0]);
    plugin.better = Better::Higher;
    assert_eq!(scene.scores(&mut plugin), [0.0, 1.0, 0.5, 0.0]);
    let (min, max) = (5.0, 15.0);
    plugin.range = ScoreRange::Fixed { min, max };
    assert_eq!(scene.scores(&mut plugin), [0.5, 1.0, 1.0, 0.0]);
    plugin.range = ScoreRange::Fixed { min: f64::NAN, max };
    assert_eq!(scene.scores(&mut plugin), [1.0, 1.0, 1.0, 0.0]);
    plugin.range = ScoreRange::Observed;
    scene.signals.numbers.begin("gpu/dcgm", 4)[3] = Some(7.0);
    assert_eq!(scene.scores(&mut plugin), [0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn a_range_of_one_length_fits_perfectly() {
    let mut scene = Scene::of(1).label("llm-d.ai/context-length-range", &[Some("100-100")]);
    assert_eq!(scene.scores(&mut ContextLengthAware::default()), [1.0]);
}

/// Headrooms and requests in flight of endpoints that all miss a target.
fn missing(endpoints: &[(f64, f64, u64)]) -> Scene {
    let headrooms: Vec<_> = endpoints.iter().map(|e| Some((e.0, e.1))).collect();
    let number = u8::try_from(endpoints.len()).expect("few endpoints");
    let mut scene = Scene::of(number).headroom(&headrooms);
    for (position, &(_, _, dispatched)) in endpoints.iter().enumerate() {
        let latency = &mut scene.signals.latency;
        let estimate = latency.get(PREDICTED_LATENCY, position);
        let mut estimate = estimate.expect("one for each endpoint");
        estimate.dispatched = dispatched;
        latency.set(PREDICTED_LATENCY, position, estimate);
    }
    scene
}

#[test]
fn those_that_miss_a_target_are_scored_in_groups() {
    // `Most` does not matter here.
    let mut plugin = LatencyScorer::new(HeadroomSelection::Most);
    let mut idle_first = missing(&[(-1.0, 1.0, 2), (-9.0, -9.0, 0), (-5.0, 5.0, 0)]);
    assert_eq!(idle_first.scores(&mut plugin), [0.0, 0.01, 1.01]);
    let mut tpot_first = missing(&[(-1.0, 1.0, 1), (-1.0, -1.0, 1), (1.0, -1.0, 1)]);
    assert_eq!(tpot_first.scores(&mut plugin), [0.0, 0.0, 0.51]);
    let mut ttft_next = missing(&[(-1.0, 1.0, 1), (-1.0, -1.0, 1)]);
    assert_eq!(ttft_next.scores(&mut plugin), [0.51, 0.0]);
    // Only the time to first token differs, so it has all the weight.
    let mut both = missing(&[(-1.0, -1.0, 1), (-3.0, -1.0, 1), (-2.0, -1.0, 1)]);
    assert_eq!(both.scores(&mut plugin), [1.01, 0.01, 0.51]);
}

#[test]
fn an_endpoint_without_prediction_has_no_headroom() {
    let mut scene = Scene::of(3).headroom(&[Some((10.0, 10.0)), None, Some((-1.0, 0.0))]);
    assert_eq!(
        scene.scores(&mut LatencyScorer::default()),
        [0.01, 1.01, 0.0]
    );
}

#[test]
fn composite_weights_are_normalised() {
    let mut plugin = LatencyScorer::default();
    plugin.composite = CompositeWeights {
        kv: 2.0,
        queue: 0.0,
        prefix: 0.0,
    };
    assert_eq!(Scene::of(1).kv(&[0.25]).scores(&mut plugin), [0.75]);
}

#[test]
fn a_session_is_bound_to_the_pick_that_is_asked_for() {
    let placement = Placement::disaggregated(EndpointId::new(1), EndpointId::new(2));
    for strategy in [SessionStrategy::default(), SessionStrategy::session_id()] {
        for (bound, scores) in [
            (BoundPick::Primary, [0.0, 1.0, 0.0]),
            (BoundPick::Prefill, [0.0, 0.0, 1.0]),
        ] {
            let mut plugin = SessionAffinityScorer::new(strategy.clone(), bound);
            let mut scene = Scene::of(3);
            assert_eq!(scene.scores(&mut plugin), [0.0; 3]);
            scene.request.session = Some(SessionId::new(7));
            place(&mut plugin, &mut scene, placement);
            assert_eq!(scene.scores(&mut plugin), scores);
        }
    }
}

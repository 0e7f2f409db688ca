//! Edges of handlers and of the pipeline.

use foretoken_dataplane::pipeline::deciders::{
    AlwaysDisaggregate, AlwaysDisaggregateMedia, PrefixBasedDecider,
};
use foretoken_dataplane::pipeline::filters::{RoleFilter, TopologyAffinityFilter};
use foretoken_dataplane::pipeline::handlers::{
    DisaggHandler, HeaderProfileHandler, SingleProfileHandler,
};
use foretoken_dataplane::pipeline::pickers::{MaxScorePicker, Ties};
use foretoken_dataplane::pipeline::scorers::{NoHitLruScorer, QueueScorer};
use foretoken_dataplane::pipeline::{Decider, Pipeline, Plugins, Profile, ProfileHandler};
use foretoken_dataplane::signals::{APPROXIMATE_PREFIX, PrefixMatch};
use foretoken_dataplane::{EndpointId, GatewayContext, PickedBy, Placement, Router, Scorer};
use foretoken_workload::RequestView;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cases::support::Scene;

/// Decode and prefill by role, the prefill profile under a name.
fn by_role(prefill: &str, handler: impl ProfileHandler + 'static) -> Pipeline {
    Pipeline::starting_with("decode")
        .filter(RoleFilter::Decode)
        .and_profile(prefill)
        .filter(RoleFilter::Prefill)
        .handler(handler)
}

/// A prefill and a decode endpoint.
fn pair() -> Scene {
    Scene::of(2).roles(&["prefill", "decode"].map(Some))
}

fn disaggregated() -> Placement {
    Placement::disaggregated(EndpointId::new(1), EndpointId::new(0))
}

fn aggregated() -> Placement {
    EndpointId::new(1).into()
}

#[test]
fn prefill_runs_as_its_decider_says_and_never_without() {
    let route = |handler| pair().route(&mut by_role("prefill", handler));
    let always = DisaggHandler::decode_first(AlwaysDisaggregate);
    assert_eq!(route(always), Some(disaggregated()));
    let media = DisaggHandler::decode_first(AlwaysDisaggregateMedia);
    assert_eq!(route(media), Some(aggregated()));
    assert_eq!(route(DisaggHandler::default()), Some(aggregated()));
    assert_eq!(route(DisaggHandler::prefill_first()), Some(disaggregated()));
}

#[test]
fn prefill_first_also_does_without_prefill_endpoints() {
    let mut pipeline = by_role("prefill", DisaggHandler::prefill_first());
    let mut scene = Scene::of(2).roles(&["encode", "decode"].map(Some));
    assert_eq!(scene.route(&mut pipeline), Some(aggregated()));
    let mut scene = Scene::of(2).roles(&["prefill", "encode"].map(Some));
    assert_eq!(scene.route(&mut pipeline), None);
}

#[test]
fn a_prefill_profile_of_another_name_is_said_to_be_renamed() {
    let mut handler = DisaggHandler::decode_first(AlwaysDisaggregate);
    handler.prefill = "compute".into();
    let placement = pair().route(&mut by_role("compute", handler));
    let prefill = placement.and_then(|placement| placement.prefill);
    let profile = prefill.map(|prefill| prefill.profile);
    assert_eq!(profile, Some(PickedBy::Other));
    assert_eq!(placement.and_then(|p| p.known_prefill()), None);
}

#[test]
fn without_the_named_profiles_nothing_is_disaggregated() {
    let always = || DisaggHandler::decode_first(AlwaysDisaggregate);
    assert_eq!(
        pair().route(&mut by_role("other", always())),
        Some(aggregated())
    );
    let mut no_decode = Pipeline::new().handler(always());
    assert_eq!(pair().route(&mut no_decode), None);
}

#[test]
fn the_decode_pick_is_the_peer_of_prefill_and_nobody_s_afterwards() {
    let mut pipeline = by_role("prefill", DisaggHandler::decode_first(AlwaysDisaggregate))
        .filter(TopologyAffinityFilter::default());
    let mut scene = Scene::of(4).roles(&["prefill", "prefill", "prefill", "decode"].map(Some));
    for (endpoint, host) in scene.endpoints.iter_mut().zip(["x", "y", "x", "y"]) {
        let labels = Arc::make_mut(&mut endpoint.labels);
        labels.insert("kubernetes.io/hostname".into(), host.into());
    }
    let request = scene.request.clone();
    let mut cx = scene.context();
    let placement = pipeline.route(&request.view(), &mut cx);
    let prefill = placement.and_then(|placement| placement.known_prefill());
    assert_eq!(prefill, Some(EndpointId::new(1)));
    assert_eq!(cx.peer, None);
}

#[test]
fn a_header_names_the_profile() {
    let profiles = || {
        Pipeline::starting_with("prefill")
            .filter(RoleFilter::Prefill)
            .and_profile("decode")
            .filter(RoleFilter::Decode)
            .handler(HeaderProfileHandler::default())
    };
    let to = |scene: &mut Scene, pipeline: &mut Pipeline| {
        scene
            .route(pipeline)
            .map(|placement| placement.endpoint.get())
    };
    let mut pipeline = profiles();
    let mut named = |name| to(&mut pair().header("epp-profile", name), &mut pipeline);
    assert_eq!(named("prefill"), Some(0));
    assert_eq!(named("decode"), Some(1));
    assert_eq!(named(""), Some(1));
    assert_eq!(named("other"), None);
    assert_eq!(to(&mut pair(), &mut pipeline), Some(1));
    let mut lone = Pipeline::new().handler(HeaderProfileHandler::default());
    let placement = pair().header("epp-profile", "other").route(&mut lone);
    assert!(placement.is_some());
}

#[test]
fn the_decider_counts_blocks_of_every_tier_and_padded_ones() {
    let mut decider = PrefixBasedDecider {
        non_cached_tokens: 16,
        prompt_tokens: 0,
    };
    let mut wants = |tokens, matched, unweighted| {
        let mut scene = Scene::of(1).prompt(tokens);
        let mut found = PrefixMatch::new(matched, 2, 64);
        found.unweighted = unweighted;
        scene.signals.prefix.set(APPROXIMATE_PREFIX, 0, found);
        let request = scene.request.clone();
        decider.wants_stage(&request.view(), 0, &scene.context())
    };
    assert!(wants(100, 0, 0));
    assert!(!wants(100, 0, 2));
    assert!(wants(100, 2, 0));
}

/// Counts how often it is told of a placement.
struct Told(Arc<AtomicU32>);

impl Scorer for Told {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        _: &[usize],
        _: &mut GatewayContext<'_>,
        _: &mut [f64],
    ) {
    }

    fn placed(&mut self, _: &RequestView<'_>, _: &Placement, _: &GatewayContext<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_shared_instance_learns_of_a_placement_once() {
    let told = Arc::new(AtomicU32::new(0));
    let mut plugins = Plugins::default();
    let shared = plugins.add_scorer(Box::new(Told(Arc::clone(&told))));
    let picker = plugins.add_picker(Box::new(MaxScorePicker::new(1, Ties::First)));
    let profiles = ["decode", "prefill"].map(|name| {
        let mut profile = Profile::new(name, picker);
        profile.add_scorer(1.0, shared);
        profile
    });
    let handler = Box::new(DisaggHandler::decode_first(AlwaysDisaggregate));
    let mut pipeline = Pipeline::from_parts(plugins, profiles.into(), handler);
    let mut scene = pair();
    let placement = scene.route(&mut pipeline).expect("there are endpoints");
    let request = scene.request.clone();
    pipeline.placed(&request.view(), &placement, &scene.context());
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn a_pipeline_spreads_cold_requests_as_they_are_placed() {
    let mut pipeline = Pipeline::new()
        .scorer(1.0, NoHitLruScorer::default())
        .picker(MaxScorePicker::new(1, Ties::First));
    let mut scene = Scene::of(3);
    let mut taken = Vec::new();
    for _ in 0..6 {
        let placement = scene.route(&mut pipeline).expect("there are endpoints");
        let request = scene.request.clone();
        pipeline.placed(&request.view(), &placement, &scene.context());
        taken.push(placement.endpoint.get());
    }
    assert_eq!(taken, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_pool_without_endpoints_or_profiles_rejects() {
    let mut queue = Pipeline::new().scorer(1.0, QueueScorer);
    assert_eq!(Scene::of(0).route(&mut queue), None);
    let handler = Box::new(SingleProfileHandler);
    let mut empty = Pipeline::from_parts(Plugins::default(), Vec::new(), handler);
    assert_eq!(Scene::of(2).route(&mut empty), None);
    // Plugins go to a profile `default` then.
    let mut filled = empty.filter(RoleFilter::Decode);
    assert!(Scene::of(2).route(&mut filled).is_some());
}

#[test]
fn a_run_shows_what_happened() {
    let mut pipeline = Pipeline::new()
        .scorer(2.0, QueueScorer)
        .scorer(0.5, QueueScorer)
        .picker(MaxScorePicker::new(2, Ties::First));
    let mut scene = Scene::of(3).queued(&[2, 0, 1]);
    scene.route(&mut pipeline);
    let run = pipeline.run("default").expect("the profile");
    assert!(run.ran());
    assert_eq!(run.candidates(), [0, 1, 2]);
    assert_eq!(run.scores(1), [0.0, 1.0, 0.5]);
    assert!(run.scores(2).is_empty());
    assert_eq!(run.totals(), [0.0, 2.5, 1.25]);
    assert_eq!(run.picks(), [1, 2]);
    assert!(pipeline.run("other").is_none());
}

//! Edges of filters.

use foretoken_dataplane::pipeline::filters::{
    ByLabelFilter, Condition, EndpointAttributeFilter, LabelExpression, LabelOperator,
    LabelSelectorFilter, OnMissing, Operator, PrefixCacheAffinityFilter, RoleFilter,
    SloHeadroomTierFilter, TopologyAffinityFilter, TtftSource, UtilizationFilter,
    UtilizationMetric,
};
use foretoken_dataplane::pipeline::{ContextLengthAware, Proximity};
use foretoken_dataplane::signals::{LatencyEstimate, PREDICTED_LATENCY};
use foretoken_dataplane::{EndpointView, Filter};
use foretoken_workload::RequestView;

use crate::cases::support::{Scene, letters};

#[test]
fn only_encoding_roles_encode() {
    let roles = ["encode", "encode-prefill", "encode-prefill-decode", "both"];
    let mut scene = Scene::of(6).roles(&[&roles.map(Some)[..], &[None, Some("?")]].concat());
    assert_eq!(scene.kept(&mut RoleFilter::Encode), "abc");
    assert_eq!(scene.kept(&mut RoleFilter::Decode), "cde");
}

#[test]
fn a_selector_selects_as_kubernetes_does() {
    let kept = |operator| {
        let mut filter = LabelSelectorFilter {
            match_expressions: vec![LabelExpression {
                key: "tier".into(),
                operator,
            }],
            ..LabelSelectorFilter::default()
        };
        Scene::of(3)
            .label("tier", &[Some("gold"), Some("iron"), None])
            .kept(&mut filter)
    };
    let gold = || vec!["gold".to_owned()];
    assert_eq!(kept(LabelOperator::In(gold())), "a");
    assert_eq!(kept(LabelOperator::NotIn(gold())), "bc");
    assert_eq!(kept(LabelOperator::Exists), "ab");
    assert_eq!(kept(LabelOperator::DoesNotExist), "c");

    let labels = [Some("gold"), Some("iron"), None];
    let mut scene = Scene::of(3).label("tier", &labels);
    assert_eq!(scene.kept(&mut LabelSelectorFilter::default()), "abc");
    let mut iron = LabelSelectorFilter {
        match_labels: [("tier".to_owned(), "iron".to_owned())].into(),
        ..LabelSelectorFilter::default()
    };
    assert_eq!(scene.kept(&mut iron), "b");
    iron.match_labels.insert("zone".into(), "x".into());
    assert_eq!(scene.kept(&mut iron), "");
}

#[test]
fn a_missing_label_is_kept_only_where_that_is_allowed() {
    let mut scene = Scene::of(3).label("tier", &[Some("gold"), Some("iron"), None]);
    let mut filter = ByLabelFilter {
        label: "tier".into(),
        valid_values: vec!["iron".into()],
        allows_no_label: false,
    };
    assert_eq!(scene.kept(&mut filter), "b");
    filter.allows_no_label = true;
    assert_eq!(scene.kept(&mut filter), "bc");
}

#[test]
fn affinity_can_be_switched_off_explored_and_kept_at_any_cost() {
    let mut scene = Scene::of(3)
        .prefix(&[Some((9, 10, 64)), Some((0, 0, 64)), None])
        .in_flight(&[Some((0, 10_000_000)), None, None]);
    let default = PrefixCacheAffinityFilter::default;
    assert_eq!(scene.kept(&mut default()), "abc");
    let mut stubborn = PrefixCacheAffinityFilter {
        max_ttft_penalty_ms: 0.0,
        ..default()
    };
    assert_eq!(scene.kept(&mut stubborn), "a");
    stubborn.affinity_threshold = 0.0;
    assert_eq!(scene.kept(&mut stubborn), "abc");
    stubborn.affinity_threshold = 0.8;
    stubborn.exploration_probability = 1.0;
    assert_eq!(scene.kept(&mut stubborn), "abc");
}

#[test]
fn affinity_can_go_by_predictions() {
    let kept = |predictions: [Option<f64>; 2]| {
        let mut scene = Scene::of(2).prefix(&[Some((9, 10, 64)), None]);
        for (position, ttft_ms) in (0..).zip(predictions) {
            let mut estimate = LatencyEstimate::default();
            if let Some(ttft_ms) = ttft_ms {
                estimate.ttft_ms = ttft_ms;
                let latency = &mut scene.signals.latency;
                latency.set(PREDICTED_LATENCY, position, estimate);
            }
        }
        scene.kept(&mut PrefixCacheAffinityFilter {
            ttft_source: TtftSource::latency_predictor(),
            ..PrefixCacheAffinityFilter::default()
        })
    };
    assert_eq!(kept([Some(18_500.0), Some(500.0)]), "a");
    assert_eq!(kept([Some(18_501.0), Some(500.0)]), "ab");
    assert_eq!(kept([Some(18_501.0), None]), "a");
    assert_eq!(kept([None, Some(1.0)]), "ab");
    assert_eq!(kept([None, None]), "a");
}

#[test]
fn headroom_tiers_fall_back_to_everybody() {
    let mut filter = SloHeadroomTierFilter::default();
    assert_eq!(Scene::of(2).kept(&mut filter), "ab");
    let mut none_meets = Scene::of(2).headroom(&[Some((-1.0, 1.0)), None]);
    assert_eq!(none_meets.kept(&mut filter), "ab");
    filter.epsilon_explore_neg = 1.0;
    let mut scene = Scene::of(3).headroom(&[Some((0.0, 0.0)), Some((5.0, -1.0)), None]);
    assert_eq!(scene.kept(&mut filter), "bc");
}

#[test]
fn utilization_counts_what_is_missing_as_zero_and_can_fail_open() {
    let limit = |metric, max_value| Condition { metric, max_value };
    let mut filter = UtilizationFilter::new([
        limit(UtilizationMetric::ActiveRequests, 1.0),
        limit(UtilizationMetric::RunningRequests, 2.0),
    ]);
    let mut scene = Scene::of(3)
        .active(&[Some(2), None, Some(1)])
        .running(&[0, 3, 2]);
    assert_eq!(scene.kept(&mut filter), "c");
    let mut busy = Scene::of(2).active(&[Some(2), Some(3)]);
    assert_eq!(busy.kept(&mut filter), "");
    filter.fallback_on_empty = true;
    assert_eq!(busy.kept(&mut filter), "ab");
}

#[test]
fn attributes_are_compared_and_missing_ones_pass_or_not() {
    let mut scene = Scene::of(4);
    for (position, number) in [(0, 1.0), (1, 2.0), (2, 3.0)] {
        scene.signals.numbers.set("gpu/dcgm", position, number);
    }
    let mut kept = |operator| {
        let mut filter = EndpointAttributeFilter::new("gpu", "dcgm", operator, 2.0);
        filter.on_missing = OnMissing::Drop;
        scene.kept(&mut filter)
    };
    assert_eq!(kept(Operator::Less), "a");
    assert_eq!(kept(Operator::LessOrEqual), "ab");
    assert_eq!(kept(Operator::Greater), "c");
    assert_eq!(kept(Operator::GreaterOrEqual), "bc");
    assert_eq!(kept(Operator::Equal), "b");
    assert_eq!(kept(Operator::NotEqual), "ac");
    let mut passing = EndpointAttributeFilter::new("gpu", "dcgm", Operator::Less, 2.0);
    assert_eq!(scene.kept(&mut passing), "ad");
    let mut impossible = EndpointAttributeFilter::new("gpu", "dcgm", Operator::Less, 0.0);
    impossible.on_missing = OnMissing::Drop;
    assert_eq!(scene.kept(&mut impossible), "");
    impossible.fallback_on_empty = true;
    assert_eq!(scene.kept(&mut impossible), "abcd");
}

#[test]
fn topology_keeps_neighbours_of_the_peer_if_there_are_any() {
    let kept = |min_affinity, labels: [Option<&str>; 3], peer| {
        let mut scene = Scene::of(3).label("topology.kubernetes.io/zone", &labels);
        let mut filter = TopologyAffinityFilter {
            min_affinity,
            ..TopologyAffinityFilter::default()
        };
        let request = scene.request.clone();
        let mut cx = scene.context();
        cx.peer = peer;
        let mut candidates = vec![1, 2];
        filter.filter(&request.view(), &mut candidates, &mut cx);
        letters(&candidates)
    };
    let labels = [Some("x"), Some("y"), Some("x")];
    assert_eq!(kept(Proximity::Zone, labels, Some(0)), "c");
    assert_eq!(kept(Proximity::Region, labels, Some(0)), "c");
    assert_eq!(kept(Proximity::Host, labels, Some(0)), "bc");
    assert_eq!(kept(Proximity::Zone, labels, None), "bc");
    assert_eq!(kept(Proximity::Zone, [None; 3], Some(0)), "bc");
}

#[test]
fn ranges_of_context_length_filter_only_if_enabled() {
    let ranges = ["0-99", "100-100", "101-200", "bad", "9-3"].map(Some);
    let ranges = [&ranges[..], &[None]].concat();
    let mut scene = Scene::of(6).label("llm-d.ai/context-length-range", &ranges);
    let mut filter = ContextLengthAware::default();
    assert_eq!(scene.kept(&mut filter), "abcdef");
    filter.enable_filtering = true;
    assert_eq!(scene.kept(&mut filter), "bf");
}

#[test]
fn a_closure_is_a_filter() {
    let mut idle = |_: &RequestView<'_>, endpoint: &EndpointView| endpoint.running == 0;
    assert_eq!(Scene::of(3).running(&[0, 1, 0]).kept(&mut idle), "ac");
}

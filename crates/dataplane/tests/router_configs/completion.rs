//! What llm-d adds to a file, and what it makes of names.

use foretoken_dataplane::config::{BuildOptions, RouterConfig};
use foretoken_dataplane::gateway::{EngineMetrics, GatewayEvent};
use foretoken_dataplane::pipeline::pickers::Ties;
use foretoken_dataplane::{Admission, EndpointId, Gateway, Response};
use foretoken_des_kernel::SimDuration;
use foretoken_workload::{ObjectivePriority, RejectReason, RequestId};

use super::support::{
    NOW, config, gateway, gateway_with, pool, read, request, route, submit, with_priority,
};

fn lines(body: &str) -> Vec<String> {
    let text = config(body).to_string();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn without_profiles_there_is_one_of_everything_listed() {
    let body = "
plugins:
- type: decode-filter
- type: queue-scorer
- type: random-picker
- {type: context-length-aware, parameters: {enableFiltering: true}}
- type: prefix-cache-scorer
";
    assert_eq!(
        lines(body)[0],
        "profile default: decode-filter, context-length-aware, 1 queue-scorer, \
         1 context-length-aware, 1 prefix-cache-scorer, random-picker"
    );
    let empty_list = format!("{body}schedulingProfiles: []\n");
    assert_eq!(lines(body), lines(&empty_list));
}

#[test]
fn a_detector_listed_for_other_purposes_becomes_a_filter() {
    let body = "
plugins:
- {name: gate, type: concurrency-detector, parameters: {maxConcurrency: 1}}
- type: queue-scorer
flowControl: {saturationDetector: {pluginRef: gate}}
";
    let config = config(body);
    let mut gateway = gateway(&config, pool(&[""]));
    assert_eq!(route(&mut gateway, request(0, 0, 64)), 0);
    let refused = submit(&mut gateway, request(1, 0, 64));
    assert_eq!(refused, Some(Err(RejectReason::NoCandidate)));
    let low = submit(&mut gateway, with_priority(request(2, 0, 64), -1));
    assert_eq!(low, Some(Err(RejectReason::Saturated)));
}

#[test]
fn a_profile_without_a_picker_gets_the_first_one_listed() {
    let body = "
plugins:
- type: queue-scorer
- type: weighted-random-picker
- type: random-picker
schedulingProfiles:
- {name: a, plugins: [{pluginRef: queue-scorer}]}
";
    let expected = "profile a: 1 queue-scorer, weighted-random-picker";
    assert_eq!(lines(body)[0], expected);
    let without = "
plugins: [{type: queue-scorer}]
schedulingProfiles:
- {name: a, plugins: [{pluginRef: queue-scorer}]}
";
    assert_eq!(
        lines(without)[0],
        "profile a: 1 queue-scorer, max-score-picker"
    );
}

#[test]
fn needed_producers_come_in_the_order_of_their_dependence() {
    let body = "
plugins:
- type: latency-scorer
- {name: mine, type: predicted-latency-producer}
- {name: counts, type: inflight-load-producer, parameters: {prefixMatchInfoProducerName: index}}
- {name: index, type: precise-prefix-cache-producer}
";
    assert_eq!(
        lines(body)[1],
        "producers: index (precise-prefix-cache-producer), approx-prefix-cache-producer, \
         counts (inflight-load-producer), inflight-load-producer, \
         mine (predicted-latency-producer), predicted-latency-producer"
    );
    // Listed in any order, each is there once.
    let body = "
plugins:
- type: inflight-load-producer
- type: approx-prefix-cache-producer
- type: token-load-scorer
- type: prefix-cache-affinity-filter
";
    assert_eq!(
        lines(body)[1],
        "producers: approx-prefix-cache-producer, inflight-load-producer"
    );
    assert_eq!(lines("plugins: [{type: queue-scorer}]").len(), 2);
}

#[test]
fn a_detector_that_reads_another_producer_reads_zero_for_ever() {
    let body = |detector: &str| {
        format!(
            "
featureGates: [flowControl]
plugins:
- {{name: counts, type: inflight-load-producer}}
- {{name: gate, type: concurrency-detector, parameters: {{maxConcurrency: 1{detector}}}}}
- type: queue-scorer
schedulingProfiles: [{{name: default, plugins: [{{pluginRef: queue-scorer}}]}}]
flowControl: {{saturationDetector: {{pluginRef: gate}}}}
"
        )
    };
    let passed = |body: &str| {
        let mut gateway = gateway(&config(body), pool(&[""]));
        let answers = (0..5).map(|id| submit(&mut gateway, request(id, 0, 64)));
        answers.flatten().count()
    };
    assert_eq!(passed(&body(", inFlightLoadProducerName: counts")), 1);
    let wrong = body(", inFlightLoadProducerName: count");
    assert_eq!(passed(&wrong), 5, "no protection");
    assert_eq!(
        config(&wrong).warnings(),
        ["line 7: no plugin is named count: its counters read zero for ever"]
    );
}

#[test]
fn profiles_share_an_instance_and_what_it_remembers() {
    let body = "
plugins:
- type: header-profile-handler
- {name: sticky, type: session-affinity-scorer, parameters: {strategy: session_id}}
- type: queue-scorer
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: sticky, weight: 2}, {pluginRef: queue-scorer}]}
- {name: other, plugins: [{pluginRef: sticky, weight: 2}, {pluginRef: queue-scorer}]}
";
    let mut gateway = gateway(&config(body), pool(&["", ""]));
    let busy = |gateway: &mut Gateway, endpoint| {
        for id in 0..2 {
            let metrics = EngineMetrics {
                queued: u32::from(id == endpoint),
                ..EngineMetrics::default()
            };
            gateway.scraped(EndpointId::new(id), NOW, &metrics);
        }
    };
    let of = |id, profile: &str| {
        let mut request = request(id, 0, 64);
        let headers = [("x-session-id", "s"), ("EPP-Profile", profile)];
        request.headers = headers.into_iter().collect();
        request
    };
    busy(&mut gateway, 0);
    assert_eq!(route(&mut gateway, of(0, "decode")), 1);
    busy(&mut gateway, 1);
    assert_eq!(route(&mut gateway, of(1, "other")), 1);
    let unknown = submit(&mut gateway, of(2, "third"));
    assert_eq!(unknown, Some(Err(RejectReason::NoCandidate)));
}

#[test]
fn times_to_live_follow_each_other_and_zero_is_never() {
    let flow = |flow: &str| {
        let body = format!("featureGates: [flowControl]\nflowControl: {flow}\n");
        let text = config(&body).to_string();
        let (_, waits) = text.split_once("waits ").expect("it says so");
        let (waits, _) = waits.split_once('\n').expect("there are more lines");
        waits.to_owned()
    };
    assert_eq!(flow("{}"), "60 s (60 s without endpoints)");
    let only_one = flow("{defaultRequestTTL: 5s}");
    assert_eq!(only_one, "5 s (5 s without endpoints)");
    let other = flow("{noEndpointRequestTTL: 500ms}");
    assert_eq!(other, "60 s (0.5 s without endpoints)");
    let never = flow("{defaultRequestTTL: 0s, noEndpointRequestTTL: 1m30s}");
    assert_eq!(never, "for ever (90 s without endpoints)");
}

#[test]
fn limits_of_zero_are_not_set() {
    let body = "
featureGates: [flowControl=true]
flowControl:
  maxBytes: 0
  maxRequests: 0
  priorityBands:
  - {priority: 1, maxBytes: 0, maxRequests: 0}
  - {priority: 2, maxBytes: 1Ki, maxRequests: 3}
  defaultNegativePriorityBand: {maxRequests: 7}
";
    let limits = |line: &str| {
        let lines = lines(body);
        let found = lines.iter().find_map(|l| l.strip_prefix(line));
        found.expect("there is such a line").to_owned()
    };
    let usual = ": global-strict-fairness-policy, fcfs-ordering-policy";
    let full = format!("{usual}, 5000 requests, 1000000000 bytes");
    assert_eq!(limits("band 1"), full);
    assert_eq!(limits("band 2"), format!("{usual}, 3 requests, 1024 bytes"));
    assert_eq!(limits("other bands"), full);
    assert_eq!(
        limits("other negative bands"),
        format!("{usual}, 7 requests, 1000000000 bytes")
    );
    assert!(limits("flow control").ends_with("policy, waits 60 s (60 s without endpoints)"));
}

#[test]
fn without_the_gate_admission_is_legacy() {
    for (gates, is_flow) in [
        ("[]", false),
        ("[flowControl]", true),
        ("[flowControl=false]", false),
        (
            "[flowControl=true, haPopulateNonLeaderDatastore=false]",
            true,
        ),
    ] {
        let config = config(&format!("featureGates: {gates}\n"));
        let admission = config.build(&BuildOptions::default()).admission;
        assert_eq!(matches!(admission, Admission::Flow(_)), is_flow, "{gates}");
    }
}

#[test]
fn what_bears_the_name_of_a_default_is_the_default() {
    let body = "
featureGates: [flowControl]
plugins:
- {type: static-usage-limit-policy, parameters: {threshold: 0.5}}
- {name: mine, type: static-usage-limit-policy, parameters: {threshold: 0.2}}
";
    let admission = config(body).build(&BuildOptions::default()).admission;
    let Admission::Flow(mut flow) = admission else {
        panic!("flow control is on");
    };
    let mut blocked = |saturation| {
        let cycle = flow.cycle_at(NOW, saturation);
        cycle.expect("sensible answers").blocked.is_some()
    };
    assert!(!blocked(0.4));
    assert!(blocked(0.5));
}

#[test]
fn default_policies_may_be_named_without_being_listed() {
    let body = "
featureGates: [flowControl]
flowControl:
  usageLimitPolicyPluginRef: static-usage-limit-policy
  saturationDetector: {pluginRef: utilization-detector}
  priorityBands:
  - {priority: 0, fairnessPolicyRef: global-strict-fairness-policy, orderingPolicyRef: fcfs-ordering-policy}
";
    assert!(config(body).warnings().is_empty());
}

#[test]
fn options_reach_the_gateway() {
    let options = BuildOptions::default()
        .objective("batch", ObjectivePriority::new(-1))
        .decision_time(SimDuration::from_millis(1));
    let config = config("plugins: [{type: active-request-scorer}]");
    let policies = config.build(&options);
    assert_eq!(policies.decision_time.as_nanos(), 1_000_000);
    assert_eq!(policies.objectives.len(), 1);
    let mut endpoints = pool(&[""]);
    endpoints[0].queued = 100;
    let mut gateway = gateway_with(&config, endpoints, &options);
    let mut batch = request(0, 0, 64);
    batch.headers = [("x-llm-d-inference-objective", "batch")]
        .into_iter()
        .collect();
    let refused = submit(&mut gateway, batch);
    assert_eq!(refused, Some(Err(RejectReason::Saturated)));
}

#[test]
fn objectives_have_bands_from_the_start() {
    let options = BuildOptions::default().objective("urgent", ObjectivePriority::new(5));
    let policies = config("featureGates: [flowControl]").build(&options);
    let Admission::Flow(flow) = policies.admission else {
        panic!("flow control is on");
    };
    let bands: Vec<_> = flow.bands().map(|(band, _)| band.get()).collect();
    assert_eq!(bands, [5, 0]);
}

#[test]
fn configurations_cross_threads() {
    fn crosses<T: Send + Sync + Clone>(_: &T) {}
    crosses(&config(""));
    crosses(&BuildOptions::default());
}

#[test]
fn silence_is_forgiven_only_with_the_option() {
    let config = config("plugins: [{type: active-request-scorer}]");
    let silence = SimDuration::from_secs(300);
    for (options, expected) in [
        (BuildOptions::default(), 1),
        (BuildOptions::default().drop_silent_after(silence), 0),
    ] {
        let mut gateway = gateway_with(&config, pool(&["", ""]), &options.ties(Ties::First));
        assert_eq!(route(&mut gateway, request(0, 0, 64)), 0);
        let later = NOW + SimDuration::from_secs(900);
        let mut endpoint = None;
        let submitted = gateway.submit(later, request(1, 0, 64), &mut |event| {
            if let GatewayEvent::Dispatch { placement, .. } = event {
                endpoint = Some(placement.endpoint.get());
            }
        });
        submitted.expect("sensible answers");
        assert_eq!(endpoint, Some(expected));
        gateway.responded(later, RequestId::new(0), Response::End { output_tokens: 1 });
    }
}

#[test]
fn every_version_of_the_api_is_read() {
    for version in [
        "llm-d.ai/v1alpha1",
        "inference.networking.x-k8s.io/v1alpha1",
        "llm-d.ai/v1",
    ] {
        let yaml = format!("apiVersion: {version}\nkind: EndpointPickerConfig\n");
        assert!(RouterConfig::from_yaml(&yaml).is_ok());
    }
    assert!(read("metadata: {name: mine}").is_ok());
}

//! What is accepted with a word.

use super::support::{config, gateway, pool, read, request, route};

fn warnings(body: &str) -> Vec<String> {
    config(body).warnings().to_vec()
}

#[test]
fn what_llm_d_would_say_and_what_has_no_effect() {
    for (body, expected) in [
        (
            "plugins: [{type: topology-affinity-filter}]",
            "line 3: plugin topology-affinity-filter: type topology-affinity-filter needs \
             --allow-experimental-plugins in llm-d",
        ),
        (
            "plugins: [{type: by-label, parameters: {label: a, validValues: [b]}}]",
            "line 3: plugin by-label: type by-label is deprecated: use label-selector-filter",
        ),
        (
            "plugins: [{type: tokenizer, parameters: {anything: [goes]}}]",
            "line 3: plugin tokenizer: type tokenizer is accepted and has no effect here",
        ),
        (
            "plugins: [{type: multicluster-queue-scorer}]",
            "line 3: plugin multicluster-queue-scorer: type multicluster-queue-scorer is accepted and \
             has no effect here",
        ),
        (
            "plugins: [{type: passthrough-parser}]",
            "line 3: plugin passthrough-parser: the simulated router knows the tokens of all prompts \
             nevertheless",
        ),
        (
            "plugins: [{type: active-request-scorer, parameters: {requestTimeout: 5m}}]",
            "line 3: plugin active-request-scorer: requestTimeout is ignored: counters are bound to \
             connections",
        ),
        (
            "plugins: [{type: no-hit-lru-scorer, parameters: {prefixPluginType: x}}]",
            "line 3: plugin no-hit-lru-scorer: prefixPluginType is ignored: matches are found by the \
             name of their producer",
        ),
        (
            "plugins: [{type: approx-prefix-cache-producer, parameters: {blockSize: 128}}]",
            "line 3: plugin approx-prefix-cache-producer: blockSize is deprecated: it is called \
             blockSizeTokens",
        ),
        (
            "plugins: [{type: utilization-detector}]\nsaturationDetector: {pluginRef: utilization-detector}",
            "line 4: saturationDetector is deprecated here: it belongs into flowControl",
        ),
        (
            "plugins: [{type: openai-parser}]\nparser: {pluginRef: openai-parser}",
            "line 4: parser is deprecated here: it belongs into requestHandler.parsers",
        ),
        (
            "plugins: [{type: disagg-profile-handler, parameters: {prefillProfile: p}}]\nschedulingProfiles: [{name: decode}, {name: p}]",
            "profile p is not named prefill: prefix indexes and in-flight counters do not know its \
             picks for what they are",
        ),
        (
            "plugins: [{type: disagg-profile-handler, parameters: {decodeProfile: default}}]",
            "line 3: plugin disagg-profile-handler: decodeProfile is deprecated: profiles and deciders \
             have sections",
        ),
        (
            "flowControl: {maxRequests: 5}",
            "flowControl has no effect without the feature gate flowControl",
        ),
        (
            "plugins: [{name: rr, type: round-robin-fairness-policy}]",
            "line 3: plugin rr is used nowhere",
        ),
        (
            "plugins: [{type: decode-filter}]\nschedulingProfiles:\n- name: a\n  plugins: [{pluginRef: decode-filter, weight: 2}]",
            "line 6: plugin decode-filter is no scorer: its weight has no effect",
        ),
        (
            "plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: a\n  plugins: [{pluginRef: queue-scorer, weight: -2}]",
            "line 6: plugin queue-scorer has a negative weight: the higher its score, the lower the total",
        ),
        (
            "plugins: [{type: inflight-load-producer}]\nschedulingProfiles:\n- name: a\n  plugins: [{pluginRef: inflight-load-producer}]",
            "line 6: plugin inflight-load-producer is no filter, scorer or picker: it has no effect in a profile",
        ),
    ] {
        let warnings = warnings(body);
        assert!(
            warnings.iter().any(|w| w == expected),
            "{body}: {warnings:?}"
        );
    }
}

#[test]
fn the_encode_stage_is_worth_one_word() {
    let body = "
plugins:
- {type: disagg-profile-handler, parameters: {profiles: {decode: default}, deciders: {encode: media}}}
- {name: media, type: always-disagg-multimodal-decider}
";
    assert_eq!(
        warnings(body),
        [
            "line 5: plugin disagg-profile-handler: the encode stage is never run: simulated requests \
          have no media"
        ]
    );
}

#[test]
fn a_negative_weight_is_used_as_given() {
    let body = "
plugins: [{type: queue-scorer}]
schedulingProfiles:
- {name: a, plugins: [{pluginRef: queue-scorer, weight: -1}]}
";
    let mut endpoints = pool(&["", ""]);
    endpoints[1].queued = 5;
    let mut gateway = gateway(&config(body), endpoints);
    assert_eq!(route(&mut gateway, request(0, 0, 64)), 1);
}

#[test]
fn every_type_that_has_no_effect_is_accepted() {
    for kind in [
        "openai-parser",
        "anthropic-parser",
        "vllmhttp-parser",
        "vllmgrpc-parser",
        "sglanghttp-parser",
        "vertexai-parser",
        "passthrough-parser",
        "metrics-data-source",
        "core-metrics-extractor",
        "models-data-source",
        "models-data-extractor",
        "dcgm-data-source",
        "dcgm-extractor",
        "endpoint-notification-source",
        "k8s-notification-source",
        "topology-extractor",
        "file-discovery",
        "disagg-headers-handler",
        "prefill-header-handler",
        "agent-identity",
        "session-id-producer",
        "request-attribute-reporter",
        "disaggregatedset-rollout-screener",
        "sheddable-eviction-filter",
        "priority-then-time-eviction-order-policy",
        "token-producer",
        "tokenizer",
        "burst-prefix-cache-producer",
        "p2p-source-producer",
    ] {
        let read = read(&format!(
            "plugins: [{{type: {kind}, parameters: {{a: [1]}}}}]"
        ));
        assert_eq!(read.map(|config| config.warnings().len()), Ok(1), "{kind}");
    }
}

#[test]
fn aliases_of_yaml_are_followed() {
    let body = "
plugins:
- {name: a, type: token-load-scorer, parameters: &same {queueThresholdTokens: 5}}
- {name: b, type: token-load-scorer, parameters: *same}
";
    assert!(warnings(body).is_empty());
}

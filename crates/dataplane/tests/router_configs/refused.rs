//! What is refused, and in which words: line, field, value and what would be right.

use foretoken_dataplane::config::RouterConfig;

use super::support::read;

fn refusal(body: &str) -> String {
    match read(body) {
        Ok(config) => panic!("it is read:\n{body}\nas\n{config}"),
        Err(error) => error,
    }
}

/// A test of each text, whose first two lines are the head.
macro_rules! refused {
    ($($test:ident: $body:literal => $error:literal;)+) => {$(
        #[test]
        fn $test() {
            assert_eq!(refusal($body), $error);
        }
    )+};
}

refused! {
    an_unknown_type: "plugins:\n- type: qeue-scorer\n" =>
        "line 4: plugins[0].type: unknown plugin type qeue-scorer: the most similar are queue-scorer, \
         latency-scorer, file-discovery";
    a_missing_type: "plugins:\n- name: a\n" => "line 4: plugins[0]: type is missing";
    a_duplicate_name: "plugins:\n- type: queue-scorer\n- {name: queue-scorer, type: random-picker}\n" =>
        "line 5: plugins[1].type: there is a plugin queue-scorer already, in line 4: names must be unique";
    an_unknown_parameter: "plugins:\n- type: token-load-scorer\n  parameters:\n    queueThreshold: 5\n" =>
        "line 6: plugins[0].parameters.queueThreshold: unknown field queueThreshold: allowed are \
         queueThresholdTokens, inFlightLoadProducerName";
    a_parameter_where_none_is_allowed: "plugins:\n- {type: queue-scorer, parameters: {a: 1}}\n" =>
        "line 4: plugins[0].parameters.a: unknown field a: no fields are allowed here";
    a_wrong_type_of_value: "plugins:\n- {type: token-load-scorer, parameters: {queueThresholdTokens: many}}\n" =>
        "line 4: plugins[0].parameters.queueThresholdTokens: is \"many\": expected a whole number";
    a_value_out_of_range: "plugins:\n- {type: prefix-cache-scorer, parameters: {matchLengthWeight: 1.5}}\n" =>
        "line 4: plugins[0].parameters.matchLengthWeight: is 1.5: allowed is 0 to 1";
    a_threshold_of_zero: "plugins:\n- {type: utilization-detector, parameters: {queueDepthThreshold: 0}}\n" =>
        "line 4: plugins[0].parameters.queueDepthThreshold: is 0: allowed is more than 0";
    an_unknown_choice: "plugins:\n- {type: concurrency-detector, parameters: {concurrencyMode: both}}\n" =>
        "line 4: plugins[0].parameters.concurrencyMode: is both: allowed are requests, tokens, hybrid";
    a_ceiling_out_of_range: "plugins:\n- {type: priority-holdback-policy, parameters: {minCeiling: 1.5}}\n" =>
        "line 4: plugins[0].parameters: minCeiling is 1.5: allowed is 0 or more, and below 1";
    a_missing_ceiling: "plugins:\n- type: priority-holdback-policy\n" =>
        "line 4: plugins[0]: minCeiling is missing";
    a_parameter_of_the_soft_policy: "plugins:\n- {type: soft-reflective-ceiling-policy, parameters: {a: 1}}\n" =>
        "line 4: plugins[0].parameters.a: unknown field a: no fields are allowed here";
    a_dangling_member_of_a_profile: "plugins:\n- type: queue-scorer\nschedulingProfiles:\n- name: a\n  plugins:\n  - pluginRef: queue\n" =>
        "line 8: schedulingProfiles[0].plugins[0].pluginRef: no plugin is named queue: there is only queue-scorer";
    a_dangling_detector: "flowControl:\n  saturationDetector: {pluginRef: gate}\n" =>
        "line 4: flowControl.saturationDetector.pluginRef: no plugin is named gate: there are none";
    a_detector_that_is_none: "plugins:\n- type: queue-scorer\nflowControl:\n  saturationDetector: {pluginRef: queue-scorer}\n" =>
        "line 6: flowControl.saturationDetector.pluginRef: plugin queue-scorer is of type queue-scorer: \
         expected a saturation detector";
    a_dangling_fairness_policy: "flowControl:\n  priorityBands:\n  - {priority: 1, fairnessPolicyRef: rr}\n" =>
        "line 5: flowControl.priorityBands[0].fairnessPolicyRef: no plugin is named rr: there are none";
    a_dangling_decider: "plugins:\n- {type: disagg-profile-handler, parameters: {deciders: {prefill: x}}}\n- type: always-disagg-pd-decider\n" =>
        "line 4: plugins[0].parameters.deciders.prefill: no plugin is named x: the most similar are \
         disagg-profile-handler, always-disagg-pd-decider";
    a_decider_with_prefill_first: "plugins:\n- {type: disagg-profile-handler, parameters: {stageOrder: prefill-first, deciders: {prefill: x}}}\n" =>
        "line 4: plugins[0].parameters.deciders.prefill: no decider about prefill is allowed with stageOrder \
         prefill-first";
    a_dangling_prefix_producer: "plugins:\n- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: x}}\n" =>
        "line 4: plugins[0].parameters.prefixMatchInfoProducerName: no plugin is named x: there is only \
         prefix-cache-scorer";
    a_dangling_parser: "requestHandler:\n  parsers: [{pluginRef: openai-parser}]\n" =>
        "line 4: requestHandler.parsers[0].pluginRef: no plugin is named openai-parser: there are none";
    a_missing_decode_profile: "plugins:\n- type: disagg-profile-handler\n- type: queue-scorer\n" =>
        "line 4: plugins[0].type: no profile is named decode: there is only default";
    several_profiles_without_a_handler: "schedulingProfiles:\n- name: a\n- name: b\n" =>
        "line 5: schedulingProfiles[1].name: a second profile needs a profile handler among the plugins, as \
         disagg-profile-handler";
    several_profiles_for_a_single_handler: "plugins:\n- type: single-profile-handler\nschedulingProfiles:\n- name: a\n- name: b\n" =>
        "line 4: plugins[0].type: there are 2 profiles: a single-profile-handler runs a single one";
    two_handlers: "plugins:\n- type: single-profile-handler\n- type: header-profile-handler\n" =>
        "line 5: plugins[1].type: there are two profile handlers, single-profile-handler and \
         header-profile-handler: allowed is one";
    two_pickers: "plugins:\n- type: max-score-picker\n- type: random-picker\n" =>
        "line 5: plugins[1].type: profile default has two pickers, max-score-picker and random-picker: \
         allowed is one";
    two_profiles_of_one_name: "plugins: []\nschedulingProfiles:\n- name: a\n- name: a\n" =>
        "line 6: schedulingProfiles[1].name: there is a profile a already: names must be unique";
    two_bands_of_one_priority: "flowControl:\n  priorityBands:\n  - priority: 1\n  - priority: 1\n" =>
        "line 6: flowControl.priorityBands[1]: there is a band 1 already: allowed is one";
    a_band_without_priority: "flowControl:\n  priorityBands:\n  - maxRequests: 1\n" =>
        "line 5: flowControl.priorityBands[0]: priority is missing";
    a_priority_beyond_32_bits: "flowControl:\n  priorityBands:\n  - priority: 3000000000\n" =>
        "line 5: flowControl.priorityBands[0].priority: is 3000000000: beyond 32 bits";
    a_huge_number: "plugins:\n- {type: token-load-scorer, parameters: {queueThresholdTokens: 99999999999999999999}}\n" =>
        "line 4: plugins[0].parameters.queueThresholdTokens: is 100000000000000000000: expected a whole number";
    a_negative_limit: "flowControl:\n  maxRequests: -1\n" =>
        "line 4: flowControl.maxRequests: is -1: expected a quantity, as 1000, 4k or 10Gi";
    a_bare_duration: "flowControl:\n  defaultRequestTTL: 60\n" =>
        "line 4: flowControl.defaultRequestTTL: is 60: expected a duration, as 200ms or 1m30s";
    an_unknown_gate: "featureGates: [flowcontrol]\n" =>
        "line 3: featureGates[0]: unknown feature gate flowcontrol: allowed are flowControl, \
         haPopulateNonLeaderDatastore";
    an_unknown_section: "plugin: []\n" =>
        "line 3: plugin: unknown field plugin: allowed are apiVersion, kind, featureGates, plugins, \
         schedulingProfiles, flowControl, saturationDetector, dataLayer, requestHandler, parser, metadata";
    plugins_that_are_no_list: "plugins: queue-scorer\n" => "line 3: plugins: is \"queue-scorer\": expected a list";
    operators_without_values: "plugins:\n- {type: label-selector-filter, parameters: {matchExpressions: [{key: a, operator: In}]}}\n" =>
        "line 4: plugins[0].parameters.matchExpressions[0].operator: needs values: at least one is required";
}

#[test]
fn heads_are_checked() {
    let refusal = |yaml: &str| match RouterConfig::from_yaml(yaml) {
        Ok(_) => panic!("it is read: {yaml}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(refusal(""), "line 1: the document: apiVersion is missing");
    assert_eq!(
        refusal("# nothing\n"),
        "line 2: the document: apiVersion is missing"
    );
    assert_eq!(
        refusal("apiVersion: v1\nkind: EndpointPickerConfig\n"),
        "line 1: apiVersion: is v1: allowed are llm-d.ai/v1alpha1, \
         inference.networking.x-k8s.io/v1alpha1, llm-d.ai/v1"
    );
    assert_eq!(
        refusal("apiVersion: llm-d.ai/v1\nkind: Pod\n"),
        "line 2: kind: is Pod: allowed is EndpointPickerConfig"
    );
    assert_eq!(
        refusal("just text"),
        "line 1: the document: is \"just text\": expected a mapping"
    );
    for no_yaml in ["a: [1", "a:\n\t- b\n", "a: 1\na: 2\n", "a: *nowhere\n"] {
        let error = refusal(no_yaml);
        assert!(
            error.starts_with("not valid YAML: "),
            "{no_yaml:?}: {error}"
        );
    }
}

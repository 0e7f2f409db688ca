//! Parameters that reach their plugins, in all their spellings.

use foretoken_dataplane::config::BuildOptions;
use foretoken_dataplane::signals::{APPROXIMATE_PREFIX, PRECISE_PREFIX, Signals};

use super::support::{NOW, config, gateway, pool, request, route, submit};

/// Every parameter of the specification at once: all are read.
#[test]
fn all_parameters_are_known() {
    let plugins = [
        "load-aware-scorer, parameters: {threshold: 64}",
        "active-request-scorer, parameters: {idleThreshold: 1, maxBusyScore: 0.5, inFlightLoadProducerName: inflight-load-producer}",
        "token-load-scorer, parameters: {queueThresholdTokens: 1000}",
        "prefix-cache-scorer, parameters: {matchLengthWeight: 0.5, matchLengthScaleTokens: 100, prefixMatchInfoProducerName: approx-prefix-cache-producer}",
        "no-hit-lru-scorer, parameters: {lruSize: 5}",
        "session-affinity-scorer, parameters: {strategy: session_id, sources: [x-a, {header: x-b}], evictionTtlSeconds: 5, evictionSweepSeconds: 1, profileName: default}",
        "session-affinity-filter, parameters: {strategy: encoded_endpoint_header}",
        "context-length-aware, parameters: {label: a, enableFiltering: true}",
        "latency-scorer, parameters: {ttftWeight: 1, tpotWeight: 0, headroomSelectionStrategy: most, compositeKVWeight: 2, compositeQueueWeight: 1, compositePrefixWeight: 0}",
        "header-label-affinity-scorer, parameters: {headerName: a, labelKey: b}",
        "label-selector-filter, parameters: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: In, values: [d]}, {key: e, operator: Exists}]}",
        "by-label-selector, parameters: {matchLabels: {a: b}}",
        "prefix-cache-affinity-filter, parameters: {affinityThreshold: 0, explorationProbability: 0.1, maxTTFTPenaltyMs: 0, ttftSource: prefillThroughput, peakPrefillThroughput: 1000}",
        "slo-headroom-tier-filter, parameters: {epsilonExploreNeg: 0}",
        "utilization-filter, parameters: {conditions: [{metric: active-requests, maxValue: 5}], fallbackOnEmpty: true}",
        "endpoint-attribute-filter, parameters: {attribute: a, producer: b, onMissing: Drop, fallbackOnEmpty: true, algorithm: {type: threshold, threshold: {operator: LessThan, value: 5}}}",
        "topology-affinity-filter, parameters: {minAffinity: zone}",
        "weighted-random-picker, parameters: {maxNumOfEndpoints: 3}",
        "data-parallel-profile-handler, parameters: {primaryPort: 8000}",
        "prefix-based-pd-decider, parameters: {nonCachedTokens: 16, promptTokens: 100}",
        "approx-prefix-cache-producer, parameters: {autoTune: false, blockSizeTokens: 128, maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 10, lruCapacityPerServer: 5}",
        "precise-prefix-cache-producer, parameters: {tokenProcessorConfig: {blockSize: 16, hashSeed: '42', hashAlgorithm: xxh64}, indexerConfig: {kvBlockIndexConfig: {inMemoryConfig: {size: 5, podCacheSize: 2}}, kvCacheBackendConfigs: [{name: gpu, weight: 1.0}]}, kvEventsConfig: {socketPort: 5557, topicFilter: kv@, concurrency: 4, engineType: vllm}, speculativeIndexing: true, speculativeTTL: 3s}",
        "inflight-load-producer, parameters: {addEstimatedOutputTokens: true, outputRatio: 2, maxEstimatedOutputTokens: 10, syncCrossReplicaState: true}",
        "predicted-latency-producer, parameters: {sloBufferFactor: 2, contextTTL: 5m, streamingMode: true, predictInProduce: true, endpointRoleLabel: a, samplingMean: 5, maxDecodeTokenSamplesForPrediction: 3}",
        "utilization-detector, parameters: {queueDepthThreshold: 5, kvCacheUtilThreshold: 0.8, metricsStalenessThreshold: 200ms, headroom: 0.1}",
        "concurrency-detector, parameters: {maxConcurrency: 5, maxTokenConcurrency: 100, concurrencyMode: hybrid, headroom: 0.2}",
        "probabilistic-admitter, parameters: {queueDepthThreshold: 5, kvCacheUtilThreshold: 0.8, power: 5, k: 300}",
        "program-aware-fairness, parameters: {strategy: las, lasWeightService: 0.8, lasWeightHeadWait: 0.2, lasHalfLifeSeconds: 0, evictionTtlSeconds: 5, evictionSweepSeconds: 2}",
        "static-usage-limit-policy, parameters: {threshold: 0.9}",
        "priority-holdback-policy, parameters: {minCeiling: 0.5, maxCeiling: 0.9, shape: linear, domain: value}",
        "mm-embeddings-cache-scorer, parameters: {producerName: a}",
    ];
    let plugins: Vec<_> = plugins.map(|plugin| format!("- {{type: {plugin}}}")).into();
    let config = config(&format!("plugins:\n{}\n", plugins.join("\n")));
    config.build(&BuildOptions::default());
}

/// The columns of prefix matches that the producers of a configuration write for a prompt.
fn matches(body: &str, tokens: u32, producer: &str) -> Option<(u32, u32)> {
    let mut policies = config(body).build(&BuildOptions::default());
    let (endpoints, request) = (pool(&[""]), request(0, 0, tokens));
    let mut signals = Signals::new();
    for producer in &mut policies.producers {
        producer.produce(Some(&request.view()), &endpoints, NOW, &mut signals);
    }
    let found = signals.prefix.get(producer, 0)?;
    Some((found.total, found.block_size))
}

#[test]
fn old_spellings_of_block_sizes_count_where_the_new_ones_do_not() {
    let approximate = |parameters: &str| {
        let body = format!(
            "plugins: [{{type: approx-prefix-cache-producer, parameters: {{{parameters}}}}}]"
        );
        matches(&body, 512, APPROXIMATE_PREFIX)
    };
    assert_eq!(approximate(""), Some((8, 64)));
    assert_eq!(approximate("blockSize: 128"), Some((4, 128)));
    let both = approximate("blockSize: 128, blockSizeTokens: 16");
    assert_eq!(both, Some((4, 128)));
    let both = approximate("blockSize: 128, blockSizeTokens: 256");
    assert_eq!(both, Some((2, 256)));
    let precise = |parameters: &str| {
        let body = format!(
            "plugins: [{{type: precise-prefix-cache-producer, parameters: \
             {{tokenProcessorConfig: {{{parameters}}}}}}}]"
        );
        matches(&body, 512, PRECISE_PREFIX)
    };
    assert_eq!(precise(""), Some((32, 16)));
    assert_eq!(precise("blockSize: 32"), Some((16, 32)));
    let both = precise("blockSize: 32, blockSizeTokens: 64");
    assert_eq!(both, Some((8, 64)));
}

#[test]
fn the_precise_scorer_is_producer_and_scorer() {
    let body = "
plugins:
- {name: precise, type: precise-prefix-cache-scorer, parameters: {speculativeIndexing: true}}
- type: kv-cache-utilization-scorer
schedulingProfiles:
- {name: a, plugins: [{pluginRef: precise, weight: 3}, {pluginRef: kv-cache-utilization-scorer}]}
";
    let config = config(body);
    let lines: Vec<_> = config.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines[..2],
        [
            "profile a: 3 precise (precise-prefix-cache-scorer), 1 kv-cache-utilization-scorer, \
             max-score-picker",
            "producers: precise (precise-prefix-cache-scorer)"
        ]
    );
    let mut endpoints = pool(&["", ""]);
    endpoints[1].kv_usage = 0.5;
    let mut gateway = gateway(&config, endpoints);
    assert_eq!(route(&mut gateway, request(0, 7, 640)), 0);
}

/// The prefill endpoint of a prompt of so many tokens, in a pool of one prefill and one decode endpoint.
fn prefill(plugins: &str, names: [&str; 2], tokens: u32) -> Option<u32> {
    let [decode, prefill] = names;
    let body = format!(
        "
plugins:
{plugins}
- type: decode-filter
- type: prefill-filter
- {{name: uncached, type: prefix-based-pd-decider, parameters: {{nonCachedTokens: 16}}}}
schedulingProfiles:
- {{name: {decode}, plugins: [{{pluginRef: decode-filter}}]}}
- {{name: {prefill}, plugins: [{{pluginRef: prefill-filter}}]}}
"
    );
    let mut gateway = gateway(&config(&body), pool(&["prefill", "decode"]));
    let answer = submit(&mut gateway, request(0, 0, tokens));
    let placement = answer.expect("no queue").expect("not refused");
    placement.prefill.map(|prefill| prefill.endpoint.get())
}

#[test]
fn stages_are_named_in_new_and_old_spellings() {
    let usual = ["decode", "prefill"];
    for (handler, names) in [
        (
            "- {type: disagg-profile-handler, parameters: {deciders: {prefill: uncached}}}",
            usual,
        ),
        (
            "- {type: disagg-profile-handler, parameters: {prefillDeciderPluginName: uncached}}",
            usual,
        ),
        (
            "- {type: disagg-profile-handler, parameters: {deciderPluginName: uncached}}",
            usual,
        ),
        (
            "- {type: disagg-profile-handler, parameters: {profiles: {decode: d, prefill: p}, deciders: {prefill: uncached}}}",
            ["d", "p"],
        ),
        (
            "- {type: disagg-profile-handler, parameters: {decodeProfile: d, prefillProfile: p, deciderPluginName: uncached}}",
            ["d", "p"],
        ),
        (
            "- {type: pd-profile-handler, parameters: {deciderPluginName: uncached}}",
            usual,
        ),
    ] {
        assert_eq!(prefill(handler, names, 16), Some(0), "{handler}");
        assert_eq!(prefill(handler, names, 15), None, "{handler}");
    }
    let without = "- type: disagg-profile-handler";
    assert_eq!(prefill(without, usual, 640), None);
    let first = "- {type: disagg-profile-handler, parameters: {stageOrder: prefill-first}}";
    assert_eq!(prefill(first, usual, 1), Some(0));
    let usual_decider = "- type: pd-profile-handler\n- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 1}}";
    assert_eq!(prefill(usual_decider, usual, 15), Some(0));
}

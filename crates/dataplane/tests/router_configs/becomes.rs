//! What the shipped files become, as the tables of the specification have it: filters first, then scorers
//! with their weights, then the picker.

use super::support::file;

/// A test of each file.
macro_rules! files {
    ($($test:ident $name:literal: $expected:literal;)+) => {$(
        #[test]
        fn $test() {
            let lines: Vec<_> = $expected.lines().map(str::trim).collect();
            assert_eq!(file($name).to_string().trim(), lines.join("\n").trim());
        }
    )+};
}

files! {
    affinity_with_cap "affinity-with-cap": "
        profile default: cap (concurrency-detector), sticky (prefix-cache-affinity-filter), 1 token-load-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    batch_eviction "batch-eviction": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 3 prefix-cache-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        flow control: concurrency-detector, priority-holdback-policy, waits 300 s (300 s without endpoints), evicts
        band 100: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band 60: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band 30: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band 10: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band -5: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band -10: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        other bands: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes";
    batch_holdback "batch-holdback": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 3 prefix-cache-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        flow control: concurrency-detector, priority-holdback-policy, waits 60 s (60 s without endpoints)
        band 100: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band 60: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band 30: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band 10: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band -5: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band -10: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        other bands: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes";
    builtin_default "builtin-default": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 3 prefix-cache-scorer, max-score-picker
        producers: approx-prefix-cache-producer
        admission: utilization-detector";
    classic_mix "classic-mix": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 3 prefix-cache-scorer, 1 no-hit-lru-scorer, weighted-random-picker
        producers: approx-prefix-cache-producer
        admission: utilization-detector";
    data_parallel "data-parallel": "
        profile default: 2 prefix-cache-scorer, max-score-picker
        producers: approx-prefix-cache-producer
        admission: utilization-detector";
    disaggregated "disaggregated": "
        profile prefill: prefill-filter, prefix-cache-affinity-filter, 1 token-load-scorer, max-score-picker
        profile decode: decode-filter, 1 active-request-scorer, max-score-picker
        stages: decode, then prefill if always-disagg-pd-decider
        producers: approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    disaggregated_sample "disaggregated-sample": "
        profile prefill: prefill-filter, 2 prefix-cache-scorer, 1 queue-scorer, max-score-picker
        profile decode: decode-filter, 2 prefix-cache-scorer, 1 queue-scorer, max-score-picker
        stages: decode, then prefill if prefix-based-pd-decider
        producers: approx-prefix-cache-producer
        admission: utilization-detector";
    disaggregated_uncached "disaggregated-uncached": "
        profile prefill: prefill-filter, 2 prefix-cache-scorer, 1 token-load-scorer, max-score-picker
        profile decode: decode-filter, 1 active-request-scorer, max-score-picker
        stages: decode, then prefill if long-uncached (prefix-based-pd-decider)
        producers: approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    flow_control "flow-control": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 3 prefix-cache-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        flow control: concurrency-detector, static-usage-limit-policy, 1000 requests, 10737418240 bytes, waits 60 s (60 s without endpoints)
        band 100: round-robin-fairness-policy, fcfs-ordering-policy, 500 requests, 1000000000 bytes
        band 0: round-robin-fairness-policy, fcfs-ordering-policy, 200 requests, 1000000000 bytes
        band -10: round-robin-fairness-policy, fcfs-ordering-policy, 50 requests, 1000000000 bytes
        other bands: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes";
    gpu_telemetry "gpu-telemetry": "
        profile default: 2 gpu-utilization (endpoint-attribute-scorer), 1 kv-cache-utilization-scorer, max-score-picker
        admission: utilization-detector";
    multi_turn_coding "multi-turn-coding": "
        profile default: prefix-cache-affinity-filter, 1 token-load-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    optimized_baseline "optimized-baseline": "
        profile default: prefix-cache-affinity-filter, 1 token-load-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    optimized_baseline_older "optimized-baseline-older": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 3 prefix-cache-scorer, 2 no-hit-lru-scorer, max-score-picker
        producers: approx-prefix-cache-producer
        admission: utilization-detector";
    payload_agnostic "payload-agnostic": "
        profile default: 1 active-request-scorer, 1 session-affinity-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    precise_prefix "precise-prefix": "
        profile default: decode-filter, 2 kv-cache-utilization-scorer, 2 queue-scorer, 3 prefix-cache-scorer, 2 no-hit-lru-scorer, max-score-picker
        producers: precise-prefix-cache-producer
        admission: utilization-detector";
    precise_prefix_performance "precise-prefix-performance": "
        profile default: 4 active-request-scorer, 2 kv-cache-utilization-scorer, 2 prefix-cache-scorer, 2 no-hit-lru-scorer, max-score-picker
        producers: precise-prefix-cache-producer, approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    precise_prefix_performance_later "precise-prefix-performance-later": "
        profile default: 4 active-request-scorer, 2 kv-cache-utilization-scorer, 2 prefix-cache-scorer, 2 no-hit-lru-scorer, max-score-picker
        producers: precise-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
    precise_prefix_sample "precise-prefix-sample": "
        profile default: decode-filter, 2 prefix-cache-scorer, 1 kv-cache-utilization-scorer, 1 queue-scorer, max-score-picker
        producers: precise-prefix-cache-producer
        admission: utilization-detector";
    predicted_latency "predicted-latency": "
        profile default: same-session (prefix-cache-affinity-filter), slo-headroom-tier-filter, same-prefix (prefix-cache-affinity-filter), 1 latency-scorer, weighted-random-picker
        producers: approx-prefix-cache-producer, inflight-load-producer, predicted-latency-producer
        admission: utilization-detector";
    predicted_latency_guide "predicted-latency-guide": "
        profile default: same-session (prefix-cache-affinity-filter), slo-headroom-tier-filter, same-prefix (prefix-cache-affinity-filter), 1 latency-scorer, weighted-random-picker
        producers: approx-prefix-cache-producer, inflight-load-producer, predicted-latency-producer
        admitters: latency-slo-admitter
        admission: utilization-detector";
    probabilistic "probabilistic": "
        profile default: random-picker
        admitters: probabilistic-admitter
        admission: utilization-detector";
    shed_by_probability "shed-by-probability": "
        profile default: 1 queue-scorer, max-score-picker
        admitters: probabilistic-admitter
        admission: never (utilization-detector)";
    soft_reflective "soft-reflective": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 3 prefix-cache-scorer, max-score-picker
        producers: approx-prefix-cache-producer
        flow control: utilization-detector, soft-reflective-ceiling-policy, waits 60 s (60 s without endpoints)
        other bands: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes";
    three_classes "three-classes": "
        profile default: 1 active-request-scorer, max-score-picker
        producers: approx-prefix-cache-producer, inflight-load-producer
        flow control: gate (concurrency-detector), hold (priority-holdback-policy), 4000 requests, waits 30 s (30 s without endpoints)
        band 20: rr (round-robin-fairness-policy), slo (slo-deadline-ordering-policy), 500 requests, 1000000000 bytes
        band 0: rr (round-robin-fairness-policy), fcfs-ordering-policy, 5000 requests, 1000000000 bytes
        band -20: global-strict-fairness-policy, fcfs-ordering-policy, 2000 requests, 1000000000 bytes
        other bands: global-strict-fairness-policy, fcfs-ordering-policy, 5000 requests, 1000000000 bytes";
    tiered_prefix_cache "tiered-prefix-cache": "
        profile default: 2 queue-scorer, 2 kv-cache-utilization-scorer, 1 gpu-prefix (prefix-cache-scorer), 1 cpu-prefix (prefix-cache-scorer), max-score-picker
        producers: gpu-index (approx-prefix-cache-producer), cpu-index (approx-prefix-cache-producer)
        admission: utilization-detector";
    wide_expert_parallelism "wide-expert-parallelism": "
        profile prefill: prefill-filter, 3 prefix-cache-scorer, 2 queue-scorer, 2 active-request-scorer, max-score-picker
        profile decode: decode-filter, 1 active-request-scorer, max-score-picker
        stages: decode, then prefill if always-disagg-pd-decider
        producers: approx-prefix-cache-producer, inflight-load-producer
        admission: utilization-detector";
}

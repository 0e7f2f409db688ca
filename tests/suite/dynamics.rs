//! The coupled dynamics of `examples/coupled_dynamics`: which way they go.

#[path = "../../examples/coupled_dynamics/dynamics.rs"]
#[expect(dead_code, reason = "the example prints more than is tested here")]
mod experiments;

use experiments::{kv_overflow, prefill_beside_decodes, stale_metrics};

#[test]
fn a_large_prefill_slows_every_decode_in_its_batch() {
    let [small, large] = [512, 8192].map(|budget| prefill_beside_decodes(budget).expect("valid"));
    assert!(small.longest_gap > 2.0 * small.median_gap);
    // A larger chunk stalls the others for longer, and serves the long prompt sooner.
    assert!(large.longest_gap > 5.0 * small.longest_gap);
    assert!(large.intruder_ttft < small.intruder_ttft);
}

#[test]
fn a_kv_pool_that_overflows_makes_preemptions_breed_preemptions() {
    let [ample, tight, tighter] =
        [8192, 4096, 2048].map(|blocks| kv_overflow(blocks).expect("valid"));
    assert_eq!(ample.preemptions, 0);
    assert!(tight.preemptions > 50 && tighter.preemptions > tight.preemptions);
    assert!(ample.recomputed_share < 0.001);
    assert!(tighter.recomputed_share > tight.recomputed_share);
    assert!(tight.e2e_p50_s > ample.e2e_p50_s && tighter.e2e_p99_s > 1.3 * ample.e2e_p99_s);
}

#[test]
fn old_metrics_send_many_requests_to_one_endpoint_and_more_so_the_older_they_are() {
    let seen = [0, 50, 500].map(|interval| stale_metrics(interval).expect("valid"));
    let [live, default, slow] = &seen;
    assert!(default.most_on_one > 1.5 * live.most_on_one);
    assert!(seen.is_sorted_by(|a, b| a.ttft_p99_ms < b.ttft_p99_ms));
    assert!(slow.ttft_p99_ms > 5.0 * live.ttft_p99_ms);
}

//! What the literature says of engines' features, by the examples `repeated_prompts` and
//! `ablation_order`: directions only.

#[path = "../../examples/ablation_order/order.rs"]
mod order;
#[path = "../../examples/repeated_prompts/repeats.rs"]
mod repeats;

#[test]
fn prompts_that_come_again_flatter_prefix_caching() {
    let gain = |[without, with]: [f64; 2]| with / without;
    let (fresh, repeated) = (repeats::fresh(), repeats::repeated());
    let (fresh, repeated) = (fresh.expect("valid"), repeated.expect("valid"));
    assert!(fresh.hit_rate == 0.0 && repeated.hit_rate > 0.8);
    assert!((gain(fresh.output_tokens_per_s) - 1.0).abs() < 0.01);
    assert!(gain(repeated.output_tokens_per_s) > 1.2);
    assert!(gain(repeated.ttft_p50_ms) < 0.5);
}

#[test]
fn what_a_feature_is_worth_depends_on_what_else_is_on() {
    let report = order::ladder().expect("valid");
    let [batching, paging] = [0, 1].map(|feature| &report.shapley[feature]);
    for share in [batching, paging] {
        assert!(share.most > 2.0 * share.least.max(0.0), "{share:?}");
        assert!(share.least < share.gain.estimate.mean && share.gain.estimate.mean < share.most);
    }
    // On its step of the ladder paged KV has nothing to share yet.
    let [ladder, last] = [&report.ladder[1], &report.leave_one_out[1]];
    assert!(last.gain.estimate.low() > 2.0 * ladder.gain.estimate.high());
    let shares: f64 = report
        .shapley
        .iter()
        .map(|share| share.gain.estimate.mean)
        .sum();
    let total = report.total.estimate.mean;
    assert!((shares - total).abs() < 1e-9 * total);
}

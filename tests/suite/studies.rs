//! The studies of `examples/gateway_studies`: which way they go.

#[path = "../../examples/gateway_studies/studies.rs"]
mod comparisons;

use comparisons::{admission, ceilings};

#[test]
fn probabilistic_admission_helps_critical_requests_near_saturation_and_not_below() {
    let near = admission(34.0, 0.3, (2000, 128)).expect("valid");
    assert!(near.other.ttft_p90_ms < 0.9 * near.default.ttft_p90_ms);
    assert!(near.other.e2e_p50_s < 0.7 * near.default.e2e_p50_s);
    assert!(near.other.others_refused > near.default.others_refused + 0.2);
    let below = admission(2.0, 0.8, (4000, 1000)).expect("valid");
    let change = below.other.ttft_p90_ms / below.default.ttft_p90_ms;
    assert!((0.9..1.1).contains(&change), "{change}");
}

#[test]
fn soft_reflective_ceilings_help_critical_requests_near_the_knee_and_not_far_below() {
    let knee = ceilings(18.0).expect("valid");
    assert!(knee.other.e2e_p50_s < 0.8 * knee.default.e2e_p50_s);
    assert!(knee.other.ttft_p90_ms < 0.8 * knee.default.ttft_p90_ms);
    let below = ceilings(6.0).expect("valid");
    let difference = below.other.e2e_p50_s - below.default.e2e_p50_s;
    assert!(difference.abs() < 0.01 * below.default.e2e_p50_s);
}

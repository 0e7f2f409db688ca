//! Which way policies go that the literature compares: the studies of `examples/sjf_vs_fcfs`, `examples/tp_vs_dp` and
//! `examples/policy_evolution`.

#[path = "../../examples/policy_evolution/evolution.rs"]
mod evolution;
#[path = "../../examples/tp_vs_dp/study.rs"]
mod layouts;
#[path = "../../examples/sjf_vs_fcfs/study.rs"]
mod orders;

use evolution::Curve;
use foretoken::deployment::SchedulingPolicy::{Fcfs, ShortestJobFirst};
use foretoken_search::compare::Judgement;
use layouts::Layout::{DataParallel, TensorParallel};

#[test]
fn shortest_job_first_helps_short_requests_at_the_expense_of_long_ones() {
    for seed in [0, 1] {
        let [fcfs, sjf] =
            [Fcfs, ShortestJobFirst].map(|policy| orders::outcome(policy, 6, seed).expect("valid"));
        assert!(
            sjf.short_ttft_p50_ms < 0.2 * fcfs.short_ttft_p50_ms,
            "{sjf:?}"
        );
        assert!(sjf.long_e2e_p50_s > fcfs.long_e2e_p50_s, "{sjf:?}");
        assert!(sjf.long_e2e_p99_s > 1.2 * fcfs.long_e2e_p99_s, "{sjf:?}");
        assert!(sjf.ttft_p99_ms > fcfs.ttft_p99_ms, "{sjf:?}");
    }
}

#[test]
fn near_the_knee_shortest_job_first_hardly_moves_the_overall_p99() {
    let [fcfs, sjf] =
        [Fcfs, ShortestJobFirst].map(|policy| orders::outcome(policy, 7, 0).expect("valid"));
    let change = sjf.e2e_p99_s / fcfs.e2e_p99_s;
    assert!((0.95..1.05).contains(&change), "{change}");
    assert!(sjf.short_ttft_p50_ms < fcfs.short_ttft_p50_ms, "{sjf:?}");
}

#[test]
fn tensor_parallelism_wins_over_replicas_until_their_batch_limit_is_tuned() {
    let seen = |layout, seqs| layouts::outcome(layout, seqs, 60.0).expect("valid");
    let (wide, untuned, tuned) = (
        seen(TensorParallel, 512),
        seen(DataParallel, 32),
        seen(DataParallel, 256),
    );
    assert!(wide.e2e_s < 0.5 * untuned.e2e_s, "{wide:?} {untuned:?}");
    assert!(wide.ttft_ms < 0.5 * untuned.ttft_ms, "{wide:?} {untuned:?}");
    assert!(
        wide.output_tokens_per_s > untuned.output_tokens_per_s,
        "{wide:?} {untuned:?}"
    );
    assert!(tuned.e2e_s < wide.e2e_s, "{tuned:?} {wide:?}");
    assert!(
        tuned.output_tokens_per_s > wide.output_tokens_per_s,
        "{tuned:?} {wide:?}"
    );
    // At little load a batch limit does not matter, and two GPUs make each token sooner.
    let calm = |layout, seqs| layouts::outcome(layout, seqs, 20.0).expect("valid");
    assert!(calm(TensorParallel, 512).tpot_ms < 0.9 * calm(DataParallel, 256).tpot_ms);
}

#[test]
fn an_evolved_admission_curve_beats_the_hand_made_one_on_loads_that_it_was_not_bred_on() {
    let evolved = evolution::evolve(30).expect("valid");
    let compared = evolution::judge(evolved).expect("valid");
    assert_eq!(compared.variants, ["hand-made", "admit all", "evolved"]);
    let judged: Vec<_> = compared.rows[0]
        .cells
        .iter()
        .map(|it| it.judgement)
        .collect();
    let (worse, better) = (Some(Judgement::Worse), Some(Judgement::Better));
    assert_eq!(judged, [None, worse, better]);
    assert!(evolved.scale < Curve::HAND_MADE.scale, "{evolved:?}");
}

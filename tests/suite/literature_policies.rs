//! Which way policies go that the literature compares: the studies of `examples/sjf_vs_fcfs`, `examples/tp_vs_dp` and
//! `examples/policy_evolution`.

#[path = "../../examples/policy_evolution/evolution.rs"]
mod evolution;
#[path = "../../examples/tp_vs_dp/study.rs"]
mod layouts;
#[path = "../../examples/sjf_vs_fcfs/study.rs"]
mod orders;

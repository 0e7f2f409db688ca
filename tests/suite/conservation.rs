//! Nothing is lost: every request that arrived is accounted for, every block comes back.

use foretoken::dataplane::RejectAll;
use foretoken::engine::Scheduling;
use foretoken::metrics::Counts;
use foretoken::prelude::*;

use crate::support::{
    assert_latencies_add_up, assert_no_block_is_held, host, load, replay, run_logged, simulation,
    synchronous,
};

fn assert_conserved(counts: &Counts) {
    let ended = counts.finished + counts.rejected_total() + counts.aborted;
    assert_eq!(counts.arrived, ended + counts.in_flight, "{counts:?}");
}

/// One engine under [`load`], with something about it changed.
fn one_engine(change: impl FnOnce(&mut EngineConfig)) -> Simulation {
    let mut config = EngineConfig::default();
    change(&mut config);
    Simulation::new()
        .engines(1, config)
        .latency(Affine::example())
        .workload(load(20.0, 300))
}

#[test]
fn all_that_arrives_is_served_and_no_block_is_kept() {
    for scheduling in [Scheduling::Asynchronous, Scheduling::Synchronous] {
        let (log, recording) = run_logged(one_engine(|config| {
            config.scheduler.scheduling = scheduling;
            config.host = host(1);
        }));
        let report = Report::new(&recording, 0, 0);
        assert_eq!(report.overall.counts.finished, 300);
        assert_conserved(&report.overall.counts);
        assert_latencies_add_up(recording.records());
        assert_no_block_is_held(&log);
    }
}

#[test]
fn a_horizon_leaves_the_rest_in_flight() {
    let horizon = SimTime::from_nanos(4_000_000_000);
    let report = simulation(50.0, 300).horizon(horizon).run().expect("valid");
    let counts = &report.overall.counts;
    assert_conserved(counts);
    assert!(counts.finished > 0 && counts.in_flight > 0, "{counts:?}");
    assert!(counts.arrived < 300, "what comes later has not arrived");
}

#[test]
fn stages_add_up_to_the_whole() {
    let mix = WorkloadSpec::Mix(vec![load(10.0, 70).into(), load(5.0, 30).into()]);
    let report = one_engine(|_| {}).workload(mix).run().expect("valid");
    let arrived: Vec<_> = report
        .stages
        .iter()
        .map(|stage| stage.summary.counts.arrived)
        .collect();
    assert_eq!(arrived, [70, 30]);
    assert_eq!(report.overall.counts.arrived, 100);
}

#[test]
fn prompts_that_are_too_long_are_rejected_and_the_others_served() {
    let short = one_engine(|config| config.scheduler.max_model_len = 300);
    let (log, recording) = run_logged(short);
    let counts = Report::new(&recording, 0, 0).overall.counts;
    assert_conserved(&counts);
    let too_long = recording
        .records()
        .iter()
        .filter(|r| r.prompt_tokens >= 300);
    assert_eq!(counts.rejected["prompt too long"], too_long.count() as u64);
    assert_eq!(counts.finished + counts.rejected["prompt too long"], 300);
    assert_latencies_add_up(recording.records());
    assert_no_block_is_held(&log);
}

#[test]
fn outputs_are_cut_where_the_longest_sequence_ends() {
    let mut config = synchronous();
    config.scheduler.max_model_len = 100;
    let (_, recording) = run_logged(
        Simulation::new()
            .engines(1, config)
            .latency(Affine::example())
            .requests(replay([(0, 90, 50)])),
    );
    assert_eq!(recording.records()[0].output_tokens, 10);
}

#[test]
fn a_shedding_gateway_accounts_for_what_it_sheds() {
    let coin = |_: &RequestView<'_>, cx: &mut GatewayContext<'_>| match cx.rng.below(3) {
        0 => Verdict::Shed,
        _ => Verdict::Admit,
    };
    let (log, recording) = run_logged(one_engine(|_| {}).admitter(coin));
    let counts = Report::new(&recording, 0, 0).overall.counts;
    assert_conserved(&counts);
    assert!((60..140).contains(&counts.rejected["shed"]), "{counts:?}");
    assert_eq!(counts.finished + counts.rejected["shed"], 300);
    assert_no_block_is_held(&log);
}

#[test]
fn a_gateway_that_sheds_everything_leaves_the_engines_idle() {
    let report = one_engine(|_| {}).admitter(RejectAll).run().expect("valid");
    assert_eq!(report.overall.counts.rejected["shed"], 300);
    assert_eq!(report.load.steps, 0);
    assert_eq!(report.overall.ttft_ms, None);
}

#[test]
fn a_router_that_finds_no_endpoint_rejects() {
    let nowhere = |_: &RequestView<'_>, _: &mut GatewayContext<'_>| None;
    let report = one_engine(|_| {}).router(nowhere).run().expect("valid");
    assert_eq!(report.overall.counts.rejected["no candidate"], 300);
    assert_conserved(&report.overall.counts);
}

#[test]
fn preempted_requests_are_served_in_the_end() {
    for prefix_caching in [true, false] {
        let (log, recording) = run_logged(one_engine(|config| {
            config.scheduler.max_model_len = 1024;
            config.scheduler.num_gpu_blocks = 80;
            config.scheduler.prefix_caching = prefix_caching;
        }));
        let report = Report::new(&recording, 0, 0);
        assert!(
            report.overall.preemptions > 0,
            "the pool is too small to need any"
        );
        assert_eq!(report.overall.counts.finished, 300);
        assert_latencies_add_up(recording.records());
        assert_no_block_is_held(&log);
    }
}

#[test]
fn a_load_of_nothing_is_a_run_of_nothing() {
    let report = one_engine(|_| {})
        .requests(replay([]))
        .run()
        .expect("valid");
    assert_eq!(report.overall.counts.arrived, 0);
    assert_eq!(report.load.steps, 0);
}

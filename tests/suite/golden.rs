//! Whole reports of two small scenarios. A change here changes results: the changelog says so.

use foretoken::prelude::*;
use foretoken::workload::Stage;

use crate::support::{host, load, simulation};

fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("a report is plain data")
}

#[test]
fn two_engines_behind_round_robin() {
    let report = simulation(20.0, 100).seed(1).run().expect("valid");
    insta::assert_snapshot!(json(&report));
}

#[test]
fn a_tight_engine_with_shared_prefixes_preemption_and_shedding() {
    let mut config = EngineConfig {
        host: host(1),
        ..EngineConfig::default()
    };
    config.scheduler.max_model_len = 1024;
    config.scheduler.max_num_batched_tokens = 512;
    config.scheduler.num_gpu_blocks = 120;
    let shared = SharedPrefixSpec {
        num_groups: 2,
        prompts_per_group: 4,
        system_prompt_tokens: 64,
        question_tokens: 100,
        output_tokens: 40,
        stages: vec![
            Stage::new(5.0, 4.0).expect("positive"),
            Stage::new(20.0, 3.0).expect("positive"),
        ],
        prompt_tokens_mean_reported: None,
        prompt_inflation: 1.0,
        client: ClientSpec::default(),
    };
    let shed = |_: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
        if cx.endpoints[0].queued > 1 {
            Verdict::Shed
        } else {
            Verdict::Admit
        }
    };
    let report = Simulation::new()
        .engines(1, config)
        .latency(Affine::example())
        .workload(WorkloadSpec::Mix(vec![shared.into(), load(8.0, 50).into()]))
        .admitter(shed)
        .seed(3)
        .horizon(SimTime::from_nanos(7_000_000_000))
        .run()
        .expect("valid");
    let counts = &report.overall.counts;
    assert!(
        report.overall.preemptions > 0 && counts.rejected_total() > 0,
        "{report}"
    );
    insta::assert_snapshot!(json(&report));
}

//! Ablations of real scenarios.

use foretoken::workload::{LengthSpec, Synthetic};
use foretoken::{Deployment, Scenario};

use super::*;
use crate::{Environment, GoodputSpec, Judgement, Metric};

fn scenario() -> Scenario {
    let mut deployment = Deployment::new("Qwen/Qwen2.5-7B-Instruct", "L4", 1);
    deployment.engine.max_model_len = Some(2048);
    let (prompts, outputs) = (LengthSpec::uniform(50, 400), LengthSpec::uniform(10, 150));
    let load = Synthetic::poisson(8.0, 60, prompts, outputs).expect("a valid load");
    Scenario::new(deployment, load)
}

fn ablation(features: Vec<Feature>) -> Ablation {
    Ablation {
        scenario: scenario(),
        features,
        value: AblationValue::of("ttft-mean-ms".parse().expect("a metric")),
        replications: 3,
        method: None,
    }
}

fn run(ablation: &Ablation) -> AblationReport {
    let report = ablation.run(&Environment::builtin(), &|_, _| ());
    report.expect("it can be run")
}

fn refused(ablation: &Ablation) -> String {
    let never = |_, _| panic!("it fails before the first run");
    let report = ablation.run(&Environment::builtin(), &never);
    report.expect_err("it makes no sense").to_string()
}

#[test]
fn a_feature_that_does_nothing_has_an_interval_that_holds_zero() {
    let report = run(&ablation(vec![
        Feature::new("idle", "block-size", 16),
        Feature::new("wide", "tensor-parallel", 2),
    ]));
    let idle = &report.shapley[0].gain;
    assert!(idle.estimate.low() <= 0.0 && idle.estimate.high() >= 0.0);
    assert_eq!(idle.judgement, Judgement::NotDistinguishable);
    let wide = &report.shapley[1].gain;
    assert_eq!(
        (wide.judgement, wide.estimate),
        (Judgement::Better, report.total.estimate)
    );
}

/// The highest rate that keeps the scenario's objectives, sought roughly.
fn goodput() -> AblationValue {
    AblationValue::Goodput(GoodputSpec {
        window_s: Some(5.0),
        max_doublings: 0,
        resolution: 0.05,
        ..GoodputSpec::default()
    })
}

#[test]
fn shares_of_goodput_sum_to_the_total_and_an_idle_feature_has_none_of_it() {
    let mut ablation = ablation(vec![
        Feature::new("wide", "tensor-parallel", 2),
        Feature::new("idle", "block-size", 16),
        Feature::new("few seats", "max-num-seqs", 6),
    ]);
    let slos = r#"{ "standard": { "ttft-ms": 800, "tpot-ms": 100 } }"#;
    ablation.scenario.slos = serde_json::from_str(slos).expect("objectives");
    ablation.value = goodput();
    ablation.replications = 2;
    let report = run(&ablation);
    let means = |share: &Share| share.gain.estimate.mean;
    let (sum, total) = (
        report.shapley.iter().map(means).sum::<f64>(),
        report.total.estimate.mean,
    );
    assert!((sum - total).abs() < 1e-9, "{sum} is not {total}");
    let [wide, idle, few] = &report.shapley[..] else {
        panic!("{report:?}");
    };
    assert!(
        report.baseline.mean > 0.0 && means(wide) > 0.5,
        "{report:?}"
    );
    assert!(means(few) < -0.5, "{few:?}");
    // The others differ between replications.
    assert!(wide.gain.estimate.half_width > Some(0.0), "{wide:?}");
    assert!(idle.gain.estimate.low() <= 0.0 && idle.gain.estimate.high() >= 0.0);
    assert_eq!(idle.gain.judgement, Judgement::NotDistinguishable);
}

#[test]
fn files_of_features_are_looked_for_beside_the_file_that_names_them() {
    let mut ablation = ablation(vec![
        Feature::new("mine", "router-config", "mine.yaml").and("replicas", 2),
    ]);
    ablation.scenario.gateway = Some(foretoken::GatewaySpec {
        router_config: Some("old.yaml".into()),
        ..foretoken::GatewaySpec::default()
    });
    ablation.rebase(std::path::Path::new("studies"));
    assert_eq!(
        ablation.features[0].set["router-config"],
        "studies/mine.yaml"
    );
    let gateway = ablation.scenario.gateway.expect("it is there");
    assert_eq!(gateway.router_config, Some("studies/old.yaml".into()));
}

#[test]
fn features_that_do_the_same_to_a_scenario_are_worth_the_same() {
    let mut twins = ablation(vec![
        Feature::new("here", "replicas", 2),
        Feature::new("there", "other-deployments.0.replicas", 2),
    ]);
    let other = twins.scenario.deployment.clone();
    twins.scenario.other_deployments.push(other);
    twins.value = AblationValue::of(Metric::Gpus);
    let report = run(&twins);
    let [here, there] = [0, 1].map(|feature| report.shapley[feature].gain.estimate.mean);
    assert!((here - there).abs() < 1e-12 && (here + 1.0).abs() < 1e-12);
}

#[test]
fn any_number_of_threads_gives_the_same_report() {
    let engine = Ablation::of_engine(
        &scenario(),
        AblationValue::of(Metric::OutputTokensPerS),
        &Environment::builtin(),
    );
    let mut engine = engine.expect("it can be built");
    engine.features.truncate(4);
    engine.replications = 2;
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let report = pool.expect("threads can be had").install(|| run(&engine));
        serde_json::to_string(&report).expect("plain data")
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn what_makes_no_sense_is_refused_by_name_before_the_first_run() {
    let one = || Feature::new("a", "max-num-seqs", 8);
    let bad = [
        (
            vec![],
            "features is a list of 0: allowed is a list of 1 to 32",
        ),
        (vec![one(), one()], "features[1].name is `a`"),
        (
            vec![one(), Feature::new("b", "max-num-seqs", 9)],
            "features[1].set is max-num-seqs: allowed is a key that `a` does not set",
        ),
        (
            vec![
                one(),
                Feature::new("b", "deployment.engine.max-num-seqs", 9),
            ],
            "features[1].set is deployment.engine.max-num-seqs: allowed is a key that `a`",
        ),
        (
            vec![one(), Feature::new("b", "max-num-sequences", 9)],
            "features[1].set: max-num-sequences: no such setting",
        ),
        (
            vec![
                one(),
                Feature::new("b", "model", "meta-llama/Llama-3.1-70B-Instruct"),
            ],
            "with b: ",
        ),
        (
            vec![one(), Feature::new("b", "kv-allocation", "Reserved")],
            "features[1].set: kv-allocation: ",
        ),
    ];
    for (features, expected) in bad {
        let problem = refused(&ablation(features));
        assert!(problem.starts_with(expected), "{problem}");
    }
    let mut empty = one();
    empty.set.clear();
    assert!(refused(&ablation(vec![empty])).starts_with("features[0].set is empty"));
    let mut none = ablation(vec![one()]);
    none.replications = 0;
    assert!(refused(&none).starts_with("replications is 0: allowed is 1 to 1000"));
    let mut beyond = ablation(vec![one()]);
    beyond.scenario.replication = u64::MAX;
    let problem = refused(&beyond);
    assert!(
        problem.starts_with("scenario.replication is 18446744073709551615: "),
        "{problem}"
    );
    let late = Feature::new("late", "replication", u64::MAX);
    let problem = refused(&ablation(vec![late]));
    assert!(
        problem.starts_with("with late: scenario.replication is 1844"),
        "{problem}"
    );
    let mut aimless = ablation(vec![one()]);
    aimless.value = goodput();
    assert!(refused(&aimless).starts_with("slos is empty"));
}

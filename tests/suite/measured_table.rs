//! A measured table as the latency model of a whole simulation.

use foretoken::latency_model::Level;
use foretoken::prelude::*;

const MEASURED: [(u32, f64); 5] = [(1, 55.0), (8, 110.0), (16, 165.0), (32, 205.0), (64, 225.0)];

/// A deployment timed by the table, under `concurrency` requests at once.
fn scenario(concurrency: u32, engine: &str, extrapolate: &str) -> Scenario {
    let text = format!(
        "
deployment:
  model: meta-llama/Llama-3.1-8B-Instruct
  gpu: L40S
  engine: {{ max-model-len: 4096, {engine} }}
  latency-model:
    table:
      decode:
        - {{ concurrency: 1, tokens-per-s: 55 }}
        - {{ concurrency: 8, tokens-per-s: 110 }}
        - {{ concurrency: 16, tokens-per-s: 165 }}
        - {{ concurrency: 32, tokens-per-s: 205 }}
        - {{ concurrency: 64, tokens-per-s: 225 }}
      prefill-tokens-per-s: 10000
      extrapolate: {extrapolate}
workload:
  synthetic:
    arrivals: {{ constant: {{ rate-rps: 100000 }} }}
    requests: {concurrency}
    prompt-tokens: {{ constant: {{ tokens: 64 }} }}
    output-tokens: {{ constant: {{ tokens: 512 }} }}
"
    );
    serde_saphyr::from_str(&text).expect("a valid scenario")
}

fn predict(scenario: &Scenario) -> Result<foretoken::Prediction, Error> {
    scenario.predict(&Catalog::builtin(), &Physics::default())
}

#[test]
fn a_simulation_gives_back_what_was_measured() {
    for (concurrency, measured) in MEASURED {
        let prediction = predict(&scenario(concurrency, "max-num-seqs: 64", "refuse"))
            .expect("within the table");
        let simulated = prediction.report.overall.throughput.output_tokens_per_s;
        println!("{concurrency}: {measured} measured, {simulated:.1} simulated");
        assert!(
            (simulated / measured - 1.0).abs() < 0.05,
            "{concurrency}: {simulated}"
        );
        assert_eq!(prediction.confidence.level, Level::Full);
    }
}

#[test]
fn batches_beyond_the_table_are_refused_before_the_run() {
    let error = predict(&scenario(1, "max-num-seqs: 65", "refuse")).expect_err("beyond");
    let text = error.to_string();
    assert!(
        text.contains("max-num-seqs is 65") && text.contains("at most 64"),
        "{text}"
    );
    // The default, too, is more than the table has.
    assert!(predict(&scenario(1, "block-size: 16", "refuse")).is_err());
}

#[test]
fn extrapolation_is_possible_and_marked() {
    let few = predict(&scenario(10, "max-num-seqs: 128", "linear")).expect("allowed");
    assert_eq!(few.confidence.level, Level::Full);
    let many = predict(&scenario(100, "max-num-seqs: 128", "linear")).expect("allowed");
    assert_eq!(many.confidence.level, Level::Reduced);
    let text = many.to_string();
    assert!(
        text.contains("sequences in a step: 100, measured up to 64"),
        "{text}"
    );
    let simulated = many.report.overall.throughput.output_tokens_per_s;
    assert!((225.0..250.0).contains(&simulated), "{simulated}");
}

#[test]
fn a_scenario_with_a_table_survives_its_json() {
    let scenario = scenario(8, "max-num-seqs: 64", "linear");
    let json = serde_json::to_string(&scenario).expect("plain data");
    assert_eq!(
        serde_json::from_str::<Scenario>(&json).expect("just written"),
        scenario
    );
    // The other models are plain names.
    let choices = ["kernel-physics", "additive-physics", "roofline"];
    for name in choices {
        let json = serde_json::to_string(name).expect("a text");
        let choice: foretoken::deployment::LatencyModelChoice =
            serde_json::from_str(&json).expect("a name");
        assert_eq!(serde_json::to_string(&choice).expect("plain data"), json);
    }
}

#[test]
fn a_run_on_an_unmeasured_accelerator_is_marked_in_table_and_json() {
    let mut scenario = scenario(4, "max-num-seqs: 64", "refuse");
    scenario.deployment.latency_model = foretoken::deployment::LatencyModelChoice::KernelPhysics;
    let measured = predict(&scenario).expect("valid");
    assert_eq!(
        measured.confidence.level,
        Level::Full,
        "{}",
        measured.confidence
    );
    scenario.deployment.gpu = "L4".into();
    let derived = predict(&scenario).expect("valid");
    assert!(
        derived.to_string().contains("confidence: reduced"),
        "{derived}"
    );
    let json = serde_json::to_value(&derived).expect("plain data");
    assert_eq!(json["confidence"]["level"], "reduced");
    assert!(
        json["confidence"]["reasons"][0]
            .as_str()
            .is_some_and(|r| r.contains("L40S-48GB"))
    );
    assert_eq!(json["overall"]["counts"]["finished"], 4);
}

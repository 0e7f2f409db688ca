//! W15 to W21: totals of profiles, and whom pickers take.

use foretoken_dataplane::pipeline::filters::PrefixCacheAffinityFilter;
use foretoken_dataplane::pipeline::pickers::{MaxScorePicker, WeightedRandomPicker};
use foretoken_dataplane::pipeline::scorers::{
    ActiveRequestScorer, KvCacheUtilizationScorer, QueueScorer, TokenLoadScorer,
};
use foretoken_dataplane::saturation::ConcurrencyDetector;
use foretoken_dataplane::{Picker, Pipeline};
use foretoken_workload::{Positive, RejectReason};

use super::support::{Outcome, Scene, close, equal, letters, likely};

worked_examples! {
    "W15" w15 "the default profile";
    "W16" w16 "a prefix match outweighs any queue";
    "W17" w17 "the queue's score is relative";
    "W18" w18 "ties are broken at random";
    "W19" w19 "weighted-random-picker";
    "W20" w20 "affinity filter, then token load";
    "W21" w21 "a limit of concurrency as hard filter";
}

fn w15() -> Outcome {
    let mut scene = Scene::of(3)
        .queued(&[4, 0, 2])
        .kv(&[0.6, 0.2, 0.9])
        .prefix(&[(8, 10, 64), (0, 10, 64), (10, 10, 64)].map(Some));
    let (totals, pick) = scene.decide(&mut Pipeline::llm_d_default());
    close("totals", &totals, &[3.2, 3.6, 4.2])?;
    equal("pick", pick, "c")
}

fn w16() -> Outcome {
    let mut scene = Scene::of(2)
        .queued(&[200, 0])
        .kv(&[0.5, 0.5])
        .prefix(&[(10, 10, 64), (0, 10, 64)].map(Some));
    let (totals, pick) = scene.decide(&mut Pipeline::llm_d_default());
    close("totals", &totals, &[4.0, 3.0])?;
    equal("pick", pick, "a")
}

fn w17() -> Outcome {
    let mut pipeline = Pipeline::new()
        .scorer(2.0, QueueScorer)
        .scorer(2.0, KvCacheUtilizationScorer);
    let mut scene = Scene::of(2).queued(&[1, 0]).kv(&[0.10, 0.95]);
    let (totals, pick) = scene.decide(&mut pipeline);
    close("totals", &totals, &[1.8, 2.1])?;
    equal("pick", pick, "b")
}

/// How often each endpoint is picked in 20000 decisions by KV usage alone.
fn picked(usage: &[f64], picker: impl Picker + 'static) -> (Vec<f64>, Vec<u32>) {
    let mut pipeline = Pipeline::new()
        .scorer(1.0, KvCacheUtilizationScorer)
        .picker(picker);
    let mut scene = Scene::of(u8::try_from(usage.len()).unwrap_or(0)).kv(usage);
    let mut counts = vec![0; usage.len()];
    for _ in 0..20_000 {
        if let Some(placement) = scene.route(&mut pipeline) {
            counts[placement.endpoint.index()] += 1;
        }
    }
    let run = pipeline.run("default");
    let totals = run.map_or(Vec::new(), |run| run.totals().to_vec());
    (totals, counts)
}

fn w18() -> Outcome {
    let (totals, counts) = picked(&[0.3, 0.3, 0.7], MaxScorePicker::default());
    close("totals", &totals, &[0.7, 0.7, 0.3])?;
    likely(&counts, &[0.5, 0.5, 0.0])
}

fn w19() -> Outcome {
    let (totals, counts) = picked(&[0.9, 0.6, 0.5, 1.0], WeightedRandomPicker::default());
    close("totals", &totals, &[0.1, 0.4, 0.5, 0.0])?;
    likely(&counts, &[0.1, 0.4, 0.5, 0.0])?;
    let (_, counts) = picked(&[1.0, 1.0, 1.0, 1.0], WeightedRandomPicker::default());
    likely(&counts, &[0.25, 0.25, 0.25, 0.25])
}

fn w20() -> Outcome {
    let mut pipeline = Pipeline::new()
        .filter(PrefixCacheAffinityFilter::default())
        .scorer(1.0, TokenLoadScorer::default());
    let mut scene = Scene::of(3)
        .prefix(&[(9, 10, 64), (0, 10, 64), (8, 10, 64)].map(Some))
        .tokens(&[(200_000, 64), (1000, 640), (100_000, 128)].map(Some));
    let (totals, pick) = scene.decide(&mut pipeline);
    close("totals", &totals, &[0.952_301_025_391, 0.976_127_624_512])?;
    equal("pick", pick, "c")
}

fn w21() -> Outcome {
    let pipeline = |limit| {
        let detector = ConcurrencyDetector {
            max_requests: Positive::new(limit).expect("a limit is positive"),
            ..ConcurrencyDetector::default()
        };
        Pipeline::new()
            .filter(detector)
            .scorer(1.0, ActiveRequestScorer::default())
    };
    let mut full = Scene::of(2).active(&[2, 3].map(Some));
    equal("limit 2", full.route(&mut pipeline(2.0)), None)?;
    equal("status", RejectReason::NoCandidate.http_status(), 429)?;
    let mut pipeline = pipeline(4.0);
    let mut scene = Scene::of(3).active(&[2, 3, 4].map(Some));
    let (totals, pick) = scene.decide(&mut pipeline);
    let kept = pipeline.run("default").map(|run| letters(run.candidates()));
    equal("kept", kept.as_deref(), Some("ab"))?;
    close("totals", &totals, &[0.333_333_333_333, 0.0])?;
    equal("pick", pick, "a")
}

//! How long runs take, and how that grows with requests, instances, tokens and batch: the tables of
//! docs/speed.md.
//!
//! ```text
//! cargo run --profile dist --example speed          # a minute or less
//! cargo run --profile dist --example speed -- full  # up to a million requests
//! cargo run --profile dist --example speed -- FILE  # the experiments of a file, counted and step by step
//! ```

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures the host, and no result of a simulation depends on it"
)]

use std::time::Instant;

use foretoken::prelude::*;
use foretoken::validation::ExperimentFile;

#[path = "../benches/support/mod.rs"]
mod support;

use support::Codegen;

/// One grid: what is varied, the loads, and the value that each has.
struct Table {
    title: &'static str,
    varied: &'static str,
    loads: Vec<(u32, Codegen)>,
}

fn tables(requests: &[u32], many: u32) -> Vec<Table> {
    let base = Codegen::new(many, 1);
    let vary = |values: &[u32], set: fn(&mut Codegen, u32)| {
        let load = |&value: &u32| {
            let mut load = base;
            set(&mut load, value);
            (value, load)
        };
        values.iter().map(load).collect()
    };
    vec![
        Table {
            title: "Requests, on one instance",
            varied: "requests",
            loads: vary(requests, |load, value| load.requests = value),
        },
        Table {
            title: "Instances, with as many requests in all",
            varied: "instances",
            loads: vary(&[1, 4, 16, 64, 100], |load, value| load.instances = value),
        },
        Table {
            title: "Tokens of an answer",
            varied: "tokens",
            loads: vary(&[31, 62, 124, 247, 494], |load, value| {
                load.output = value.into();
            }),
        },
        Table {
            title: "Batch: the same requests, closer together",
            varied: "requests/s",
            loads: vary(&[1, 2, 4, 8], |load, value| load.rate = value.into()),
        },
    ]
}

/// Seconds of a run, the least of three: others on the machine only ever add to it.
fn seconds(load: &Codegen, catalog: &Catalog, physics: &Physics) -> (f64, Report) {
    let mut least = f64::INFINITY;
    let mut report = None;
    // Long runs average out what short ones repeat for.
    let repeats = if load.requests > 200_000 { 1 } else { 3 };
    for _ in 0..repeats {
        let start = Instant::now();
        report = Some(load.run(catalog, physics));
        least = least.min(start.elapsed().as_secs_f64());
    }
    (least, report.expect("it ran"))
}

/// The exponent of the power law that fits best: the slope of the logarithms, by least squares.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = logs.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    covariance / variance
}

/// Milliseconds of a scenario from its building to its report, the least of three, and the report's
/// digest.
fn millis(scenario: &Scenario, catalog: &Catalog, physics: &Physics) -> (f64, Report) {
    let resolved = scenario.resolve(catalog, physics).expect("it exists");
    let mut least = f64::INFINITY;
    let mut report = None;
    for _ in 0..3 {
        let start = Instant::now();
        let prediction = scenario.predict_with(&resolved).expect("it fits");
        least = least.min(start.elapsed().as_secs_f64() * 1e3);
        report = Some(prediction.report);
    }
    (least, report.expect("it ran"))
}

/// A scenario with decodes counted, and step by step.
fn against_steps(name: &str, mut scenario: Scenario, catalog: &Catalog, physics: &Physics) -> f64 {
    let (counted, report) = millis(&scenario, catalog, physics);
    scenario.step_by_step = true;
    let (stepped, same) = millis(&scenario, catalog, physics);
    assert_eq!(report, same, "{name}: counting changes nothing");
    let overall = &report.overall;
    println!(
        "| {name} | {} | {} | {} | {counted:.1} | {stepped:.1} | {:.1} |",
        overall.counts.arrived,
        overall.output_tokens,
        report.load.steps,
        stepped / counted
    );
    counted
}

const AGAINST_STEPS: &str = "\
### Counted, against step by step

| run | requests | output tokens | steps | ms | step by step, ms | ratio |
|---|---:|---:|---:|---:|---:|---:|";

/// The experiments of a file.
fn experiments(path: &str, catalog: &Catalog, physics: &Physics) {
    let text = std::fs::read_to_string(path).expect("a file of experiments");
    let file: ExperimentFile = serde_json::from_str(&text).expect("a file of experiments");
    println!("{AGAINST_STEPS}");
    let each = file.experiments.iter().map(|experiment| {
        let scenario = experiment.scenario(0).expect("a load that makes sense");
        against_steps(&experiment.id, scenario, catalog, physics)
    });
    let all: f64 = each.sum();
    println!("\nall of them: {all:.0} ms");
}

fn main() {
    let (catalog, physics) = (Catalog::builtin(), Physics::default());
    let file = std::env::args().skip(1).find(|argument| argument != "full");
    if let Some(path) = file {
        return experiments(&path, &catalog, &physics);
    }
    let full = std::env::args().any(|argument| argument == "full");
    let (requests, many): (&[u32], u32) = if full {
        (&[10_000, 30_000, 100_000, 300_000, 1_000_000], 50_000)
    } else {
        (&[500, 1_000, 2_000, 4_000], 2_000)
    };
    for table in tables(requests, many) {
        println!("### {}\n", table.title);
        println!(
            "| {} | seconds | µs per request | ns per output token |",
            table.varied
        );
        println!("|---:|---:|---:|---:|");
        let mut points = Vec::new();
        for (value, load) in &table.loads {
            let (seconds, report) = seconds(load, &catalog, &physics);
            let each = seconds / f64::from(load.requests);
            let tokens = report.overall.output_tokens as f64;
            println!(
                "| {value} | {seconds:.3} | {:.1} | {:.1} |",
                each * 1e6,
                seconds / tokens * 1e9
            );
            points.push((f64::from(*value), seconds));
        }
        let varied = table.varied;
        println!("\nseconds ~ {varied}^{:.2}\n", exponent(&points));
    }
    println!("{AGAINST_STEPS}");
    for rate in [1.0, 5.0] {
        let mut load = Codegen::new(many.min(10_000), 1);
        load.rate = rate;
        let name = format!("{rate} requests/s");
        against_steps(&name, load.scenario(), &catalog, &physics);
    }
}

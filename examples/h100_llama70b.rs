//! The main job on a measured deployment: Llama-3.1-70B on four H100, code generation at 5 and then
//! 10 requests per second. Prints the prediction beside the measurement, where the time of a step
//! goes, and what other degrees of tensor parallelism would do.
//!
//! ```text
//! cargo run --release --example h100_llama70b
//! ```

use foretoken::prelude::*;
use foretoken::validation::{Experiment, ExperimentFile, Latencies, Outcome, Points};

const MEASURED: &str = include_str!("data/h100-llama-3.1-70b-codegen.json");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file: ExperimentFile = serde_json::from_str(MEASURED)?;
    let experiment = file
        .experiments
        .first()
        .ok_or("the file holds an experiment")?;
    let catalog = Catalog::builtin();
    let physics = Physics::default();

    let scenario = experiment.scenario(0)?;
    let report = scenario.run(&catalog, &physics)?;
    println!(
        "{} on {} x {}, vLLM 0.15.1",
        experiment.model, experiment.tensor_parallel, experiment.gpu
    );
    println!("\nPredicted beside measured\n");
    print_comparison(&report, &experiment.measured)?;

    println!("\nWhere a decode step goes (mean batch of the run)\n");
    print_step(experiment, &report, &catalog, &physics)?;

    println!("\nWhat if? Other degrees of tensor parallelism under the same load\n");
    let degrees = [2, 4, 8];
    let reports = sweep(&degrees, |&degree| {
        let mut scenario = scenario.clone();
        scenario.deployment.tensor_parallel = degree;
        // Another degree has another KV cache: let the memory plan say how large.
        scenario.deployment.engine.num_gpu_blocks_override = None;
        scenario.run(&catalog, &physics)
    });
    println!(
        "{:>4} {:>11} {:>11} {:>11} {:>11} {:>9} {:>11}",
        "TP", "TTFT mean", "TTFT P99", "ITL mean", "E2E P99", "tokens/s", "tokens/s/GPU"
    );
    for (degree, report) in degrees.iter().zip(reports) {
        print_what_if(*degree, &report?);
    }
    Ok(())
}

fn print_comparison(report: &Report, measured: &Outcome) -> Result<(), Box<dyn std::error::Error>> {
    let predicted = Outcome::of(report).ok_or("requests finish in every stage")?;
    let names = (0..).map(|stage| format!("stage {stage}"));
    println!(
        "{:<10} {:<8} {:>28} {:>28} {:>28}",
        "", "", "mean", "P90", "P99"
    );
    for ((name, predicted), measured) in names.zip(&predicted.stages).zip(&measured.stages) {
        print_rows(&name, predicted, measured);
    }
    print_rows("overall", &predicted.overall, &measured.overall);
    Ok(())
}

fn print_rows(name: &str, predicted: &Latencies, measured: &Latencies) {
    let row = |label: &str, p: &Points, m: &Points| {
        let cell = |p: Option<f64>, m: Option<f64>| match (p, m) {
            (Some(p), Some(m)) => {
                format!("{p:.1} / {m:.1} ms {:+5.1} %", (p - m) / m * 100.0)
            }
            _ => "not measured".to_owned(),
        };
        let (mean, p90) = (cell(Some(p.mean), Some(m.mean)), cell(p.p90, m.p90));
        println!(
            "{name:<10} {label:<8} {mean:>28} {p90:>28} {:>28}",
            cell(p.p99, m.p99)
        );
    };
    row("TTFT", &predicted.ttft_ms, &measured.ttft_ms);
    row("E2E", &predicted.e2e_ms, &measured.e2e_ms);
}

fn print_step(
    experiment: &Experiment,
    report: &Report,
    catalog: &Catalog,
    physics: &Physics,
) -> Result<(), Box<dyn std::error::Error>> {
    let resolved = experiment.deployment().resolve(catalog, physics)?;
    let complete = report.overall.counts.finished.max(1);
    let prompt = report.overall.prompt_tokens / complete;
    let half_output = u64::from(experiment.workload.output_tokens / 2);
    let batch = (1..=128)
        .rev()
        .find(|&n| f64::from(n) <= report.load.running.mean)
        .unwrap_or(1);
    let shape = StepShape::decode(batch, u64::from(batch) * (prompt + half_output));
    println!(
        "{batch} sequences, {} tokens of context each",
        prompt + half_output
    );
    println!(
        "{}",
        resolved.latency.explain(&resolved.engine.launched(shape))
    );
    Ok(())
}

fn print_what_if(degree: u32, report: &Report) {
    let overall = &report.overall;
    let ms = |value: Option<f64>| match value {
        None => "-".to_owned(),
        Some(ms) if ms < 10_000.0 => format!("{ms:.1} ms"),
        Some(ms) => format!("{:.0} s", ms / 1000.0),
    };
    let rate = overall.throughput.output_tokens_per_s;
    println!(
        "{degree:>4} {:>11} {:>11} {:>11} {:>11} {rate:>9.0} {:>11.0}",
        ms(overall.ttft_ms.map(|l| l.mean)),
        ms(overall.ttft_ms.map(|l| l.p99)),
        ms(overall.itl_ms.map(|l| l.mean)),
        ms(overall.e2e_ms.map(|l| l.p99)),
        rate / f64::from(degree),
    );
}

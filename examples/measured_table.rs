//! A load test of one's own as the latency model: what was measured at each concurrency comes back.

use foretoken::latency_model::{Extrapolate, TableModel};
use foretoken::prelude::*;

/// Concurrency, and output tokens per second of all sequences together.
const MEASURED: [(u32, f64); 5] = [(1, 55.0), (8, 110.0), (16, 165.0), (32, 205.0), (64, 225.0)];

fn main() -> Result<(), Error> {
    let table = TableModel::new(MEASURED, 10_000.0, Extrapolate::Refuse)?;
    let mut engine = EngineConfig::default();
    engine.scheduler.max_num_seqs = 64;
    // The table times no other batches, so an engine that could make one is refused.
    table.covers(engine.scheduler.max_num_seqs)?;

    println!(
        "{:>11} {:>10} {:>10}",
        "concurrency", "measured", "simulated"
    );
    for (concurrency, measured) in MEASURED {
        let (prompts, outputs) = (LengthSpec::constant(64), LengthSpec::constant(512));
        let report = Simulation::new()
            .engines(1, engine.clone())
            .latency(table.clone())
            .workload(Synthetic::poisson(1e6, concurrency, prompts, outputs)?)
            .run()?;
        let simulated = report.overall.throughput.output_tokens_per_s;
        println!("{concurrency:>11} {measured:>10.1} {simulated:>10.1}");
    }
    Ok(())
}

//! A sweep over rates and replications on all cores, as CSV.

use foretoken::prelude::*;

fn run(&(rate, replication): &(f64, u64)) -> Result<Report, Error> {
    let (prompts, outputs) = (LengthSpec::uniform(200, 800), LengthSpec::uniform(50, 400));
    Simulation::new()
        .engines(4, EngineConfig::default())
        .latency(Affine::example())
        .workload(Synthetic::poisson(rate, 500, prompts, outputs)?)
        .seed(7)
        .replication(replication)
        .run()
}

fn main() -> Result<(), Error> {
    let rates = [5.0, 10.0, 20.0, 40.0, 80.0];
    let points: Vec<_> = rates
        .iter()
        .flat_map(|&rate| (0..3).map(move |r| (rate, r)))
        .collect();
    println!("rate_rps,replication,ttft_p99_ms,itl_p99_ms,output_tokens_per_s");
    for ((rate, replication), report) in points.iter().zip(sweep(&points, run)) {
        let summary = report?.overall;
        if let (Some(ttft), Some(itl)) = (summary.ttft_ms, summary.itl_ms) {
            let tokens = summary.throughput.output_tokens_per_s;
            println!(
                "{rate},{replication},{:.2},{:.2},{tokens:.0}",
                ttft.p99, itl.p99
            );
        }
    }
    Ok(())
}

//! 1,100 candidates: the lowest P99 of TTFT that 2, 4 or 8 H100 can give Llama-3.1-8B, at four arrival rates.
//!
//! A budget of 2, 4 and 8 allows 3, 7 and 15 pairs of tensor parallelism and replicas; with 11 levels of
//! `max_num_seqs` and 4 rates these are 1,100 runs.
//!
//! `cargo run --release --example config_search_budgets`

use foretoken_search::{Environment, Metric, Search, SearchSpec, Setting, Space};

const BUDGETS: [u32; 3] = [2, 4, 8];
const RATES: [u32; 4] = [10, 40, 80, 160];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base: SearchSpec = serde_saphyr::from_str(include_str!("search.yaml"))?;
    let environment = Environment::builtin();
    let (ttft, itl): (Metric, Metric) = ("ttft-p99-ms".parse()?, "itl-mean-ms".parse()?);
    let mut run = 0;
    println!("GPUs  requests/s  best        max-num-seqs  TTFT P99 ms  ITL mean ms  worst ms");
    for gpus in BUDGETS {
        for rate in RATES {
            let mut spec = base.clone();
            spec.space = with_budget(&base.space, gpus);
            let key = "workload.synthetic.arrivals.poisson.rate-rps";
            spec.scenario = Setting::new(key, rate).apply(&base.scenario)?;
            let result = Search::new(&spec, &environment)?.run()?;
            // A group of more accelerators than there are is a candidate that fails, without a run.
            run += result.counts.candidates - result.counts.failed;
            let best = result.front().next().ok_or("all can be run")?;
            let label = |knob| best.label(knob).unwrap_or_default();
            let worst = result.candidates.iter().filter_map(|c| c.value(ttft));
            println!(
                "{gpus:>4} {rate:>11}  TP{}x{:<8} {:>12} {:>12.0} {:>12.2} {:>9.0}",
                label("tensor-parallel"),
                label("replicas"),
                label("max-num-seqs"),
                best.value(ttft).unwrap_or(f64::NAN),
                best.value(itl).unwrap_or(f64::NAN),
                worst.fold(0.0, f64::max),
            );
        }
    }
    println!("{run} candidates");
    if run == 1_100 {
        return Ok(());
    }
    Err("expected are 1100".into())
}

/// The same space with another budget.
fn with_budget(space: &Space, gpus: u32) -> Space {
    let others = space.knobs().iter().filter(|knob| knob.name != "replicas");
    let bounded = Space::default().gpu_budget(gpus);
    others.fold(bounded, |space, knob| {
        space.with(&knob.name, knob.levels.clone())
    })
}

//! Experiments with a fixed number of requests flatter goodput: an overloaded system needs time to show it.
//!
//! One request at a time, 10 ms each, Poisson arrivals: the M/D/1 queue, whose waiting times are known. At
//! each rate an experiment sends N requests to an idle server and counts how many are answered within 60 ms;
//! its goodput is the highest rate at which 95 % are. Beside it the search with a warm-up and a window in
//! seconds, which it doubles until the answer settles.

use foretoken::prelude::*;
use foretoken_search::{GoodputSpec, SearchError};

const SERVICE_S: f64 = 0.01;
const LIMIT_S: f64 = 0.06;
const SHARE: f64 = 0.95;

fn main() -> Result<(), SearchError> {
    let known = analytic_goodput();
    println!("requests  goodput (1/s)  above the true one of {known:.2}");
    for requests in [100, 300, 1_000, 3_000, 10_000] {
        let found = of_fixed_count(requests, 20)?;
        println!(
            "{requests:>8}  {found:>13.2}  {:>+8.1} %",
            100.0 * (found / known - 1.0)
        );
    }
    let spec = GoodputSpec {
        slos: slos(),
        share: SHARE,
        ..GoodputSpec::default()
    };
    let report = spec.find(&load(50.0, 1)?.into(), 0, |_| Ok(server()))?;
    println!("\n{report}");
    Ok(())
}

/// The mean over so many experiments.
pub(crate) fn of_fixed_count(requests: u32, experiments: u64) -> Result<f64, SearchError> {
    let numbers: Vec<u64> = (0..experiments).collect();
    let found = sweep(&numbers, |&replication| {
        let (mut holds, mut fails) = (1.0, 1_000.0);
        while fails / holds > 1.005 {
            let rate = f64::sqrt(holds * fails);
            let simulation = server()
                .workload(load(rate, requests)?)
                .replication(replication);
            let (recorder, end) = simulation.run_with(Recorder::streaming(()).judging(&slos()))?;
            let attainment = recorder.finish(end.at).attainment();
            let is_kept = attainment[0].goodput.share >= Some(SHARE);
            *(if is_kept { &mut holds } else { &mut fails }) = rate;
        }
        Ok::<f64, SearchError>(holds)
    });
    let found: Vec<f64> = found.into_iter().collect::<Result<_, _>>()?;
    Ok(found.iter().sum::<f64>() / found.len() as f64)
}

/// The rate at which a share of 0.95 waits no longer than 50 ms (Erlang 1909; Crommelin 1932).
pub(crate) fn analytic_goodput() -> f64 {
    let (mut holds, mut fails) = (0.0, 1.0 / SERVICE_S);
    while fails - holds > 1e-9 {
        let rate = f64::midpoint(holds, fails);
        let kept = share_that_waits_at_most(LIMIT_S - SERVICE_S, rate) >= SHARE;
        *(if kept { &mut holds } else { &mut fails }) = rate;
    }
    holds
}

fn share_that_waits_at_most(time: f64, rate: f64) -> f64 {
    let mut sum = 0.0;
    let mut k = 0_u32;
    while f64::from(k) * SERVICE_S <= time + 1e-12 {
        let x = rate * (f64::from(k) * SERVICE_S - time);
        let power = (1..=k).fold(1.0, |product, i| product * x / f64::from(i));
        sum += libm::exp(-x) * power;
        k += 1;
    }
    (1.0 - rate * SERVICE_S) * sum
}

fn server() -> Simulation {
    let mut config = EngineConfig::default();
    config.scheduler.scheduling = foretoken::engine::Scheduling::Synchronous;
    config.scheduler.max_num_seqs = 1;
    let step = Affine::new(SimDuration::from_millis(10));
    Simulation::new().engines(1, config).latency(step)
}

fn load(rate: f64, requests: u32) -> Result<SyntheticSpec, Error> {
    let (prompt, output) = (LengthSpec::constant(16), LengthSpec::constant(1));
    Ok(Synthetic::poisson(rate, requests, prompt, output)?)
}

fn slos() -> Slos {
    let slo = Slo {
        ttft: Some(SimDuration::from_millis(60)),
        ..Slo::default()
    };
    [(SloClass::Standard, slo)].into_iter().collect()
}

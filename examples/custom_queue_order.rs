//! A queue order and a preemption policy of one's own: the closest deadline first.

use std::sync::Arc;

use foretoken::engine::RunningView;
use foretoken::prelude::*;
use foretoken::workload::{OrderKey, QueueSignals};

/// Every request may take a second, and 20 ms for each token of its limit.
#[derive(Debug)]
struct Deadline;

impl QueueOrder for Deadline {
    fn key(&self, request: &RequestView<'_>, _: &QueueSignals) -> OrderKey {
        let allowance = 1_000_000_000 + u64::from(request.max_tokens) * 20_000_000;
        OrderKey::new(request.arrival.as_nanos() + allowance, 0)
    }
}

/// Takes the blocks of whoever has least to compute again.
#[derive(Debug)]
struct CheapestRecompute;

impl PreemptionPolicy for CheapestRecompute {
    fn victim(&mut self, running: &[RunningView], _needy: usize) -> usize {
        let cost = |&index: &usize| running[index].computed_tokens;
        (0..running.len()).min_by_key(cost).unwrap_or(0)
    }
}

fn main() -> Result<(), Error> {
    let (order, preemption) = (Box::new(Deadline), Box::new(CheapestRecompute));
    let (config, latency) = (EngineConfig::default(), Arc::new(Affine::example()));
    let (prompts, outputs) = (LengthSpec::constant(600), LengthSpec::uniform(20, 500));
    let report = Simulation::new()
        .engine(config, Policies { order, preemption }, latency)
        .workload(Synthetic::poisson(20.0, 2_000, prompts, outputs)?)
        .run()?;
    println!("{report}");
    Ok(())
}

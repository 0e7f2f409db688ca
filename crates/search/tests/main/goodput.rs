//! The goodput of systems whose waiting times are known.

use foretoken::engine::Scheduling;
use foretoken::prelude::*;
use foretoken_search::goodput::{Miss, Part};
use foretoken_search::{GoodputReport, GoodputSpec};

/// One request at a time, each takes 10 ms.
const SERVICE_S: f64 = 0.01;

fn server() -> Simulation {
    let mut config = EngineConfig::default();
    config.scheduler.scheduling = Scheduling::Synchronous;
    config.scheduler.max_num_seqs = 1;
    let step = Affine::new(SimDuration::from_millis(10));
    Simulation::new().engines(1, config).latency(step)
}

fn load(rate: f64, requests: u32) -> WorkloadSpec {
    let (prompt, output) = (LengthSpec::constant(16), LengthSpec::constant(1));
    let load = Synthetic::poisson(rate, requests, prompt, output);
    load.expect("a valid load").into()
}

fn ttft_within(services: u64) -> Slos {
    let slo = Slo {
        ttft: Some(SimDuration::from_millis(10 * services)),
        ..Slo::default()
    };
    [(SloClass::Standard, slo)].into_iter().collect()
}

fn find(spec: &GoodputSpec) -> GoodputReport {
    let found = spec.find(&load(50.0, 1), 1, |_| Ok(server()));
    found.expect("a valid search")
}

/// The waiting time of the M/D/1 queue: the probability that it is at most `services` service times
/// (Erlang 1909).
fn md1_wait(utilisation: f64, services: u32) -> f64 {
    let term = |k: u32| {
        let x = utilisation * (f64::from(k) - f64::from(services));
        let power = (1..=k).fold(1.0, |product, i| product * x / f64::from(i));
        (-x).exp() * power
    };
    (1.0 - utilisation) * (0..=services).map(term).sum::<f64>()
}

/// The highest rate at which `share` of all first tokens come within so many service times.
fn md1_goodput(share: f64, services: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-12 {
        let middle = f64::midpoint(low, high);
        if md1_wait(middle, services - 1) >= share {
            low = middle;
        } else {
            high = middle;
        }
    }
    low / SERVICE_S
}

#[test]
fn the_formula_is_that_of_the_m_d_1_queue() {
    // Nobody waits with the probability 1 - rho; up to one service, (1 - rho) e^rho.
    assert!((md1_wait(0.6, 0) - 0.4).abs() < 1e-12);
    assert!((md1_wait(0.6, 1) - 0.4 * 0.6_f64.exp()).abs() < 1e-12);
    assert!((md1_wait(0.3, 12) - 1.0).abs() < 1e-6);
}

#[test]
fn the_knee_of_the_m_d_1_queue_is_found_within_two_percent() {
    for (share, services) in [(0.9, 4), (0.95, 6), (0.99, 10)] {
        let spec = GoodputSpec {
            slos: ttft_within(services.into()),
            share,
            window_s: Some(1_000.0),
            max_doublings: 0,
            resolution: 0.002,
            replications: 4,
            ..GoodputSpec::default()
        };
        let found = find(&spec);
        let (rate, known) = (
            found.rate.expect("it holds at 1/s"),
            md1_goodput(share, services),
        );
        println!("{share} within {services}: {known:.3}\n{found}");
        assert!(
            (rate / known - 1.0).abs() < 0.02,
            "{rate} where {known} is known: {found}"
        );
    }
}

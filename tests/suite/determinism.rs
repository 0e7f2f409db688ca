//! Same parts, seed and replication: same bytes, whatever else runs and on whatever thread.

use foretoken::dataplane::Random;
use foretoken::prelude::*;

use crate::support::{Log, load, run_logged, simulation};

fn json(simulation: Simulation) -> String {
    let report = simulation.run().expect("a valid simulation");
    serde_json::to_string(&report).expect("a report is plain data")
}

fn random(seed: u64, replication: u64) -> Simulation {
    simulation(20.0, 300)
        .router(Random)
        .seed(seed)
        .replication(replication)
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(json(random(7, 1)), json(random(7, 1)));
}

#[test]
fn the_same_seed_gives_the_same_events_in_the_same_order() {
    let [first, second] = [(); 2].map(|()| {
        let (log, end) = random(7, 0).run_with(Log::default()).expect("valid");
        (log.fingerprint(), end)
    });
    assert_eq!(first, second);
}

#[test]
fn another_seed_or_replication_is_another_run() {
    let digests = [(7, 0), (8, 0), (7, 1)].map(|(seed, replication)| {
        let report = random(seed, replication).run().expect("valid");
        report.digest
    });
    assert_ne!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
    assert_ne!(digests[1], digests[2]);
}

#[test]
fn a_sweep_gives_the_same_bytes_on_one_thread_and_on_two() {
    let points: Vec<(u32, u64)> = (1..=4).flat_map(|rate| [(rate, 0), (rate, 1)]).collect();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().expect("threads can be had").install(|| {
            sweep(&points, |&(rate, replication)| {
                json(simulation(f64::from(rate) * 10.0, 100).replication(replication))
            })
        })
    };
    let one = run(1);
    assert_eq!(one, run(2));
    // In the order of the points.
    let (rate, replication) = points[5];
    let alone = simulation(f64::from(rate) * 10.0, 100).replication(replication);
    assert_eq!(one[5], json(alone));
}

#[test]
fn another_policy_sees_the_same_load() {
    let arrivals = |simulation: Simulation| -> Vec<_> {
        let (_, recording) = run_logged(simulation);
        let seen =
            |r: &foretoken::metrics::RequestRecord| (r.arrival, r.prompt_tokens, r.output_tokens);
        recording.records().iter().map(seen).collect()
    };
    let round_robin = arrivals(simulation(20.0, 200).seed(3));
    assert_eq!(
        round_robin,
        arrivals(simulation(20.0, 200).seed(3).router(Random))
    );
}

#[test]
fn an_engine_nobody_uses_changes_nothing_for_requests() {
    let first = |_: &RequestView<'_>, _: &mut GatewayContext<'_>| Some(EndpointId::new(0).into());
    let digest = |engines| {
        Simulation::new()
            .engines(engines, EngineConfig::default())
            .latency(Affine::example())
            .workload(load(5.0, 100))
            .router(first)
            .run()
            .expect("valid")
            .digest
    };
    assert_eq!(digest(1), digest(3));
}

#[test]
fn a_rejected_request_draws_nothing_from_the_others() {
    // The admission stream is drawn from; arrivals, lengths and routing are not moved by it.
    let sees = |admitter: Box<dyn Admitter>| -> Vec<_> {
        let mut admitter = admitter;
        let admit = move |request: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
            admitter.admit(request, cx)
        };
        let (_, recording) = run_logged(random(1, 0).admitter(admit));
        recording.records().iter().map(|r| r.arrival).collect()
    };
    let coin = |_: &RequestView<'_>, cx: &mut GatewayContext<'_>| match cx.rng.below(2) {
        0 => Verdict::Admit,
        _ => Verdict::Shed,
    };
    assert_eq!(sees(Box::new(AdmitAll)), sees(Box::new(coin)));
}

//! A router of one's own: the power of two choices, beside pure chance.

use foretoken::dataplane::Random;
use foretoken::prelude::*;

/// Of two random endpoints, the one with less to do.
struct TwoChoices;

impl Router for TwoChoices {
    fn route(&mut self, _: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Option<Placement> {
        let (a, b) = (cx.rng.choose(cx.endpoints)?, cx.rng.choose(cx.endpoints)?);
        let load = |endpoint: &EndpointView| endpoint.running + endpoint.queued;
        Some(if load(a) <= load(b) { a.id } else { b.id }.into())
    }
}

fn run(name: &str, router: impl Router + 'static) -> Result<(), Error> {
    let (prompts, outputs) = (
        LengthSpec::uniform(200, 800),
        LengthSpec::lognormal(200.0, 400.0),
    );
    let report = Simulation::new()
        .engines(4, EngineConfig::default())
        .latency(Affine::example())
        .workload(Synthetic::poisson(150.0, 3_000, prompts, outputs)?)
        .router(router)
        .seed(7)
        .run()?;
    let overall = report.overall;
    for (measure, latency) in [("TTFT", overall.ttft_ms), ("E2E", overall.e2e_ms)] {
        let latency = latency.expect("requests finish");
        println!(
            "{name:<12} {measure:>6} {:>9.1} {:>9.1}",
            latency.p50, latency.p99
        );
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    println!("{:<12} {:>6} {:>9} {:>9}", "router", "[ms]", "p50", "p99");
    run("random", Random)?;
    run("two choices", TwoChoices)
}

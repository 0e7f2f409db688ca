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

fn run(router: impl Router + 'static) -> Result<Report, Error> {
    let outputs = LengthSpec::lognormal(200.0, 400.0);
    Simulation::new()
        .engines(4, EngineConfig::default())
        .latency(Affine::example())
        .workload(Synthetic::poisson(
            150.0,
            3_000,
            LengthSpec::uniform(200, 800),
            outputs,
        )?)
        .router(router)
        .seed(7)
        .run()
}

fn main() -> Result<(), Error> {
    println!("random\n{}\n", run(Random)?);
    println!("two choices\n{}", run(TwoChoices)?);
    Ok(())
}

//! Prefill and decode on the same four engines, or two for each: what splitting does to the time to
//! first token and to the time between tokens.

use foretoken::dataplane::pipeline::deciders::PrefixBasedDecider;
use foretoken::dataplane::pipeline::filters::RoleFilter;
use foretoken::dataplane::pipeline::handlers::DisaggHandler;
use foretoken::dataplane::pipeline::scorers::{ActiveRequestScorer, TokenLoadScorer};
use foretoken::dataplane::producer::{ApproximatePrefix, InFlightLoad};
use foretoken::dataplane::{Pipeline, view::ROLE_LABEL};
use foretoken::prelude::*;

fn run(roles: [&str; 4], router: Pipeline) -> Result<Report, Error> {
    let deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", 1);
    let engine = deployment.resolve(&Catalog::builtin(), &Physics::default())?;
    let lengths = (LengthSpec::constant(4000), LengthSpec::constant(200));
    let mut simulation = Simulation::new()
        .workload(Synthetic::poisson(20.0, 2000, lengths.0, lengths.1)?)
        .producer(ApproximatePrefix::default())
        .producer(InFlightLoad::default())
        .router(router);
    for role in roles {
        simulation = simulation.instance(engine.instance().label(ROLE_LABEL, role));
    }
    simulation.run()
}

fn main() -> Result<(), Error> {
    let decider = PrefixBasedDecider {
        non_cached_tokens: 512,
        prompt_tokens: 0,
    };
    let together = Pipeline::new().scorer(1.0, ActiveRequestScorer::default());
    let split = Pipeline::starting_with("decode")
        .filter(RoleFilter::Decode)
        .scorer(1.0, ActiveRequestScorer::default())
        .and_profile("prefill")
        .filter(RoleFilter::Prefill)
        .scorer(1.0, TokenLoadScorer::default())
        .handler(DisaggHandler::decode_first(decider));
    println!("four engines for both\n{}\n", run(["both"; 4], together)?);
    let roles = ["prefill", "prefill", "decode", "decode"];
    println!("two for each\n{}", run(roles, split)?);
    Ok(())
}

//! One deployment under one load: the smallest useful program.

use foretoken::prelude::*;

fn main() -> Result<(), Error> {
    let deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100", 1);
    let (prompts, outputs) = (
        LengthSpec::lognormal(600.0, 400.0),
        LengthSpec::lognormal(200.0, 100.0),
    );
    let load = Synthetic::poisson(10.0, 1_000, prompts, outputs)?;
    let scenario = Scenario::new(deployment, load);
    let report = scenario.run(&Catalog::builtin(), &Physics::default())?;
    println!("{report}");
    Ok(())
}

//! Loads that several benchmarks and `examples/speed.rs` share.

use foretoken::prelude::*;

/// A load of the kind that servers were measured under: code generation with Llama-3.1-70B on four
/// H100 for each instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codegen {
    pub(crate) requests: u32,
    pub(crate) instances: u32,
    /// Requests per second and instance.
    pub(crate) rate: f64,
    /// Mean tokens of an answer.
    pub(crate) output: f64,
}

impl Codegen {
    /// At five requests per second and instance, with the lengths of the measured runs.
    pub(crate) const fn new(requests: u32, instances: u32) -> Self {
        Self {
            requests,
            instances,
            rate: 5.0,
            output: 247.0,
        }
    }

    pub(crate) fn scenario(&self) -> Scenario {
        let mut deployment =
            Deployment::new("meta-llama/Llama-3.1-70B-Instruct", "H100-SXM-80GB", 4);
        deployment.replicas = self.instances;
        deployment.engine.max_model_len = Some(4_096);
        deployment.engine.max_num_seqs = Some(128);
        deployment.engine.max_num_batched_tokens = Some(2_048);
        let prompt = LengthSpec::Lognormal {
            mean: 590.0,
            std: 200.0,
            min: 1,
            max: 2_000,
        };
        let output = LengthSpec::Lognormal {
            mean: self.output,
            std: 0.4 * self.output,
            min: 1,
            max: 2_000,
        };
        let rate = self.rate * f64::from(self.instances);
        let load = Synthetic::poisson(rate, self.requests, prompt, output);
        Scenario::new(deployment, load.expect("a positive rate"))
    }

    /// Runs it to the end, with its report.
    pub(crate) fn run(&self, catalog: &Catalog, physics: &Physics) -> Report {
        let report = self.scenario().run(catalog, physics);
        report.expect("the deployment exists and fits")
    }
}

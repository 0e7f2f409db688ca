//! A latency model of one's own, around another: steps get slower beyond a knee.

use foretoken::latency_model::DecodeLaw;
use foretoken::prelude::*;

/// Any model, twice as slow once the decodes of a step read `knee` tokens of context.
#[derive(Debug)]
struct Knee<M> {
    inner: M,
    knee: u64,
}

impl<M: LatencyModel> LatencyModel for Knee<M> {
    fn step(&self, shape: &StepShape) -> Fine {
        let beyond = shape.decode_context >= self.knee;
        self.inner.step(shape) * if beyond { 2 } else { 1 }
    }

    // Below the knee the inner law still holds: each step adds a token for each decode.
    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        let law = self.inner.decode_law(shape)?;
        let room = self.knee.checked_sub(shape.decode_context)?;
        Some(law.limited(room.div_ceil(shape.decodes.into())))
    }
}

fn main() -> Result<(), Error> {
    let (prompts, outputs) = (LengthSpec::constant(1_000), LengthSpec::constant(200));
    let (inner, knee) = (Affine::example(), 10_000);
    let report = Simulation::new()
        .engines(1, EngineConfig::default())
        .latency(Knee { inner, knee })
        .workload(Synthetic::poisson(6.0, 1_000, prompts, outputs)?)
        .run()?;
    println!("{report}");
    Ok(())
}

//! A latency model of one's own, around another: steps get slower beyond a knee.

use foretoken::latency_model::DecodeLaw;
use foretoken::prelude::*;

/// Any model, slower by a factor once the decodes of a step read `knee` tokens of context.
#[derive(Debug)]
struct Knee<M> {
    inner: M,
    knee: u64,
    factor: u128,
}

impl<M: LatencyModel> LatencyModel for Knee<M> {
    fn step(&self, shape: &StepShape) -> Fine {
        let beyond = shape.decode_context >= self.knee;
        self.inner.step(shape) * if beyond { self.factor } else { 1 }
    }

    // Below the knee the inner law still holds: each step adds a token for each decode.
    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        let room = self.knee.checked_sub(shape.decode_context)?;
        let steps = room.div_ceil(shape.decodes.into());
        Some(self.inner.decode_law(shape)?.limited(steps))
    }
}

fn main() -> Result<(), Error> {
    let knee = Knee {
        inner: Affine::example(),
        knee: 40_000,
        factor: 2,
    };
    let lengths = (
        LengthSpec::uniform(500, 1_500),
        LengthSpec::uniform(100, 300),
    );
    let report = Simulation::new()
        .engines(1, EngineConfig::default())
        .latency(knee)
        .workload(Synthetic::poisson(15.0, 2_000, lengths.0, lengths.1)?)
        .run()?;
    println!("{report}");
    Ok(())
}

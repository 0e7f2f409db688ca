//! [`Scaled`]: a latency model whose steps take longer, or less long, by a factor.

use std::sync::Arc;

use foretoken::latency_model::{Confidence, DecodeLaw, Extent, Fine, LatencyModel, StepShape};

/// Every step takes `factor` times as long as the model says, to within 2⁻³² ns.
///
/// The closed form of decode steps is kept, to the bit. A product is rounded, and rounding every step
/// would not give a law; so the two coefficients that a law has, the time of a step without context and
/// the time of a token of context, are each multiplied and rounded once.
#[derive(Debug, Clone)]
pub struct Scaled {
    inner: Arc<dyn LatencyModel>,
    /// In 2⁻²⁰.
    factor: i128,
}

const BITS: u32 = 20;

impl Scaled {
    /// `factor` times as long, to six digits; from 0.001 to 1000, and the nearest of these otherwise.
    #[expect(clippy::cast_possible_truncation, reason = "it is at most 1000 · 2^20")]
    pub fn new(inner: Arc<dyn LatencyModel>, factor: f64) -> Self {
        let factor = (factor.clamp(1e-3, 1e3) * f64::from(1 << BITS)).round();
        Self {
            inner,
            factor: factor as i128,
        }
    }

    /// Rounded down, below 0 too.
    const fn times(&self, bits: i128) -> i128 {
        (bits * self.factor) >> BITS
    }

    /// The scaled time and growth of a pure decode step whose inner law is affine in its context.
    fn affine(&self, shape: &StepShape) -> Option<(Fine, DecodeLaw)> {
        let law = self.inner.decode_law(shape)?;
        let (first, decodes) = (signed(law.step(0)), i128::from(shape.decodes));
        let growth = signed(law.step(1)) - first;
        if decodes == 0 || growth % decodes != 0 {
            return None;
        }
        let (slope, context) = (growth / decodes, i128::from(shape.decode_context));
        let base = self.times(first - slope * context);
        let slope = self.times(slope);
        let first = unsigned(base + slope * context);
        let law = DecodeLaw::new(first, unsigned(slope * decodes), law.steps());
        Some((first, law))
    }
}

fn signed(time: Fine) -> i128 {
    i128::try_from(time.bits()).unwrap_or(i128::MAX >> BITS)
}

fn unsigned(bits: i128) -> Fine {
    Fine::from_bits(u128::try_from(bits).unwrap_or(0))
}

impl LatencyModel for Scaled {
    fn step(&self, shape: &StepShape) -> Fine {
        let is_decode = shape.prefills == 0 && shape.decodes > 0;
        match is_decode.then(|| self.affine(shape)).flatten() {
            Some((first, _)) => first,
            None => unsigned(self.times(signed(self.inner.step(shape)))),
        }
    }

    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        self.affine(shape).map(|(_, law)| law)
    }

    fn confidence(&self, extent: &Extent) -> Confidence {
        self.inner.confidence(extent)
    }
}

#[cfg(test)]
mod tests {
    use foretoken::hwspec::{KvFormat, TensorParallel, catalog};
    use foretoken::latency_model::{Affine, KernelPhysics};
    use proptest::prelude::*;

    use super::*;

    fn models() -> Vec<Arc<dyn LatencyModel>> {
        let (one, kv) = (TensorParallel::ONE, KvFormat::Auto);
        let physics = [
            "meta-llama/Llama-3.1-8B-Instruct",
            "Qwen/Qwen2.5-7B-Instruct",
        ]
        .map(|name| {
            let model = catalog::model(name).expect("in the catalog");
            let gpu = catalog::gpu("H100-SXM-80GB").expect("in the catalog");
            KernelPhysics::new(&model, &gpu, one, kv).expect("it fits")
        });
        let mut models: Vec<Arc<dyn LatencyModel>> = vec![Arc::new(Affine::example())];
        models.extend(physics.map(|model| Arc::new(model) as Arc<dyn LatencyModel>));
        models
    }

    proptest! {
        #[test]
        fn a_law_equals_its_steps_to_the_bit(
            batch in 1_u32..300, per_sequence in 1_u64..4_000, k in 0_u64..2_000, factor in 0.5..2.0_f64,
        ) {
            for model in models() {
                let scaled = Scaled::new(model, factor);
                let context = u64::from(batch) * per_sequence;
                let shape = StepShape::decode(batch, context);
                if let Some(law) = scaled.decode_law(&shape) {
                    let k = k.min(law.steps() - 1);
                    let later = StepShape::decode(batch, context + k * u64::from(batch));
                    prop_assert_eq!(law.step(k), scaled.step(&later));
                }
            }
        }

        #[test]
        fn steps_take_the_factor_times_as_long(
            batch in 1_u32..300, new in 1_u32..5_000, factor in 0.5..2.0_f64,
        ) {
            for model in models() {
                let scaled = Scaled::new(model.clone(), factor);
                for shape in [StepShape::decode(batch, 900 * u64::from(batch)), StepShape::prefill(new, 7)] {
                    let (plain, scaled) = (model.step(&shape), scaled.step(&shape));
                    let ratio = scaled.as_nanos_f64() / plain.as_nanos_f64();
                    prop_assert!((ratio / factor - 1.0).abs() < 1e-5, "{} for {}", ratio, factor);
                }
            }
        }
    }

    #[test]
    fn laws_of_the_built_in_models_are_kept() {
        for model in models() {
            let shape = StepShape::decode(40, 40_000);
            let law = Scaled::new(model.clone(), 1.12).decode_law(&shape);
            assert_eq!(
                law.map(|law| law.steps()),
                model.decode_law(&shape).map(|law| law.steps())
            );
        }
    }
}

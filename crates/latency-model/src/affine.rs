//! [`Affine`]: a step time with five coefficients, for examples, tests and fits by hand.

use foretoken_des_kernel::SimDuration;
use serde::{Deserialize, Serialize};

use crate::LatencyModel;
use crate::error::LatencyError;
use crate::explain::{Bound, Explanation, Term};
use crate::fine::Fine;
use crate::law::DecodeLaw;
use crate::number::Amount;
use crate::part::fine;
use crate::shape::StepShape;

/// A step time that is affine in the step's sums:
/// `base + per_token * tokens + per_sequence * sequences + per_context * (decode context + past)`.
///
/// ```
/// use foretoken_latency_model::{Affine, LatencyModel, StepShape};
///
/// let model = Affine::example();
/// // 5 ms + 8 tokens x 20 us + 8 sequences x 10 us + 8 000 tokens of context x 50 ns
/// assert_eq!(model.step(&StepShape::decode(8, 8_000)).as_micros_f64(), 5_640.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "AffineMicros", into = "AffineMicros")]
pub struct Affine {
    base: Fine,
    per_token: Fine,
    per_sequence: Fine,
    per_context: Fine,
}

/// The file form, in microseconds.
#[expect(clippy::struct_field_names, reason = "keys of files carry their unit")]
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AffineMicros {
    base_us: Amount,
    #[serde(default)]
    per_token_us: Amount,
    #[serde(default)]
    per_sequence_us: Amount,
    #[serde(default)]
    per_context_us: Amount,
}

impl Affine {
    /// Any step takes `base`.
    pub fn new(base: SimDuration) -> Self {
        Self {
            base: base.into(),
            per_token: Fine::ZERO,
            per_sequence: Fine::ZERO,
            per_context: Fine::ZERO,
        }
    }

    /// Each new token adds `span`.
    #[must_use]
    pub fn per_token(self, span: SimDuration) -> Self {
        Self {
            per_token: span.into(),
            ..self
        }
    }

    /// Each sequence adds `span`.
    #[must_use]
    pub fn per_sequence(self, span: SimDuration) -> Self {
        Self {
            per_sequence: span.into(),
            ..self
        }
    }

    /// Each token of context adds `span`.
    #[must_use]
    pub fn per_context(self, span: SimDuration) -> Self {
        Self {
            per_context: span.into(),
            ..self
        }
    }

    /// A middling model on a middling accelerator: 5 ms, 20 us a token, 10 us a sequence, 50 ns a
    /// token of context.
    pub fn example() -> Self {
        Self::new(SimDuration::from_millis(5))
            .per_token(SimDuration::from_micros(20))
            .per_sequence(SimDuration::from_micros(10))
            .per_context(SimDuration::from_nanos(50))
    }

    fn terms(&self, shape: &StepShape) -> [(&'static str, Fine); 4] {
        if shape.is_empty() {
            return [("base", Fine::ZERO); 4];
        }
        let context = u128::from(shape.decode_context) + u128::from(shape.prefill_context);
        [
            ("base", self.base),
            ("tokens", self.per_token * u128::from(shape.tokens())),
            (
                "sequences",
                self.per_sequence * u128::from(shape.sequences()),
            ),
            ("context", self.per_context * context),
        ]
    }
}

impl LatencyModel for Affine {
    fn step(&self, shape: &StepShape) -> Fine {
        self.terms(shape).into_iter().map(|(_, time)| time).sum()
    }

    fn decode_law(&self, shape: &StepShape) -> Option<DecodeLaw> {
        if shape.prefills > 0 || shape.decodes == 0 {
            return None;
        }
        let increment = self.per_context * u128::from(shape.decodes);
        Some(DecodeLaw::new(self.step(shape), increment, u64::MAX))
    }

    fn explain(&self, shape: &StepShape) -> Explanation {
        let terms = self
            .terms(shape)
            .into_iter()
            .filter(|(_, time)| *time > Fine::ZERO);
        Explanation::new(
            terms
                .map(|(name, time)| Term::new(name, time, Bound::Unknown))
                .collect(),
        )
    }
}

impl TryFrom<AffineMicros> for Affine {
    type Error = LatencyError;

    fn try_from(micros: AffineMicros) -> Result<Self, LatencyError> {
        let span = |amount: Amount| fine(amount.get() * 1e3);
        Ok(Self {
            base: span(micros.base_us),
            per_token: span(micros.per_token_us),
            per_sequence: span(micros.per_sequence_us),
            per_context: span(micros.per_context_us),
        })
    }
}

impl From<Affine> for AffineMicros {
    fn from(affine: Affine) -> Self {
        let micros = |span: Fine| Amount::new(span.as_micros_f64()).unwrap_or_default();
        Self {
            base_us: micros(affine.base),
            per_token_us: micros(affine.per_token),
            per_sequence_us: micros(affine.per_sequence),
            per_context_us: micros(affine.per_context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_law_is_its_steps() {
        let model = Affine::example();
        let law = model
            .decode_law(&StepShape::decode(3, 100))
            .expect("a pure decode step");
        for k in 0..50 {
            assert_eq!(law.step(k), model.step(&StepShape::decode(3, 100 + 3 * k)));
        }
    }

    #[test]
    fn a_step_without_sequences_takes_no_time() {
        assert_eq!(Affine::example().step(&StepShape::default()), Fine::ZERO);
    }

    #[test]
    fn it_reads_and_writes_its_file_form() {
        let json = r#"{"base-us":5000.0,"per-token-us":20.0,"per-sequence-us":10.0,"per-context-us":0.05}"#;
        let model: Affine = serde_json::from_str(json).expect("valid");
        assert_eq!(model, Affine::example());
        assert_eq!(serde_json::to_string(&model).expect("serialises"), json);
        assert!(serde_json::from_str::<Affine>(r#"{"base-us":-1.0}"#).is_err());
        assert!(serde_json::from_str::<Affine>(r#"{"base-us":1.0,"bose-us":1.0}"#).is_err());
    }
}

//! The closed form of a decode run is the sum of its steps.

use foretoken_latency_model::{DecodeLaw, Fine};
use proptest::prelude::*;

fn laws() -> impl Strategy<Value = DecodeLaw> {
    let first = prop_oneof![Just(0_u128), 1_u128..1 << 60];
    let increment = prop_oneof![Just(0_u128), 1_u128..1 << 50];
    (first, increment, 0_u64..500).prop_map(|(first, increment, steps)| {
        DecodeLaw::new(Fine::from_bits(first), Fine::from_bits(increment), steps)
    })
}

proptest! {
    #[test]
    fn the_sum_is_the_sum_of_the_steps(law in laws(), m in 0_u64..400) {
        let steps: Fine = (0..m).map(|k| law.step(k)).sum();
        prop_assert_eq!(law.sum(m), steps);
    }

    #[test]
    fn reaching_a_span_takes_the_least_number_of_steps(law in laws(), part in 0.0_f64..1.2) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of it")]
        let span = Fine::from_bits((law.sum(law.steps()).bits() as f64 * part) as u128);
        let expected = (0..=law.steps()).find(|&m| law.sum(m) >= span);
        prop_assert_eq!(law.steps_to_reach(span), expected);
    }

    #[test]
    fn an_endless_law_reaches_any_span(first in 1_u128..1 << 70, increment in 0_u128..1 << 60, span in 0_u128..1 << 90) {
        let law = DecodeLaw::new(Fine::from_bits(first), Fine::from_bits(increment), u64::MAX);
        let span = Fine::from_bits(span);
        if let Some(steps) = law.steps_to_reach(span) {
            prop_assert!(law.sum(steps) >= span);
            prop_assert!(steps == 0 || law.sum(steps - 1) < span);
        } else {
            prop_assert!(first * u128::from(u64::MAX) < span.bits());
        }
    }
}

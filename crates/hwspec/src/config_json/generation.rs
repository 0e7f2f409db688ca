//! How a model asks to be sampled: its `generation_config.json`.

use crate::error::HwspecError;
use crate::model::Sampling;

use super::fields::Fields;

/// Reads `generation_config`, which Hugging Face keeps in a file beside `config.json`.
///
/// `top_k` of 0 or -1, and `top_p` and `repetition_penalty` of 1, are off, as vLLM has it.
pub(super) fn sampling(outer: &Fields<'_>) -> Result<Sampling, HwspecError> {
    let Some(generation) = outer.object("generation_config", "generation_config")? else {
        return Ok(Sampling::default());
    };
    let top_k = match generation.value("top_k") {
        None => 0,
        Some(value) => value
            .as_i64()
            .filter(|&k| k >= -1)
            .ok_or_else(|| generation.invalid("top_k", "a whole number from -1"))?,
    };
    let top_p = match generation.value("top_p") {
        None => 1.0,
        Some(value) => value
            .as_f64()
            .filter(|&p| p > 0.0 && p <= 1.0)
            .ok_or_else(|| generation.invalid("top_p", "above 0 and at most 1"))?,
    };
    let penalty = match generation.value("repetition_penalty") {
        None => 1.0,
        Some(value) => value
            .as_f64()
            .filter(|&p| p > 0.0)
            .ok_or_else(|| generation.invalid("repetition_penalty", "above 0"))?,
    };
    Ok(Sampling {
        truncation: top_k > 0 || top_p < 1.0,
        repetition_penalty: (penalty - 1.0).abs() > f64::EPSILON,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn read(generation: Value) -> Result<Sampling, HwspecError> {
        let map: Map<String, Value> = [("generation_config".to_owned(), generation)]
            .into_iter()
            .collect();
        sampling(&Fields::new("m", "", &map))
    }

    #[test]
    fn top_k_or_top_p_truncates_and_their_off_values_do_not() {
        for truncated in [
            json!({"top_k": 20}),
            json!({"top_p": 0.9, "temperature": 0.6}),
        ] {
            assert!(read(truncated).expect("valid").truncation);
        }
        for full in [
            json!({}),
            json!({"top_k": 0, "top_p": 1.0}),
            json!({"top_k": -1}),
            json!({"repetition_penalty": 1.0}),
        ] {
            assert_eq!(read(full), Ok(Sampling::default()));
        }
    }

    #[test]
    fn a_repetition_penalty_other_than_one_counts_tokens() {
        let sampling = read(json!({"repetition_penalty": 1.05})).expect("valid");
        assert!(sampling.repetition_penalty && !sampling.truncation);
        let error = read(json!({"repetition_penalty": 0}))
            .expect_err("no penalty")
            .to_string();
        assert!(error.contains("repetition_penalty = 0"), "{error}");
    }

    #[test]
    fn a_share_above_one_is_refused_by_name() {
        let error = read(json!({"top_p": 1.5}))
            .expect_err("no probability")
            .to_string();
        assert!(error.contains("generation_config.top_p = 1.5"), "{error}");
    }
}

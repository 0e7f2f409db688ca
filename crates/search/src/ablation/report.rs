//! [`AblationReport`]: the answers.

use foretoken::metrics::Estimate;
use serde::Serialize;

use super::shapley::ShapleyMethod;
use super::spec::AblationValue;

/// What features are worth, in three ways.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AblationReport {
    /// What was measured.
    pub value: AblationValue,
    /// Repetitions with other random numbers.
    pub replications: u32,
    /// Sets of features that were run, each once in every repetition.
    pub coalitions: usize,
    /// Without any feature.
    pub baseline: Estimate,
    /// With all of them.
    pub full: Estimate,
    /// What all of them give together.
    pub total: Gain,
    /// Switched on in order: the value with it and all before it, and what it adds to these.
    pub ladder: Vec<Step>,
    /// All but one: the value without it, and what it adds to all others.
    pub leave_one_out: Vec<Step>,
    /// How the Shapley values were computed.
    pub method: ShapleyMethod,
    /// The Shapley value of each: they sum to the total.
    pub shapley: Vec<Share>,
}

/// A difference that a feature makes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Gain {
    /// Paired differences over the replications, in the unit of the value; positive is better, also
    /// where less of the value is better.
    pub estimate: Estimate,
    /// How far the mean may be off because orders were drawn, with 95 % confidence; `None` if nothing
    /// was drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_half_width: Option<f64>,
    /// Whether it can be told from nothing.
    pub effect: Effect,
}

/// What a feature does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Effect {
    /// The value is better with it.
    Better,
    /// The value is worse with it.
    Worse,
    /// The interval of the difference holds zero, or there is none.
    NotDistinguishable,
}

impl Gain {
    /// The mean of paired differences, and of the same by what was drawn, if anything was.
    pub(super) fn of(differences: &[f64], drawn: Option<&[f64]>) -> Self {
        let estimate = Estimate::of(differences).expect("there is a replication at least");
        let sampling_half_width = drawn.and_then(|drawn| Estimate::of(drawn)?.half_width);
        let mut gain = Self {
            estimate,
            sampling_half_width,
            effect: Effect::NotDistinguishable,
        };
        gain.effect = match gain.half_width() {
            Some(half_width) if estimate.mean > half_width => Effect::Better,
            Some(half_width) if estimate.mean < -half_width => Effect::Worse,
            _ => Effect::NotDistinguishable,
        };
        gain
    }

    /// Half the width of its interval: that of the replications and, where orders were drawn, that of
    /// the draws on top.
    pub fn half_width(&self) -> Option<f64> {
        let half_width = self.estimate.half_width?;
        Some(half_width + self.sampling_half_width.unwrap_or(0.0))
    }
}

/// A rung of the ladder, or all but one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Step {
    /// The feature.
    pub feature: String,
    /// The value there.
    pub worth: Estimate,
    /// What the feature adds.
    pub gain: Gain,
}

/// A feature's Shapley value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Share {
    /// The feature.
    pub feature: String,
    /// What it adds on average over all orders.
    pub gain: Gain,
    /// The least that it adds to any set of others that was run.
    pub least: f64,
    /// The most.
    pub most: f64,
}

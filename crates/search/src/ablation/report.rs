//! [`AblationReport`]: the answers.

use foretoken::metrics::Estimate;
use serde::Serialize;

use super::shapley::ShapleyMethod;
use super::spec::AblationValue;
use crate::judgement::Judgement;
use crate::metric::Direction;

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
    /// Whether the value is better with the feature, and whether that can be told from nothing.
    pub judgement: Judgement,
}

impl Gain {
    /// The mean of paired differences, and of the same by what was drawn, if anything was.
    pub(super) fn of(differences: &[f64], drawn: Option<&[f64]>) -> Self {
        let estimate = Estimate::of(differences).expect("there is a replication at least");
        let sampling_half_width = drawn.and_then(|drawn| Estimate::of(drawn)?.half_width);
        let mut widened = estimate;
        widened.half_width = widened
            .half_width
            .map(|half_width| half_width + sampling_half_width.unwrap_or(0.0));
        Self {
            estimate,
            sampling_half_width,
            judgement: Judgement::of(&widened, Direction::Maximise),
        }
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
    /// The value there, in its own unit and as it was measured: of a latency less is better.
    pub worth: Estimate,
    /// What the feature adds; positive is better.
    pub gain: Gain,
}

/// A feature's Shapley value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Share {
    /// The feature.
    pub feature: String,
    /// What it adds on average over all orders; positive is better.
    pub gain: Gain,
    /// The least that it adds to any set of others that was run, on average over the replications: in the
    /// unit of the value, positive is better, as of [`Gain::estimate`].
    pub least: f64,
    /// The most, likewise.
    pub most: f64,
}

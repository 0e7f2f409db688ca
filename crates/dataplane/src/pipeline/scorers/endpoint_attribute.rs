//! [`EndpointAttributeScorer`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::signals::attribute;
use crate::view::GatewayContext;

/// llm-d's `endpoint-attribute-scorer`: any number that a producer knows of the endpoints, scaled
/// linearly to 0..=1.
///
/// 0 where the number is missing or not finite; 1 where the range has no width.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointAttributeScorer {
    /// The number, as `attribute/producer`.
    pub attribute: Arc<str>,
    /// Which end of the range scores 1.
    pub better: Better,
    /// What is scaled to 0..=1.
    pub range: ScoreRange,
}

/// Which values of an attribute are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Small ones.
    Lower,
    /// Large ones.
    Higher,
}

/// The range of an attribute that is scaled to 0..=1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ScoreRange {
    /// From the smallest to the largest among the candidates.
    Observed,
    /// A given one; values outside count like its ends.
    Fixed {
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
    },
}

impl EndpointAttributeScorer {
    /// Scales `attribute` of `producer` over what is observed.
    pub fn new(attribute: &str, producer: &str, better: Better) -> Self {
        Self {
            attribute: format!("{attribute}/{producer}").into(),
            better,
            range: ScoreRange::Observed,
        }
    }
}

impl Scorer for EndpointAttributeScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let column = cx.signals.numbers.column(&self.attribute);
        let number = |position| attribute(column, position).filter(|number| number.is_finite());
        let (min, max) = match self.range {
            ScoreRange::Fixed { min, max } => (min, max),
            ScoreRange::Observed => candidates
                .iter()
                .filter_map(|&position| number(position))
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), number| {
                    (number.min(min), number.max(max))
                }),
        };
        score_each(candidates, scores, |position| {
            let Some(number) = number(position) else {
                return 0.0;
            };
            if min < max {
                let height = (number.clamp(min, max) - min) / (max - min);
                match self.better {
                    Better::Lower => 1.0 - height,
                    Better::Higher => height,
                }
            } else {
                1.0
            }
        });
    }
}

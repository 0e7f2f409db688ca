//! [`EndpointAttributeFilter`].

use core::cmp::Ordering;
use std::sync::Arc;

use foretoken_workload::RequestView;

use super::retain_or_all;
use crate::pipeline::Filter;
use crate::signals::attribute;
use crate::view::GatewayContext;

/// llm-d's `endpoint-attribute-filter`: compares any number that a producer knows of the endpoints with
/// a threshold. Nobody may be left, unless `fallback_on_empty` is set.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointAttributeFilter {
    /// The number, as `attribute/producer`.
    pub attribute: Arc<str>,
    /// How a number that is kept compares with the threshold.
    pub operator: Operator,
    /// The threshold.
    pub threshold: f64,
    /// What becomes of endpoints without the number; they pass by default.
    pub on_missing: OnMissing,
    /// Whether it fails open; not by default.
    pub fallback_on_empty: bool,
}

/// How a number compares with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

/// What becomes of endpoints of which a number is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMissing {
    /// They are kept.
    #[default]
    Pass,
    /// They are dropped.
    Drop,
}

impl Operator {
    /// Whether `number` stands so to `threshold`; what is no number does not.
    fn holds(self, number: f64, threshold: f64) -> bool {
        number
            .partial_cmp(&threshold)
            .is_some_and(|order| match self {
                Self::Less => order == Ordering::Less,
                Self::LessOrEqual => order != Ordering::Greater,
                Self::Greater => order == Ordering::Greater,
                Self::GreaterOrEqual => order != Ordering::Less,
                Self::Equal => order == Ordering::Equal,
                Self::NotEqual => order != Ordering::Equal,
            })
    }
}

impl EndpointAttributeFilter {
    /// Keeps endpoints whose `attribute` of `producer` compares with the threshold as given.
    pub fn new(attribute: &str, producer: &str, operator: Operator, threshold: f64) -> Self {
        Self {
            attribute: format!("{attribute}/{producer}").into(),
            operator,
            threshold,
            on_missing: OnMissing::default(),
            fallback_on_empty: false,
        }
    }
}

impl Filter for EndpointAttributeFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        let column = cx.signals.numbers.column(&self.attribute);
        let qualifies = |position| match attribute(column, position) {
            Some(number) => self.operator.holds(number, self.threshold),
            None => self.on_missing == OnMissing::Pass,
        };
        if self.fallback_on_empty {
            retain_or_all(candidates, qualifies);
        } else {
            candidates.retain(|&position| qualifies(position));
        }
    }
}

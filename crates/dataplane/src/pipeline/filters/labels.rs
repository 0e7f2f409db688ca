//! [`LabelSelectorFilter`] and its predecessor [`ByLabelFilter`].

use std::collections::BTreeMap;

use foretoken_workload::RequestView;

use crate::pipeline::Filter;
use crate::view::{EndpointView, GatewayContext};

/// llm-d's `label-selector-filter` (once `by-label-selector`): endpoints that a Kubernetes label selector
/// selects. All parts must hold; an empty selector selects everybody. Nobody may be left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelectorFilter {
    /// Labels that must be there with these values (`matchLabels`).
    pub match_labels: BTreeMap<String, String>,
    /// What must hold besides (`matchExpressions`).
    pub match_expressions: Vec<LabelExpression>,
}

/// One requirement of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelExpression {
    /// Name of the label.
    pub key: String,
    /// What must be true of it.
    pub operator: LabelOperator,
}

/// What a label selector asks of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelOperator {
    /// It is there with one of the values.
    In(Vec<String>),
    /// It is not there, or with another value.
    NotIn(Vec<String>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl LabelExpression {
    fn holds(&self, endpoint: &EndpointView) -> bool {
        let value = endpoint.label(&self.key);
        let among =
            |values: &[String]| value.is_some_and(|value| values.iter().any(|v| v == value));
        match &self.operator {
            LabelOperator::In(values) => among(values),
            LabelOperator::NotIn(values) => !among(values),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    }
}

impl Filter for LabelSelectorFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        candidates.retain(|&position| {
            let endpoint = &cx.endpoints[position];
            let mut labels = self.match_labels.iter();
            labels.all(|(key, value)| endpoint.label(key) == Some(value))
                && self.match_expressions.iter().all(|e| e.holds(endpoint))
        });
    }
}

/// llm-d's deprecated `by-label`: endpoints whose label has one of some values. Nobody may be left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByLabelFilter {
    /// Name of the label.
    pub label: String,
    /// The values that are kept.
    pub valid_values: Vec<String>,
    /// Whether endpoints without the label are kept; not by default.
    pub allows_no_label: bool,
}

impl Filter for ByLabelFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        candidates.retain(
            |&position| match cx.endpoints[position].label(&self.label) {
                None => self.allows_no_label,
                Some(value) => self.valid_values.iter().any(|valid| valid == value),
            },
        );
    }
}

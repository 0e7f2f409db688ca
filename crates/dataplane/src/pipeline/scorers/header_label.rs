//! [`HeaderLabelAffinityScorer`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::view::GatewayContext;

/// llm-d's `header-label-affinity-scorer`: 1 where the endpoint's label has the value of the request's
/// header, else 0; 0 for all where the header is missing or empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderLabelAffinityScorer {
    /// Name of the request's header (`headerName`).
    pub header: Arc<str>,
    /// Name of the endpoint's label (`labelKey`).
    pub label: Arc<str>,
}

impl HeaderLabelAffinityScorer {
    /// Compares `header` with `label`.
    pub fn new(header: impl Into<Arc<str>>, label: impl Into<Arc<str>>) -> Self {
        Self {
            header: header.into(),
            label: label.into(),
        }
    }
}

impl Scorer for HeaderLabelAffinityScorer {
    fn score(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let wanted = request.headers.get(&self.header);
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
            return;
        };
        score_each(candidates, scores, |position| {
            let matches = cx.endpoints[position].label(&self.label) == Some(wanted);
            f64::from(u8::from(matches))
        });
    }
}

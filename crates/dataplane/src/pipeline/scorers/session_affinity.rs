//! [`SessionAffinityScorer`].

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::pipeline::session::{BoundPick, SessionStrategy, Sessions};
use crate::router::Placement;
use crate::view::GatewayContext;

/// llm-d's `session-affinity-scorer`: 1 for the endpoint that the request's session is bound to, 0 for
/// all others; 0 for all without a session. See [`SessionStrategy`].
#[derive(Debug, Clone, Default)]
pub struct SessionAffinityScorer {
    sessions: Sessions,
}

impl SessionAffinityScorer {
    /// Sessions are recognised by `strategy` and bound to the pick `bound`.
    pub fn new(strategy: SessionStrategy, bound: BoundPick) -> Self {
        Self {
            sessions: Sessions::new(strategy, bound),
        }
    }
}

impl Scorer for SessionAffinityScorer {
    fn score(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        if let Some(bound) = self.sessions.find(request, candidates, cx) {
            score_each(candidates, scores, |position| {
                f64::from(u8::from(position == bound))
            });
        }
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        self.sessions.placed(request, placement, cx);
    }
}

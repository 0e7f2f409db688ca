//! [`SessionAffinityFilter`].

use foretoken_workload::RequestView;

use crate::pipeline::Filter;
use crate::pipeline::session::{BoundPick, SessionStrategy, Sessions};
use crate::router::Placement;
use crate::view::GatewayContext;

/// llm-d's `session-affinity-filter`: only the endpoint that the request's session is bound to; everybody
/// if it is bound to no candidate. See [`SessionStrategy`].
#[derive(Debug, Clone, Default)]
pub struct SessionAffinityFilter {
    sessions: Sessions,
}

impl SessionAffinityFilter {
    /// Sessions are recognised by `strategy` and bound to the pick `bound`.
    pub fn new(strategy: SessionStrategy, bound: BoundPick) -> Self {
        Self {
            sessions: Sessions::new(strategy, bound),
        }
    }
}

impl Filter for SessionAffinityFilter {
    fn filter(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        if let Some(bound) = self.sessions.find(request, candidates, cx) {
            candidates.clear();
            candidates.push(bound);
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

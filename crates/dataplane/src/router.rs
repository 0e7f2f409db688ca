//! [`Router`]: which endpoint serves a request.

use foretoken_workload::{Occurrence, RequestView};

use crate::error::DataplaneError;
use crate::view::{EndpointId, GatewayContext};

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The endpoint that answers it.
    pub endpoint: EndpointId,
    /// Which profile picked it.
    pub profile: PickedBy,
    /// The endpoint that computes its prompt first, if there is such a stage.
    pub prefill: Option<PrefillPlacement>,
}

/// Where a prompt is computed for another endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefillPlacement {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Which profile picked it.
    pub profile: PickedBy,
}

/// Which profile picked an endpoint: llm-d's data producers know one by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PickedBy {
    /// A profile that is literally named `prefill`: producers record its prompt, and release its load with
    /// the first token.
    Prefill,
    /// A profile of any other name, or none.
    #[default]
    Other,
}

impl Placement {
    /// The prompt is computed on `prefill`, and `endpoint` answers.
    pub const fn disaggregated(endpoint: EndpointId, prefill: EndpointId) -> Self {
        Self {
            endpoint,
            profile: PickedBy::Other,
            prefill: Some(PrefillPlacement {
                endpoint: prefill,
                profile: PickedBy::Prefill,
            }),
        }
    }

    /// The prefill endpoint, where data producers know of it.
    pub fn known_prefill(&self) -> Option<EndpointId> {
        self.prefill
            .filter(|prefill| prefill.profile == PickedBy::Prefill)
            .map(|prefill| prefill.endpoint)
    }

    /// The endpoints of which data producers know: that which answers, then the prefill endpoint.
    pub(crate) fn known_endpoints(&self) -> impl Iterator<Item = EndpointId> + use<> {
        [Some(self.endpoint), self.known_prefill()]
            .into_iter()
            .flatten()
    }
}

impl From<EndpointId> for Placement {
    fn from(endpoint: EndpointId) -> Self {
        Self {
            endpoint,
            profile: PickedBy::Other,
            prefill: None,
        }
    }
}

/// Decides which endpoint serves a request.
///
/// The host calls [`route`](Self::route) once per admitted request, and sends the request there when the
/// decision takes effect, which is usually at once. `None` rejects it. An endpoint that does not exist ends the run with an error. The
/// endpoints in the context are in the order of their ids, and never empty.
///
/// ```
/// use foretoken_dataplane::{GatewayContext, Placement, Router};
/// use foretoken_workload::RequestView;
///
/// /// Two random endpoints, the shorter queue wins.
/// struct TwoChoices;
///
/// impl Router for TwoChoices {
///     fn route(&mut self, _: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Option<Placement> {
///         let a = cx.rng.choose(cx.endpoints)?;
///         let b = cx.rng.choose(cx.endpoints)?;
///         Some(if a.queued <= b.queued { a.id } else { b.id }.into())
///     }
/// }
/// ```
///
/// Closures are routers too: `|_: &RequestView<'_>, cx: &mut GatewayContext<'_>| …`.
pub trait Router: Send {
    /// The endpoint for `request`.
    fn route(
        &mut self,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<Placement>;

    /// The decision on `request` takes effect now (llm-d's pre-request step): what a router remembers of
    /// its decisions, it learns here. `cx` is that of the decision, with its signals.
    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        let _ = (request, placement, cx);
    }

    /// Why there was no endpoint, if a part of the router answered what means nothing; the host then
    /// ends the run. A router without parts of others has no such reason.
    fn take_error(&mut self) -> Option<DataplaneError> {
        None
    }

    /// Whether decisions go by what engines report: by more of an endpoint than who it is, and what its
    /// gateway knows of it without being told. If nothing in a gateway does, its host need not look at
    /// engines to tell it.
    fn goes_by_reports(&self) -> bool {
        true
    }

    /// Something happened to a request that was routed before. What a client sees is told when its
    /// engine sends it, a little before the time in `at`.
    fn observe(&mut self, occurrence: &Occurrence) {
        let _ = occurrence;
    }
}

impl<F> Router for F
where
    F: FnMut(&RequestView<'_>, &mut GatewayContext<'_>) -> Option<Placement> + Send,
{
    fn route(
        &mut self,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<Placement> {
        self(request, cx)
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::{RngStreams, SimTime};
    use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

    use super::*;
    use crate::view::EndpointView;

    fn targets(router: &mut dyn Router, decisions: usize) -> Vec<u32> {
        let endpoints: Vec<_> = (0..3)
            .map(|id| EndpointView::new(EndpointId::new(id)))
            .collect();
        let mut rng = RngStreams::new(1, 0).stream("routing", 0);
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 4)]).expect("four tokens");
        let request = Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1);
        let mut decide = || {
            let mut cx = GatewayContext::new(SimTime::ZERO, &endpoints, &mut rng);
            router
                .route(&request.view(), &mut cx)
                .expect("there are endpoints")
                .endpoint
                .get()
        };
        (0..decisions).map(|_| decide()).collect()
    }

    #[test]
    fn a_closure_is_a_router() {
        let mut least = |_: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
            cx.endpoints
                .iter()
                .min_by_key(|e| e.queued)
                .map(|e| e.id.into())
        };
        assert_eq!(targets(&mut least, 2), [0, 0]);
    }
}

//! [`SingleProfileHandler`].

use foretoken_workload::RequestView;

use super::{Outcome, ProfileHandler, Stages};
use crate::view::GatewayContext;

/// llm-d's `single-profile-handler`: runs the only profile.
///
/// It stands for the deprecated `data-parallel-profile-handler` as well, which also runs its only
/// profile: there a sidecar passes the request on to the port that was picked, while here every rank is
/// an endpoint that requests reach directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SingleProfileHandler;

impl ProfileHandler for SingleProfileHandler {
    fn next(
        &mut self,
        _: &RequestView<'_>,
        stages: &Stages<'_>,
        _: &mut GatewayContext<'_>,
    ) -> Option<usize> {
        (stages.count() > 0 && !stages.ran(0)).then_some(0)
    }

    fn outcome(&self, stages: &Stages<'_>) -> Option<Outcome> {
        (stages.count() > 0).then_some(Outcome {
            primary: 0,
            prefill: None,
        })
    }
}

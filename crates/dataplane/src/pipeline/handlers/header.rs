//! [`HeaderProfileHandler`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::{Outcome, ProfileHandler, Stages};
use crate::headers;
use crate::view::GatewayContext;

/// llm-d's `header-profile-handler`: runs the profile that a header names.
///
/// An empty header is none. A lone profile is run whatever the header says. A name that no profile has rejects the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderProfileHandler {
    /// Name of the header (`headerName`); `EPP-Profile` by default.
    pub header: Arc<str>,
    /// The profile of requests without it (`defaultProfile`); `decode` by default.
    pub default_profile: Arc<str>,
}

impl Default for HeaderProfileHandler {
    fn default() -> Self {
        Self {
            header: headers::PROFILE.into(),
            default_profile: "decode".into(),
        }
    }
}

impl ProfileHandler for HeaderProfileHandler {
    fn next(
        &mut self,
        request: &RequestView<'_>,
        stages: &Stages<'_>,
        _: &mut GatewayContext<'_>,
    ) -> Option<usize> {
        let profile = if stages.count() == 1 {
            0
        } else {
            let name = request.headers.get(&self.header);
            let name = name.filter(|name| !name.is_empty());
            stages.find(name.unwrap_or(&self.default_profile))?
        };
        (!stages.ran(profile)).then_some(profile)
    }

    fn outcome(&self, stages: &Stages<'_>) -> Option<Outcome> {
        let primary = (0..stages.count()).find(|&profile| stages.ran(profile))?;
        Some(Outcome {
            primary,
            prefill: None,
        })
    }
}

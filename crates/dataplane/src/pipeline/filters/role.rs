//! [`RoleFilter`].

use foretoken_workload::RequestView;

use crate::pipeline::Filter;
use crate::view::GatewayContext;

/// llm-d's `decode-filter`, `prefill-filter` and `encode-filter`: endpoints whose label says that they
/// serve a stage. Nobody may be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleFilter {
    /// `decode-filter`: roles `decode`, `prefill-decode`, `both` and `encode-prefill-decode`, and
    /// endpoints without a role.
    Decode,
    /// `prefill-filter`: roles `prefill`, `encode-prefill`, `prefill-decode`, `both` and
    /// `encode-prefill-decode`.
    Prefill,
    /// `encode-filter`: roles `encode`, `encode-prefill` and `encode-prefill-decode`.
    Encode,
}

impl Filter for RoleFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        candidates.retain(|&position| {
            let role = cx.endpoints[position].role();
            match self {
                Self::Decode => role.decodes(),
                Self::Prefill => role.prefills(),
                Self::Encode => role.encodes(),
            }
        });
    }
}

//! Filters: which candidates may serve a request. Each is named after llm-d's plugin and has its
//! parameters, defaults and edge cases.
//!
//! To *fail open* means that a filter that would leave nobody leaves everybody. A filter that does not
//! do so says that nobody may be left, which fails the profile.

mod endpoint_attribute;
mod labels;
mod prefix_affinity;
mod role;
mod session_affinity;
mod slo_headroom;
mod topology;
mod utilization;

pub use endpoint_attribute::{EndpointAttributeFilter, OnMissing, Operator};
pub use labels::{ByLabelFilter, LabelExpression, LabelOperator, LabelSelectorFilter};
pub use prefix_affinity::{PrefixCacheAffinityFilter, TtftSource};
pub use role::RoleFilter;
pub use session_affinity::SessionAffinityFilter;
pub use slo_headroom::SloHeadroomTierFilter;
pub use topology::TopologyAffinityFilter;
pub use utilization::{Condition, UtilizationFilter, UtilizationMetric};

/// Keeps those that qualify; if none does, everybody.
pub(crate) fn retain_or_all(candidates: &mut Vec<usize>, mut qualifies: impl FnMut(usize) -> bool) {
    if candidates.iter().any(|&position| qualifies(position)) {
        candidates.retain(|&position| qualifies(position));
    }
}

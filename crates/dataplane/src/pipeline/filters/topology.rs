//! [`TopologyAffinityFilter`].

use foretoken_workload::RequestView;

use super::retain_or_all;
use crate::pipeline::Filter;
use crate::pipeline::topology::{Proximity, TopologyLabels};
use crate::view::GatewayContext;

/// llm-d's `topology-affinity-filter`: endpoints that are close enough to the peer, the first pick of
/// this decision. Fails open, and keeps everybody without a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyAffinityFilter {
    /// What they must share with the peer at least; the host by default.
    pub min_affinity: Proximity,
    /// Where an endpoint's labels say where it is.
    pub labels: TopologyLabels,
}

impl Default for TopologyAffinityFilter {
    fn default() -> Self {
        Self {
            min_affinity: Proximity::Host,
            labels: TopologyLabels::default(),
        }
    }
}

impl Filter for TopologyAffinityFilter {
    fn filter(
        &mut self,
        _: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        let Some(peer) = cx.peer else {
            return;
        };
        let peer = &cx.endpoints[peer];
        retain_or_all(candidates, |position| {
            let proximity = self.labels.proximity(&cx.endpoints[position], peer);
            proximity >= Some(self.min_affinity)
        });
    }
}

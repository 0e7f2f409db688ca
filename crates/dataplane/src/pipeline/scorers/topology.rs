//! [`TopologyAffinityScorer`].

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::pipeline::topology::{Proximity, TopologyLabels};
use crate::view::GatewayContext;

/// llm-d's `topology-affinity-scorer`: how close an endpoint is to the peer, the first pick of this
/// decision. On the same host 1, in the same rack 0.2, zone 0.05 or region 0.02; farther away, or
/// without a peer, 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopologyAffinityScorer {
    /// Where an endpoint's labels say where it is.
    pub labels: TopologyLabels,
}

impl Scorer for TopologyAffinityScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let Some(peer) = cx.peer else {
            return;
        };
        let peer = &cx.endpoints[peer];
        score_each(candidates, scores, |position| {
            match self.labels.proximity(&cx.endpoints[position], peer) {
                Some(Proximity::Host) => 1.0,
                Some(Proximity::Rack) => 0.2,
                Some(Proximity::Zone) => 0.05,
                Some(Proximity::Region) => 0.02,
                None => 0.0,
            }
        });
    }
}

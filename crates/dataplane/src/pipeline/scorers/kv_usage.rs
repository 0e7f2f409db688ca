//! [`KvCacheUtilizationScorer`].

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::view::GatewayContext;

/// llm-d's `kv-cache-utilization-scorer`: 1 minus the share of the KV cache that the engine reports to
/// be in use. Negative above a share of 1, which the profile clamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KvCacheUtilizationScorer;

impl Scorer for KvCacheUtilizationScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let endpoints = cx.endpoints;
        score_each(candidates, scores, |position| {
            1.0 - endpoints[position].kv_usage
        });
    }
}

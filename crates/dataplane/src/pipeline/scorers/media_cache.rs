//! [`MmEmbeddingsCacheScorer`].

use foretoken_workload::RequestView;

use crate::pipeline::Scorer;
use crate::view::GatewayContext;

/// llm-d's `mm-embeddings-cache-scorer`: the share of a request's media whose embeddings an endpoint
/// holds. Simulated requests have no media, so every score is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MmEmbeddingsCacheScorer;

impl Scorer for MmEmbeddingsCacheScorer {
    fn score(
        &mut self,
        _: &RequestView<'_>,
        _: &[usize],
        _: &mut GatewayContext<'_>,
        _: &mut [f64],
    ) {
    }
}

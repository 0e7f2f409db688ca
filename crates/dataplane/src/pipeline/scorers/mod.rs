//! Scorers: how good each candidate is, between 0 and 1. Each is named after llm-d's plugin and has its
//! parameters, defaults and edge cases.
//!
//! Some are relative (the best candidate gets 1, the worst 0, however close they are), others
//! absolute. Those that read the engine's metrics see them as old as they are; those that read live
//! counters never do.

mod active_request;
mod endpoint_attribute;
mod header_label;
mod kv_usage;
mod latency;
mod load_aware;
mod lora_affinity;
mod media_cache;
mod no_hit_lru;
mod prefix_cache;
mod queue;
mod running;
mod session_affinity;
mod token_load;
mod topology;

pub use active_request::ActiveRequestScorer;
pub use endpoint_attribute::{Better, EndpointAttributeScorer, ScoreRange};
pub use header_label::HeaderLabelAffinityScorer;
pub use kv_usage::KvCacheUtilizationScorer;
pub use latency::{CompositeWeights, HeadroomSelection, LatencyScorer};
pub use load_aware::LoadAwareScorer;
pub use lora_affinity::LoraAffinityScorer;
pub use media_cache::MmEmbeddingsCacheScorer;
pub use no_hit_lru::NoHitLruScorer;
pub use prefix_cache::PrefixCacheScorer;
pub use queue::QueueScorer;
pub use running::RunningRequestsScorer;
pub use session_affinity::SessionAffinityScorer;
pub use token_load::TokenLoadScorer;
pub use topology::TopologyAffinityScorer;

use crate::view::EndpointView;

/// Writes the score of each candidate; `score` gets its position.
fn score_each(candidates: &[usize], scores: &mut [f64], mut score: impl FnMut(usize) -> f64) {
    for (slot, &position) in scores.iter_mut().zip(candidates) {
        *slot = score(position);
    }
}

/// `(max - load) / (max - min)` over the candidates; 1 for all where their loads are equal.
fn score_relative(
    endpoints: &[EndpointView],
    candidates: &[usize],
    scores: &mut [f64],
    load: impl Fn(&EndpointView) -> u32,
) {
    let (mut min, mut max) = (u32::MAX, 0);
    score_each(candidates, scores, |position| {
        let load = load(&endpoints[position]);
        (min, max) = (min.min(load), max.max(load));
        f64::from(load)
    });
    if min >= max {
        scores.fill(1.0);
        return;
    }
    // Differences of 32-bit counts are exact.
    let (max, spread) = (f64::from(max), f64::from(max - min));
    for score in scores {
        *score = (max - *score) / spread;
    }
}

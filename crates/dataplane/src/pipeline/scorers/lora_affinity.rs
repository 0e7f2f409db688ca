//! [`LoraAffinityScorer`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::score_each;
use crate::pipeline::Scorer;
use crate::view::{Adapters, GatewayContext};

/// llm-d's `lora-affinity-scorer`: 1 where the request's adapter is active, else 0.8 where there is
/// room for one more, else 0.6 where the adapter waits, else 0.
///
/// The base model is treated like an adapter that is nowhere: 0.8 with room, else 0. An endpoint
/// without LoRA (room for 0) gets 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoraAffinityScorer;

impl Scorer for LoraAffinityScorer {
    fn score(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        score_each(candidates, scores, |position| {
            affinity(request.model, &cx.endpoints[position].adapters)
        });
    }
}

fn affinity(model: Option<&str>, adapters: &Adapters) -> f64 {
    let holds = |list: &[Arc<str>]| model.is_some_and(|model| list.iter().any(|a| **a == *model));
    if holds(&adapters.running) {
        1.0
    } else if adapters.running.len() + adapters.waiting.len() < adapters.max as usize {
        0.8
    } else if holds(&adapters.waiting) {
        0.6
    } else {
        0.0
    }
}

//! [`ContextLengthAware`].

use std::sync::Arc;

use foretoken_workload::RequestView;

use super::{Filter, Scorer};
use crate::view::{EndpointView, GatewayContext};

/// llm-d's `context-length-aware`, filter and scorer: endpoints declare by a label `min-max` which
/// prompt lengths (in tokens, bounds included) they are made for.
///
/// With a length `L` in a range of width `W` the score is `0.3 + 0.7 * (0.7 / (1 + W / 10000) + 0.3 *
/// (max - L) / W)`, or 1 where `W` is 0: narrow ranges and room are good. At a distance `D` outside it is
/// `0.3 / (1 + D / 1000)`. Without the label it is 0.5, with one that is no range 0.
///
/// As a filter it drops, if it is enabled, the endpoints that are out of range and those whose label
/// is no range; nobody may be left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextLengthAware {
    /// Name of the label; `llm-d.ai/context-length-range` by default.
    pub label: Arc<str>,
    /// Whether it filters at all; not by default.
    pub enable_filtering: bool,
}

impl Default for ContextLengthAware {
    fn default() -> Self {
        Self {
            label: "llm-d.ai/context-length-range".into(),
            enable_filtering: false,
        }
    }
}

/// What an endpoint declares.
enum Declared {
    Nothing,
    Nonsense,
    Range { min: u64, max: u64 },
}

impl ContextLengthAware {
    fn declared(&self, endpoint: &EndpointView) -> Declared {
        let Some(label) = endpoint.label(&self.label) else {
            return Declared::Nothing;
        };
        let bounds = label
            .split_once('-')
            .and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
        match bounds {
            Some((min, max)) if min <= max => Declared::Range { min, max },
            _ => Declared::Nonsense,
        }
    }
}

impl Filter for ContextLengthAware {
    fn filter(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut Vec<usize>,
        cx: &mut GatewayContext<'_>,
    ) {
        if !self.enable_filtering {
            return;
        }
        let length = u64::from(request.prompt_tokens());
        candidates.retain(|&position| match self.declared(&cx.endpoints[position]) {
            Declared::Nothing => true,
            Declared::Nonsense => false,
            Declared::Range { min, max } => (min..=max).contains(&length),
        });
    }
}

impl Scorer for ContextLengthAware {
    fn score(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &mut GatewayContext<'_>,
        scores: &mut [f64],
    ) {
        let length = u64::from(request.prompt_tokens());
        for (score, &position) in scores.iter_mut().zip(candidates) {
            *score = match self.declared(&cx.endpoints[position]) {
                Declared::Nothing => 0.5,
                Declared::Nonsense => 0.0,
                Declared::Range { min, max } => fit(length, min, max),
            };
        }
    }
}

/// How well a prompt of `length` tokens fits into `min..=max`.
fn fit(length: u64, min: u64, max: u64) -> f64 {
    let distance = min.saturating_sub(length).max(length.saturating_sub(max));
    if distance > 0 {
        return 0.3 / (1.0 + distance as f64 / 1000.0);
    }
    if min == max {
        return 1.0;
    }
    let width = (max - min) as f64;
    let room = (max - length) as f64 / width;
    0.3 + 0.7 * (0.7 / (1.0 + width / 10_000.0) + 0.3 * room)
}

//! Deciders: whether a prompt is computed on another endpoint than the one that answers.

use foretoken_workload::RequestView;

use crate::signals::APPROXIMATE_PREFIX;
use crate::view::GatewayContext;

/// Says whether a request that will be answered by a given endpoint needs a further stage.
///
/// ```
/// use foretoken_dataplane::GatewayContext;
/// use foretoken_dataplane::pipeline::Decider;
/// use foretoken_workload::RequestView;
///
/// /// Long prompts go elsewhere while the endpoint has requests running.
/// struct WhenBusy;
///
/// impl Decider for WhenBusy {
///     fn wants_stage(&mut self, r: &RequestView<'_>, decode: usize, cx: &GatewayContext<'_>) -> bool {
///         r.prompt_tokens() > 1000 && cx.endpoints[decode].running > 0
///     }
/// }
/// ```
pub trait Decider: Send {
    /// Whether `request` needs the stage; `decode` is the position of the endpoint that will answer.
    fn wants_stage(
        &mut self,
        request: &RequestView<'_>,
        decode: usize,
        cx: &GatewayContext<'_>,
    ) -> bool;
}

/// llm-d's `always-disagg-pd-decider`: yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlwaysDisaggregate;

impl Decider for AlwaysDisaggregate {
    fn wants_stage(&mut self, _: &RequestView<'_>, _: usize, _: &GatewayContext<'_>) -> bool {
        true
    }
}

/// llm-d's `always-disagg-multimodal-decider`: yes for requests with media, which no simulated request
/// has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlwaysDisaggregateMedia;

impl Decider for AlwaysDisaggregateMedia {
    fn wants_stage(&mut self, _: &RequestView<'_>, _: usize, _: &GatewayContext<'_>) -> bool {
        false
    }
}

/// llm-d's `prefix-based-pd-decider`: yes if the endpoint that answers would have to compute at least
/// `non_cached_tokens` of the prompt.
///
/// What is cached there, it always reads from the approximate producer, as the number of blocks
/// whatever their tier; without that attribute the answer is no. It does not look at load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrefixBasedDecider {
    /// Tokens to compute from which on the answer is yes; 0, the default, means never.
    pub non_cached_tokens: u32,
    /// Prompts below this length are never disaggregated; 0 by default.
    pub prompt_tokens: u32,
}

impl Decider for PrefixBasedDecider {
    fn wants_stage(
        &mut self,
        request: &RequestView<'_>,
        decode: usize,
        cx: &GatewayContext<'_>,
    ) -> bool {
        let prompt = request.prompt_tokens();
        if self.non_cached_tokens == 0 || prompt < self.prompt_tokens.max(self.non_cached_tokens) {
            return false;
        }
        let Some(found) = cx.signals.prefix.get(APPROXIMATE_PREFIX, decode) else {
            return false;
        };
        // More than the prompt can be cached.
        u64::from(prompt).saturating_sub(found.cached_tokens()) >= u64::from(self.non_cached_tokens)
    }
}

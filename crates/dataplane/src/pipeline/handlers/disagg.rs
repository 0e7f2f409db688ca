//! [`DisaggHandler`].

use core::fmt;
use std::sync::Arc;

use foretoken_workload::RequestView;

use super::{Outcome, ProfileHandler, Stages};
use crate::pipeline::Decider;
use crate::view::GatewayContext;

/// llm-d's `disagg-profile-handler`: one endpoint answers (the profile `decode`), another may compute
/// the prompt (the profile `prefill`).
///
/// If the decode profile finds nobody the request is rejected. A prefill profile that finds nobody is
/// silently ignored: the decode endpoint does it all.
///
/// The deprecated `pd-profile-handler` is this one with [`StageOrder::DecodeFirst`] and a decider.
///
/// Requests have no media here, so the stage that encodes them never runs and needs no parameters.
#[derive(Debug)]
pub struct DisaggHandler {
    /// What is decided first.
    pub order: StageOrder,
    /// Name of the decode profile; `decode` by default.
    pub decode: Arc<str>,
    /// Name of the prefill profile; `prefill` by default, and data producers know no other.
    pub prefill: Arc<str>,
}

/// What is decided first (`stageOrder`).
pub enum StageOrder {
    /// `decode-first`, the default: prefill only if its decider wants it for the decode pick, and never
    /// without a decider.
    DecodeFirst {
        /// Decides about prefill.
        prefill: Option<Box<dyn Decider>>,
    },
    /// `prefill-first`: prefill whenever there is a profile for it.
    PrefillFirst,
}

impl DisaggHandler {
    /// Decode first, with a decider about prefill.
    pub fn decode_first(prefill: impl Decider + 'static) -> Self {
        Self::new(StageOrder::DecodeFirst {
            prefill: Some(Box::new(prefill)),
        })
    }

    /// Prefill first and always.
    pub fn prefill_first() -> Self {
        Self::new(StageOrder::PrefillFirst)
    }

    /// The order as given, and profiles with their usual names.
    pub fn new(order: StageOrder) -> Self {
        Self {
            order,
            decode: "decode".into(),
            prefill: "prefill".into(),
        }
    }
}

/// Decode only: without a decider, prefill never runs.
impl Default for DisaggHandler {
    fn default() -> Self {
        Self::new(StageOrder::DecodeFirst { prefill: None })
    }
}

impl ProfileHandler for DisaggHandler {
    fn next(
        &mut self,
        request: &RequestView<'_>,
        stages: &Stages<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<usize> {
        let decode = stages.find(&self.decode)?;
        let prefill = stages
            .find(&self.prefill)
            .filter(|&prefill| !stages.ran(prefill));
        match &mut self.order {
            StageOrder::DecodeFirst { .. } if !stages.ran(decode) => Some(decode),
            StageOrder::DecodeFirst { prefill: decider } => {
                // Asked once a request, and only if there is something to decide.
                let (prefill, pick) = (prefill?, stages.pick(decode)?);
                let wanted = decider.as_mut()?.wants_stage(request, pick, cx);
                wanted.then_some(prefill)
            }
            StageOrder::PrefillFirst => prefill.or_else(|| (!stages.ran(decode)).then_some(decode)),
        }
    }

    fn outcome(&self, stages: &Stages<'_>) -> Option<Outcome> {
        Some(Outcome {
            primary: stages.find(&self.decode)?,
            prefill: stages.find(&self.prefill),
        })
    }
}

impl fmt::Debug for StageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DecodeFirst { prefill } => f
                .debug_struct("DecodeFirst")
                .field("has_decider", &prefill.is_some())
                .finish_non_exhaustive(),
            Self::PrefillFirst => f.write_str("PrefillFirst"),
        }
    }
}

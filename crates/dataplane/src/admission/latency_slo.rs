//! [`LatencySloAdmitter`]: sheds what would come too late.

use foretoken_workload::RequestView;

use super::{Admitter, Verdict};
use crate::headers;
use crate::signals::PREDICTED_LATENCY;
use crate::view::{EndpointView, GatewayContext};

/// Sheds requests of negative priority that no endpoint is predicted to answer in time (llm-d's
/// `latency-slo-admitter`).
///
/// It looks only at requests that carry a latency target in their headers, and refuses one if there
/// are predictions and no endpoint is predicted to meet both targets, is idle (nothing running) or is
/// cold (KV usage below 2 %).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencySloAdmitter {
    /// Whose predictions are read.
    pub producer: String,
}

/// KV usage below which an endpoint is cold.
const COLD: f64 = 0.02;

impl Default for LatencySloAdmitter {
    fn default() -> Self {
        Self {
            producer: PREDICTED_LATENCY.to_owned(),
        }
    }
}

impl Admitter for LatencySloAdmitter {
    fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict {
        let has_target =
            headers::ttft_target(request).is_some() || headers::tpot_target(request).is_some();
        if !request.objective.is_sheddable() || !has_target {
            return Verdict::Admit;
        }
        let predictions = cx.signals.latency.column(&self.producer);
        let mut predicted = predictions.iter().flatten().peekable();
        if predicted.peek().is_none() {
            return Verdict::Admit;
        }
        let is_free = |endpoint: &EndpointView| endpoint.running == 0 || endpoint.kv_usage < COLD;
        if predicted.any(|estimate| estimate.ttft_valid && estimate.tpot_valid)
            || cx.endpoints.iter().any(is_free)
        {
            Verdict::Admit
        } else {
            Verdict::Shed
        }
    }
}

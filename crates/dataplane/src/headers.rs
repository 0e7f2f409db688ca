//! Names of the headers that the gateway reads, as llm-d's router has them.

use foretoken_des_kernel::SimDuration;
use foretoken_workload::{Headers, RequestView};

/// Names the `InferenceObjective` of a request.
pub const OBJECTIVE: [&str; 2] = [
    "x-llm-d-inference-objective",
    "x-gateway-inference-objective",
];
/// Names the flow (tenant) of a request.
pub const FAIRNESS_ID: [&str; 2] = [
    "x-llm-d-inference-fairness-id",
    "x-gateway-inference-fairness-id",
];
/// Target of the time to first token, in milliseconds.
pub const SLO_TTFT_MS: [&str; 2] = ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"];
/// Target of the time per output token, in milliseconds.
pub const SLO_TPOT_MS: [&str; 2] = ["x-llm-d-slo-tpot-ms", "x-slo-tpot-ms"];
/// `if-available` asks for an answer only from a warm cache.
pub const PREFER: &str = "prefer";
/// Addresses of the endpoints that a request may go to: llm-d's subset hint, as a header here.
pub const SUBSET: &str = "x-gateway-destination-endpoint-subset";

/// Names the endpoint that answered a session last, in base64.
pub const SESSION_TOKEN: &str = "x-session-token";
/// Names the session of a request.
pub const SESSION_ID: &str = "x-session-id";
/// Names the scheduling profile of a request.
pub const PROFILE: &str = "EPP-Profile";

/// The first of `names` that there is.
pub fn first<'h>(headers: &'h Headers, names: &[&str]) -> Option<&'h str> {
    names.iter().find_map(|name| headers.get(name))
}

/// The request's target of the time to first token; `None` if it is absent, no number or negative.
pub fn ttft_target(request: &RequestView<'_>) -> Option<SimDuration> {
    millis(request.headers, &SLO_TTFT_MS)
}

/// The request's target of the time per output token; `None` if it is absent, no number or negative.
pub fn tpot_target(request: &RequestView<'_>) -> Option<SimDuration> {
    millis(request.headers, &SLO_TPOT_MS)
}

fn millis(headers: &Headers, names: &[&str]) -> Option<SimDuration> {
    let value: f64 = first(headers, names)?.trim().parse().ok()?;
    SimDuration::try_from_secs_f64(value / 1e3).ok()
}

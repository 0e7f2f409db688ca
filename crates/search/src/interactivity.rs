//! [`curve`]: how much an accelerator serves against how fast each user is served.

use foretoken::workload::{ClosedLoopSpec, DelaySpec, SyntheticSpec, WorkloadSpec};
use foretoken::{Scenario, sweep};
use serde::Serialize;

use crate::environment::{Environment, Measured};
use crate::error::SearchError;
use crate::metric::{LatencyKind, Metric, Statistic};

/// One point of an interactivity curve: so many users who ask again as soon as they are answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CurvePoint {
    /// Users.
    pub users: u32,
    /// Output tokens per second that one of them gets while an answer comes: 1000 through the mean TPOT in ms.
    pub tokens_per_s_per_user: Option<f64>,
    /// Output tokens per second and accelerator.
    pub output_tokens_per_s_per_gpu: Option<f64>,
    /// Mean time to first token, in ms.
    pub ttft_mean_ms: Option<f64>,
    /// Its 99th percentile.
    pub ttft_p99_ms: Option<f64>,
    /// Price of the accelerators for a million output tokens, in US dollars.
    pub usd_per_million_output_tokens: Option<f64>,
    /// Energy of the accelerators while steps run for each output token, in joules.
    pub joules_per_output_token: Option<f64>,
}

impl CurvePoint {
    fn new(users: u32, measured: &Measured) -> Self {
        let ttft = |statistic| Metric::Latency(LatencyKind::Ttft, statistic).of(measured);
        Self {
            users,
            tokens_per_s_per_user: Metric::TokensPerSPerUser.of(measured),
            output_tokens_per_s_per_gpu: Metric::OutputTokensPerSPerGpu.of(measured),
            ttft_mean_ms: ttft(Statistic::Mean),
            ttft_p99_ms: ttft(Statistic::P99),
            usd_per_million_output_tokens: Metric::UsdPerMillionOutputTokens.of(measured),
            joules_per_output_token: Metric::JoulesPerOutputToken.of(measured),
        }
    }
}

/// Requests of each user, and of all of them at the least.
const ROUNDS: u32 = 10;
const FEWEST: u32 = 100;

/// The scenario under ever more users in a closed loop, in parallel: the trade of throughput for interactivity, as
/// `InferenceX` (once `InferenceMAX`) draws it.
///
/// Each user makes ten requests, all users together a hundred at the least, with the lengths of the scenario's
/// workload. All begin at once, so that the first answers wait longer than later ones: that is how benchmarks do it.
///
/// ```
/// use foretoken::Scenario;
/// use foretoken_search::{Environment, interactivity};
///
/// let scenario: Scenario = serde_json::from_str(r#"{
///     "deployment": { "model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "H100" },
///     "workload": { "closed-loop": {
///         "users": 1, "requests": 100,
///         "prompt-tokens": { "constant": { "tokens": 500 } },
///         "output-tokens": { "constant": { "tokens": 100 } }
///     } }
/// }"#)?;
/// let [alone, crowded] = &interactivity::curve(&Environment::builtin(), &scenario, &[1, 64])?[..] else {
///     panic!("two points")
/// };
/// assert!(alone.tokens_per_s_per_user > crowded.tokens_per_s_per_user);
/// assert!(alone.output_tokens_per_s_per_gpu < crowded.output_tokens_per_s_per_gpu);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SearchError`] if no users are asked for, if the scenario's workload has no lengths that users could ask for
/// (anything but a synthetic one or a closed loop), or if a run fails.
pub fn curve(
    environment: &Environment,
    scenario: &Scenario,
    users: &[u32],
) -> Result<Vec<CurvePoint>, SearchError> {
    let asked = closed_loop(&scenario.workload)?;
    if users.is_empty() {
        return Err(SearchError::out_of_range("users", &"empty", "1 or more"));
    }
    if users.contains(&0) {
        return Err(SearchError::out_of_range("users", &0, "1 to 1048576"));
    }
    let points = sweep(users, |&users| {
        let load = ClosedLoopSpec {
            users,
            requests: Some(users.saturating_mul(ROUNDS).max(FEWEST)),
            ..asked.clone()
        };
        let scenario = Scenario {
            workload: load.into(),
            ..scenario.clone()
        };
        Ok(CurvePoint::new(users, &environment.measure(&scenario)?))
    });
    points.into_iter().collect()
}

/// The lengths of a workload, asked by users who do not think.
fn closed_loop(workload: &WorkloadSpec) -> Result<ClosedLoopSpec, SearchError> {
    match workload.expand() {
        WorkloadSpec::ClosedLoop(spec) => Ok(ClosedLoopSpec {
            think: DelaySpec::NONE,
            duration_s: None,
            ..spec
        }),
        WorkloadSpec::Synthetic(SyntheticSpec {
            system_prompt_tokens,
            prompt_tokens,
            output_tokens,
            max_tokens,
            client,
            prefix: None,
            ..
        }) => Ok(ClosedLoopSpec {
            system_prompt_tokens,
            max_tokens,
            client,
            ..ClosedLoopSpec::new(1, FEWEST, prompt_tokens, output_tokens)
        }),
        _ => {
            let allowed =
                "synthetic without prefixes of its own, or closed-loop: users ask for lengths";
            Err(SearchError::out_of_range("workload", &"another", allowed))
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken::Deployment;
    use foretoken::workload::{LengthSpec, Synthetic};

    use super::*;

    #[test]
    fn no_users_make_no_curve() {
        let lengths = (LengthSpec::constant(300), LengthSpec::constant(50));
        let load = Synthetic::poisson(2.0, 100, lengths.0, lengths.1).expect("valid");
        let deployment = Deployment::new("Qwen/Qwen2.5-7B-Instruct", "H100-SXM-80GB", 1);
        let scenario = Scenario::new(deployment, load);
        let refused = |users: &[u32]| {
            let curve = curve(&Environment::builtin(), &scenario, users);
            curve.expect_err("no users").to_string()
        };
        assert!(refused(&[]).starts_with("users is empty"));
        assert!(refused(&[4, 0]).starts_with("users is 0"));
    }
}

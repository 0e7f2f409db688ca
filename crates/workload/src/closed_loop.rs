//! [`ClosedLoopSpec`]: a fixed number of users, each of whom waits for an answer and thinks before asking again.

use foretoken_des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use crate::client::ClientSpec;
use crate::conversation::Conversations;
use crate::count::CountSpec;
use crate::delay::DelaySpec;
use crate::error::WorkloadError;
use crate::length::LengthSpec;
use crate::quantity::Seconds;
use crate::sessions::{SessionsSpec, StartSpec};

/// A closed loop, as configurations give it: what benchmarks with a concurrency (`vllm bench serve
/// --max-concurrency`, `inference-perf` with workers) send.
///
/// With `N` users who think for `Z` seconds in the mean and wait for an answer for `R`, the throughput is
/// `X = N / (R + Z)` (Little's law): a slower server is asked less. Latencies of a closed loop therefore say
/// nothing of users who come by themselves.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::{ClosedLoopSpec, Upcoming, Workload};
///
/// let spec: ClosedLoopSpec = serde_json::from_str(
///     r#"{
///         "users": 2, "requests": 100, "think": { "exponential": { "mean-s": 2 } },
///         "prompt-tokens": { "constant": { "tokens": 500 } },
///         "output-tokens": { "constant": { "tokens": 100 } }
///     }"#,
/// )?;
/// let mut load = spec.build(&RngStreams::new(1, 0))?;
/// assert!(load.next().is_some() && load.next().is_some());
/// assert_eq!(load.upcoming(), Upcoming::AfterAnswer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClosedLoopSpec {
    /// How many users there are, 1 to 2^20. Together they send at most 2^26 requests: a user whose share of them is
    /// used up does not ask again.
    pub users: u32,
    /// From an answer's last token to the user's next request (default none).
    #[serde(default)]
    pub think: DelaySpec,
    /// Seconds over which the first requests of users are spread evenly (default 0: all at once).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp_up_s: Option<Seconds>,
    /// How many requests at most, retries not counted; this or `duration-s` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// The last instant, in seconds, at which a request may be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<Seconds>,
    /// Tokens of a system prompt that all requests share (default 0).
    #[serde(default)]
    pub system_prompt_tokens: u32,
    /// Tokens of a request's own part of its prompt.
    pub prompt_tokens: LengthSpec,
    /// Tokens that the model generates.
    pub output_tokens: LengthSpec,
    /// The limit that requests declare; what they generate by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Who asks.
    #[serde(default)]
    pub client: ClientSpec,
}

impl ClosedLoopSpec {
    /// So many users, who make so many requests together, without thinking.
    pub fn new(
        users: u32,
        requests: u32,
        prompt_tokens: LengthSpec,
        output_tokens: LengthSpec,
    ) -> Self {
        Self {
            users,
            think: DelaySpec::NONE,
            ramp_up_s: None,
            requests: Some(requests),
            duration_s: None,
            system_prompt_tokens: 0,
            prompt_tokens,
            output_tokens,
            max_tokens: None,
            client: ClientSpec::default(),
        }
    }

    /// The workload described, with the draws of `streams`.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build(&self, streams: &RngStreams) -> Result<Conversations, WorkloadError> {
        self.build_as(0, streams)
    }

    /// The workload described, as source number `source` of several: with draws and texts of its own.
    ///
    /// # Errors
    /// [`WorkloadError`] naming the first field that is out of range.
    pub fn build_as(
        &self,
        source: u16,
        streams: &RngStreams,
    ) -> Result<Conversations, WorkloadError> {
        self.think.check().map_err(|error| error.within("think"))?;
        if self.requests.is_none() && self.duration_s.is_none() {
            return Err(WorkloadError::missing("requests", "requests or duration-s"));
        }
        let start = StartSpec {
            users: Some(self.users),
            ramp_up_s: self.ramp_up_s,
            idle: self.think,
            requests: self.requests,
            duration_s: self.duration_s,
            ..StartSpec::default()
        };
        start.check_users()?;
        // A user's requests have nothing to do with each other: each is a session of its own.
        let sessions = SessionsSpec {
            system_prompt_tokens: self.system_prompt_tokens,
            max_tokens: self.max_tokens,
            client: self.client.clone(),
            ..SessionsSpec::new(
                start,
                CountSpec::ONE,
                self.prompt_tokens.clone(),
                self.output_tokens.clone(),
            )
        };
        sessions.build_as(source, streams)
    }
}

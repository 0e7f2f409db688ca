//! [`SessionsSpec`]: chats of several turns, whose context grows.

use foretoken_des_kernel::{RngStreams, SimDuration, SimTime};
use serde::{Deserialize, Serialize};

use crate::arrival::ArrivalSpec;
use crate::client::{Client, ClientSpec};
use crate::conversation::{
    Conversations, Limits, Plan, Script, Starts, declared, length, longest_context, share,
};
use crate::count::CountSpec;
use crate::delay::DelaySpec;
use crate::error::WorkloadError;
use crate::length::LengthSpec;
use crate::quantity::Seconds;

/// Who starts conversations and when, and when the load ends. Part of [`SessionsSpec`] and
/// [`AgentsSpec`](crate::AgentsSpec).
///
/// Either `arrivals` (an open loop of conversations: somebody new, each time) or `users` (a closed loop: the
/// same ones, one conversation after the other) is needed, and one of `sessions`, `requests` and `duration-s`,
/// unless the arrivals end by themselves: stages, or pieces after which nothing comes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StartSpec {
    /// When somebody new starts a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalSpec>,
    /// How many users there are, 1 to 2^20. Together they start at most 2^26 conversations: a user whose share of
    /// them is used up does not come again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<u32>,
    /// Seconds over which the first conversations of users are spread evenly (default 0: all at once).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp_up_s: Option<Seconds>,
    /// From the end of a user's conversation to the start of the next (default none).
    pub idle: DelaySpec,
    /// How many conversations at most; 2^26 by default, and at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// How many requests at most, retries not counted; no limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// The last instant, in seconds, at which a request may be sent; no limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<Seconds>,
}

/// The most users: each has a kilobyte, and may start 64 conversations.
const MAX_USERS: u32 = 1 << 20;

impl StartSpec {
    /// So many users from the start on, who make so many requests together.
    pub fn users(users: u32, requests: u32) -> Self {
        Self {
            users: Some(users),
            requests: Some(requests),
            ..Self::default()
        }
    }

    /// So many conversations.
    pub fn arrivals(arrivals: ArrivalSpec, sessions: u32) -> Self {
        Self {
            arrivals: Some(arrivals),
            sessions: Some(sessions),
            ..Self::default()
        }
    }

    pub(crate) fn check_users(&self) -> Result<(), WorkloadError> {
        match self.users {
            Some(users) if users == 0 || users > MAX_USERS => {
                let allowed = "1 to 1048576";
                Err(WorkloadError::out_of_range("users", users.into(), allowed))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn build(
        &self,
        source: u16,
        streams: &RngStreams,
    ) -> Result<(Starts, Limits), WorkloadError> {
        self.idle.check().map_err(|error| error.within("idle"))?;
        let starts = match (&self.arrivals, self.users) {
            (Some(arrivals), None) => Starts::Arrivals {
                process: arrivals.build().map_err(|error| error.within("arrivals"))?,
                rng: streams.stream("arrivals", source.into()),
            },
            (None, Some(users)) => {
                self.check_users()?;
                Starts::Users {
                    users,
                    ramp_up: self
                        .ramp_up_s
                        .map_or(SimDuration::ZERO, Seconds::to_duration),
                    pause: self.idle,
                }
            }
            _ => {
                let needed = "either arrivals or users, and not both";
                return Err(WorkloadError::missing("arrivals", needed));
            }
        };
        let ends = self.arrivals.as_ref().is_some_and(ArrivalSpec::ends);
        if self.sessions.is_none() && self.requests.is_none() && self.duration_s.is_none() && !ends
        {
            let needed = "sessions, requests, duration-s or arrivals that end";
            return Err(WorkloadError::missing("sessions", needed));
        }
        let limits = Limits {
            sessions: self.sessions.unwrap_or(u32::MAX),
            requests: self.requests.unwrap_or(u32::MAX),
            last: self
                .duration_s
                .map_or(SimTime::MAX, |s| SimTime::ZERO + s.to_duration()),
        };
        Ok((starts, limits))
    }
}

/// Chats of several turns, as configurations give them.
///
/// A turn's prompt is everything that was said before, answers included, and a new message. It is sent when
/// its user has got the answer before, and has thought.
///
/// ```
/// use foretoken_des_kernel::{RngStreams, SimTime};
/// use foretoken_workload::{Ended, SessionsSpec, Upcoming, Workload};
///
/// let spec: SessionsSpec = serde_json::from_str(
///     r#"{
///         "start": { "arrivals": { "poisson": { "rate-rps": 2 } }, "sessions": 50 },
///         "system-prompt-tokens": 300,
///         "turns": { "geometric": { "mean": 4, "max": 20 } },
///         "prompt-tokens": { "lognormal": { "mean": 80, "std": 60 } },
///         "output-tokens": { "lognormal": { "mean": 250, "std": 150 } },
///         "think": { "exponential": { "mean-s": 8 } }
///     }"#,
/// )?;
/// let mut load = spec.build(&RngStreams::new(1, 0))?;
/// let first = load.next().expect("50 sessions");
/// let answered = first.arrival + foretoken_des_kernel::SimDuration::from_secs(3);
/// load.ended(&Ended::answered(first.id, answered, first.output_tokens()));
/// assert!(matches!(load.upcoming(), Upcoming::At(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SessionsSpec {
    /// Who starts sessions, and when the load ends.
    pub start: StartSpec,
    /// Tokens of a system prompt that all sessions share (default 0).
    #[serde(default)]
    pub system_prompt_tokens: u32,
    /// Requests of a session, up to 1000.
    pub turns: CountSpec,
    /// Tokens of the first message; that of the others by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_prompt_tokens: Option<LengthSpec>,
    /// Tokens of a user's message.
    pub prompt_tokens: LengthSpec,
    /// Tokens that the model generates each time.
    pub output_tokens: LengthSpec,
    /// The limit that requests declare; what they generate by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// From an answer's last token to the next message (default none).
    #[serde(default)]
    pub think: DelaySpec,
    /// The share of an answer, from its beginning, that is thinking and not repeated in later prompts, 0 to 1
    /// (default 0).
    #[serde(default)]
    pub thinking_share: f64,
    /// A session ends before prompt and answer together get longer than this; no limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u32>,
    /// Who asks.
    #[serde(default)]
    pub client: ClientSpec,
}

impl SessionsSpec {
    /// Sessions of `turns` turns, without pauses.
    pub fn new(
        start: StartSpec,
        turns: CountSpec,
        prompt_tokens: LengthSpec,
        output_tokens: LengthSpec,
    ) -> Self {
        Self {
            start,
            system_prompt_tokens: 0,
            turns,
            first_prompt_tokens: None,
            prompt_tokens,
            output_tokens,
            max_tokens: None,
            think: DelaySpec::NONE,
            thinking_share: 0.0,
            max_context_tokens: None,
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
        let (starts, limits) = self
            .start
            .build(source, streams)
            .map_err(|error| error.within("start"))?;
        self.turns
            .check(1000)
            .map_err(|error| error.within("turns"))?;
        self.think.check().map_err(|error| error.within("think"))?;
        let first = self.first_prompt_tokens.as_ref();
        let plan = Plan {
            system_prompt_tokens: self.system_prompt_tokens,
            main: Script {
                turns: self.turns,
                opening: length(
                    first.unwrap_or(&self.prompt_tokens),
                    first.map_or("prompt-tokens", |_| "first-prompt-tokens"),
                )?,
            },
            addition: length(&self.prompt_tokens, "prompt-tokens")?,
            parts: CountSpec::ONE,
            pause: self.think,
            answer: length(&self.output_tokens, "output-tokens")?,
            thinking: share(self.thinking_share, "thinking-share")?,
            max_context_tokens: longest_context(
                self.max_context_tokens,
                self.system_prompt_tokens,
            )?,
            max_tokens: declared(self.max_tokens)?,
            branches: None,
            client: Client::new(&self.client),
        };
        Ok(Conversations::new(plan, starts, limits, source, streams))
    }
}

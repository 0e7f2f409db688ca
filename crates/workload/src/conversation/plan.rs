//! What is said in conversations, and who starts them.

use foretoken_des_kernel::{SimDuration, SimRng, SimTime};

use crate::arrival::ArrivalProcess;
use crate::client::Client;
use crate::count::CountSpec;
use crate::delay::DelaySpec;
use crate::error::WorkloadError;
use crate::length::{LengthDistribution, LengthSpec};

/// What is said in the conversations of one source, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Tokens that all of them begin with.
    pub(crate) system_prompt_tokens: u32,
    pub(crate) main: Script,
    /// New tokens of a later request: of each of its parts.
    pub(crate) addition: Box<dyn LengthDistribution>,
    /// Parts of a later request: the results of tool calls.
    pub(crate) parts: CountSpec,
    /// From an answer to the next request, for each of its parts; the longest counts.
    pub(crate) pause: DelaySpec,
    pub(crate) answer: Box<dyn LengthDistribution>,
    /// The share of an answer, from its beginning, that later requests do not repeat.
    pub(crate) thinking: f64,
    /// Conversations end before they get longer than this, answers included. At least two tokens more than
    /// the system prompt.
    pub(crate) max_context_tokens: u32,
    /// The limit that requests declare, if that is not what they generate.
    pub(crate) max_tokens: Option<u32>,
    pub(crate) branches: Option<Branches>,
    pub(crate) client: Client,
}

/// How long a line of requests is, and how it opens.
#[derive(Debug)]
pub(crate) struct Script {
    /// Requests.
    pub(crate) turns: CountSpec,
    /// New tokens of the first.
    pub(crate) opening: Box<dyn LengthDistribution>,
}

/// How lines of agents branch.
#[derive(Debug)]
pub(crate) struct Branches {
    /// How likely an answer starts sub-agents.
    pub(crate) probability: f64,
    /// How many.
    pub(crate) count: CountSpec,
    /// What each of them says.
    pub(crate) script: Script,
}

impl Plan {
    /// Whether no request repeats more of another one than the system prompt.
    pub(super) fn repeats_only_the_system_prompt(&self) -> bool {
        self.main.turns.max() == 1 && self.branches.is_none()
    }
}

/// Who starts conversations.
#[derive(Debug)]
pub(crate) enum Starts {
    /// Somebody new, each time.
    Arrivals {
        process: Box<dyn ArrivalProcess>,
        rng: SimRng,
    },
    /// The same users, one conversation after the other.
    Users {
        /// How many.
        users: u32,
        /// Over which time the first conversations of all of them are spread evenly.
        ramp_up: SimDuration,
        /// From the end of one to the start of the next.
        pause: DelaySpec,
    },
}

impl Starts {
    /// How many users there are; none if they are new each time.
    pub(super) const fn users(&self) -> u32 {
        match self {
            Self::Arrivals { .. } => 0,
            Self::Users { users, .. } => *users,
        }
    }
}

/// When the first conversation starts of number `user` of so many users.
pub(super) fn ramped(ramp_up: SimDuration, user: u32, users: u32) -> SimTime {
    let share = u128::from(ramp_up.as_nanos()) * u128::from(user) / u128::from(users.max(1));
    SimTime::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
}

/// When a load ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) sessions: u32,
    pub(crate) requests: u32,
    /// The last instant at which a request may be sent.
    pub(crate) last: SimTime,
}

/// A distribution of lengths, checked.
pub(crate) fn length(
    spec: &LengthSpec,
    field: &str,
) -> Result<Box<dyn LengthDistribution>, WorkloadError> {
    spec.build().map_err(|error| error.within(field))
}

/// A share, checked.
pub(crate) fn share(value: f64, field: &str) -> Result<f64, WorkloadError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(WorkloadError::out_of_range(field, value, "0 to 1"))
    }
}

/// The longest context, which leaves room for a request of one token and its answer.
pub(crate) fn longest_context(
    max_context_tokens: Option<u32>,
    system_prompt_tokens: u32,
) -> Result<u32, WorkloadError> {
    let longest = max_context_tokens.unwrap_or(u32::MAX);
    if longest.saturating_sub(system_prompt_tokens) >= 2 {
        return Ok(longest);
    }
    let (field, tokens, allowed) = max_context_tokens.map_or(
        (
            "system-prompt-tokens",
            system_prompt_tokens,
            "at most 4294967293",
        ),
        |tokens| {
            let allowed = "at least 2 more than system-prompt-tokens";
            ("max-context-tokens", tokens, allowed)
        },
    );
    Err(WorkloadError::out_of_range(field, tokens.into(), allowed))
}

/// A declared limit of output tokens, checked.
pub(crate) fn declared(max_tokens: Option<u32>) -> Result<Option<u32>, WorkloadError> {
    match max_tokens {
        Some(0) => Err(WorkloadError::out_of_range("max-tokens", 0.0, "at least 1")),
        other => Ok(other),
    }
}

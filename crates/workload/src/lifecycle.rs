//! What happens to a request, in words that engines, gateways and metrics share.

use core::fmt;

use foretoken_des_kernel::{SimDuration, SimTime};

use crate::request::RequestId;

/// Something that happened to a request at an instant.
///
/// ```
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::{Lifecycle, Occurrence, RequestId};
///
/// let what = Lifecycle::Tokens { count: 1 };
/// let token = Occurrence::new(SimTime::from_nanos(5), RequestId::new(0), what);
/// assert_eq!(token.what, what);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// When, as whoever it concerns sees it: tokens and ends carry the client's time.
    pub at: SimTime,
    /// Whom it happened to.
    pub request: RequestId,
    /// What.
    pub what: Lifecycle,
}

impl Occurrence {
    /// `what` happened to `request` at `at`.
    pub const fn new(at: SimTime, request: RequestId, what: Lifecycle) -> Self {
        Self { at, request, what }
    }
}

/// Output tokens on their way to clients: each of `requests` gets one at each of `times`.
///
/// A step gives a token to every sequence that decodes, and most steps are followed by one of the same
/// sequences, so that one run stands for many tokens.
///
/// ```
/// use foretoken_des_kernel::{SimDuration, SimTime};
/// use foretoken_workload::{RequestId, TokenRun};
///
/// let requests = [1, 4].map(RequestId::new);
/// let times = [10, 20, 30].map(SimTime::from_nanos);
/// let run = TokenRun::new(&requests, &times).after(SimDuration::from_nanos(5));
/// assert_eq!(run.tokens(), 6);
/// assert_eq!(run.last(), Some(SimTime::from_nanos(35)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRun<'a> {
    /// Who gets them; no request twice.
    pub requests: &'a [RequestId],
    /// When they leave, in order.
    pub times: &'a [SimTime],
    /// How much later they reach the client.
    pub delay: SimDuration,
}

impl<'a> TokenRun<'a> {
    /// Tokens that reach the client when they leave.
    #[inline]
    pub const fn new(requests: &'a [RequestId], times: &'a [SimTime]) -> Self {
        Self {
            requests,
            times,
            delay: SimDuration::ZERO,
        }
    }

    /// The same, on the way for so much longer.
    #[must_use]
    #[inline]
    pub fn after(self, delay: SimDuration) -> Self {
        Self {
            delay: self.delay + delay,
            ..self
        }
    }

    /// Those that reach the client at `horizon` or before.
    #[must_use]
    pub fn until(self, horizon: SimTime) -> Self {
        let delay = self.delay;
        let count = self
            .times
            .partition_point(|&time| time.checked_add(delay).is_some_and(|at| at <= horizon));
        Self {
            times: &self.times[..count],
            ..self
        }
    }

    /// When they reach the client.
    pub fn arrivals(self) -> impl Iterator<Item = SimTime> + 'a {
        self.times.iter().map(move |&time| time + self.delay)
    }

    /// When the last of them does.
    #[inline]
    pub fn last(self) -> Option<SimTime> {
        self.times.last().map(|&time| time + self.delay)
    }

    /// Tokens in all.
    pub fn tokens(self) -> u64 {
        self.requests.len() as u64 * self.times.len() as u64
    }

    /// Token by token, in the order of their times.
    pub fn occurrences(self) -> impl Iterator<Item = Occurrence> + 'a {
        let what = Lifecycle::Tokens { count: 1 };
        self.arrivals().flat_map(move |at| {
            self.requests
                .iter()
                .map(move |&request| Occurrence::new(at, request, what))
        })
    }
}

/// Consecutive steps of one engine's decodes: every member of its batch gets one token a step.
///
/// A batch changes little from step to step, so that who joins and who leaves says all: whoever follows
/// a batch by that has work to do per change and per step, not per token. Members that get their last
/// token, or end otherwise, leave with their end, and are not named.
///
/// ```
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::{DecodeRun, RequestId, TokenRun};
///
/// let members = [1, 4].map(RequestId::new);
/// let times = [10, 20, 30].map(SimTime::from_nanos);
/// let mut run = DecodeRun::new(TokenRun::new(&members, &times));
/// run.joined = &members[1..];
/// assert_eq!(run.tokens.tokens(), 6);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeRun<'a> {
    /// Who was a member after the last run of the same engine and is none in this one, though it has
    /// not ended: it was preempted, or is left out of steps.
    pub left: &'a [RequestId],
    /// Who has been told a token before and is a member from this run on, in no particular order.
    pub joined: &'a [RequestId],
    /// All members, those that have just joined included, and when they get their tokens; without
    /// times, if nothing but leaving is to be told.
    pub tokens: TokenRun<'a>,
}

impl<'a> DecodeRun<'a> {
    /// Steps of the batch of the last run.
    #[inline]
    pub const fn new(tokens: TokenRun<'a>) -> Self {
        Self {
            left: &[],
            joined: &[],
            tokens,
        }
    }
}

/// The stations of a request's life after its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// It will never be served. A request that is rejected has no other occurrence after it.
    Rejected {
        /// Why.
        reason: RejectReason,
    },
    /// The gateway sent it on its way.
    Dispatched {
        /// Number of the endpoint that answers.
        endpoint: u32,
        /// Number of the endpoint that computes the prompt, if that is another one.
        prefill: Option<u32>,
    },
    /// The KV blocks of its prompt arrived from the endpoint that computed them.
    KvTransferred {
        /// What was read over the link.
        bytes: u64,
        /// From the first wish to read until all was there, waiting for the link included.
        took: SimDuration,
    },
    /// It entered the running batch of an engine for the first time; the step that computes its first
    /// chunk is planned now. Told once for each engine that it is served by.
    Scheduled {
        /// Prompt tokens found in the prefix cache.
        cached_tokens: u32,
    },
    /// It lost its KV blocks and went back to the waiting queue.
    Preempted,
    /// It entered the running batch again.
    Resumed {
        /// Tokens (prompt and output) found in the prefix cache.
        cached_tokens: u32,
    },
    /// Output tokens reached the client.
    Tokens {
        /// How many together; 1 without speculative decoding.
        count: u32,
    },
    /// It ended; comes after the last tokens, at the same instant.
    Finished {
        /// How.
        reason: FinishReason,
    },
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model generated its end-of-sequence token.
    Stop,
    /// `max_tokens` or the maximum model length was reached.
    Length,
    /// The client went away.
    Abort,
    /// A gateway cancelled it in favour of more important requests.
    Evicted,
    /// The endpoint that served it went away.
    EndpointLost,
}

impl FinishReason {
    /// Whether the client got all of its answer.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Stop | Self::Length)
    }

    /// What llm-d's router says in the header `x-llm-d-request-dropped-reason`, if it cancelled the
    /// request; its status is 429 unless an answer was streaming already.
    pub const fn dropped_reason(self) -> Option<&'static str> {
        match self {
            Self::Evicted => Some("evicted"),
            _ => None,
        }
    }
}

/// The end of a request, as its client sees it: what closed loops are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended {
    /// Which request.
    pub request: RequestId,
    /// When its client sees the end.
    pub at: SimTime,
    /// How it ended.
    pub ending: Ending,
    /// Tokens of the answer; 0 unless it is complete.
    pub output_tokens: u32,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was served, perhaps not to its end.
    Finished(FinishReason),
    /// It was refused.
    Rejected(RejectReason),
}

impl Ended {
    /// `request` ended like this; of its answer its client got `output_tokens`, if it got all.
    pub const fn new(request: RequestId, at: SimTime, ending: Ending, output_tokens: u32) -> Self {
        Self {
            request,
            at,
            ending,
            output_tokens,
        }
    }

    /// `request` has got its whole answer.
    pub const fn answered(request: RequestId, at: SimTime, output_tokens: u32) -> Self {
        let ending = Ending::Finished(FinishReason::Length);
        Self::new(request, at, ending, output_tokens)
    }

    /// `request` ended like this, without a whole answer.
    pub const fn without_answer(request: RequestId, at: SimTime, ending: Ending) -> Self {
        Self::new(request, at, ending, 0)
    }

    /// The same of a request that is known as number `request`.
    #[must_use]
    pub const fn of(self, request: RequestId) -> Self {
        Self { request, ..self }
    }

    /// Whether the client got all of its answer.
    pub const fn is_complete(&self) -> bool {
        matches!(self.ending, Ending::Finished(reason) if reason.is_complete())
    }
}

/// Why a request will never be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RejectReason {
    /// The prompt leaves no room for an output token below the maximum model length.
    PromptTooLong {
        /// Its tokens.
        prompt_tokens: u32,
        /// The maximum model length.
        max_model_len: u32,
    },
    /// Prompt and output need more KV blocks than the pool has.
    ExceedsKvPool {
        /// Blocks that the whole sequence needs.
        needed: u32,
        /// Blocks that the pool has.
        available: u32,
    },
    /// An admission policy refused it.
    Shed,
    /// It may be shed, and the pool was saturated.
    Saturated,
    /// The gateway's queues were full.
    QueueFull,
    /// It waited in the gateway's queues for longer than its time to live.
    TtlExpired,
    /// The pool had no endpoint.
    NoEndpoint,
    /// The router found none of the pool's endpoints eligible.
    NoCandidate,
    /// The client wanted an answer only from a warm cache (`Prefer: if-available`), and it is cold.
    NotCached,
    /// The client went away before anything was dispatched.
    ClientGone,
    /// It was cancelled in favour of more important requests before it left the gateway.
    Evicted,
}

impl RejectReason {
    /// The HTTP status that llm-d's router, or vLLM, answers with.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::PromptTooLong { .. } | Self::ExceedsKvPool { .. } => 400,
            Self::NotCached => 412,
            Self::Saturated
            | Self::QueueFull
            | Self::TtlExpired
            | Self::NoCandidate
            | Self::Evicted => 429,
            // Whatever an admission plugin answers, the layer around it makes this of it.
            Self::Shed => 500,
            Self::NoEndpoint | Self::ClientGone => 503,
        }
    }

    /// What llm-d's router says in the header `x-llm-d-request-dropped-reason`. Refusals of legacy
    /// admission, of admitters and of engines have none.
    pub const fn dropped_reason(self) -> Option<&'static str> {
        match self {
            Self::QueueFull | Self::NoCandidate => Some("rejected-saturated"),
            Self::TtlExpired => Some("rejected-ttl-expired"),
            Self::NoEndpoint => Some("rejected-no-endpoints"),
            Self::ClientGone => Some("rejected-context-cancelled"),
            Self::Evicted => Some("evicted"),
            Self::PromptTooLong { .. }
            | Self::ExceedsKvPool { .. }
            | Self::Shed
            | Self::Saturated
            | Self::NotCached => None,
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PromptTooLong {
                prompt_tokens,
                max_model_len,
            } => write!(
                f,
                "prompt of {prompt_tokens} tokens leaves no room for output below max_model_len {max_model_len}"
            ),
            Self::ExceedsKvPool { needed, available } => {
                write!(f, "needs {needed} KV blocks, the pool has {available}")
            }
            Self::Shed => f.write_str("shed by the admission policy"),
            Self::Saturated => f.write_str("sheddable, and the pool is saturated"),
            Self::QueueFull => f.write_str("the gateway's queues are full"),
            Self::TtlExpired => f.write_str("waited too long in the gateway's queues"),
            Self::NoEndpoint => f.write_str("no endpoint in the pool"),
            Self::NoCandidate => f.write_str("no eligible endpoint"),
            Self::NotCached => f.write_str("not cached"),
            Self::ClientGone => f.write_str("the client went away"),
            Self::Evicted => f.write_str("evicted before it left the gateway"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_was_too_much() {
        let long = RejectReason::PromptTooLong {
            prompt_tokens: 5000,
            max_model_len: 4096,
        };
        assert_eq!(
            long.to_string(),
            "prompt of 5000 tokens leaves no room for output below max_model_len 4096"
        );
        let large = RejectReason::ExceedsKvPool {
            needed: 20,
            available: 10,
        };
        assert_eq!(large.to_string(), "needs 20 KV blocks, the pool has 10");
        assert_eq!(
            RejectReason::Shed.to_string(),
            "shed by the admission policy"
        );
        assert_eq!(
            RejectReason::NoCandidate.to_string(),
            "no eligible endpoint"
        );
    }
}

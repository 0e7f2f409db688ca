//! What happens to a request, in words that engines, gateways and metrics share.

use core::fmt;

use foretoken_des_kernel::SimTime;

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

/// The stations of a request's life after its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// It will never be served. A request that is rejected has no other occurrence after it.
    Rejected {
        /// Why.
        reason: RejectReason,
    },
    /// It entered the running batch for the first time; the step that computes its first chunk is
    /// planned now.
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
    /// No endpoint was eligible.
    NoEndpoint,
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
            Self::NoEndpoint => f.write_str("no eligible endpoint"),
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
        assert_eq!(RejectReason::NoEndpoint.to_string(), "no eligible endpoint");
    }
}

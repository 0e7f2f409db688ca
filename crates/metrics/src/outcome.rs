//! How it stands with a request: [`Outcome`], and how many stand how: [`Counts`].

use core::fmt;
use std::borrow::Cow;
use std::collections::BTreeMap;

use foretoken_workload::{FinishReason, RejectReason};
use serde::{Deserialize, Serialize};

/// How it stands with a request when a recording ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It ended: by itself, by its limit, or before its answer was complete.
    Finished(FinishReason),
    /// It was refused.
    Rejected(RejectReason),
    /// It had neither ended nor been refused.
    InFlight,
}

impl Outcome {
    /// `true` if the client got all of its answer.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Finished(reason) if reason.is_complete())
    }
}

impl Outcome {
    /// How it is written.
    pub(crate) fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Finished(FinishReason::Stop) => "stop",
            Self::Finished(FinishReason::Length) => "length",
            Self::Finished(FinishReason::Abort) => "abort",
            Self::Finished(FinishReason::Evicted) => "evicted",
            Self::Finished(FinishReason::EndpointLost) => "endpoint lost",
            Self::Finished(_) => "finished",
            Self::Rejected(reason) => return Cow::Owned(format!("rejected: {reason}")),
            Self::InFlight => "in flight",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// What became of requests.
///
/// Invariant *conservation of requests*: `arrived = finished + rejected + aborted + evicted +
/// endpoint_lost + in_flight`, with all reasons of rejection added up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Sent by clients, retries included.
    pub arrived: u64,
    /// Those of them that are retries; left out of the written form if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// Answered in full.
    pub finished: u64,
    /// Left by their clients.
    pub aborted: u64,
    /// Cancelled by a gateway in favour of others.
    pub evicted: u64,
    /// Lost with the endpoint that served them.
    pub endpoint_lost: u64,
    /// Neither ended nor refused when the run ended.
    pub in_flight: u64,
    /// Refused, by the kind of reason: `prompt too long`, `exceeds KV pool`, `shed`, `saturated`,
    /// `queue full`, `ttl expired`, `no endpoint`, `no candidate`, `not cached`, `client gone`, `evicted`.
    pub rejected: BTreeMap<String, u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    /// Refused for any reason.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// Ended before their answers were complete: aborted, evicted or lost.
    pub const fn cut_short(&self) -> u64 {
        self.aborted + self.evicted + self.endpoint_lost
    }

    pub(crate) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Finished(FinishReason::Abort) => self.aborted += 1,
            Outcome::Finished(FinishReason::Evicted) => self.evicted += 1,
            Outcome::Finished(FinishReason::EndpointLost) => self.endpoint_lost += 1,
            Outcome::Finished(_) => self.finished += 1,
            Outcome::Rejected(reason) => {
                *self.rejected.entry(kind(reason).to_owned()).or_default() += 1;
            }
            Outcome::InFlight => self.in_flight += 1,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.retries += other.retries;
        self.finished += other.finished;
        self.aborted += other.aborted;
        self.evicted += other.evicted;
        self.endpoint_lost += other.endpoint_lost;
        self.in_flight += other.in_flight;
        for (reason, times) in &other.rejected {
            *self.rejected.entry(reason.clone()).or_default() += times;
        }
    }

    pub(crate) fn assert_conserved(&self) {
        let ended = self.finished + self.rejected_total() + self.cut_short();
        assert!(
            self.arrived == ended + self.in_flight,
            "conservation of requests: {self:?} do not add up"
        );
    }
}

/// The kind of a reason, without the numbers of the single case: keys of reports, which stay.
const fn kind(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::PromptTooLong { .. } => "prompt too long",
        RejectReason::ExceedsKvPool { .. } => "exceeds KV pool",
        RejectReason::Shed => "shed",
        RejectReason::Saturated => "saturated",
        RejectReason::QueueFull => "queue full",
        RejectReason::TtlExpired => "ttl expired",
        RejectReason::NoEndpoint => "no endpoint",
        RejectReason::NoCandidate => "no candidate",
        RejectReason::NotCached => "not cached",
        RejectReason::ClientGone => "client gone",
        RejectReason::Evicted => "evicted",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_answer_is_complete() {
        let complete = |reason| Outcome::Finished(reason).is_complete();
        assert!(complete(FinishReason::Stop) && complete(FinishReason::Length));
        assert!(!complete(FinishReason::Abort));
        assert!(!complete(FinishReason::Evicted));
        assert!(!complete(FinishReason::EndpointLost));
        assert!(!Outcome::Rejected(RejectReason::Shed).is_complete());
        assert!(!Outcome::InFlight.is_complete());
    }

    #[test]
    fn refusals_of_one_kind_are_counted_together() {
        let mut counts = Counts::default();
        for prompt_tokens in [40, 50] {
            let reason = RejectReason::PromptTooLong {
                prompt_tokens,
                max_model_len: 32,
            };
            counts.add(Outcome::Rejected(reason));
        }
        counts.add(Outcome::Rejected(RejectReason::TtlExpired));
        let expected = [("prompt too long", 2), ("ttl expired", 1)];
        assert_eq!(
            counts.rejected,
            expected
                .map(|(kind, times)| (kind.to_owned(), times))
                .into()
        );
        assert_eq!(counts.rejected_total(), 3);
    }

    #[test]
    fn ends_before_the_last_token_are_counted_apart() {
        let mut counts = Counts {
            arrived: 3,
            ..Counts::default()
        };
        for reason in [
            FinishReason::Abort,
            FinishReason::Evicted,
            FinishReason::EndpointLost,
        ] {
            counts.add(Outcome::Finished(reason));
        }
        assert_eq!((counts.finished, counts.cut_short()), (0, 3));
        assert_eq!(
            (counts.aborted, counts.evicted, counts.endpoint_lost),
            (1, 1, 1)
        );
        counts.assert_conserved();
    }

    #[test]
    #[should_panic(expected = "conservation of requests")]
    fn counts_that_do_not_add_up_break_a_named_invariant() {
        let counts = Counts {
            arrived: 2,
            finished: 1,
            ..Counts::default()
        };
        counts.assert_conserved();
    }
}

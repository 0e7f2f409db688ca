//! [`Retrying`]: clients that ask again when a request fails, and so add to the load.

use core::fmt;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foretoken_des_kernel::{RngStreams, SimDuration, SimTime};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::lifecycle::{Ended, Ending, RejectReason};
use crate::quantity::Seconds;
use crate::renumber::Renumbering;
use crate::request::{Request, RequestId};
use crate::source::{Lookahead, Upcoming, Workload};

/// How a client asks again when a request fails, as configurations give it.
///
/// A request fails if it is refused, cancelled, or lost, or if its client has lost
/// [patience](crate::Patience). What can never be served (a prompt that is too long) is not asked again.
/// The `n`-th retry comes `initial-backoff-s * factor^(n-1)` seconds after the failure, at most
/// `max-backoff-s`, less a random share of up to `jitter` of it.
///
/// ```
/// use foretoken_workload::RetrySpec;
///
/// let spec: RetrySpec = serde_json::from_str(r#"{ "max-retries": 2 }"#)?;
/// assert_eq!(spec.backoff(3).as_secs_f64(), 4.0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RetrySpec {
    /// Retries after the first attempt, at least 1.
    pub max_retries: u32,
    /// Seconds before the first retry (default 1).
    #[serde(default = "one_second")]
    pub initial_backoff_s: Seconds,
    /// What the pause grows by from retry to retry, 1 to 100 (default 2).
    #[serde(default = "two")]
    pub factor: f64,
    /// The longest pause, in seconds (default 60).
    #[serde(default = "one_minute")]
    pub max_backoff_s: Seconds,
    /// The share of a pause that is random, 0 to 1 (default 0).
    #[serde(default)]
    pub jitter: f64,
}

fn one_second() -> Seconds {
    Seconds::new(1.0).expect("a second is a span")
}

fn one_minute() -> Seconds {
    Seconds::new(60.0).expect("a minute is a span")
}

const fn two() -> f64 {
    2.0
}

impl RetrySpec {
    /// So many retries, with pauses of 1, 2, 4, and so on up to 60 seconds.
    pub fn new(max_retries: u32) -> Self {
        Self {
            max_retries,
            initial_backoff_s: one_second(),
            factor: two(),
            max_backoff_s: one_minute(),
            jitter: 0.0,
        }
    }

    /// The longest pause before retry number `retry`, counted from 1.
    pub fn backoff(&self, retry: u32) -> SimDuration {
        let grown = libm::pow(self.factor, f64::from(retry.saturating_sub(1)));
        let seconds = (self.initial_backoff_s.get() * grown).min(self.max_backoff_s.get());
        SimDuration::try_from_secs_f64(seconds).unwrap_or(SimDuration::MAX)
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] naming the field.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let wrong = WorkloadError::out_of_range;
        if self.max_retries == 0 {
            return Err(wrong("max-retries", 0.0, "at least 1"));
        }
        if !(1.0..=100.0).contains(&self.factor) {
            return Err(wrong("factor", self.factor, "1 to 100"));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(wrong("jitter", self.jitter, "0 to 1"));
        }
        Ok(())
    }
}

/// A workload whose clients ask again when a request fails.
///
/// A retry is a request of its own, with the same content, session and patience, and an
/// [attempt](Request::attempt) counted up. The workload inside hears of an end when an attempt succeeds or
/// is the last one, so that the next turn of a session waits for all of them.
pub struct Retrying {
    load: Lookahead,
    spec: RetrySpec,
    streams: RngStreams,
    /// Numbers the random streams of this source.
    source: u16,
    renumbering: Renumbering,
    made: u32,
    /// Attempts in flight, by their numbers.
    in_flight: HashMap<RequestId, Attempt, FxBuildHasher>,
    /// Retries to come, by time and number of the request that failed.
    due: BinaryHeap<Reverse<(SimTime, RequestId)>>,
    waiting: HashMap<RequestId, Attempt, FxBuildHasher>,
}

/// A request that may have to be asked again.
struct Attempt {
    /// As it was asked last.
    request: Request,
    /// What the workload inside calls it.
    inner: RequestId,
}

impl Retrying {
    /// The requests of `workload`, asked again by `spec`; `source` numbers the sources of one run.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`] naming the field of `spec`.
    pub fn new(
        workload: Box<dyn Workload>,
        spec: RetrySpec,
        source: u16,
        streams: &RngStreams,
    ) -> Result<Self, WorkloadError> {
        spec.check()?;
        Ok(Self {
            load: Lookahead::new(workload),
            spec,
            streams: *streams,
            source,
            renumbering: Renumbering::default(),
            made: 0,
            in_flight: HashMap::default(),
            due: BinaryHeap::new(),
            waiting: HashMap::default(),
        })
    }

    /// The pause before the next attempt of a request that the workload inside calls `inner`.
    fn pause(&self, retry: u32, inner: RequestId) -> SimDuration {
        let longest = self.spec.backoff(retry);
        if self.spec.jitter == 0.0 {
            return longest;
        }
        // A stream for each pause: what others do moves no draw.
        let number = u64::from(self.source) << 32 | u64::from(inner.get());
        let mut rng = self.streams.stream("retries", number);
        let mut share = 0.0;
        for _ in 0..retry {
            share = rng.unit();
        }
        let seconds = longest.as_secs_f64() * (1.0 - self.spec.jitter * share);
        SimDuration::try_from_secs_f64(seconds).unwrap_or(longest)
    }

    /// When the next retry is due.
    fn retry(&self) -> Option<SimTime> {
        self.due.peek().map(|&Reverse((at, _))| at)
    }

    fn number(&mut self) -> Option<RequestId> {
        let id = RequestId::new(self.made);
        self.made = self.made.checked_add(1)?;
        Some(id)
    }
}

impl Workload for Retrying {
    fn next(&mut self) -> Option<Request> {
        let (fresh, retry) = (self.load.arrival(), self.retry());
        let attempt = match (fresh, retry) {
            (Some(fresh), Some(retry)) if retry <= fresh => self.again()?,
            (None, Some(_)) => self.again()?,
            (None, None) => return None,
            _ => {
                let request = self.load.draw()?;
                let inner = request.id;
                let id = self.number()?;
                // It may be asked again.
                let request = self.renumbering.apply(request, id);
                Attempt {
                    request: request.repeatable_up_to(u32::MAX),
                    inner,
                }
            }
        };
        let request = attempt.request.clone();
        self.in_flight.insert(request.id, attempt);
        Some(request)
    }

    fn upcoming(&self) -> Upcoming {
        let times = self.load.arrival().into_iter().chain(self.retry());
        times.min().map_or(Upcoming::AfterAnswer, Upcoming::At)
    }

    fn ended(&mut self, ended: &Ended) {
        let Some(attempt) = self.in_flight.remove(&ended.request) else {
            return;
        };
        let retry = attempt.request.attempt + 1;
        if !fails(ended) || retry > self.spec.max_retries {
            self.load.ended(&ended.of(attempt.inner));
            return;
        }
        let Some(at) = ended.at.checked_add(self.pause(retry, attempt.inner)) else {
            self.load.ended(&ended.of(attempt.inner));
            return;
        };
        self.due.push(Reverse((at, ended.request)));
        self.waiting.insert(ended.request, attempt);
    }
}

impl Retrying {
    /// The retry that is due first.
    fn again(&mut self) -> Option<Attempt> {
        let Reverse((at, failed)) = self.due.pop()?;
        let mut attempt = self.waiting.remove(&failed)?;
        let id = self.number()?;
        self.renumbering.note(attempt.inner, id);
        attempt.request.ask_again(id, at);
        Some(attempt)
    }
}

/// Whether another attempt may do better.
fn fails(ended: &Ended) -> bool {
    match ended.ending {
        Ending::Finished(reason) => !reason.is_complete(),
        Ending::Rejected(
            RejectReason::PromptTooLong { .. } | RejectReason::ExceedsKvPool { .. },
        ) => false,
        Ending::Rejected(_) => true,
    }
}

impl fmt::Debug for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retrying")
            .field("spec", &self.spec)
            .field("made", &self.made)
            .field("in_flight", &self.in_flight.len())
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::FinishReason;
    use crate::prompt::{ContentId, Prompt, Segment};
    use crate::source::Replay;

    const SECOND: u64 = 1_000_000_000;

    /// Requests at seconds 0, 1, 2, each quoting the answer before it.
    fn talk() -> Box<dyn Workload> {
        let requests = (0..3_u32).map(|id| {
            let mut segments = vec![Segment::new(ContentId::new(id.into()), 10)];
            if let Some(before) = id.checked_sub(1) {
                let answer = ContentId::output_of(RequestId::new(before));
                segments.push(Segment::new(answer, 1));
            }
            let prompt = Prompt::new(segments).expect("they have tokens");
            let arrival = SimTime::from_nanos(u64::from(id) * SECOND);
            Request::new(RequestId::new(id), arrival, prompt, 1)
        });
        Box::new(Replay::new(requests.collect()).expect("in order"))
    }

    fn retrying(spec: RetrySpec) -> Retrying {
        Retrying::new(talk(), spec, 0, &RngStreams::new(1, 0)).expect("valid")
    }

    fn aborted(request: u32, at: u64) -> Ended {
        let ending = Ending::Finished(FinishReason::Abort);
        Ended::without_answer(RequestId::new(request), SimTime::from_nanos(at), ending)
    }

    fn next(load: &mut Retrying) -> (u32, u64, u32) {
        let request = load.next().expect("one is due");
        (
            request.id.get(),
            request.arrival.as_nanos(),
            request.attempt,
        )
    }

    #[test]
    fn what_fails_is_asked_again_after_a_growing_pause_and_given_up_at_last() {
        let mut load = retrying(RetrySpec::new(2));
        assert_eq!(next(&mut load), (0, 0, 0));
        load.ended(&aborted(0, SECOND / 2));
        assert_eq!(next(&mut load), (1, SECOND, 0));
        assert_eq!(
            load.upcoming(),
            Upcoming::At(SimTime::from_nanos(3 * SECOND / 2))
        );
        assert_eq!(next(&mut load), (2, 3 * SECOND / 2, 1));
        load.ended(&aborted(2, 2 * SECOND));
        assert_eq!(next(&mut load), (3, 2 * SECOND, 0));
        assert_eq!(next(&mut load), (4, 4 * SECOND, 2));
        load.ended(&aborted(4, 5 * SECOND));
        assert_eq!(load.upcoming(), Upcoming::AfterAnswer);
        assert!(load.next().is_none());
    }

    #[test]
    fn a_retry_asks_the_same_and_is_quoted_in_place_of_the_failure() {
        let mut load = retrying(RetrySpec::new(1));
        let first = load.next().expect("the first");
        load.ended(&aborted(0, 0));
        let again = load.next().expect("the first again");
        assert_eq!((&again.prompt, again.id.get()), (&first.prompt, 1));
        let quoted = |request: &Request| request.prompt.segments().last().map(|it| it.content);
        let second = load.next().expect("the second");
        assert_eq!(quoted(&second), Some(again.output_content));
        load.ended(&aborted(2, SECOND));
        let second_again = load.next().expect("the second again");
        let third = load.next().expect("the third, at the same instant");
        assert_eq!(second_again.prompt, second.prompt);
        assert_eq!(quoted(&third), Some(second_again.output_content));
    }

    #[test]
    fn what_succeeds_or_never_can_is_not_asked_again() {
        let mut load = retrying(RetrySpec::new(5));
        let _ = (load.next(), load.next(), load.next());
        load.ended(&Ended::answered(
            RequestId::new(0),
            SimTime::from_nanos(5),
            1,
        ));
        let too_long = Ending::Rejected(RejectReason::PromptTooLong {
            prompt_tokens: 10,
            max_model_len: 5,
        });
        load.ended(&Ended::without_answer(
            RequestId::new(1),
            SimTime::ZERO,
            too_long,
        ));
        assert_eq!(load.upcoming(), Upcoming::AfterAnswer);
        let shed = Ending::Rejected(RejectReason::Shed);
        load.ended(&Ended::without_answer(
            RequestId::new(2),
            SimTime::ZERO,
            shed,
        ));
        assert_ne!(load.upcoming(), Upcoming::AfterAnswer);
    }

    #[test]
    fn jitter_shortens_pauses_by_its_share_at_most() {
        let mut spec = RetrySpec::new(3);
        spec.jitter = 0.25;
        let load = retrying(spec.clone());
        for retry in 1..=3 {
            let longest = spec.backoff(retry).as_secs_f64();
            let pause = load.pause(retry, RequestId::new(7)).as_secs_f64();
            assert!((0.75 * longest..longest).contains(&pause), "{pause}");
        }
        assert_eq!(spec.backoff(50).as_secs_f64().to_bits(), 60.0_f64.to_bits());
    }

    #[test]
    fn wrong_numbers_are_refused_by_name() {
        for (text, problem) in [
            (r#"{"max-retries": 0}"#, "max-retries is 0"),
            (r#"{"max-retries": 1, "factor": 0.5}"#, "factor is 0.5"),
            (r#"{"max-retries": 1, "jitter": 1.5}"#, "jitter is 1.5"),
        ] {
            let spec: RetrySpec = serde_json::from_str(text).expect("numbers");
            let error = spec.check().expect_err("wrong").to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}

//! [`Workload`]: a stream of requests, and the sources that need no description of their own.

use core::fmt;
use std::vec;

use foretoken_des_kernel::SimTime;

use crate::error::WorkloadError;
use crate::lifecycle::Ended;
use crate::request::Request;

/// A source of requests: who asks for what, and when.
///
/// The host draws one request at a time, so a source may be endless or larger than memory. It
/// promises
///
/// - requests in order of arrival;
/// - ids dense from 0 in that order, so that hosts index by them;
/// - everything that describes a request is drawn when the request is made, so that the load does
///   not depend on how it is served.
///
/// With the first method alone this is an open loop: arrivals know nothing of answers. A closed loop, whose
/// clients wait for an answer before they ask again, also says when it asks [next](Self::upcoming), as far as
/// it knows, and is told how its requests [ended](Self::ended). What it asks may depend on answers by their
/// times and lengths alone: draws come from streams of its own, numbered by client and not by the order in
/// which answers come.
///
/// ```
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment, Workload};
///
/// /// One request of 100 tokens in, 10 out, every second, forever.
/// struct Metronome(u32);
///
/// impl Workload for Metronome {
///     fn next(&mut self) -> Option<Request> {
///         let id = RequestId::new(self.0);
///         self.0 = self.0.checked_add(1)?;
///         let arrival = SimTime::from_nanos(u64::from(id.get()) * 1_000_000_000);
///         let content = ContentId::new(u64::from(id.get()));
///         let prompt = Prompt::new([Segment::new(content, 100)]).ok()?;
///         Some(Request::new(id, arrival, prompt, 10))
///     }
/// }
///
/// let mut load: Box<dyn Workload> = Box::new(Metronome(0));
/// assert_eq!(load.next().map(|request| request.id), Some(RequestId::new(0)));
/// assert_eq!(load.next().map(|request| request.id), Some(RequestId::new(1)));
/// assert_eq!(load.total(), None);
/// ```
pub trait Workload: Send {
    /// The next request, or `None` when there are no more (then and ever after).
    fn next(&mut self) -> Option<Request>;

    /// How many requests there are in all, those already drawn included, where that is known
    /// beforehand. For progress display; nothing may depend on it.
    fn total(&self) -> Option<u64> {
        None
    }

    /// When it asks next, for closed loops. An open loop says [`Upcoming::Drawn`], and always does.
    fn upcoming(&self) -> Upcoming {
        Upcoming::Drawn
    }

    /// The client of one of its requests sees it end. An open loop does not care.
    ///
    /// Called once for each request that ends within the run, at the simulated time at which the end is
    /// certain; the client sees it at [`Ended::at`], which is not earlier. The next request must not be
    /// earlier either.
    fn ended(&mut self, ended: &Ended) {
        let _ = ended;
    }
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn next(&mut self) -> Option<Request> {
        (**self).next()
    }

    fn total(&self) -> Option<u64> {
        (**self).total()
    }

    fn upcoming(&self) -> Upcoming {
        (**self).upcoming()
    }

    fn ended(&mut self, ended: &Ended) {
        (**self).ended(ended);
    }
}

/// What a workload knows of its next request before that is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upcoming {
    /// It reacts to nothing, so that the next request may be drawn at any time.
    Drawn,
    /// The next request arrives then, unless an answer comes before and another one follows from it.
    At(SimTime),
    /// None is to come, unless it follows from an answer.
    AfterAnswer,
}

/// A workload, and what is known of its next request: how hosts draw from open and closed loops alike.
///
/// ```
/// use foretoken_des_kernel::{RngStreams, SimTime};
/// use foretoken_workload::{LengthSpec, Lookahead, Synthetic};
///
/// let spec = Synthetic::poisson(1.0, 1, LengthSpec::constant(9), LengthSpec::constant(5))?;
/// let mut load = Lookahead::new(Box::new(spec.build(&RngStreams::new(1, 0))?));
/// let at = load.arrival().expect("one request");
/// assert_eq!(load.draw().map(|request| request.arrival), Some(at));
/// assert_eq!(load.arrival(), None);
/// # Ok::<(), foretoken_workload::WorkloadError>(())
/// ```
pub struct Lookahead {
    workload: Box<dyn Workload>,
    /// The next request of an open loop.
    head: Option<Request>,
    reacts: bool,
}

impl Lookahead {
    /// Draws the first request of an open loop.
    pub fn new(mut workload: Box<dyn Workload>) -> Self {
        let reacts = workload.upcoming() != Upcoming::Drawn;
        let head = if reacts { None } else { workload.next() };
        Self {
            workload,
            head,
            reacts,
        }
    }

    /// When the next request arrives, as far as is known; none is to come if nothing is in flight either.
    pub fn arrival(&self) -> Option<SimTime> {
        if !self.reacts {
            return self.head.as_ref().map(|request| request.arrival);
        }
        match self.workload.upcoming() {
            Upcoming::At(at) => Some(at),
            Upcoming::AfterAnswer | Upcoming::Drawn => None,
        }
    }

    /// The next request, whose time has come.
    pub fn draw(&mut self) -> Option<Request> {
        let next = self.workload.next();
        if self.reacts {
            next
        } else {
            core::mem::replace(&mut self.head, next)
        }
    }

    /// Whether it cares for answers: it is a closed loop, or has a part that is one.
    pub const fn reacts(&self) -> bool {
        self.reacts
    }

    /// Tells a closed loop how a request ended.
    pub fn ended(&mut self, ended: &Ended) {
        if self.reacts {
            self.workload.ended(ended);
        }
    }

    /// How many requests there are in all, if that is known.
    pub fn total(&self) -> Option<u64> {
        self.workload.total()
    }
}

impl fmt::Debug for Lookahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookahead")
            .field("arrival", &self.arrival())
            .finish_non_exhaustive()
    }
}

/// Requests that are there already: a list, or an iterator that makes them.
///
/// ```
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::{ContentId, Prompt, Replay, Request, RequestId, Segment, Workload};
///
/// let prompt = Prompt::new([Segment::new(ContentId::new(0), 40)])?;
/// let both_at_once = (0..2)
///     .map(|id| Request::new(RequestId::new(id), SimTime::ZERO, prompt.clone(), 5))
///     .collect();
/// let mut load = Replay::new(both_at_once)?;
/// assert_eq!(load.total(), Some(2));
/// assert!(load.next().is_some() && load.next().is_some() && load.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Replay<I = vec::IntoIter<Request>> {
    requests: I,
    total: Option<u64>,
}

impl Replay {
    /// The requests of a list, which is in order of arrival and numbered from 0.
    ///
    /// # Errors
    /// [`WorkloadError::Misnumbered`] or [`WorkloadError::OutOfOrder`] at the first request that
    /// breaks the order.
    pub fn new(requests: Vec<Request>) -> Result<Self, WorkloadError> {
        for (position, request) in (0_u64..).zip(&requests) {
            if u64::from(request.id.get()) != position {
                return Err(WorkloadError::Misnumbered {
                    position,
                    id: request.id,
                });
            }
        }
        if let Some(pair) = requests
            .windows(2)
            .find(|pair| pair[1].arrival < pair[0].arrival)
        {
            return Err(WorkloadError::OutOfOrder { id: pair[1].id });
        }
        let total = Some(requests.len() as u64);
        Ok(Self {
            requests: requests.into_iter(),
            total,
        })
    }
}

impl<I: Iterator<Item = Request> + Send> Replay<I> {
    /// Requests as `requests` makes them; the promises of [`Workload`] are the iterator's to keep.
    pub const fn lazy(requests: I) -> Self {
        Self {
            requests,
            total: None,
        }
    }
}

impl<I: Iterator<Item = Request> + Send> Workload for Replay<I> {
    fn next(&mut self) -> Option<Request> {
        self.requests.next()
    }

    fn total(&self) -> Option<u64> {
        self.total
    }
}

impl<I> fmt::Debug for Replay<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::SimTime;

    use super::*;
    use crate::prompt::{ContentId, Prompt, Segment};
    use crate::request::RequestId;

    fn request(id: u32, at: u64, segments: &[Segment]) -> Request {
        let prompt = Prompt::new(segments.iter().copied()).expect("tests have prompts");
        Request::new(RequestId::new(id), SimTime::from_nanos(at), prompt, 1)
    }

    #[test]
    fn a_replay_refuses_a_wrong_number_and_a_wrong_order() {
        let any = [Segment::new(ContentId::new(0), 1)];
        let error = Replay::new(vec![request(1, 0, &any)]).expect_err("starts at 1");
        assert_eq!(
            error,
            WorkloadError::Misnumbered {
                position: 0,
                id: RequestId::new(1)
            }
        );
        let error =
            Replay::new(vec![request(0, 5, &any), request(1, 4, &any)]).expect_err("unordered");
        assert_eq!(
            error,
            WorkloadError::OutOfOrder {
                id: RequestId::new(1)
            }
        );
    }

    #[test]
    fn a_lazy_replay_draws_only_what_is_asked_for() {
        let any = [Segment::new(ContentId::new(0), 1)];
        let mut endless = Replay::lazy((0..).map(move |id| request(id, id.into(), &any)));
        assert_eq!(endless.next().map(|r| r.id.get()), Some(0));
        assert_eq!(endless.next().map(|r| r.id.get()), Some(1));
        assert_eq!(endless.total(), None);
    }
}

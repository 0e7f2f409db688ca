//! [`Workload`]: a stream of requests, and the sources that need no description of their own.

use core::fmt;
use std::vec;

use crate::error::WorkloadError;
use crate::prompt::{ContentId, Prompt, Segment};
use crate::request::{Request, RequestId, StageId};

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
/// This is the open loop: arrivals know nothing of completions. A client that waits for an answer
/// before it asks again needs to be told of completions; that is another trait's job, whose hosts
/// accept open sources too.
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
}

impl<W: Workload + ?Sized> Workload for Box<W> {
    fn next(&mut self) -> Option<Request> {
        (**self).next()
    }

    fn total(&self) -> Option<u64> {
        (**self).total()
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

/// Several workloads as one stream in order of arrival; at equal times the earlier source goes
/// first.
///
/// Requests are numbered anew. The stages of source `k` are moved behind those of the sources
/// before it: by the numbers of stages given to [`Merge::with_stages`], else by one stage for each
/// source. What a request generates is identified by its new number, also where a later prompt of
/// the same source quotes it. Other content is left as it is: sources that are built under
/// different source numbers share none (see [`ContentId::of_source`]), and those that name the same
/// content mean the same text. So one source may repeat what another
/// [says](Request::repeatable_up_to) that nobody does, and no source is believed that, unless they
/// are [distinct](Self::distinct).
pub struct Merge {
    sources: Vec<Source>,
    made: u32,
    distinct: bool,
}

/// One of the merged workloads.
struct Source {
    workload: Box<dyn Workload>,
    head: Option<Request>,
    first_stage: u32,
    /// New number of each request drawn so far, by its old one.
    renumbered: Vec<RequestId>,
}

impl Merge {
    /// Merges workloads of one stage each.
    pub fn new(workloads: impl IntoIterator<Item = Box<dyn Workload>>) -> Self {
        Self::with_stages(workloads.into_iter().map(|workload| (workload, 1)))
    }

    /// Merges workloads, each with the number of its stages.
    pub fn with_stages(workloads: impl IntoIterator<Item = (Box<dyn Workload>, u32)>) -> Self {
        let mut first_stage = 0_u32;
        let mut merge = Self {
            sources: Vec::new(),
            made: 0,
            distinct: false,
        };
        for (mut workload, stages) in workloads {
            let head = workload.next();
            merge.sources.push(Source {
                workload,
                head,
                first_stage,
                renumbered: Vec::new(),
            });
            first_stage = first_stage.saturating_add(stages);
        }
        merge
    }

    /// Says that no source repeats what another says to be never repeated, as is the case with
    /// generators of different source numbers.
    #[must_use]
    pub fn distinct(mut self) -> Self {
        self.distinct = true;
        self
    }
}

impl Workload for Merge {
    fn next(&mut self) -> Option<Request> {
        let source = self
            .sources
            .iter_mut()
            .filter(|source| source.head.is_some())
            // The first of equal ones, by the contract of `min_by_key`.
            .min_by_key(|source| source.head.as_ref().map(|request| request.arrival))?;
        let id = RequestId::new(self.made);
        self.made = self.made.checked_add(1)?;
        let request = source.head.take()?;
        source.head = source.workload.next();
        let request = source.renumber(request, id);
        Some(if self.distinct {
            request
        } else {
            request.repeatable_up_to(u32::MAX)
        })
    }

    fn total(&self) -> Option<u64> {
        self.sources
            .iter()
            .try_fold(0, |sum, source| Some(sum + source.workload.total()?))
    }
}

impl Source {
    /// `request` as number `id` of the merged stream.
    fn renumber(&mut self, mut request: Request, id: RequestId) -> Request {
        if request.output_content == ContentId::output_of(request.id) {
            request.output_content = ContentId::output_of(id);
        }
        self.renumbered.push(id);
        if request
            .prompt
            .segments()
            .iter()
            .any(|segment| segment.content.as_output().is_some())
        {
            let segments = request.prompt.segments().iter().map(|&segment| Segment {
                content: self.renumbered_content(segment.content),
                ..segment
            });
            request.prompt =
                Prompt::new(segments).expect("renaming content leaves the lengths as they are");
        }
        request.id = id;
        request.stage = StageId::new(self.first_stage.saturating_add(request.stage.get()));
        request
    }

    fn renumbered_content(&self, content: ContentId) -> ContentId {
        content
            .as_output()
            .and_then(|old| self.renumbered.get(old.index()))
            .map_or(content, |&new| ContentId::output_of(new))
    }
}

impl fmt::Debug for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merge")
            .field("sources", &self.sources.len())
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::SimTime;

    use super::*;

    fn request(id: u32, at: u64, segments: &[Segment]) -> Request {
        let prompt = Prompt::new(segments.iter().copied()).expect("tests have prompts");
        Request::new(RequestId::new(id), SimTime::from_nanos(at), prompt, 1)
    }

    fn source(number: u16, arrivals: &[u64]) -> Box<dyn Workload> {
        let requests = (0..)
            .zip(arrivals)
            .map(|(id, &at)| {
                request(
                    id,
                    at,
                    &[Segment::new(ContentId::of_source(number, id.into()), 9)],
                )
            })
            .collect();
        Box::new(Replay::new(requests).expect("in order"))
    }

    fn drain(mut load: impl Workload) -> Vec<Request> {
        core::iter::from_fn(|| load.next()).collect()
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
    fn only_distinct_sources_are_believed_to_repeat_nothing() {
        let marked = || {
            let requests = [request(0, 0, &[Segment::new(ContentId::new(0), 9)])];
            let requests = requests.into_iter().map(|it| it.repeatable_up_to(3));
            Box::new(Replay::lazy(requests)) as Box<dyn Workload>
        };
        let repeatable = |merge| drain(merge)[0].repeatable_tokens();
        assert_eq!(repeatable(Merge::new([marked()])), u32::MAX);
        assert_eq!(repeatable(Merge::new([marked()]).distinct()), 3);
    }

    #[test]
    fn merging_keeps_the_order_of_arrival_and_numbers_densely() {
        let merged = Merge::new([source(0, &[10, 20, 30]), source(1, &[5, 20, 40])]);
        assert_eq!(merged.total(), Some(6));
        let requests = drain(merged);
        let seen: Vec<_> = requests
            .iter()
            .map(|r| (r.id.get(), r.arrival.as_nanos(), r.stage.get()))
            .collect();
        let expected = [
            (0, 5, 1),
            (1, 10, 0),
            (2, 20, 0),
            (3, 20, 1),
            (4, 30, 0),
            (5, 40, 1),
        ];
        assert_eq!(seen, expected);
        for request in &requests {
            assert_eq!(request.output_content, ContentId::output_of(request.id));
        }
    }

    #[test]
    fn merging_moves_stages_behind_those_of_the_sources_before() {
        let merged = Merge::with_stages([(source(0, &[1]), 3), (source(1, &[2]), 1)]);
        let stages: Vec<_> = drain(merged).iter().map(|r| r.stage.get()).collect();
        assert_eq!(stages, [0, 3]);
    }

    #[test]
    fn a_prompt_that_quotes_an_answer_still_quotes_it_after_merging() {
        let answer = Segment::new(ContentId::output_of(RequestId::new(0)), 1);
        let question = Segment::new(ContentId::new(7), 4);
        let talk = Replay::new(vec![
            request(0, 10, &[question]),
            request(1, 30, &[question, answer, question]),
        ])
        .expect("in order");
        let requests = drain(Merge::new([source(1, &[5, 20]), Box::new(talk) as _]));
        assert_eq!(
            requests[3].prompt.segments()[1].content,
            requests[1].output_content
        );
        assert_eq!(
            requests[1].output_content,
            ContentId::output_of(RequestId::new(1))
        );
    }

    #[test]
    fn a_merge_of_nothing_is_over_at_once() {
        assert!(Merge::new([]).next().is_none());
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

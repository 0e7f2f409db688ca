//! [`Merge`]: several workloads at once.

use core::fmt;

use foretoken_des_kernel::SimTime;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::lifecycle::Ended;
use crate::renumber::Renumbering;
use crate::request::{Request, RequestId, StageId};
use crate::source::{Lookahead, Upcoming, Workload};

/// Several workloads as one stream in order of arrival; at equal times the earlier source goes
/// first.
///
/// Requests are numbered anew. The stages of source `k` are moved behind those of the sources
/// before it: by the numbers of stages given to [`Merge::with_stages`], else by one stage for each
/// source. What a request generates is identified by its new number, also where a later prompt of
/// the same source quotes it. Other content is left as it is: sources that are built under
/// different source numbers share none (see
/// [`ContentId::of_source`](crate::ContentId::of_source)), and those that name the same
/// content mean the same text. So one source may repeat what another
/// [says](Request::repeatable_up_to) that nobody does, and no source is believed that, unless they
/// are [distinct](Self::distinct).
pub struct Merge {
    sources: Vec<Source>,
    made: u32,
    distinct: bool,
    /// Requests in flight, if a source cares for answers: whose they are, by their new numbers.
    in_flight: HashMap<RequestId, Origin, FxBuildHasher>,
}

/// One of the merged workloads.
struct Source {
    load: Lookahead,
    first_stage: u32,
    renumbering: Renumbering,
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    source: usize,
    id: RequestId,
}

impl Merge {
    /// Merges workloads of one stage each.
    pub fn new(workloads: impl IntoIterator<Item = Box<dyn Workload>>) -> Self {
        Self::with_stages(workloads.into_iter().map(|workload| (workload, 1)))
    }

    /// Merges workloads, each with the number of its stages.
    pub fn with_stages(workloads: impl IntoIterator<Item = (Box<dyn Workload>, u32)>) -> Self {
        let mut first_stage = 0_u32;
        let sources = workloads.into_iter().map(|(workload, stages)| {
            let source = Source {
                load: Lookahead::new(workload),
                first_stage,
                renumbering: Renumbering::default(),
            };
            first_stage = first_stage.saturating_add(stages);
            source
        });
        Self {
            sources: sources.collect(),
            made: 0,
            distinct: false,
            in_flight: HashMap::default(),
        }
    }

    /// Says that no source repeats what another says to be never repeated, as is the case with
    /// generators of different source numbers.
    #[must_use]
    pub fn distinct(mut self) -> Self {
        self.distinct = true;
        self
    }

    /// The source whose request is next, and when that arrives.
    fn first(&self) -> Option<(SimTime, usize)> {
        let due = |(number, source): (usize, &Source)| Some((source.load.arrival()?, number));
        self.sources.iter().enumerate().filter_map(due).min()
    }

    fn reacts(&self) -> bool {
        self.sources.iter().any(|source| source.load.reacts())
    }
}

impl Workload for Merge {
    fn next(&mut self) -> Option<Request> {
        let (_, number) = self.first()?;
        let id = RequestId::new(self.made);
        self.made = self.made.checked_add(1)?;
        let source = &mut self.sources[number];
        let request = source.load.draw()?;
        if source.load.reacts() {
            let origin = Origin {
                source: number,
                id: request.id,
            };
            self.in_flight.insert(id, origin);
        }
        let mut request = source.renumbering.apply(request, id);
        request.stage = StageId::new(source.first_stage.saturating_add(request.stage.get()));
        Some(if self.distinct {
            request
        } else {
            request.repeatable_up_to(u32::MAX)
        })
    }

    fn total(&self) -> Option<u64> {
        self.sources
            .iter()
            .try_fold(0, |sum, source| Some(sum + source.load.total()?))
    }

    fn upcoming(&self) -> Upcoming {
        if !self.reacts() {
            return Upcoming::Drawn;
        }
        self.first()
            .map_or(Upcoming::AfterAnswer, |(at, _)| Upcoming::At(at))
    }

    fn ended(&mut self, ended: &Ended) {
        if let Some(Origin { source, id }) = self.in_flight.remove(&ended.request) {
            self.sources[source].load.ended(&ended.of(id));
        }
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
    use super::*;
    use crate::prompt::{ContentId, Prompt, Segment};
    use crate::source::Replay;

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
}

//! The sink that keeps what a [`Report`](crate::Report) needs.

use std::collections::BTreeMap;

use foretoken_des_kernel::stats::Quantiles;
use foretoken_des_kernel::{Fingerprint, SimTime};
use foretoken_workload::{Lifecycle, Occurrence, Request, RequestId, TokenRun};

use crate::group::{Group, GroupKey};
use crate::load::Load;
use crate::outcome::Outcome;
use crate::record::{LaterGaps, RequestRecord};
use crate::sink::{LevelRecord, MetricSink, StepRecord};

/// Takes down what happens to every request, and how full and busy the engines are.
///
/// Memory follows the number of requests in flight, apart from one [`RequestRecord`] for each that
/// has ended and one entry for each distinct inter-token time of each group (stage, class and
/// tenant). A token costs a few nanoseconds: no allocation, no hashing.
///
/// Request ids are dense from 0; stages and tenants may have any.
///
/// # Panics
/// All methods of the sink panic if a broken *request lifecycle* is told: an occurrence of a request
/// that has not arrived or has ended already, time running backwards within a request, or a complete
/// request whose end is not its last token.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Where in `live` each request is, by id; beyond its length for those that are not in flight.
    places: Vec<u32>,
    live: Vec<Live>,
    ended: Vec<RequestRecord>,
    groups: Vec<Group>,
    /// Where in `groups` each is.
    index: BTreeMap<GroupKey, u32>,
    load: Load,
    last_seen: SimTime,
    keep_gaps: bool,
    /// What all requests of the run in hand have in common.
    later: LaterGaps,
    /// How many requests of each group are in the run in hand.
    members: Vec<(u32, u64)>,
}

const NOT_ARRIVED: u32 = u32::MAX;
const ENDED: u32 = u32::MAX - 1;

/// A request in flight.
#[derive(Debug, Clone)]
struct Live {
    record: RequestRecord,
    /// When its last token came; its arrival before the first.
    last: SimTime,
    /// Index of its group in the recorder.
    group: u32,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            live: Vec::new(),
            ended: Vec::new(),
            groups: Vec::new(),
            index: BTreeMap::new(),
            load: Load::new(),
            last_seen: SimTime::ZERO,
            keep_gaps: false,
            later: LaterGaps::default(),
            members: Vec::new(),
        }
    }

    /// Keeps all gaps of every request, at 8 bytes per token.
    #[must_use]
    pub fn keeping_gaps(mut self) -> Self {
        self.keep_gaps = true;
        self
    }

    /// Ends the recording at `end`, or when the last thing happened that was told, if that is later.
    /// What has not ended by then is in flight.
    pub fn finish(mut self, end: SimTime) -> Recording {
        let end = end.max(self.last_seen);
        self.load.settle(end);
        let mut records = self.ended;
        records.extend(self.live.into_iter().map(|live| live.record));
        // What ends in one instant ends in no particular order.
        records.sort_unstable_by_key(|record| record.id);
        self.groups.iter_mut().for_each(Group::finish);
        self.groups.sort_unstable_by_key(|group| group.key);
        Recording {
            records,
            groups: self.groups,
            load: self.load,
            end,
        }
    }

    fn group(&mut self, key: GroupKey) -> u32 {
        *self.index.entry(key).or_insert_with(|| {
            self.groups.push(Group::new(key));
            u32::try_from(self.groups.len() - 1).expect("there are no more groups than requests")
        })
    }

    fn end(&mut self, id: RequestId, outcome: Outcome, at: SimTime) {
        let place = core::mem::replace(&mut self.places[id.index()], ENDED);
        let Live {
            mut record, last, ..
        } = self.live.swap_remove(place as usize);
        if let Some(moved) = self.live.get(place as usize) {
            self.places[moved.record.id.index()] = place;
        }
        record.outcome = outcome;
        if matches!(outcome, Outcome::Finished(_)) {
            record.e2e = Some(at - record.arrival);
        }
        assert!(
            !outcome.is_complete() || (record.ttft.is_some() && at == last),
            "request lifecycle: request {id} ends at {at}, and its last token came at {last}"
        );
        self.ended.push(record);
    }
}

impl MetricSink for Recorder {
    fn on_arrival(&mut self, request: &Request) {
        let index = request.id.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, NOT_ARRIVED);
        }
        assert!(
            self.places[index] == NOT_ARRIVED,
            "request lifecycle: request {} arrives twice",
            request.id
        );
        self.places[index] =
            u32::try_from(self.live.len()).expect("there are no more requests than ids");
        let group = self.group(request.into());
        self.groups[group as usize].arrive(request);
        let mut record = RequestRecord::of(request);
        record.gaps.list = self.keep_gaps.then(Vec::new);
        self.live.push(Live {
            record,
            last: request.arrival,
            group,
        });
        self.last_seen = self.last_seen.max(request.arrival);
    }

    fn on_occurrence(&mut self, occurrence: &Occurrence) {
        let Occurrence {
            at,
            request: id,
            what,
            ..
        } = *occurrence;
        let Some(Live {
            record,
            last,
            group,
        }) = find(&self.places, &mut self.live, id)
        else {
            panic!("request lifecycle: request {id} has not arrived or has ended, yet {what:?}")
        };
        self.last_seen = self.last_seen.max(at);
        match what {
            Lifecycle::Tokens { count } => {
                if count == 0 {
                    return;
                }
                let gap = at - *last;
                *last = at;
                let group = &mut self.groups[*group as usize];
                if record.ttft.is_some() {
                    group.add_gaps(gap.as_nanos(), 1);
                }
                group.add_zeros(count - 1);
                record.add_tokens(gap, count);
            }
            Lifecycle::Dispatched { endpoint, prefill } => record.dispatch(at, endpoint, prefill),
            Lifecycle::KvTransferred { bytes, took } => record.receive(bytes, took),
            Lifecycle::Scheduled { cached_tokens } => record.schedule(at, cached_tokens),
            Lifecycle::Preempted => record.preemptions += 1,
            Lifecycle::Finished { reason } => self.end(id, Outcome::Finished(reason), at),
            Lifecycle::Rejected { reason } => self.end(id, Outcome::Rejected(reason), at),
            // Nothing is counted when a request resumes, nor at stations that may come to be.
            _ => {}
        }
    }

    fn on_tokens(&mut self, run: &TokenRun<'_>) {
        let (Some(first), Some(last)) = (run.arrivals().next(), run.last()) else {
            return;
        };
        self.last_seen = self.last_seen.max(last);
        self.later.take(run.times);
        self.members.clear();
        for &id in run.requests {
            let Some(live) = find(&self.places, &mut self.live, id) else {
                panic!("request lifecycle: request {id} has not arrived or has ended, yet a token")
            };
            let gap = first - live.last;
            live.last = last;
            if live.record.ttft.is_some() {
                self.groups[live.group as usize].add_gaps(gap.as_nanos(), 1);
            }
            live.record.add_run(gap, &self.later);
            // Most batches are of one group, and of a few otherwise.
            match self
                .members
                .iter_mut()
                .find(|(group, _)| *group == live.group)
            {
                Some((_, count)) => *count += 1,
                None => self.members.push((live.group, 1)),
            }
        }
        for &(group, count) in &self.members {
            let group = &mut self.groups[group as usize];
            for gap in &self.later.list {
                group.add_gaps(gap.as_nanos(), count);
            }
        }
    }

    fn on_step(&mut self, step: &StepRecord) {
        self.load.on_step(step);
        self.last_seen = self.last_seen.max(step.end);
    }

    fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        self.load.on_level(at, level);
        self.last_seen = self.last_seen.max(at);
    }
}

/// The request of this id, while it is inside.
fn find<'a>(places: &[u32], live: &'a mut [Live], id: RequestId) -> Option<&'a mut Live> {
    // The marks of those that have not arrived or have ended are beyond any place.
    let place = *places.get(id.index())?;
    live.get_mut(place as usize)
}

/// All that a [`Recorder`] took down.
#[derive(Debug, Clone)]
pub struct Recording {
    records: Vec<RequestRecord>,
    groups: Vec<Group>,
    load: Load,
    end: SimTime,
}

impl Recording {
    /// All requests that arrived, by id.
    pub fn records(&self) -> &[RequestRecord] {
        &self.records
    }

    /// When the recording ended.
    pub const fn end(&self) -> SimTime {
        self.end
    }

    /// The gaps between tokens of all requests, in nanoseconds.
    pub fn gaps(&self) -> Quantiles {
        let mut all = Quantiles::new();
        self.groups.iter().for_each(|group| all.merge(group.gaps()));
        all
    }

    /// A fingerprint of all records, the times of all tokens included. It does not depend on the
    /// order in which simultaneous occurrences of different requests were told.
    pub fn fingerprint(&self) -> Fingerprint {
        self.records
            .iter()
            .fold(Fingerprint::new(), |fingerprint, record| {
                fingerprint.with(record.fingerprint().value())
            })
    }

    /// Groups by key: every request belongs to one.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) const fn load(&self) -> &Load {
        &self.load
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::SimDuration;
    use foretoken_workload::{ContentId, FinishReason, FlowId, Prompt, RejectReason, Segment};

    use super::*;

    const fn at(nanos: u64) -> SimTime {
        SimTime::from_nanos(nanos)
    }

    fn arrive(recorder: &mut Recorder, id: u32, nanos: u64) {
        let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has tokens");
        recorder.on_arrival(&Request::new(RequestId::new(id), at(nanos), prompt, 9));
    }

    fn tell(recorder: &mut Recorder, id: u32, nanos: u64, what: Lifecycle) {
        recorder.on_occurrence(&Occurrence::new(at(nanos), RequestId::new(id), what));
    }

    const TOKEN: Lifecycle = Lifecycle::Tokens { count: 1 };
    const LENGTH: Lifecycle = Lifecycle::Finished {
        reason: FinishReason::Length,
    };

    #[test]
    fn a_lone_request_is_measured_from_its_arrival() {
        let mut recorder = Recorder::new().keeping_gaps();
        arrive(&mut recorder, 0, 100);
        tell(
            &mut recorder,
            0,
            110,
            Lifecycle::Scheduled { cached_tokens: 16 },
        );
        tell(&mut recorder, 0, 150, TOKEN);
        tell(&mut recorder, 0, 157, TOKEN);
        tell(&mut recorder, 0, 160, Lifecycle::Preempted);
        tell(
            &mut recorder,
            0,
            170,
            Lifecycle::Resumed { cached_tokens: 32 },
        );
        tell(&mut recorder, 0, 190, Lifecycle::Tokens { count: 2 });
        tell(&mut recorder, 0, 190, LENGTH);
        let recording = recorder.finish(at(200));

        let span = |nanos| Some(SimDuration::from_nanos(nanos));
        let [record] = recording.records() else {
            panic!("one request arrived")
        };
        assert_eq!(
            (record.queue, record.ttft, record.e2e),
            (span(10), span(50), span(90))
        );
        assert_eq!(
            (
                record.output_tokens,
                record.cached_tokens,
                record.preemptions
            ),
            (4, 16, 1)
        );
        assert_eq!(record.end(), Some(at(190)));
        let gaps = [7, 33, 0].map(SimDuration::from_nanos);
        assert_eq!(record.gaps.list.as_deref(), Some(&gaps[..]));
        assert_eq!(
            recording.gaps().runs().collect::<Vec<_>>(),
            [(0, 1), (7, 1), (33, 1)]
        );
        assert_eq!(recording.end(), at(200));
    }

    #[test]
    fn a_run_of_tokens_equals_its_tokens_one_by_one() {
        let (mut runs, mut tokens) = (
            Recorder::new().keeping_gaps(),
            Recorder::new().keeping_gaps(),
        );
        for recorder in [&mut runs, &mut tokens] {
            for id in 0..3 {
                let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has");
                let mut request = Request::new(RequestId::new(id), at(u64::from(id)), prompt, 9);
                request.flow = FlowId::new(id / 2);
                recorder.on_arrival(&request);
            }
        }
        let everyone = [0, 1, 2].map(RequestId::new);
        let delay = SimDuration::from_nanos(4);
        for (requests, times) in [
            (&everyone[..2], &[50, 57, 64, 70][..]),
            (&everyone[..], &[90]),
            (&everyone[1..], &[95, 95, 120]),
            (&everyone[..1], &[]),
        ] {
            let times: Vec<SimTime> = times.iter().map(|&time| at(time)).collect();
            let run = TokenRun::new(requests, &times).after(delay);
            runs.on_tokens(&run);
            for occurrence in run.occurrences() {
                tokens.on_occurrence(&occurrence);
            }
        }
        for recorder in [&mut runs, &mut tokens] {
            tell(recorder, 1, 124, LENGTH);
        }
        let (runs, tokens) = (runs.finish(at(200)), tokens.finish(at(200)));
        assert_eq!(runs.records(), tokens.records());
        assert_eq!(runs.fingerprint(), tokens.fingerprint());
        let pairs = runs.groups().iter().zip(tokens.groups());
        for (of_runs, of_tokens) in pairs {
            let [mut of_runs, mut of_tokens] =
                [of_runs, of_tokens].map(|group| group.gaps().clone());
            assert!(of_runs.runs().eq(of_tokens.runs()));
        }
    }

    #[test]
    fn records_come_by_id_whatever_ended_first() {
        let mut recorder = Recorder::new();
        for id in 0..4 {
            arrive(&mut recorder, id, u64::from(id));
        }
        let shed = Lifecycle::Rejected {
            reason: RejectReason::Shed,
        };
        tell(&mut recorder, 1, 5, shed);
        tell(&mut recorder, 3, 6, TOKEN);
        tell(&mut recorder, 3, 6, LENGTH);
        tell(
            &mut recorder,
            0,
            9,
            Lifecycle::Finished {
                reason: FinishReason::Abort,
            },
        );
        let recording = recorder.finish(at(9));
        let outcomes: Vec<_> = recording
            .records()
            .iter()
            .map(|record| (record.id.get(), record.outcome))
            .collect();
        assert_eq!(
            outcomes,
            [
                (0, Outcome::Finished(FinishReason::Abort)),
                (1, Outcome::Rejected(RejectReason::Shed)),
                (2, Outcome::InFlight),
                (3, Outcome::Finished(FinishReason::Length)),
            ]
        );
    }

    #[test]
    fn what_is_evicted_or_lost_may_have_no_token() {
        let mut recorder = Recorder::new();
        for (id, reason) in [(0, FinishReason::Evicted), (1, FinishReason::EndpointLost)] {
            arrive(&mut recorder, id, 10);
            tell(&mut recorder, id, 40, Lifecycle::Finished { reason });
        }
        let recording = recorder.finish(at(50));
        for record in recording.records() {
            assert_eq!((record.ttft, record.queue), (None, None));
            assert_eq!(record.end(), Some(at(40)));
            assert!(!record.outcome.is_complete());
        }
    }

    #[test]
    fn gaps_are_kept_apart_by_stage_class_and_tenant() {
        let mut recorder = Recorder::new();
        for id in 0..3 {
            let prompt = Prompt::new([Segment::new(ContentId::new(1), 30)]).expect("it has tokens");
            let mut request = Request::new(RequestId::new(id), at(0), prompt, 9);
            request.flow = FlowId::new(id % 2);
            recorder.on_arrival(&request);
        }
        for (nanos, id) in [(5, 0), (5, 1), (5, 2), (12, 0), (12, 1), (12, 2), (20, 1)] {
            tell(&mut recorder, id, nanos, TOKEN);
        }
        let recording = recorder.finish(at(20));
        let gaps = recording.groups.iter().map(|group| {
            let runs = group.gaps().clone().runs().collect();
            (group.key.flow.get(), group.arrived, runs)
        });
        let expected: [(u32, u64, Vec<_>); 2] =
            [(0, 2, vec![(7, 2)]), (1, 1, vec![(7, 1), (8, 1)])];
        assert_eq!(gaps.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_recording_lasts_until_the_last_thing_that_happened() {
        let mut recorder = Recorder::new();
        arrive(&mut recorder, 0, 70);
        tell(&mut recorder, 0, 90, TOKEN);
        assert_eq!(recorder.finish(at(80)).end(), at(90));
    }

    #[test]
    #[should_panic(expected = "request lifecycle: request #0 has not arrived or has ended")]
    fn nothing_happens_to_a_request_that_has_not_arrived() {
        tell(&mut Recorder::new(), 0, 1, TOKEN);
    }

    #[test]
    #[should_panic(expected = "request lifecycle: request #0 has not arrived or has ended")]
    fn nothing_happens_to_a_request_that_has_ended() {
        let mut recorder = Recorder::new();
        arrive(&mut recorder, 0, 0);
        arrive(&mut recorder, 1, 0);
        tell(&mut recorder, 0, 1, TOKEN);
        tell(&mut recorder, 0, 1, LENGTH);
        tell(&mut recorder, 0, 2, TOKEN);
    }

    #[test]
    #[should_panic(expected = "request lifecycle: request #0 arrives twice")]
    fn a_request_arrives_once() {
        let mut recorder = Recorder::new();
        arrive(&mut recorder, 0, 0);
        arrive(&mut recorder, 0, 1);
    }

    #[test]
    #[should_panic(expected = "its last token came at 1ns")]
    fn a_complete_request_ends_with_its_last_token() {
        let mut recorder = Recorder::new();
        arrive(&mut recorder, 0, 0);
        tell(&mut recorder, 0, 1, TOKEN);
        tell(&mut recorder, 0, 2, LENGTH);
    }
}

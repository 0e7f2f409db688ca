//! The sink that keeps what a [`Report`](crate::Report) needs.

mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use foretoken_des_kernel::stats::Quantiles;
use foretoken_des_kernel::{Fingerprint, SimDuration, SimTime};
use foretoken_workload::{DecodeRun, Lifecycle, Occurrence, Request, RequestId, TokenRun};

use crate::group::{Group, GroupKey};
use crate::load::Load;
use crate::outcome::Outcome;
use crate::record::{LaterGaps, RequestRecord};
use crate::sink::{LevelRecord, MetricSink, StepRecord};
use stream::{Member, Stream};

/// Takes down what happens to every request, and how full and busy the engines are.
///
/// Memory follows the number of requests in flight, apart from one [`RequestRecord`] for each that
/// has ended and one entry for each distinct inter-token time of each group (stage, class and
/// tenant). A token that is told by itself costs a few nanoseconds; the decodes of an engine cost
/// something per step, and per request that joins or leaves them.
///
/// Request ids are dense from 0; stages and tenants may have any.
///
/// # Panics
/// All methods of the sink panic if a broken *request lifecycle* is told: an occurrence of a request
/// that has not arrived or has ended already, time running backwards within a request, or a complete
/// request whose end is not its last token; and if the members of a run of decodes are not those that
/// have joined and not left.
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
    /// The decodes of each engine.
    streams: Vec<Stream>,
    /// The gaps that all requests of the run in hand have in common.
    later: Vec<SimDuration>,
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
    /// Where it decodes. What has come since it joined is not in its record, nor in `last`.
    member: Option<Member>,
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
            streams: Vec::new(),
            later: Vec::new(),
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
        for live in &mut self.live {
            live.leave(&mut self.streams);
        }
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
        let mut live = self.live.swap_remove(place as usize);
        live.leave(&mut self.streams);
        let Live {
            mut record, last, ..
        } = live;
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
            member: None,
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
        let Some(live) = find(&self.places, &mut self.live, id) else {
            panic!("request lifecycle: request {id} has not arrived or has ended, yet {what:?}")
        };
        self.last_seen = self.last_seen.max(at);
        match what {
            Lifecycle::Tokens { count } => {
                if count == 0 {
                    return;
                }
                live.leave(&mut self.streams);
                let group = &mut self.groups[live.group as usize];
                group.add_zeros(count - 1);
                live.take(at, count, group);
            }
            Lifecycle::Dispatched { endpoint, prefill } => {
                live.record.dispatch(at, endpoint, prefill);
            }
            Lifecycle::KvTransferred { bytes, took } => live.record.receive(bytes, took),
            Lifecycle::Scheduled { cached_tokens } => live.record.schedule(at, cached_tokens),
            Lifecycle::Preempted => live.record.preemptions += 1,
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
        self.later.clear();
        let pairs = run.times.windows(2);
        self.later.extend(pairs.map(|pair| pair[1] - pair[0]));
        let later = LaterGaps::of(&self.later);
        self.members.clear();
        for &id in run.requests {
            let live = get(&self.places, &mut self.live, id);
            live.leave(&mut self.streams);
            live.take(first, 1, &mut self.groups[live.group as usize]);
            live.record.add_later(&later);
            live.last = last;
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
            for gap in &self.later {
                group.add_gaps(gap.as_nanos(), count);
            }
        }
    }

    fn on_decodes(&mut self, instance: u32, run: &DecodeRun<'_>) {
        let index = instance as usize;
        if self.streams.len() <= index {
            let keep_gaps = self.keep_gaps;
            self.streams
                .resize_with(index + 1, || Stream::new(keep_gaps));
        }
        for &id in run.left {
            // One that got a token by itself, or of another engine, has left already.
            let live = find(&self.places, &mut self.live, id);
            if let Some(live) = live.filter(|live| live.decodes_on(instance)) {
                live.leave(&mut self.streams);
            }
        }
        let mut arrivals = run.tokens.arrivals();
        let Some(first) = arrivals.next() else {
            return;
        };
        self.streams[index].step(first, &mut self.groups);
        for &id in run.joined {
            let live = get(&self.places, &mut self.live, id);
            live.leave(&mut self.streams);
            live.take(first, 1, &mut self.groups[live.group as usize]);
            live.member = Some(self.streams[index].join(instance, live.group));
        }
        let stream = &mut self.streams[index];
        for at in arrivals {
            stream.step(at, &mut self.groups);
        }
        self.last_seen = self.last_seen.max(stream.last());
        let (members, told) = (stream.members(), run.tokens.requests.len() as u64);
        assert!(
            members == told,
            "decode membership: engine {instance} has {told} members, {members} joined and did not leave"
        );
        if stream.is_long(self.live.len()) {
            let members = self.live.iter().filter_map(|live| live.member.as_ref());
            let here = members.filter(|member| member.instance == instance);
            stream.forget_before(here.map(Member::since).min());
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

/// The request of this id, which gets a token.
fn get<'a>(places: &[u32], live: &'a mut [Live], id: RequestId) -> &'a mut Live {
    let Some(live) = find(places, live, id) else {
        panic!("request lifecycle: request {id} has not arrived or has ended, yet a token")
    };
    live
}

impl Live {
    /// Takes down `count` tokens that come together at `at`; it is no member of a stream.
    fn take(&mut self, at: SimTime, count: u32, group: &mut Group) {
        let gap = at - self.last;
        self.last = at;
        if self.record.ttft.is_some() {
            group.add_gaps(gap.as_nanos(), 1);
        }
        self.record.add_tokens(gap, count);
    }

    fn decodes_on(&self, instance: u32) -> bool {
        let member = self.member.as_ref();
        member.is_some_and(|member| member.instance == instance)
    }

    /// Takes down what came while it was a member of a stream, if it is one, and leaves that.
    fn leave(&mut self, streams: &mut [Stream]) {
        if let Some(member) = self.member.take() {
            let stream = &mut streams[member.instance as usize];
            self.record.add_later(&stream.since(&member));
            self.last = stream.last();
            stream.leave(self.group);
        }
    }
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

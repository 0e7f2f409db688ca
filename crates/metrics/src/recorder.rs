//! The sink that keeps what a [`Report`](crate::Report) needs.

mod flights;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{DecodeRun, Lifecycle, Occurrence, Request, RequestId, TokenRun};

use crate::group::{Group, GroupKey};
use crate::load::Load;
use crate::outcome::Outcome;
use crate::record::{LaterGaps, RequestRecord};
use crate::recording::{Kept, RecordSink, Recording, Totals};
use crate::sink::{DecodeSteps, LevelRecord, MetricSink, StepRecord};
use crate::slo::Slos;
use flights::{Flights, Live};
use stream::{Member, Stream};

/// Distinct values of a latency up to which its percentiles are exact, for each group (stage, class
/// and tenant); they take 16 bytes each.
const EXACT: usize = 4 << 20;

/// Takes down what happens to every request, and how full and busy the engines are.
///
/// A token that is told by itself costs a few nanoseconds; the decodes of an engine cost something per
/// step, and per request that joins or leaves them.
///
/// A [new](Self::new) recorder keeps one [`RequestRecord`] for each request. One that is
/// [streaming](Self::streaming) hands them on, and its memory follows the number of requests in flight
/// (how far apart their ids are, to be exact). Both have one entry for each distinct latency and each
/// distinct inter-token time of each group (stage, class and tenant), up to [a limit](Self::exact_up_to).
///
/// Request ids are dense from 0; stages and tenants may have any.
///
/// # Panics
/// All methods of the sink panic if a broken *request lifecycle* is told: an occurrence of a request
/// that has not arrived or has ended already, time running backwards within a request, or a complete
/// request whose end is not its last token; and if the members of a run of decodes are not those that
/// have joined and not left.
#[derive(Debug, Clone)]
pub struct Recorder<R = Kept> {
    flights: Flights,
    /// Where records of requests go that have ended.
    records: R,
    totals: Totals,
    exact: usize,
    groups: Vec<Group>,
    /// Where in `groups` each is.
    index: BTreeMap<GroupKey, u32>,
    load: Load,
    last_seen: SimTime,
    keep_gaps: bool,
    /// The decodes of each engine.
    streams: Vec<Stream>,
    /// The gaps that requests of the run in hand have in common.
    later: Vec<SimDuration>,
    /// How many requests of each group are in the run in hand.
    members: Vec<(u32, u64)>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Nothing has happened yet; keeps all records.
    pub fn new() -> Self {
        Self::streaming(Kept::default())
    }
}

impl<R: RecordSink> Recorder<R> {
    /// Nothing has happened yet; hands records on to `records`.
    pub fn streaming(records: R) -> Self {
        Self {
            flights: Flights::default(),
            records,
            totals: Totals::default(),
            exact: EXACT,
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

    /// Counts how many requests meet the objectives of their class.
    #[must_use]
    pub fn judging(mut self, slos: &Slos) -> Self {
        self.totals.judge = slos.judge();
        self
    }

    /// Percentiles are exact up to so many distinct values of a latency in each group; beyond that they
    /// are within [a share](foretoken_des_kernel::stats::Quantiles::ROUNDING_ERROR) of it, and reports
    /// say so. 4 194 304 by default. To be called before anything is told.
    #[must_use]
    pub const fn exact_up_to(mut self, distinct: usize) -> Self {
        self.exact = distinct;
        self
    }

    /// Keeps all gaps of every request, at 8 bytes per token.
    #[must_use]
    pub fn keeping_gaps(mut self) -> Self {
        self.keep_gaps = true;
        self
    }

    /// Ends the recording at `end`, or when the last thing happened that was told, if that is later.
    /// What has not ended by then is in flight.
    pub fn finish(mut self, end: SimTime) -> Recording<R> {
        let end = end.max(self.last_seen);
        self.load.settle(end);
        for mut live in core::mem::take(&mut self.flights).into_inside() {
            if live.record.outcome == Outcome::InFlight {
                live.leave(&mut self.streams);
                live.record.withhold();
            }
            self.hand_on(live);
        }
        self.groups.iter_mut().for_each(Group::finish);
        self.groups.sort_unstable_by_key(|group| group.key);
        Recording {
            records: self.records,
            totals: self.totals,
            groups: self.groups,
            load: self.load,
            end,
        }
    }

    fn group(&mut self, key: GroupKey) -> u32 {
        *self.index.entry(key).or_insert_with(|| {
            self.groups.push(Group::new(key, self.exact));
            u32::try_from(self.groups.len() - 1).expect("there are no more groups than requests")
        })
    }

    fn end(&mut self, id: RequestId, outcome: Outcome, at: SimTime) {
        let live = self.flights.get(id);
        live.leave(&mut self.streams);
        let Live { record, last, .. } = live;
        record.outcome = outcome;
        assert!(
            !outcome.is_complete() || (record.ttft.is_some() && at == *last),
            "request lifecycle: request {id} ends at {at}, and its last token came at {last}"
        );
        if matches!(outcome, Outcome::Finished(_)) {
            record.finish(at - record.arrival);
        }
        self.flights.end(id);
        while let Some(live) = self.flights.leave() {
            self.hand_on(live);
        }
    }

    /// Nothing more happens to a request, nor to any of a lower id.
    fn hand_on(&mut self, live: Live) {
        let Live { record, group, .. } = live;
        self.totals.add(&record);
        self.groups[group as usize].add(&record);
        self.records.on_record(record);
    }
}

impl<R: RecordSink> MetricSink for Recorder<R> {
    fn on_arrival(&mut self, request: &Request) {
        let group = self.group(request.into());
        self.groups[group as usize].arrive(request);
        let mut record = RequestRecord::of(request);
        record.gaps.list = self.keep_gaps.then(Vec::new);
        self.flights.arrive(Live {
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
        let Some(live) = self.flights.find(id) else {
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
                if live.gaps_of().is_some() {
                    group.add_zeros(count - 1);
                }
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
            let live = self.flights.get(id);
            live.leave(&mut self.streams);
            live.take(first, 1, &mut self.groups[live.group as usize]);
            live.record.add_later(&later);
            live.last = last;
            let Some(group) = live.gaps_of() else {
                continue;
            };
            // Most batches are of one group, and of a few otherwise.
            match self.members.iter_mut().find(|each| each.0 == group) {
                Some((_, count)) => *count += 1,
                None => self.members.push((group, 1)),
            }
        }
        for &(group, count) in &self.members {
            self.groups[group as usize].add_run(&self.later, count);
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
            let live = self.flights.find(id);
            if let Some(live) = live.filter(|live| live.decodes_on(instance)) {
                live.leave(&mut self.streams);
            }
        }
        let (Some(first), Some(last)) = (run.tokens.arrivals().next(), run.tokens.last()) else {
            return;
        };
        let stream = &mut self.streams[index];
        self.later.clear();
        // Of nobody the first token comes after nothing.
        let before = if stream.members() > 0 {
            stream.last()
        } else {
            first
        };
        self.later.push(first - before);
        let pairs = run.tokens.times.windows(2);
        self.later.extend(pairs.map(|pair| pair[1] - pair[0]));
        let mut later = &self.later[..];
        if !run.joined.is_empty() {
            // Who joins gets the first token by itself, and those after it with the others.
            let joining;
            (joining, later) = later.split_at(1);
            stream.steps(joining, first, &mut self.groups);
        }
        for &id in run.joined {
            let live = self.flights.get(id);
            live.leave(&mut self.streams);
            live.take(first, 1, &mut self.groups[live.group as usize]);
            live.member = Some(self.streams[index].join(instance, live.gaps_of()));
        }
        let stream = &mut self.streams[index];
        if !later.is_empty() {
            stream.steps(later, last, &mut self.groups);
        }
        self.last_seen = self.last_seen.max(last);
        let (members, told) = (stream.members(), run.tokens.requests.len() as u64);
        assert!(
            members == told,
            "decode membership: engine {instance} has {told} members, {members} joined and did not leave"
        );
        if stream.is_long(self.flights.places()) {
            let members = self.flights.inside();
            let members = members.filter_map(|live| live.member.as_ref());
            let here = members.filter(|member| member.instance == instance);
            stream.forget_before(here.map(Member::since).min());
        }
    }

    fn on_step(&mut self, step: &StepRecord) {
        self.load.on_step(step);
        self.last_seen = self.last_seen.max(step.end);
    }

    fn on_decode_steps(&mut self, steps: &DecodeSteps<'_>) {
        self.load.on_decode_steps(steps);
        if let Some(&last) = steps.ends.last() {
            self.last_seen = self.last_seen.max(last);
        }
    }

    fn on_level(&mut self, at: SimTime, level: &LevelRecord) {
        self.load.on_level(at, level);
        self.last_seen = self.last_seen.max(at);
    }

    fn on_kv_levels(&mut self, level: &LevelRecord, used: &[(SimTime, u32)]) {
        self.load.on_kv_levels(level, used);
        if let Some(&(last, _)) = used.last() {
            self.last_seen = self.last_seen.max(last);
        }
    }

    fn is_satisfied(&self) -> bool {
        self.records.is_satisfied()
    }
}

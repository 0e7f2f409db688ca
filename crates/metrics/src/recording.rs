//! What a recorder took down: [`Recording`], and where its records go: [`RecordSink`].

use foretoken_des_kernel::stats::Quantiles;
use foretoken_des_kernel::{Fingerprint, SimTime};

use crate::endpoint::Service;
use crate::group::Group;
use crate::load::Load;
use crate::record::RequestRecord;
use crate::slo::{Attainment, Judge};

/// Takes the records of requests.
///
/// *The recorder guarantees:* records come by id, each as soon as that request and all of a lower id
/// have ended; those of requests in flight come when the recording ends.
///
/// Any closure that takes a record is one:
///
/// ```
/// use foretoken_des_kernel::SimTime;
/// use foretoken_metrics::{Recorder, RequestRecord};
///
/// let mut lines = Vec::new();
/// let recorder = Recorder::streaming(|record: RequestRecord| lines.push(record.id));
/// recorder.finish(SimTime::ZERO);
/// assert!(lines.is_empty());
/// ```
pub trait RecordSink {
    /// Takes a record.
    fn on_record(&mut self, record: RequestRecord);

    /// Whether it has seen enough: see [`MetricSink::is_satisfied`](crate::MetricSink::is_satisfied).
    fn is_satisfied(&self) -> bool {
        false
    }
}

impl<F: FnMut(RequestRecord)> RecordSink for F {
    fn on_record(&mut self, record: RequestRecord) {
        self(record);
    }
}

/// Forgets them.
impl RecordSink for () {
    fn on_record(&mut self, _: RequestRecord) {}
}

/// Keeps all records.
#[derive(Debug, Clone, Default)]
pub struct Kept(Vec<RequestRecord>);

impl RecordSink for Kept {
    fn on_record(&mut self, record: RequestRecord) {
        self.0.push(record);
    }
}

/// All that a [`Recorder`](crate::Recorder) took down.
#[derive(Debug, Clone)]
pub struct Recording<R = Kept> {
    pub(crate) records: R,
    pub(crate) totals: Totals,
    pub(crate) groups: Vec<Group>,
    pub(crate) load: Load,
    pub(crate) end: SimTime,
}

/// What is kept of all records together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    fingerprint: Fingerprint,
    longest_sequence: u64,
    /// What each endpoint did.
    services: Vec<Service>,
    pub(crate) judge: Judge,
}

impl Totals {
    /// Adds a record; they come by id.
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        self.fingerprint = self.fingerprint.with(record.fingerprint().value());
        if record.queue.is_some() {
            let tokens = u64::from(record.prompt_tokens) + u64::from(record.output_tokens);
            self.longest_sequence = self.longest_sequence.max(tokens);
        }
        Service::add(&mut self.services, record);
        self.judge.add(record);
    }
}

impl Recording {
    /// All requests that arrived, by id.
    pub fn records(&self) -> &[RequestRecord] {
        &self.records.0
    }
}

impl<R> Recording<R> {
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
    pub const fn fingerprint(&self) -> Fingerprint {
        self.totals.fingerprint
    }

    /// The most tokens, of prompt and output, that a request had which was scheduled.
    pub const fn longest_sequence(&self) -> u64 {
        self.totals.longest_sequence
    }

    /// How many requests met the objectives that the recorder [judged](crate::Recorder::judging) by,
    /// the most important class first.
    pub fn attainment(&self) -> Vec<Attainment> {
        self.totals.judge.attainment()
    }

    /// Where the records went.
    pub fn into_sink(self) -> R {
        self.records
    }

    /// Groups by key: every request belongs to one.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) const fn load(&self) -> &Load {
        &self.load
    }

    pub(crate) fn services(&self) -> &[Service] {
        &self.totals.services
    }
}

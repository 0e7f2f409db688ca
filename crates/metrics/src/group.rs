//! Requests that reports keep together: of one stage, one class and one tenant.

use foretoken_des_kernel::SimDuration;
use foretoken_des_kernel::stats::Quantiles;
use foretoken_workload::{FlowId, Request, SloClass, StageId};

use crate::record::RequestRecord;
use crate::summary::Samples;

/// What the requests of a [`Group`] have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    pub(crate) stage: StageId,
    pub(crate) class: SloClass,
    pub(crate) flow: FlowId,
}

impl From<&Request> for GroupKey {
    fn from(request: &Request) -> Self {
        Self {
            stage: request.stage,
            class: request.class,
            flow: request.flow,
        }
    }
}

impl From<&RequestRecord> for GroupKey {
    fn from(record: &RequestRecord) -> Self {
        Self {
            stage: record.stage,
            class: record.class,
            flow: record.flow,
        }
    }
}

/// What is kept of a group.
///
/// Groups are as small as any part of a report is cut: a stage, a class or a tenant is some of them
/// together, so that a token is counted once.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    samples: Samples,
    /// A gap and how often it came in a row: the sequences of a step share theirs, so that most
    /// tokens cost an increment.
    run: (u64, u64),
    /// How many tokens came together with the one before; apart, lest they break the runs.
    zeros: u64,
}

impl Group {
    /// Without requests; with more than `exact` distinct values percentiles are approximate.
    pub(crate) fn new(key: GroupKey, exact: usize) -> Self {
        Self {
            key,
            samples: Samples::new(exact),
            run: (0, 0),
            zeros: 0,
        }
    }

    pub(crate) fn arrive(&mut self, request: &Request) {
        self.samples.arrive(request);
    }

    /// Nothing more happens to one of its requests.
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        self.samples.add(record);
    }

    /// A gap that came so many times.
    #[inline]
    pub(crate) fn add_gaps(&mut self, nanos: u64, times: u64) {
        if self.run.0 == nanos {
            self.run.1 += times;
        } else {
            self.end_run();
            self.run = (nanos, times);
        }
    }

    /// Gaps each of which came so many times.
    #[inline]
    pub(crate) fn add_run(&mut self, gaps: &[SimDuration], times: u64) {
        self.end_run();
        let nanos = gaps.iter().map(|gap| gap.as_nanos());
        self.samples.gaps.record_each(nanos, times);
    }

    /// `count` tokens came together with the one before.
    pub(crate) const fn add_zeros(&mut self, count: u32) {
        self.zeros += count as u64;
    }

    fn end_run(&mut self) {
        let (nanos, times) = core::mem::take(&mut self.run);
        self.samples.gaps.record_n(nanos, times);
    }

    pub(crate) fn finish(&mut self) {
        self.end_run();
        let zeros = core::mem::take(&mut self.zeros);
        self.samples.gaps.record_n(0, zeros);
        // Once, before parts of reports are made of them.
        self.samples.sort();
    }

    /// The gaps of all its requests, in nanoseconds.
    pub(crate) const fn gaps(&self) -> &Quantiles {
        &self.samples.gaps
    }

    pub(crate) const fn samples(&self) -> &Samples {
        &self.samples
    }
}

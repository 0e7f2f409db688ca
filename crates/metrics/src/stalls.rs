//! [`Stalls`]: how many answers stood still for too long.

use foretoken_des_kernel::SimDuration;
use foretoken_workload::Delivery;
use serde::{Deserialize, Serialize};

use crate::record::RequestRecord;
use crate::recording::RecordSink;
use crate::round::share_of_some;
use crate::smoothness::{ByClass, ClassPart};

/// Counts requests with a gap between two tokens that is longer than a limit.
///
/// ```
/// use foretoken_des_kernel::{SimDuration, SimTime};
/// use foretoken_metrics::{Recorder, Stalls};
///
/// let recorder = Recorder::streaming(Stalls::longer_than(SimDuration::from_millis(200)));
/// // A simulation tells the recorder what happens.
/// let stalls = recorder.finish(SimTime::ZERO).into_sink().report();
/// assert_eq!(stalls.overall.share, None);
/// ```
#[derive(Debug, Clone)]
pub struct Stalls {
    limit: SimDuration,
    parts: ByClass<StallSummary>,
}

impl Stalls {
    /// No requests yet.
    pub fn longer_than(limit: SimDuration) -> Self {
        Self {
            limit,
            parts: ByClass::default(),
        }
    }

    /// Adds a request, if it got two tokens or more, one after the other.
    pub fn add(&mut self, record: &RequestRecord) {
        if record.output_tokens < 2 || record.delivery == Delivery::Whole {
            return;
        }
        let stalled = record.gaps.longest > self.limit;
        self.parts.add(record.class, |part: &mut StallSummary| {
            part.requests += 1;
            part.stalled += u64::from(stalled);
        });
    }

    /// What came of it.
    pub fn report(mut self) -> StallReport {
        let classes = self.parts.unless_default(|part| part.with_share());
        let mut overall = StallSummary::default();
        for part in self.parts.all() {
            overall.requests += part.requests;
            overall.stalled += part.stalled;
        }
        StallReport {
            limit_ms: self.limit.as_millis_f64(),
            overall: overall.with_share(),
            classes,
        }
    }
}

impl RecordSink for Stalls {
    fn on_record(&mut self, record: RequestRecord) {
        self.add(&record);
    }
}

/// How many answers of a run stood still for longer than a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StallReport {
    /// The limit, in milliseconds.
    pub limit_ms: f64,
    /// All requests.
    pub overall: StallSummary,
    /// The requests of each class of service, the most important first; empty if all are of the default
    /// one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassPart<StallSummary>>,
}

/// The stalls of some requests.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StallSummary {
    /// Requests that got two tokens or more, however they ended; without those whose answers come whole.
    pub requests: u64,
    /// Those of them with a gap over the limit.
    pub stalled: u64,
    /// Their share; `None` without requests.
    pub share: Option<f64>,
}

impl StallSummary {
    fn with_share(self) -> Self {
        Self {
            share: share_of_some(self.stalled, self.requests),
            ..self
        }
    }
}

impl core::fmt::Display for StallReport {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "stalls over {} ms: {}", self.limit_ms, self.overall)?;
        for part in &self.classes {
            write!(f, "\n  {}: {}", part.class, part.summary)?;
        }
        Ok(())
    }
}

impl core::fmt::Display for StallSummary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            requests,
            stalled,
            share,
        } = self;
        write!(f, "{stalled} of {requests} requests")?;
        share.map_or(Ok(()), |share| write!(f, " ({:.1} %)", 100.0 * share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoothness::told;

    #[test]
    fn a_gap_over_the_limit_stalls_a_request_and_one_at_it_does_not() {
        let mut stalls = Stalls::longer_than(SimDuration::from_millis(20));
        let requests: [(u64, &[u64]); 4] =
            [(500, &[20, 20]), (5, &[5, 21, 30]), (5, &[21]), (900, &[])];
        told(&requests, |mut record: RequestRecord| {
            stalls.add(&record);
            // The same again, each in one piece.
            record.delivery = Delivery::Whole;
            stalls.add(&record);
        });
        let report = stalls.report();
        let expected = StallSummary {
            requests: 3,
            stalled: 2,
            share: Some(0.666_666_666_667),
        };
        assert_eq!(report.overall, expected);
        assert_eq!(
            report.to_string(),
            "stalls over 20 ms: 2 of 3 requests (66.7 %)"
        );
    }
}

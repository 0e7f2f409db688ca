//! What stalls and fluidity have in common: both look at requests one by one, by class.

use std::collections::BTreeMap;

use foretoken_workload::SloClass;
use serde::{Deserialize, Serialize};

/// What is counted of the requests of each class.
#[derive(Debug, Clone)]
pub(crate) struct ByClass<T>(BTreeMap<SloClass, T>);

impl<T> Default for ByClass<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Default> ByClass<T> {
    pub(crate) fn add(&mut self, class: SloClass, count: impl FnOnce(&mut T)) {
        count(self.0.entry(class).or_default());
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    /// The classes with their summaries; none if all is of the default class, for then that is the whole.
    pub(crate) fn unless_default<S>(&mut self, summary: impl Fn(&mut T) -> S) -> Vec<ClassPart<S>> {
        if self.0.keys().all(|&class| class == SloClass::default()) {
            return Vec::new();
        }
        let parts = self.0.iter_mut();
        parts
            .map(|(&class, part)| ClassPart {
                class,
                summary: summary(part),
            })
            .collect()
    }
}

/// The requests of one class of service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClassPart<S> {
    /// The class.
    pub class: SloClass,
    /// Its requests.
    pub summary: S,
}

/// Tells a recorder that keeps gaps of complete requests with these TTFTs and gaps, in milliseconds, and hands
/// their records on.
#[cfg(test)]
pub(crate) fn told(requests: &[(u64, &[u64])], records: impl crate::RecordSink) {
    use foretoken_des_kernel::{SimDuration, SimTime};
    use foretoken_workload::{
        ContentId, FinishReason, Lifecycle, Occurrence, Prompt, Request, RequestId, Segment,
    };

    use crate::MetricSink;

    let mut recorder = crate::Recorder::streaming(records).keeping_gaps();
    let prompt = Prompt::new([Segment::new(ContentId::new(1), 3)]).expect("it has tokens");
    let start = SimTime::ZERO + SimDuration::from_secs(1);
    let mut last = start;
    for (id, (ttft, gaps)) in (0..).zip(requests) {
        let id = RequestId::new(id);
        recorder.on_arrival(&Request::new(id, start, prompt.clone(), 9));
        let mut at = start;
        for &gap in core::iter::once(ttft).chain(*gaps) {
            at += SimDuration::from_millis(gap);
            recorder.on_occurrence(&Occurrence::new(at, id, Lifecycle::Tokens { count: 1 }));
        }
        let reason = FinishReason::Length;
        recorder.on_occurrence(&Occurrence::new(at, id, Lifecycle::Finished { reason }));
        last = last.max(at);
    }
    recorder.finish(last);
}

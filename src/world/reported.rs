//! [`Reported`]: what an engine said while it was advanced, until the world looks at it.

use core::ops::Range;

use foretoken_des_kernel::SimTime;
use foretoken_engine::EngineEvent;
use foretoken_workload::{RequestId, TokenRun};

/// Events of an engine, in their order. While the engine speaks it is borrowed, and what it lends does
/// not outlive the word; so runs of tokens are copied into two flat buffers.
#[derive(Debug, Default)]
pub(super) struct Reported {
    pub(super) entries: Vec<Entry>,
    requests: Vec<RequestId>,
    times: Vec<SimTime>,
}

#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// Tokens after the first of some requests.
    Tokens(Run),
    /// Anything else; first tokens one by one.
    Other(EngineEvent<'static>),
}

/// Where a run of tokens lies in the buffers.
#[derive(Debug, Clone)]
pub(super) struct Run {
    requests: Range<usize>,
    times: Range<usize>,
}

impl Reported {
    pub(super) fn push(&mut self, event: EngineEvent<'_>) {
        let EngineEvent::Tokens(run) = event else {
            return event.one_by_one(|event| self.entries.push(Entry::Other(event)));
        };
        let (requests, times) = (self.requests.len(), self.times.len());
        self.requests.extend_from_slice(run.requests);
        self.times.extend_from_slice(run.times);
        self.entries.push(Entry::Tokens(Run {
            requests: requests..self.requests.len(),
            times: times..self.times.len(),
        }));
    }

    pub(super) fn run(&self, run: &Run) -> TokenRun<'_> {
        TokenRun::new(
            &self.requests[run.requests.clone()],
            &self.times[run.times.clone()],
        )
    }

    /// Forgets all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.requests.clear();
        self.times.clear();
    }
}

//! [`Reported`]: what an engine said while it was advanced, until the world looks at it.

use core::ops::Range;

use foretoken_des_kernel::SimTime;
use foretoken_engine::EngineEvent;
use foretoken_workload::{DecodeRun, RequestId, TokenRun};

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
    /// Tokens of the batch; who left, and who joined.
    Decodes {
        left: Range<usize>,
        joined: Range<usize>,
        tokens: Run,
    },
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
        let entry = match event {
            EngineEvent::Tokens(run) => Entry::Tokens(self.keep(&run)),
            EngineEvent::Decodes(run) => Entry::Decodes {
                left: self.keep_requests(run.left),
                joined: self.keep_requests(run.joined),
                tokens: self.keep(&run.tokens),
            },
            _ => return event.one_by_one(|event| self.entries.push(Entry::Other(event))),
        };
        self.entries.push(entry);
    }

    fn keep(&mut self, run: &TokenRun<'_>) -> Run {
        let times = self.times.len();
        self.times.extend_from_slice(run.times);
        Run {
            requests: self.keep_requests(run.requests),
            times: times..self.times.len(),
        }
    }

    fn keep_requests(&mut self, requests: &[RequestId]) -> Range<usize> {
        let start = self.requests.len();
        self.requests.extend_from_slice(requests);
        start..self.requests.len()
    }

    pub(super) fn run(&self, run: &Run) -> TokenRun<'_> {
        TokenRun::new(
            &self.requests[run.requests.clone()],
            &self.times[run.times.clone()],
        )
    }

    pub(super) fn decodes(
        &self,
        left: &Range<usize>,
        joined: &Range<usize>,
        tokens: &Run,
    ) -> DecodeRun<'_> {
        let mut run = DecodeRun::new(self.run(tokens));
        run.left = &self.requests[left.clone()];
        run.joined = &self.requests[joined.clone()];
        run
    }

    /// Forgets all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.requests.clear();
        self.times.clear();
    }
}

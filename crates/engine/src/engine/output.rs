//! The output of a step, on its way to the clients.

use foretoken_des_kernel::SimTime;
use foretoken_workload::{FinishReason, Lifecycle, Occurrence, RequestId, TokenRun};

use crate::event::EngineEvent;
use crate::scheduler::Output;

/// Who got a token, in the order of the plan, and who ended with it.
#[derive(Debug, Default)]
pub(super) struct StepOutput {
    first: Vec<RequestId>,
    further: Vec<RequestId>,
    ended: Vec<(RequestId, FinishReason)>,
}

impl StepOutput {
    /// Forgets everything but the memory.
    pub(super) fn clear(&mut self) {
        self.first.clear();
        self.further.clear();
        self.ended.clear();
    }

    pub(super) fn push(&mut self, token: Output) {
        if token.counted {
            // It is told with those of the others.
        } else if token.number == 1 {
            self.first.push(token.request);
        } else {
            self.further.push(token.request);
        }
        if let Some(reason) = token.finish {
            self.ended.push((token.request, reason));
        }
    }

    /// Tells what the clients see at `at`.
    pub(super) fn report(&self, at: SimTime, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let times = [at];
        if !self.first.is_empty() {
            report(EngineEvent::FirstTokens(TokenRun::new(&self.first, &times)));
        }
        if !self.further.is_empty() {
            report(EngineEvent::Tokens(TokenRun::new(&self.further, &times)));
        }
        for &(request, reason) in &self.ended {
            let finished = Lifecycle::Finished { reason };
            report(EngineEvent::Request(Occurrence::new(at, request, finished)));
        }
    }
}

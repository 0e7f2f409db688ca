//! The engine's front end: requests on their way to the core, and those that leave early.

use foretoken_des_kernel::SimTime;
use foretoken_workload::{FinishReason, Lifecycle, Occurrence, RejectReason, Request, RequestId};

use super::Engine;
use crate::connector::KvTransfer;
use crate::event::EngineEvent;

impl Engine {
    /// Hands a request to the front end. It reaches the core after tokenisation.
    ///
    /// A request that can never be served is rejected: the report comes with the next
    /// [`advance`](Self::advance).
    pub fn submit(&mut self, now: SimTime, request: impl Into<Box<Request>>) {
        self.submit_remote(now, request, KvTransfer::local());
    }

    /// Hands a request to the front end whose KV comes from outside or is read by others: see
    /// [`connector`](crate::connector).
    ///
    /// The engine reports an [`EngineEvent::KvLoad`] for every [`KvOffer::Load`](crate::KvOffer::Load),
    /// even if the request is aborted before. A rejected request takes up nothing and says so with its
    /// rejection only: whoever offered KV to it hears nothing from vLLM either, and frees its blocks
    /// when it is tired of waiting.
    pub fn submit_remote(
        &mut self,
        now: SimTime,
        request: impl Into<Box<Request>>,
        transfer: KvTransfer,
    ) {
        let request = request.into();
        self.now = self.now.max(now);
        if let Some(reason) = self.never_served(&request) {
            let what = Lifecycle::Rejected { reason };
            self.rejected
                .push_back(Occurrence::new(now, request.id, what));
            return;
        }
        let host = &self.config.host;
        let ready = now + host.ingest + host.ingest_per_token * u64::from(request.prompt.tokens());
        self.inbox.push(ready, request, transfer);
    }

    /// The client of a request goes away. The core notices when it next looks; the end is reported
    /// with the following [`advance`](Self::advance). Unknown and ended requests are ignored.
    pub fn abort(&mut self, now: SimTime, request: RequestId) {
        self.now = self.now.max(now);
        self.aborts.push(request);
    }

    fn never_served(&self, request: &Request) -> Option<RejectReason> {
        let scheduler = &self.config.scheduler;
        let prompt_tokens = request.prompt.tokens();
        let max_model_len = scheduler.max_model_len;
        if prompt_tokens >= max_model_len {
            return Some(RejectReason::PromptTooLong {
                prompt_tokens,
                max_model_len,
            });
        }
        // The last output token is never computed.
        let longest = prompt_tokens.saturating_add(request.output_tokens() - 1);
        let needed = longest
            .min(max_model_len - 1)
            .div_ceil(scheduler.block_size);
        let available = scheduler.usable_blocks();
        (needed > available).then_some(RejectReason::ExceedsKvPool { needed, available })
    }

    pub(super) fn drain_inputs(&mut self) {
        while let Some((request, transfer)) = self.inbox.pop_until(self.now) {
            self.scheduler.add_remote(self.now, request, transfer);
        }
    }

    pub(super) fn apply_aborts(&mut self, report: &mut dyn FnMut(EngineEvent<'_>)) {
        if self.aborts.is_empty() {
            return;
        }
        for id in core::mem::take(&mut self.aborts) {
            let known = self.scheduler.abort(id) || self.abort_in_front_end(id);
            if known {
                self.stalled = false;
                let what = Lifecycle::Finished {
                    reason: FinishReason::Abort,
                };
                let at = self.now.max(self.delivered);
                report(EngineEvent::Request(Occurrence::new(at, id, what)));
            }
        }
    }

    /// Takes a request out of the front end, if it is there.
    fn abort_in_front_end(&mut self, id: RequestId) -> bool {
        let Some((request, transfer)) = self.inbox.remove(id) else {
            return false;
        };
        if transfer.offer.loads() {
            // The core has to tell the other side, so it gets to know the request for a moment.
            self.scheduler.add_remote(self.now, request, transfer);
            self.scheduler.abort(id);
        }
        true
    }
}

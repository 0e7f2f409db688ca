//! The engine's part in transfers of KV: see [`connector`](crate::connector).

use foretoken_des_kernel::SimTime;
use foretoken_latency_model::Fine;
use foretoken_workload::RequestId;

use super::{Engine, floor};
use crate::connector::KvOffer;
use crate::event::EngineEvent;

/// A transfer of KV that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum TransferEnd {
    /// What a request here was waiting for has been read.
    Loaded(RequestId),
    /// What a request left here has been read by others.
    Read(RequestId),
}

impl Engine {
    /// Publishes the changes of the prefix cache from now on, as [`EngineEvent::Kv`]
    /// (`enable_kv_cache_events`). Without it they are not even noted.
    #[must_use]
    pub fn with_kv_events(mut self) -> Self {
        self.scheduler.record_kv_events();
        self
    }

    /// Changes what can be read from outside for an unfinished request, which matters when it is
    /// admitted the next time: the answer that [`KvOffer::Later`] waits for. Unknown and ended requests
    /// are ignored.
    pub fn offer(&mut self, now: SimTime, request: RequestId, offer: KvOffer) {
        self.now = self.now.max(now);
        match self.inbox.transfer_mut(request) {
            Some(transfer) => transfer.offer = offer,
            None => self.scheduler.offer(request, offer),
        }
    }

    /// The workers have read all that an [`EngineEvent::KvLoad`] spoke of. The core learns of it with
    /// the output of the first step that ends at `now` or later, and the request goes on in the plan
    /// after that. Ignored if the request has ended meanwhile: vLLM 0.15.1 frees the blocks of an
    /// aborted request at once, though its load still writes into them.
    pub fn kv_loaded(&mut self, now: SimTime, request: RequestId) {
        self.end_transfer(now, TransferEnd::Loaded(request));
    }

    /// Others have read the blocks that an ended request holds ([`AtEnd::Hold`](crate::AtEnd::Hold)),
    /// or the patience of the engine is at its end (vLLM frees them unread after 480 s,
    /// `VLLM_NIXL_ABORT_REQUEST_TIMEOUT`). The core learns of it with the output of the first step that
    /// ends at `now` or later; while it has nothing to do there is no step, and the blocks stay
    /// allocated. To be called after the end of the request has been reported; without held blocks it
    /// is ignored.
    pub fn release_kv(&mut self, now: SimTime, request: RequestId) {
        self.end_transfer(now, TransferEnd::Read(request));
    }

    fn end_transfer(&mut self, now: SimTime, end: TransferEnd) {
        self.now = self.now.max(now);
        self.ended.push_back((self.now, end));
    }

    /// Tells the scheduler of the transfers that ended before a step did: the workers look for them at
    /// the end of each step.
    pub(super) fn note_transfers(&mut self, step_end: Fine) {
        while let Some(&(at, ended)) = self.ended.front()
            && at <= floor(step_end)
        {
            self.ended.pop_front();
            match ended {
                TransferEnd::Loaded(request) => self.scheduler.kv_loaded(request),
                TransferEnd::Read(request) => self.scheduler.release_kv(request),
            }
        }
    }

    pub(super) fn publish_kv_events(&mut self, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let at = floor(self.wake);
        for event in self.scheduler.drain_kv_events() {
            report(EngineEvent::Kv { at, event });
        }
    }
}

//! The scheduler's part in transfers of KV: see [`connector`](crate::connector).

use foretoken_workload::{Rekey, RequestId};

use super::{NO_EXCHANGE, Scheduler, WAITING_EXIST};
use crate::connector::KvOffer;
use crate::kv::KvCache;
use crate::sequence::{Slot, Status};

impl Scheduler {
    /// Requests that hold blocks and wait for their content (`WAITING_FOR_REMOTE_KVS`), in the order
    /// in which their loads began.
    pub fn loading(&self) -> impl Iterator<Item = RequestId> {
        let sequences = self.parked.iter().map(|&slot| self.sequence(slot));
        sequences
            .filter(|sequence| matches!(sequence.status, Status::Loading | Status::Loaded))
            .map(|sequence| sequence.id)
    }

    /// Ended requests whose blocks are still to be read by others, in the order of their ids, and how
    /// many blocks each holds.
    pub fn held(&self) -> impl Iterator<Item = (RequestId, u32)> {
        self.held.iter().map(|(&id, table)| (id, table.len()))
    }

    /// Blocks that ended requests hold, shared ones counted once.
    pub fn held_blocks(&self) -> u32 {
        KvCache::distinct(self.held.values())
    }

    /// Changes what can be read from outside for an unfinished request. It matters when the request is
    /// admitted the next time.
    ///
    /// # Panics
    /// If the engine does not [exchange](crate::SchedulerConfig::exchanges_kv) KV.
    pub fn offer(&mut self, request: RequestId, offer: KvOffer) {
        assert!(self.config.exchanges_kv(), "{NO_EXCHANGE}");
        if let Some(&slot) = self.slots.get(&request) {
            let sequence = self.sequences[slot as usize].as_mut();
            sequence.expect(WAITING_EXIST).origin.transfer.offer = offer;
        }
    }

    /// Notes that the load of a request has ended, as vLLM does after it has applied the output of a
    /// step. Ignored for requests that are not loading: an aborted one has given its blocks back
    /// already.
    pub fn kv_loaded(&mut self, request: RequestId) {
        let Some(&slot) = self.slots.get(&request) else {
            return;
        };
        let sequence = self.sequences[slot as usize].as_mut().expect(WAITING_EXIST);
        if sequence.status == Status::Loading {
            sequence.status = Status::Loaded;
        }
    }

    /// Frees the blocks of an ended request, as vLLM does after it has applied the output of a step.
    /// Ignored for requests of which nothing is held.
    pub fn release_kv(&mut self, request: RequestId) {
        if let Some(mut table) = self.held.remove(&request) {
            self.kv.release(&mut table);
        }
    }

    /// Whether empty steps will follow each other until something comes in: nothing runs, nothing
    /// will come back or become known, and the order of the queue does not change by itself.
    pub(crate) fn is_stalled(&self) -> bool {
        let expects = |slot: Slot| {
            let sequence = self.sequence(slot);
            sequence.status == Status::Loading || sequence.origin.transfer.offer == KvOffer::Later
        };
        self.running.is_empty()
            && self.held.is_empty()
            && self.waiting.order().rekey() == Rekey::OnEnqueue
            && !self.waiting.iter().any(expects)
    }

    /// Takes the blocks of a reported load for computed, all but the last known token.
    pub(super) fn finish_load(&mut self, slot: Slot) {
        let sequence = self.sequences[slot as usize].as_mut().expect(WAITING_EXIST);
        let filled = sequence.table.len().saturating_mul(self.kv.block_size());
        sequence.own.computed = filled.min(sequence.known() - 1);
        sequence.status = match sequence.origin.preemptions {
            0 => Status::Waiting,
            _ => Status::Preempted,
        };
        let computed = sequence.own.computed;
        // It may have to wait on with its blocks, and finds them when its place in the queue is looked up.
        if self.waiting.order().rekey() == Rekey::EachStep {
            sequence.keep_keys(&mut self.kv);
        }
        sequence.register(&mut self.kv, computed);
    }
}

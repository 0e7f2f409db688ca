//! Who enters the running batch: the scan of the waiting queue.

use foretoken_des_kernel::SimTime;
use foretoken_workload::{OrderKey, QueueSignals, Rekey};

use super::{Scheduler, WAITING_EXIST, take_out};
use crate::connector::{KvLoad, KvOffer};
use crate::kv::{BlockId, block_count};
use crate::plan::{Admission, StepPlan};
use crate::sequence::{Slot, Status};

/// How the scan goes on behind a request.
enum Scan {
    /// It is running now.
    Admitted,
    /// It stays; the one behind it is looked at.
    Passed,
    /// It lacks memory or budget, and nobody overtakes it.
    Stopped,
}

impl Scheduler {
    pub(super) fn admit_waiting(
        &mut self,
        plan: &mut StepPlan,
        budget: &mut u32,
        threshold: u32,
        now: SimTime,
    ) {
        if self.waiting.is_empty() {
            return;
        }
        if self.is_open(*budget) && self.waiting.order().rekey() == Rekey::EachStep {
            self.rekey_waiting(now);
        }
        self.form_batch();
        let mut hits = core::mem::take(&mut self.hits);
        self.scan(plan, budget, threshold, &mut hits);
        self.hits = hits;
    }

    /// Whether somebody could enter: a seat is free for those who wait, and budget is left.
    pub(super) fn is_open(&self, budget: u32) -> bool {
        budget > 0 && self.running.len() < self.seats && self.batch_is_open()
    }

    fn scan(
        &mut self,
        plan: &mut StepPlan,
        budget: &mut u32,
        threshold: u32,
        hits: &mut Vec<BlockId>,
    ) {
        if self.config.semantics.block_holders_first {
            let mut passed = 0;
            while let Some(&slot) = self.parked.get(passed) {
                if !self.is_open(*budget) {
                    return;
                }
                match self.admit(slot, plan, budget, threshold, hits) {
                    // It is parked no more.
                    Scan::Admitted => {}
                    Scan::Passed => passed += 1,
                    Scan::Stopped => return,
                }
            }
        }
        let mut passed = None;
        while self.is_open(*budget) {
            let Some(slot) = self.waiting.next(passed) else {
                return;
            };
            match self.admit(slot, plan, budget, threshold, hits) {
                Scan::Admitted => {}
                Scan::Passed => passed = Some(slot),
                Scan::Stopped => return,
            }
        }
    }

    /// Admits a waiting request, or starts the load of its KV, if it can go now. `hits` is memory.
    fn admit(
        &mut self,
        slot: Slot,
        plan: &mut StepPlan,
        budget: &mut u32,
        threshold: u32,
        hits: &mut Vec<BlockId>,
    ) -> Scan {
        let sequence = self.sequence(slot);
        if self.is_left_out(sequence) {
            return Scan::Passed;
        }
        match sequence.status {
            Status::Loading => return Scan::Passed,
            Status::Loaded => self.finish_load(slot),
            Status::Waiting | Status::Preempted | Status::Running => {}
        }
        let sequence = self.sequences[slot as usize].as_mut().expect(WAITING_EXIST);
        let known = sequence.known();
        hits.clear();
        let mut computed = sequence.own.computed;
        let (mut external, mut offer) = (0, KvOffer::Nothing);
        // Whoever comes from a load has been asked about before.
        if computed == 0 {
            if self.kv.caching() {
                // At least one token is computed, so that there is something to sample from.
                let chain = sequence.chain(known - 1, self.config.block_size);
                self.kv.lookup(chain, hits);
            }
            let cached = block_count(hits.len()) * self.config.block_size;
            offer = sequence.origin.transfer.offer;
            if offer == KvOffer::Later {
                return Scan::Passed;
            }
            external = offer.beyond(cached, known);
            computed = cached + external;
        }
        let parks = offer.loads() && external > 0;
        // A load computes nothing, and takes neither a seat nor budget.
        let mut tokens = 0;
        if !parks {
            tokens = (known - computed).min(threshold);
            if !self.config.chunked_prefill && tokens > *budget {
                return Scan::Stopped;
            }
            tokens = tokens.min(*budget);
        }
        let end = computed + tokens;
        let gate = if self.config.semantics.admission_gate {
            known
        } else {
            end
        };
        // With nothing running nothing will ever be released, so the reserve is given up.
        let reserved = match self.running.len() {
            0 => 0,
            _ => self.config.semantics.watermark_blocks,
        };
        let free = self.kv.free().saturating_sub(reserved);
        let limit = self.config.max_model_len;
        let fits = self.kv.fits(&sequence.table, hits, gate.min(limit), free);
        if fits.is_none() || !self.kv.allocate(&mut sequence.table, hits, end.min(limit)) {
            return Scan::Stopped;
        }
        let request = sequence.id;
        sequence.origin.transfer.offer = KvOffer::Nothing;
        if parks {
            plan.loads.push(KvLoad {
                request,
                tokens: external,
                blocks: sequence.table.len() - block_count(hits.len()),
            });
            sequence.status = Status::Loading;
            self.parked.push(slot);
            return Scan::Passed;
        }
        if offer.loads() {
            plan.loads.push(KvLoad::confirmation(request));
        }
        sequence.register(&mut self.kv, end);
        let resumed = sequence.status == Status::Preempted;
        sequence.status = Status::Running;
        sequence.own.computed = computed;
        sequence.seat = self.admissions;
        self.admissions += 1;
        plan.push(sequence.advance(slot, tokens, self.config.scheduling));
        plan.admitted.push(Admission {
            request,
            cached_tokens: computed,
            resumed,
        });
        take_out(&mut self.parked, slot);
        self.waiting.remove(slot);
        self.enter_batch();
        self.take_seat(slot);
        *budget -= tokens;
        Scan::Admitted
    }

    pub(super) fn order_key(&mut self, slot: Slot, now: SimTime) -> OrderKey {
        let cached = match self.waiting.order().rekey() {
            Rekey::EachStep => self.cached_tokens(slot),
            Rekey::OnEnqueue => 0,
        };
        let request = &self.sequence(slot).origin.request;
        self.waiting
            .order()
            .key(&request.view(), &QueueSignals::new(now, cached))
    }

    /// Known tokens of a sequence that the prefix cache holds now.
    fn cached_tokens(&mut self, slot: Slot) -> u32 {
        if !self.kv.caching() {
            return 0;
        }
        let sequence = self.sequences[slot as usize].as_mut().expect(WAITING_EXIST);
        let chain = sequence.chain(sequence.known() - 1, self.config.block_size);
        self.kv.matching(chain) * self.config.block_size
    }

    fn rekey_waiting(&mut self, now: SimTime) {
        let slots: Vec<Slot> = self.waiting.iter().collect();
        let keys: Vec<OrderKey> = slots
            .into_iter()
            .map(|slot| self.order_key(slot, now))
            .collect();
        self.waiting.rekey(&keys);
    }
}

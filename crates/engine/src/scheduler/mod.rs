//! The scheduler: forms one batch after another from running and waiting sequences.
//!
//! It knows no time but the `now` it is told (for queue orders), and nothing of step durations: the
//! step clock in [`engine`](crate::engine) drives it, and a test can drive it in lockstep.

mod admission;
mod batch;
mod by_the_clock;
mod preempting;
pub(crate) mod steady;
mod transfer;

use std::collections::BTreeMap;

use foretoken_des_kernel::SimTime;
use foretoken_workload::{FinishReason, Request, RequestId};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::config::{EngineError, KvAllocation, SchedulerConfig, Scheduling};
use crate::connector::{AtEnd, KvLoad, KvTransfer};
use crate::engine::Policies;
use crate::kv::{BlockId, BlockTable, KvCache, KvEvent, block_count};
use crate::plan::StepPlan;
use crate::preemption::{PreemptionPolicy, RunningView};
use crate::queue::WaitingQueue;
use crate::sequence::{Remains, Sequence, Slot, Status};
use steady::{Clock, Named, Steady};

/// An output token of a request, and whether it was the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// The request.
    pub request: RequestId,
    /// The token's place in the output, counted from 1.
    pub number: u32,
    /// How it ended with this token, if it did.
    pub finish: Option<FinishReason>,
    /// Whether the token is among the [decodes](Scheduler::decodes) that are told together.
    pub(crate) counted: bool,
}

/// vLLM V1's scheduler with its KV manager.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    kv: KvCache,
    sequences: Vec<Option<Sequence>>,
    free_slots: Vec<Slot>,
    /// Memory of those that have ended, of no more than can run at a time.
    remains: Vec<Remains>,
    slots: HashMap<RequestId, Slot, FxBuildHasher>,
    running: Vec<Slot>,
    /// How many may run at once.
    seats: usize,
    /// Members of a static batch that are not running: not yet, or not any more.
    awaited: usize,
    /// Seats taken so far.
    admissions: u64,
    clock: Clock,
    /// Whether decodes may become steady.
    counts_decodes: bool,
    steady: Steady,
    /// Those of the running that are not steady; only kept if decodes may become so.
    visited: Vec<Slot>,
    waiting: WaitingQueue,
    preemption: Box<dyn PreemptionPolicy>,
    /// Ended requests that the workers have not been told of: one more step follows.
    unflushed: bool,
    /// Those of the waiting that hold blocks, in the order in which their loads began.
    parked: Vec<Slot>,
    /// Blocks of ended requests that others are still to read.
    held: BTreeMap<RequestId, BlockTable>,
    /// What the next step tells the workers about requests that ended before their loads began.
    confirmations: Vec<KvLoad>,
    hits: Vec<BlockId>,
    views: Vec<RunningView>,
    named: Vec<Named>,
    /// Plans that are over; boxed, since they go from hand to hand.
    #[expect(clippy::vec_box, reason = "the boxes are handed out")]
    spare: Vec<Box<StepPlan>>,
}

impl Scheduler {
    /// A scheduler without requests.
    ///
    /// # Errors
    /// [`EngineError`] names a setting outside its range.
    pub fn new(config: SchedulerConfig, policies: Policies) -> Result<Self, EngineError> {
        config.check()?;
        let kv = KvCache::new(
            config.num_gpu_blocks,
            config.block_size,
            config.shares_blocks(),
            config.semantics.uncached_first_release,
        );
        Ok(Self {
            kv,
            sequences: Vec::new(),
            free_slots: Vec::new(),
            remains: Vec::new(),
            slots: HashMap::with_hasher(FxBuildHasher),
            running: Vec::new(),
            seats: config.seats() as usize,
            awaited: 0,
            admissions: 0,
            clock: Clock {
                asynchronous: config.scheduling == Scheduling::Asynchronous,
                ..Clock::default()
            },
            counts_decodes: false,
            steady: Steady::new(config.block_size),
            visited: Vec::new(),
            waiting: WaitingQueue::new(policies.order),
            preemption: policies.preemption,
            unflushed: false,
            parked: Vec::new(),
            held: BTreeMap::new(),
            confirmations: Vec::new(),
            hits: Vec::new(),
            views: Vec::new(),
            named: Vec::new(),
            spare: Vec::new(),
            config,
        })
    }

    /// The settings.
    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// KV memory. Where it is reserved, blocks are taken from it as tokens come all the same, and never
    /// lack: [`occupied_blocks`](Self::occupied_blocks) counts what is reserved.
    pub fn kv(&self) -> &KvCache {
        &self.kv
    }

    /// KV blocks that nobody else can have now: those in use, or those that are reserved.
    pub fn occupied_blocks(&self) -> u32 {
        match self.config.kv_allocation {
            KvAllocation::Paged => self.kv.used(),
            KvAllocation::Reserved => {
                block_count(self.running.len()) * self.config.longest_blocks()
            }
        }
    }

    /// Running requests, in the order of their admission.
    pub fn running(&self) -> impl Iterator<Item = RequestId> {
        self.running.iter().map(|&slot| self.sequence(slot).id)
    }

    /// Waiting requests, the next one first.
    pub fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.iter().map(|slot| self.sequence(slot).id)
    }

    /// Number of running requests.
    pub fn running_len(&self) -> usize {
        self.running.len()
    }

    /// Number of waiting requests.
    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether any request is unfinished.
    pub fn has_requests(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Whether a step is due: requests, or ends that the workers have not been told of.
    pub fn has_work(&self) -> bool {
        self.has_requests() || self.unflushed
    }

    /// From now on notes what changes in the prefix cache, for [`drain_kv_events`](Self::drain_kv_events).
    /// Of requests that are there already only what others may
    /// [repeat](Request::repeatable_tokens) is noted.
    pub fn record_kv_events(&mut self) {
        self.kv.record_events();
    }

    /// Hands over what changed in the prefix cache since the last call, in its order; nothing unless
    /// it is [recorded](Self::record_kv_events).
    pub fn drain_kv_events(&mut self) -> impl Iterator<Item = KvEvent> {
        self.kv.drain_events()
    }

    /// Puts a request into the waiting queue.
    ///
    /// # Panics
    /// As [`add_remote`](Self::add_remote).
    pub fn add(&mut self, now: SimTime, request: impl Into<Box<Request>>) {
        self.add_remote(now, request, KvTransfer::local());
    }

    /// Puts a request into the waiting queue whose KV comes from outside or is read by others.
    ///
    /// # Panics
    /// If the id is in use, be it by blocks that are held: ids are unique. If the prompt is longer than
    /// `max_model_len`: the engine rejects such requests. If KV is to cross the border of an engine that
    /// does not [exchange](SchedulerConfig::exchanges_kv) any.
    pub fn add_remote(
        &mut self,
        now: SimTime,
        request: impl Into<Box<Request>>,
        transfer: KvTransfer,
    ) {
        let request = request.into();
        let id = request.id;
        assert!(
            request.prompt.tokens() <= self.config.max_model_len,
            "prompts are at most max_model_len long: {id} is not"
        );
        assert!(
            transfer == KvTransfer::local() || self.config.exchanges_kv(),
            "{NO_EXCHANGE}"
        );
        let remains = self.remains.pop().unwrap_or_default();
        let mut sequence = Sequence::new(request, transfer, self.config.max_model_len, remains);
        if self.kv.records_events() {
            sequence.keep_keys(&mut self.kv);
        }
        let slot = if let Some(slot) = self.free_slots.pop() {
            self.sequences[slot as usize] = Some(sequence);
            slot
        } else {
            self.sequences.push(Some(sequence));
            Slot::try_from(self.sequences.len() - 1).expect("fewer than 2^32 sequences at once")
        };
        let previous = self.slots.insert(id, slot);
        assert!(
            previous.is_none() && !self.held.contains_key(&id),
            "request ids are unique: {id} was submitted twice"
        );
        let key = self.order_key(slot, now);
        self.waiting.push(key, id, slot);
    }

    /// Takes an unfinished request out and frees its blocks, be they still being filled from outside;
    /// `false` if there is none of this id.
    pub fn abort(&mut self, id: RequestId) -> bool {
        let Some(&slot) = self.slots.get(&id) else {
            return false;
        };
        self.remove(slot, FinishReason::Abort);
        true
    }

    /// Plans one step: advances the computed tokens of every sequence in it.
    pub fn schedule(&mut self, now: SimTime) -> Box<StepPlan> {
        let mut plan = self.spare.pop().unwrap_or_default();
        plan.loads.append(&mut self.confirmations);
        let mut budget = self.config.max_num_batched_tokens;
        let lone = self.config.semantics.lone_request_ignores_threshold && self.slots.len() == 1;
        let threshold = match self.config.long_prefill_token_threshold {
            0 => u32::MAX,
            _ if lone => u32::MAX,
            threshold => threshold,
        };
        self.plan_running(&mut plan, &mut budget, threshold, now);
        if plan.preempted.is_empty() {
            self.admit_waiting(&mut plan, &mut budget, threshold, now);
        }
        self.unflushed = false;
        self.clock.planned += 1;
        if self.counts_decodes {
            self.settle_into(&plan);
        }
        plan
    }

    /// A sequence enters the running batch.
    fn take_seat(&mut self, slot: Slot) {
        self.running.push(slot);
        if self.counts_decodes {
            self.visited.push(slot);
        }
    }

    fn plan_running(
        &mut self,
        plan: &mut StepPlan,
        budget: &mut u32,
        threshold: u32,
        now: SimTime,
    ) {
        if self.steady.count() > 0 {
            if self.plan_by_the_clock(plan, budget, threshold) {
                return;
            }
            self.unsettle();
        }
        let limit = self.config.max_model_len;
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let slot = self.running[index];
            let sequence = self.sequences[slot as usize].as_mut().expect(PLANNED_EXIST);
            if sequence.is_quiet() {
                plan.push(sequence.advance(slot, 1, self.config.scheduling));
                *budget -= 1;
                index += 1;
                continue;
            }
            let own = sequence.own;
            let tokens = sequence.due(own, limit).min(threshold).min(*budget);
            if tokens == 0 {
                index += 1;
            } else if sequence.grow(&mut self.kv, own, tokens, limit) {
                plan.push(sequence.advance(slot, tokens, self.config.scheduling));
                *budget -= tokens;
                index += 1;
            } else {
                match self.plan_by_preemption(index, tokens, plan, budget, now) {
                    Some(next) => index = next,
                    None => return,
                }
            }
        }
    }

    /// Applies the output of a step, in the order of its plan: appends the sampled tokens, ends
    /// sequences and frees their blocks. Entries of requests that ended meanwhile are ignored.
    pub fn apply(&mut self, plan: Box<StepPlan>, mut deliver: impl FnMut(Output)) {
        let asynchronous = self.clock.asynchronous;
        let step = self.clock.applied;
        self.clock.applied += 1;
        let mut named = core::mem::take(&mut self.named);
        named.clear();
        let entries = plan.entries.iter().filter(|entry| entry.samples);
        named.extend(entries.map(|entry| Named {
            seat: entry.seat,
            slot: entry.slot,
            request: entry.request,
            steady: false,
        }));
        if self.counts_decodes {
            let planned = named.len();
            self.steady.follow(step, &self.sequences);
            self.steady.name(step, &self.sequences, &mut named);
            if named.len() > planned {
                named.sort_by_key(|named| named.seat);
            }
        }
        for &part in &named {
            let Some(sequence) = self.sequences[part.slot as usize]
                .as_mut()
                .filter(|sequence| sequence.id == part.request)
            else {
                continue;
            };
            if !part.steady {
                if sequence.discarded > 0 {
                    sequence.discarded -= 1;
                    continue;
                }
                sequence.own.outputs += 1;
                sequence.own.placeholders -= u32::from(asynchronous);
            }
            let at = sequence.progress(&self.clock);
            if asynchronous && sequence.status == Status::Running && !sequence.counted {
                sequence.register(&mut self.kv, at.computed - at.placeholders);
            }
            let finish = sequence.end(at.outputs);
            if let Some(reason) = finish {
                self.remove(part.slot, reason);
            }
            deliver(Output {
                request: part.request,
                number: at.outputs,
                finish,
                counted: part.steady,
            });
        }
        self.named = named;
        self.recycle(plan);
    }

    /// Gives a plan's memory back without applying it.
    fn recycle(&mut self, mut plan: Box<StepPlan>) {
        plan.clear();
        self.spare.push(plan);
    }

    /// Forgets all keys of the prefix cache. With requests running it is refused (`false`), unless
    /// `running` says to take their blocks first (vLLM's `reset_running_requests`); what steps in
    /// flight sample for them is then thrown away and computed again. Blocks that are being filled from
    /// outside or held for others cannot be taken: with them it is always refused.
    pub fn reset_prefix_cache(&mut self, now: SimTime, running: ResetRunning) -> bool {
        if running == ResetRunning::Preempt {
            let mut plan = StepPlan::default();
            let mut budget = 0;
            self.unsettle();
            while let Some(last) = self.running.len().checked_sub(1) {
                let slot = self.running[last];
                self.preempt(last, &mut plan, &mut budget, now);
                let sequence = self.sequences[slot as usize].as_mut().expect(WAITING_EXIST);
                sequence.discarded += core::mem::take(&mut sequence.own.placeholders);
            }
        }
        self.kv.forget_all()
    }

    fn remove(&mut self, slot: Slot, reason: FinishReason) {
        let mut sequence = self.sequences[slot as usize]
            .take()
            .expect("only existing sequences are removed");
        let id = sequence.id;
        if reason == FinishReason::Abort {
            self.steady
                .abort(slot, &mut sequence, &self.clock, &self.kv);
        } else if sequence.is_steady() {
            self.steady.end(slot, &mut sequence, &self.clock, &self.kv);
        }
        let transfer = sequence.origin.transfer;
        let holds = transfer.at_end == AtEnd::Hold && reason == FinishReason::Length;
        if holds && !sequence.table.is_empty() {
            let table = core::mem::take(&mut sequence.table);
            self.held.insert(id, table);
        } else {
            self.kv.release(&mut sequence.table);
        }
        if transfer.offer.loads() {
            self.confirmations.push(KvLoad::confirmation(id));
        }
        self.slots.remove(&id);
        self.free_slots.push(slot);
        if sequence.status == Status::Running {
            take_out(&mut self.running, slot);
            take_out(&mut self.visited, slot);
        } else {
            self.leave_batch(&sequence.origin);
            self.waiting.remove(slot);
            self.parked.retain(|&other| other != slot);
        }
        self.unflushed = true;
        if self.remains.len() < self.seats {
            self.remains.push(sequence.into_remains());
        }
    }

    fn sequence(&self, slot: Slot) -> &Sequence {
        self.sequences[slot as usize]
            .as_ref()
            .expect("queues hold existing sequences")
    }
}

/// Removes a slot from a list, if it is there.
fn take_out(slots: &mut Vec<Slot>, slot: Slot) {
    if let Some(place) = slots.iter().position(|&other| other == slot) {
        slots.remove(place);
    }
}

/// What a reset of the prefix cache does with running requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetRunning {
    /// Nothing: the reset is refused while any block is in use.
    Refuse,
    /// They are preempted first, the last one first, so that the queue keeps their order.
    Preempt,
}

const NO_EXCHANGE: &str =
    "KV crosses the border only of engines with continuous batching and paged KV";
const PLANNED_EXIST: &str = "running and planned sequences exist";
const WAITING_EXIST: &str = "waiting sequences exist";

//! [`Engine`]: the step clock around the scheduler.
//!
//! With schedule time `s` and update time `u` on the CPU and `g(i)` of batch `i` on the accelerator,
//! asynchronous scheduling keeps two batches in flight:
//!
//! ```text
//! submit(i)    = start(i) + s
//! gpu_start(i) = max(submit(i), gpu_end(i-1))
//! gpu_end(i)   = gpu_start(i) + g(i)
//! start(i+1)   = max(submit(i), gpu_end(i-1)) + u     (submit(i) while batch i is the only one)
//! ```
//!
//! so that a request that arrives while batch `i-1` runs (batch `i` is queued already) is planned
//! into batch `i+1`. All of this happens on a clock with fractional nanoseconds; what leaves the
//! engine is rounded down to whole ones.

mod decode_run;
mod front_end;
mod inbox;
mod output;
mod quiet;
mod transfer;
mod turns;

use std::collections::VecDeque;
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_latency_model::{Fine, LatencyModel, StepShape};
use foretoken_workload::order::ByPriority;
use foretoken_workload::{Fcfs, Lifecycle, Occurrence, QueueOrder, RequestId};

use crate::config::{EngineConfig, EngineError, Scheduling};
use crate::event::{EngineEvent, EngineStats, StepReport};
use crate::plan::StepPlan;
use crate::preemption::{LastAdmitted, LeastUrgent, PreemptionPolicy};
use crate::scheduler::Scheduler;
use decode_run::{DecodeTimes, InFlight, Members, Run};
use inbox::Inbox;
use output::StepOutput;
use transfer::TransferEnd;

/// The choices that an engine leaves to policies.
#[derive(Debug)]
pub struct Policies {
    /// Who is admitted next.
    pub order: Box<dyn QueueOrder>,
    /// Whose blocks are taken.
    pub preemption: Box<dyn PreemptionPolicy>,
}

impl Policies {
    /// vLLM's `fcfs`: first come, first served; the last admitted is preempted.
    pub fn fcfs() -> Self {
        Self {
            order: Box::new(Fcfs),
            preemption: Box::new(LastAdmitted),
        }
    }

    /// vLLM's `priority`: by (priority, arrival); the least urgent is preempted.
    pub fn priority() -> Self {
        Self {
            order: Box::new(ByPriority),
            preemption: Box::new(LeastUrgent),
        }
    }
}

/// How long the core sleeps after an empty step while requests are unfinished, rather than spin.
const IDLE_PAUSE: SimDuration = SimDuration::from_millis(1);

/// No step lasts longer than an hour, so that absurd coefficients end in absurd results and not
/// beyond the end of time.
const LONGEST_STEP: Fine = Fine::from_bits(3_600_000_000_000 << 32);

/// What the core does at its next wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing to do until something is submitted.
    Idle,
    /// Plan a step.
    Schedule,
    /// Apply the output of the oldest batch, then plan a step.
    Apply,
}

/// A step in flight.
#[derive(Debug)]
struct Batch {
    /// What it computes; out of date where its members are counted.
    plan: Box<StepPlan>,
    state: InFlight,
}

/// One serving engine.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    latency: Arc<dyn LatencyModel>,
    scheduler: Scheduler,
    inbox: Inbox,
    /// Requests whose client went away since the core last looked.
    aborts: Vec<RequestId>,
    /// Ends that are to be reported at the next wake.
    rejected: VecDeque<Occurrence>,
    /// Transfers that have ended and that the core does not know of, by the time of their end.
    ended: VecDeque<(SimTime, TransferEnd)>,
    in_flight: VecDeque<Batch>,
    /// What the step that is being applied gave: only the memory lasts.
    output: StepOutput,
    decode_times: DecodeTimes,
    /// How a step of nothing but decodes was launched last.
    launched: StepShape,
    run: Run,
    /// Whether the batch planned last computes anything.
    executed: bool,
    /// Whether only an input can make the next plan differ from the last one, which was empty.
    stalled: bool,
    phase: Phase,
    /// When the core does what `phase` says.
    wake: Fine,
    /// When the accelerator has done all it was given.
    accelerator_free: Fine,
    /// When the output side of the front end has handled all it was given.
    output_free: Fine,
    /// When a client saw the last token; an end is never reported before the tokens.
    delivered: SimTime,
    now: SimTime,
}

impl Engine {
    /// An idle engine.
    ///
    /// # Errors
    /// [`EngineError`] names a setting that vLLM would refuse to start with.
    pub fn new(
        config: EngineConfig,
        latency: Arc<dyn LatencyModel>,
        policies: Policies,
    ) -> Result<Self, EngineError> {
        config.check()?;
        let mut scheduler = Scheduler::new(config.scheduler.clone(), policies)?;
        scheduler.count_decodes();
        Ok(Self {
            config,
            latency,
            scheduler,
            inbox: Inbox::default(),
            aborts: Vec::new(),
            rejected: VecDeque::new(),
            ended: VecDeque::new(),
            in_flight: VecDeque::new(),
            output: StepOutput::default(),
            decode_times: DecodeTimes::default(),
            launched: StepShape::default(),
            run: Run::new(),
            executed: false,
            stalled: false,
            phase: Phase::Idle,
            wake: Fine::ZERO,
            accelerator_free: Fine::ZERO,
            output_free: Fine::ZERO,
            delivered: SimTime::ZERO,
            now: SimTime::ZERO,
        })
    }

    /// Looks at every sequence in every step, and tells every token by name, as vLLM does. The results
    /// are the same, and take several times as long: for those who doubt them.
    ///
    /// # Panics
    /// If a request has been handed in already.
    #[must_use]
    pub fn step_by_step(mut self) -> Self {
        self.scheduler.name_decodes();
        self
    }

    /// When the engine wants to be advanced next; `None` while it is idle.
    pub fn next_wake(&self) -> Option<SimTime> {
        if !self.rejected.is_empty() {
            return Some(self.now);
        }
        match self.phase {
            Phase::Idle if !self.aborts.is_empty() => Some(self.now),
            Phase::Idle => self.inbox.next().map(|ready| ready.max(self.now)),
            Phase::Schedule | Phase::Apply => Some(floor(self.wake).max(self.now)),
        }
    }

    /// Does what is due at `now`, reporting as it goes.
    pub fn advance(&mut self, now: SimTime, report: &mut dyn FnMut(EngineEvent<'_>)) {
        self.advance_until(now, now, report);
    }

    /// Does what is due at `now`, and goes on through steps that only decode until the instant before
    /// `until`: the host knows that nothing will be asked of the engine or handed to it before. After
    /// anything else it stops, so that the host can act on what was reported. Changes of its state on the
    /// way are reported as [`EngineEvent::Levels`].
    pub fn advance_until(
        &mut self,
        now: SimTime,
        until: SimTime,
        report: &mut dyn FnMut(EngineEvent<'_>),
    ) {
        let rejects = !self.rejected.is_empty();
        if rejects {
            for occurrence in self.rejected.drain(..) {
                report(EngineEvent::Request(occurrence));
            }
        }
        let after = now.checked_add(SimDuration::from_nanos(1));
        let after = after.unwrap_or(now);
        // The host has to act on what it is told before the engine goes on.
        let mut until = if rejects { after } else { until.max(after) };
        while let Some(due) = self.next_wake().filter(|&due| due <= now) {
            if self.run_decodes(until, report) == 0 {
                self.now = due;
                self.step(report);
                until = after;
            }
        }
        self.now = self.now.max(now);
    }

    /// Does what is due now: one wake of the core.
    fn step(&mut self, report: &mut dyn FnMut(EngineEvent<'_>)) {
        if self.phase == Phase::Idle {
            self.wake = self.wake.max(instant(self.now));
        }
        self.apply_aborts(report);
        if self.phase == Phase::Apply {
            self.apply_oldest(report);
            if !self.executed && self.scheduler.has_requests() {
                if self.stalled {
                    self.phase = Phase::Idle;
                    return;
                }
                self.phase = Phase::Schedule;
                self.wake += Fine::from(IDLE_PAUSE);
                return;
            }
        }
        self.drain_inputs();
        if self.scheduler.has_work() {
            self.iterate(report);
        } else if self.in_flight.is_empty() {
            self.phase = Phase::Idle;
        } else {
            self.executed = false;
            self.await_oldest(self.wake);
        }
    }

    /// The state as it would be reported to a scraper.
    pub fn stats(&self) -> EngineStats {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        EngineStats {
            running: count(self.scheduler.running_len()),
            waiting: count(self.scheduler.waiting_len() + self.inbox.len()),
            kv_used: self.scheduler.occupied_blocks(),
            kv_total: self.config.scheduler.usable_blocks(),
        }
    }

    /// The scheduler, for inspection.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Whether no request is inside and no batch in flight; then no KV block is in use but those that
    /// ended requests [hold](Scheduler::held) for others (the invariant *no KV block leaked*, which is
    /// checked here).
    ///
    /// # Panics
    /// If blocks are in use without a request, or fewer than are held.
    pub fn is_drained(&self) -> bool {
        let drained =
            !self.scheduler.has_requests() && self.inbox.is_empty() && self.in_flight.is_empty();
        if drained {
            let (used, held) = (self.scheduler.kv().used(), self.scheduler.held_blocks());
            assert!(
                used == held,
                "no KV block leaked: {used} blocks are in use without a request, {held} of them held"
            );
        }
        drained
    }

    /// Whether the engine sleeps with requests inside, because no step can serve them: vLLM 0.15.1's
    /// stall of requests whose KV has arrived behind a head that needs their blocks. It goes on when a
    /// request is aborted.
    pub fn is_stalled(&self) -> bool {
        self.phase == Phase::Idle && self.scheduler.has_requests()
    }

    /// One iteration of the core loop from its planning on; sets when and how it goes on.
    fn iterate(&mut self, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let plan = self.scheduler.schedule(self.now);
        for admission in &plan.admitted {
            let cached_tokens = admission.cached_tokens;
            let what = if admission.resumed {
                Lifecycle::Resumed { cached_tokens }
            } else {
                Lifecycle::Scheduled { cached_tokens }
            };
            report(EngineEvent::Request(Occurrence::new(
                self.now,
                admission.request,
                what,
            )));
        }
        for &id in &plan.preempted {
            report(EngineEvent::Request(Occurrence::new(
                self.now,
                id,
                Lifecycle::Preempted,
            )));
        }

        let host = &self.config.host;
        let sequences = u64::from(plan.sequences());
        let submit = self.wake + Fine::from(host.scheduling(sequences));
        let at = floor(submit);
        for &load in &plan.loads {
            report(EngineEvent::KvLoad { at, load });
        }
        self.executed = !plan.is_empty();
        self.stalled = !self.executed
            && plan.preempted.is_empty()
            && self.in_flight.is_empty()
            && self.scheduler.is_stalled();
        let (mut start, mut end) = (submit, submit);
        let (mut shape, mut members) = (plan.shape(), Members::Named);
        if self.executed {
            shape = self.config.launched(shape);
            shape.shared_context = self.scheduler.kv().shared_tokens();
            start = submit.max(self.accelerator_free);
            let time = if plan.is_counted() {
                members = Members::Counted;
                self.decode_times.step(&shape, &*self.latency)
            } else {
                self.latency.step(&shape)
            };
            end = start + time.min(LONGEST_STEP);
            self.accelerator_free = end;
        }
        let state = InFlight {
            start: floor(start),
            end,
            shape,
            members,
        };
        self.in_flight.push_back(Batch { plan, state });

        let asynchronous = self.config.scheduler.scheduling == Scheduling::Asynchronous;
        if asynchronous && self.executed && self.in_flight.len() == 1 {
            self.phase = Phase::Schedule;
            self.wake = submit;
            return;
        }
        self.await_oldest(submit);
    }

    /// From `free` on the core waits for the oldest batch, then applies its output.
    fn await_oldest(&mut self, free: Fine) {
        let host = &self.config.host;
        let oldest = self
            .in_flight
            .front()
            .expect("the core waits only while a batch is in flight");
        let update = host.updating(oldest.state.shape.sequences().into());
        self.phase = Phase::Apply;
        self.wake = free.max(oldest.state.end) + Fine::from(update);
    }

    fn apply_oldest(&mut self, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let Batch { mut plan, state } = self
            .in_flight
            .pop_front()
            .expect("the apply phase has a batch in flight");
        if state.is_counted() {
            // The plan may be that of a batch before.
            plan.clear();
        }
        if !state.shape.is_empty() {
            report(EngineEvent::Step(StepReport {
                start: state.start,
                end: floor(state.end),
                shape: state.shape,
            }));
        }
        self.deliver(plan, state.shape.sampled, report);
        self.note_transfers(state.end);
        self.publish_kv_events(report);
    }

    /// Applies the output of a step, and sends it to the clients.
    fn deliver(
        &mut self,
        plan: Box<StepPlan>,
        sampled: u32,
        report: &mut dyn FnMut(EngineEvent<'_>),
    ) {
        if sampled == 0 {
            self.scheduler.apply(plan, |_| {});
            return;
        }
        let host = &self.config.host;
        // One process detokenises and streams, batch after batch.
        self.output_free =
            self.wake.max(self.output_free) + Fine::from(host.handing_out(sampled.into()));
        let at = floor(self.output_free + Fine::from(host.deliver));
        self.delivered = at;
        let output = &mut self.output;
        output.clear();
        self.scheduler.apply(plan, |token| output.push(token));
        self.run.clear();
        self.run.times[0] = at;
        self.run.steps = 1;
        self.tell_decodes(report);
        self.output.report(at, report);
    }
}

/// The instant of a clock reading, rounded down to whole nanoseconds.
fn floor(clock: Fine) -> SimTime {
    SimTime::ZERO + clock.floor()
}

/// A reading of the clock at an instant.
fn instant(at: SimTime) -> Fine {
    Fine::from(at.saturating_since(SimTime::ZERO))
}

//! Runs of steps in which everybody decodes and nothing else happens.
//!
//! Most steps of an engine differ from the one before by one token for each sequence. As long as that is
//! certain, they are done in one loop: no plan is written, no queue looked at, and the times of the
//! steps follow the latency model's [`DecodeLaw`]. All that leaves the engine is what single steps would
//! have told; [`Engine::step_by_step`] does without, for comparison.

use foretoken_des_kernel::SimTime;
use foretoken_latency_model::{DecodeLaw, Fine, LatencyModel, StepShape};

use super::turns::Turn;
use super::{Engine, Phase, floor};
use crate::config::Scheduling;
use crate::event::{EngineEvent, StepReport, StepRun};

/// Steps that are done before their tokens are told, so that these need little memory.
pub(super) const AT_ONCE: usize = 64;

/// Times of decode steps that follow each other.
#[derive(Debug, Default)]
pub(super) struct DecodeTimes {
    /// What [makes up](made_up) the shape of a step that follows the last one.
    expected: (u32, u64, u64),
    law: Option<DecodeLaw>,
}

impl DecodeTimes {
    /// The time of a step that is nothing but decodes.
    pub(super) fn step(&mut self, shape: &StepShape, latency: &dyn LatencyModel) -> Fine {
        match self.law(shape, latency) {
            Some(law) => {
                self.pass(1);
                law.step(0)
            }
            None => latency.step(shape),
        }
    }

    /// The law of a step that is nothing but decodes and of those that follow it, if there is one.
    pub(super) fn law(
        &mut self,
        shape: &StepShape,
        latency: &dyn LatencyModel,
    ) -> Option<DecodeLaw> {
        let made_up = made_up(shape);
        let known = self.law.is_some_and(|law| law.steps() > 0);
        if !known || made_up != self.expected {
            self.expected = made_up;
            self.law = latency.decode_law(shape).filter(|law| law.steps() > 0);
        }
        self.law
    }

    /// So many steps of the law are planned.
    fn pass(&mut self, steps: u64) {
        let (decodes, context, shared) = self.expected;
        self.expected = (decodes, context + u64::from(decodes) * steps, shared);
        self.law = self.law.map(|law| law.after(steps));
    }
}

/// What makes up the shape of a step of decodes: how many, their context, and how much of it is shared.
fn made_up(shape: &StepShape) -> (u32, u64, u64) {
    (shape.decodes, shape.decode_context, shape.shared_context)
}

/// What is known of a batch in flight besides its plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    /// When the accelerator starts it.
    pub(super) start: SimTime,
    pub(super) end: Fine,
    /// As it was launched.
    pub(super) shape: StepShape,
    pub(super) members: Members,
}

/// Who takes part in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Members {
    /// Its plan names some of them, or there are none.
    Named,
    /// Decodes by the clock: the shape says all of them.
    Counted,
}

impl InFlight {
    pub(super) fn is_counted(&self) -> bool {
        self.members == Members::Counted
    }
}

/// What a run of decodes tells when it is over: only the memory lasts.
#[derive(Debug)]
pub(super) struct Run {
    /// How many there are.
    pub(super) steps: usize,
    /// When the accelerator started and ended each step.
    pub(super) starts: [SimTime; AT_ONCE],
    pub(super) ends: [SimTime; AT_ONCE],
    /// When the tokens of each are delivered.
    pub(super) times: [SimTime; AT_ONCE],
    /// The KV blocks in use, from when on, where they change.
    pub(super) kv_used: Vec<(SimTime, u32)>,
    /// Those that were in use last.
    pub(super) last_used: u32,
}

impl Run {
    /// Without steps.
    pub(super) const fn new() -> Self {
        Self {
            steps: 0,
            starts: [SimTime::ZERO; AT_ONCE],
            ends: [SimTime::ZERO; AT_ONCE],
            times: [SimTime::ZERO; AT_ONCE],
            kv_used: Vec::new(),
            last_used: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.steps = 0;
        self.kv_used.clear();
    }

    /// When the tokens of each step are delivered.
    pub(super) fn times(&self) -> &[SimTime] {
        &self.times[..self.steps]
    }
}

impl From<&InFlight> for Turn {
    fn from(batch: &InFlight) -> Self {
        Self {
            start: batch.start,
            end: batch.end,
            sequences: batch.shape.sequences().into(),
        }
    }
}

impl Engine {
    /// Does the steps that are due before `until`, as long as they do nothing but decode. How many it did.
    pub(super) fn run_decodes(
        &mut self,
        until: SimTime,
        report: &mut dyn FnMut(EngineEvent<'_>),
    ) -> usize {
        let Some([oldest, newest]) = self.decodes_in_flight() else {
            return 0;
        };
        // A batch of something else is left to the general way.
        let most = match (oldest.is_counted(), newest.is_counted()) {
            (true, true) => AT_ONCE,
            (true, false) => 1,
            (false, _) => return 0,
        };
        let mut turns = [oldest, newest].map(Turn::from);
        let arrives = self.inbox.next();
        let until = arrives.map_or(until, |arrives| arrives.min(until));
        let first = self.next_decodes();
        let count = u64::from(first.decodes);
        self.run.clear();
        self.run.last_used = self.scheduler.occupied_blocks();
        self.scheduler.begin_decodes();
        while self.run.steps < most && floor(self.wake).max(self.now) < until {
            let ahead = self.scheduler.decodes_ahead();
            if ahead == 0 {
                break;
            }
            let ahead = ahead.min((most - self.run.steps) as u64);
            let shape = later(first, self.run.steps as u64);
            let law = match self.decode_times.law(&shape, &*self.latency) {
                Some(law) => law.limited(ahead),
                None => DecodeLaw::new(self.latency.step(&shape), Fine::ZERO, 1),
            };
            let passed = self.pass(&law, until, count, &mut turns);
            self.decode_times.pass(passed);
            if passed < law.steps() {
                break;
            }
        }
        let Some(&last) = self.run.times().last() else {
            return 0;
        };
        self.delivered = last;
        self.executed = true;
        self.tell_steps(first, report);
        self.write_back(first, turns);
        if !self.run.kv_used.is_empty() {
            report(EngineEvent::Levels {
                kv_used: &self.run.kv_used,
                stats: self.stats(),
            });
        }
        self.tell_decodes(report);
        self.run.steps
    }

    /// The shape of the next step, if it does nothing but decode.
    pub(super) fn next_decodes(&mut self) -> StepShape {
        let count = self.scheduler.decoding();
        if self.launched.decodes != count {
            self.launched = self.config.launched(StepShape::decode(count, 0));
        }
        let mut shape = self.launched;
        shape.decode_context = self.scheduler.decoded_context();
        shape.shared_context = self.scheduler.kv().shared_tokens();
        shape
    }

    /// Tells the steps of a run that is over, `first` among which was planned in it.
    fn tell_steps(&self, first: StepShape, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let (run, mut shape) = (&self.run, first);
        // Those that were in flight before it, the newest first, are part of the same row unless the batch
        // changed.
        let mut apart = self.in_flight.len();
        for batch in self.in_flight.iter().rev() {
            if later(batch.state.shape, 1) != shape {
                break;
            }
            shape = batch.state.shape;
            apart -= 1;
        }
        let apart = apart.min(run.steps);
        for (batch, place) in self.in_flight.iter().zip(0..apart) {
            report(EngineEvent::Step(StepReport {
                start: run.starts[place],
                end: run.ends[place],
                shape: batch.state.shape,
            }));
        }
        if apart < run.steps {
            report(EngineEvent::Steps(StepRun {
                first: shape,
                starts: &run.starts[apart..run.steps],
                ends: &run.ends[apart..run.steps],
            }));
        }
    }

    /// Tells the tokens of the batch, which leave at the times of the run.
    pub(super) fn tell_decodes(&mut self, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let decodes = self.scheduler.decodes(self.run.times());
        if !decodes.tokens.times.is_empty() || !decodes.left.is_empty() {
            report(EngineEvent::Decodes(decodes));
        }
        self.scheduler.decodes_told();
    }

    /// The batches of a run have come and gone, in the places of those before; the last are in flight.
    /// `first` is the first that was planned.
    fn write_back(&mut self, first: StepShape, [oldest, newest]: [Turn; 2]) {
        let steps = self.run.steps;
        if steps < self.in_flight.len() {
            self.in_flight.rotate_left(steps);
        }
        let batches = self.in_flight.iter_mut().rev().zip([newest, oldest]);
        for ((batch, turn), number) in batches.zip((0..steps).rev()) {
            batch.state = InFlight {
                start: turn.start,
                end: turn.end,
                shape: later(first, number as u64),
                members: Members::Counted,
            };
        }
    }

    /// The oldest and the newest batch, which may be the same, if the oldest is nothing but decodes by
    /// the clock, and the next step is certain to be so, too, but for limits and blocks.
    #[inline]
    pub(super) fn decodes_in_flight(&self) -> Option<[&InFlight; 2]> {
        let depth = match self.config.scheduler.scheduling {
            Scheduling::Asynchronous => 2,
            Scheduling::Synchronous => 1,
        };
        let quiet = self.phase == Phase::Apply
            && self.in_flight.len() == depth
            && self.executed
            && self.aborts.is_empty()
            && self.ended.is_empty()
            && self.scheduler.only_decodes();
        if !quiet {
            return None;
        }
        let (oldest, newest) = (self.in_flight.front()?, self.in_flight.back()?);
        Some([&oldest.state, &newest.state])
    }
}

/// The shape of the step that follows one of decodes after so many steps.
fn later(mut shape: StepShape, steps: u64) -> StepShape {
    shape.decode_context += u64::from(shape.decodes) * steps;
    shape
}

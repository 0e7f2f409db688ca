//! Runs of steps in which everybody decodes and nothing else happens.
//!
//! Most steps of an engine differ from the one before by one token for each sequence. As long as that is
//! certain, they are done in one loop: no plan is written, no queue looked at, and the times of the
//! steps follow the latency model's [`DecodeLaw`]. All that leaves the engine is what single steps would
//! have told; [`Engine::step_by_step`] does without, for comparison.

use foretoken_des_kernel::SimTime;
use foretoken_latency_model::{DecodeLaw, Fine, LatencyModel, StepShape};

use super::{Engine, LONGEST_STEP, Phase, floor};
use crate::config::Scheduling;
use crate::event::{EngineEvent, StepReport};

/// Steps that are done before their tokens are told, so that these need little memory.
const AT_ONCE: usize = 256;

/// Times of decode steps that follow each other.
#[derive(Debug, Default)]
pub(super) struct DecodeTimes {
    /// What [makes up](made_up) the shape of a step that follows the last one.
    expected: (u32, u64, u64),
    law: Option<Law>,
}

#[derive(Debug)]
struct Law {
    next: Fine,
    increment: Fine,
    steps: u64,
}

impl Law {
    fn new(law: DecodeLaw) -> Self {
        let next = law.step(0);
        Self {
            next,
            increment: law.step(1) - next,
            steps: law.steps(),
        }
    }

    /// That of the steps that are left.
    fn rest(&self) -> DecodeLaw {
        DecodeLaw::new(self.next, self.increment, self.steps)
    }

    fn next(&mut self) -> Option<Fine> {
        self.steps = self.steps.checked_sub(1)?;
        let time = self.next;
        self.next += self.increment;
        Some(time)
    }
}

impl DecodeTimes {
    /// The time of a step that is nothing but decodes. A law is asked for when a batch is seen a second
    /// time: one that changes with every step would ask in vain.
    #[inline]
    pub(super) fn step(&mut self, shape: &StepShape, latency: &dyn LatencyModel) -> Fine {
        let (decodes, context, shared) = made_up(shape);
        let again = (decodes, context, shared) == self.expected;
        self.expected = (decodes, context + u64::from(decodes), shared);
        if !again {
            self.law = None;
            return latency.step(shape);
        }
        match self.law.as_mut().and_then(Law::next) {
            Some(time) => time,
            None => self.first_by_law(shape, latency),
        }
    }

    fn first_by_law(&mut self, shape: &StepShape, latency: &dyn LatencyModel) -> Fine {
        self.law = latency.decode_law(shape).map(Law::new);
        self.law
            .as_mut()
            .and_then(Law::next)
            .unwrap_or_else(|| latency.step(shape))
    }

    /// The law of a step that is nothing but decodes and of those that follow it, if there is one.
    pub(super) fn law(
        &mut self,
        shape: &StepShape,
        latency: &dyn LatencyModel,
    ) -> Option<DecodeLaw> {
        let made_up = made_up(shape);
        let known = self.law.as_ref().is_some_and(|law| law.steps > 0);
        if !known || made_up != self.expected {
            self.expected = made_up;
            self.law = latency.decode_law(shape).map(Law::new);
        }
        self.law.as_ref().map(Law::rest)
    }
}

/// What makes up the shape of a step of decodes: how many, their context, and how much of it is shared.
fn made_up(shape: &StepShape) -> (u32, u64, u64) {
    (shape.decodes, shape.decode_context, shape.shared_context)
}

/// Decodes by the clock that make up a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decodes {
    pub(super) count: u32,
    /// Tokens that they attend to together.
    pub(super) context: u64,
}

/// What is known of a batch in flight besides its plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    /// When the accelerator starts it.
    pub(super) start: SimTime,
    pub(super) end: Fine,
    pub(super) sequences: u32,
    /// Its decodes, if it computes nothing but such as are not named.
    pub(super) decodes: Option<Decodes>,
    /// Context that its sequences share.
    pub(super) shared: u64,
}

impl Engine {
    /// Does the steps that are due before `until`, as long as they do nothing but decode.
    pub(super) fn run_decodes(&mut self, until: SimTime, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let Some([&(mut oldest), &(mut newest)]) = self.decodes_in_flight() else {
            return;
        };
        let arrives = self.inbox.first_key_value().map(|(key, _)| key.0);
        let until = arrives.map_or(until, |arrives| arrives.min(until));
        let mut shape = self.next_decodes();
        let (count, shared) = (shape.decodes, shape.shared_context);
        let host = self.config.host;
        let schedule = host.schedule + host.schedule_per_sequence * u64::from(count);
        let (schedule, deliver) = (Fine::from(schedule), Fine::from(host.deliver));
        let asynchronous = self.config.scheduler.scheduling == Scheduling::Asynchronous;
        let mut used = self.scheduler.occupied_blocks();
        let mut steps = 0;
        self.times.clear();
        self.scheduler.begin_decodes();
        // A batch of something else is left to the general way.
        while steps < AT_ONCE
            && let Some(decodes) = oldest.decodes
        {
            let now = floor(self.wake).max(self.now);
            if now >= until {
                break;
            }
            let Some(context) = self.scheduler.decode_step() else {
                break;
            };
            steps += 1;
            self.now = now;
            // The output of the oldest batch.
            let mut done = if decodes.count == count {
                shape
            } else {
                self.config.launched(StepShape::decode(decodes.count, 0))
            };
            done.decode_context = decodes.context;
            done.shared_context = oldest.shared;
            report(EngineEvent::Step(StepReport {
                start: oldest.start,
                end: floor(oldest.end),
                shape: done,
            }));
            let sampled = u64::from(oldest.sequences);
            self.output_free =
                self.wake.max(self.output_free) + Fine::from(host.deliver_per_sequence * sampled);
            self.times.push(floor(self.output_free + deliver));
            // The next one.
            shape.decode_context = context;
            let submit = self.wake + schedule;
            let start = submit.max(self.accelerator_free);
            let time = self.decode_times.step(&shape, &*self.latency);
            self.accelerator_free = start + time.min(LONGEST_STEP);
            let planned = InFlight {
                start: floor(start),
                end: self.accelerator_free,
                sequences: count,
                decodes: Some(Decodes { count, context }),
                shared,
            };
            oldest = if asynchronous { newest } else { planned };
            newest = planned;
            let update = host.update + host.update_per_sequence * u64::from(oldest.sequences);
            self.wake = submit.max(oldest.end) + Fine::from(update);
            let blocks = self.scheduler.occupied_blocks();
            if blocks != used {
                used = blocks;
                let stats = self.stats();
                report(EngineEvent::Level { at: now, stats });
            }
        }
        let Some(&last) = self.times.last() else {
            return;
        };
        self.delivered = last;
        self.executed = true;
        self.write_back(steps, oldest, newest);
        self.tell_decodes(report);
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

    /// Tells the tokens of the batch, which leave at `times`.
    pub(super) fn tell_decodes(&mut self, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let decodes = self.scheduler.decodes(&self.times);
        if !decodes.tokens.times.is_empty() || !decodes.left.is_empty() {
            report(EngineEvent::Decodes(decodes));
        }
        self.scheduler.decodes_told();
    }

    /// So many batches have come and gone, in the places of those before them; the last are in flight.
    fn write_back(&mut self, steps: usize, oldest: InFlight, newest: InFlight) {
        let depth = self.in_flight.len();
        let new = steps.min(depth);
        if new < depth
            && let Some(first) = self.in_flight.pop_front()
        {
            self.in_flight.push_back(first);
        }
        let states = [oldest, newest];
        let states = states[2 - depth..].iter();
        let batches = self.in_flight.iter_mut().zip(states).skip(depth - new);
        for (batch, state) in batches {
            batch.state = *state;
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

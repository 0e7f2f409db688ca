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
    /// The shape that the last step would have if it were followed by one like it.
    expected: StepShape,
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
    pub(super) fn step(&mut self, shape: &StepShape, latency: &dyn LatencyModel) -> Fine {
        let again = *shape == self.expected;
        self.expected = *shape;
        self.expected.decode_context += u64::from(shape.decodes);
        if !again {
            self.law = None;
            return latency.step(shape);
        }
        if let Some(time) = self.law.as_mut().and_then(Law::next) {
            return time;
        }
        self.law = latency.decode_law(shape).map(Law::new);
        self.law
            .as_mut()
            .and_then(Law::next)
            .unwrap_or_else(|| latency.step(shape))
    }
}

/// A batch in flight.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    start: SimTime,
    end: Fine,
    context: u64,
}

impl Engine {
    /// Does the steps that are due before `until`, as long as they do nothing but decode.
    pub(super) fn run_decodes(&mut self, until: SimTime, report: &mut dyn FnMut(EngineEvent<'_>)) {
        let Some((mut oldest, mut newest)) = self.decodes_in_flight() else {
            return;
        };
        let arrives = self.inbox.first_key_value().map(|(key, _)| key.0);
        let until = arrives.map_or(until, |arrives| arrives.min(until));
        let count = self.scheduler.decoding();
        let mut shape = self.config.launched(StepShape::decode(count, 0));
        shape.shared_context = self.scheduler.kv().shared_tokens();
        let host = &self.config.host;
        let sequences = u64::from(count);
        let schedule = Fine::from(host.schedule + host.schedule_per_sequence * sequences);
        let update = Fine::from(host.update + host.update_per_sequence * sequences);
        let deliver_all = Fine::from(host.deliver_per_sequence * sequences);
        let deliver = Fine::from(host.deliver);
        let asynchronous = self.config.scheduler.scheduling == Scheduling::Asynchronous;
        let mut used = self.scheduler.kv().used();
        self.times.clear();
        loop {
            let now = floor(self.wake).max(self.now);
            if now >= until || self.times.len() == AT_ONCE {
                break;
            }
            let Some(context) = self.scheduler.decode_step() else {
                break;
            };
            self.now = now;
            // The output of the oldest batch.
            shape.decode_context = oldest.context;
            report(EngineEvent::Step(StepReport {
                start: oldest.start,
                end: floor(oldest.end),
                shape,
            }));
            self.output_free = self.wake.max(self.output_free) + deliver_all;
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
                context,
            };
            oldest = if asynchronous { newest } else { planned };
            newest = planned;
            self.wake = submit.max(oldest.end) + update;
            let blocks = self.scheduler.kv().used();
            if blocks != used {
                used = blocks;
                let stats = self.stats();
                report(EngineEvent::Level { at: now, stats });
            }
        }
        if let Some(&last) = self.times.last() {
            self.delivered = last;
            for (batch, state) in self.in_flight.iter_mut().zip([oldest, newest]) {
                shape.decode_context = state.context;
                batch.plan.set_decodes(count, state.context);
                batch.end = state.end;
                batch.step = Some(StepReport {
                    start: state.start,
                    end: floor(state.end),
                    shape,
                });
            }
            report(EngineEvent::Decodes(self.scheduler.decodes(&self.times)));
        }
    }

    /// The oldest and the newest batch, which may be the same, if both are the running sequences'
    /// decodes, and the next step is certain to be so, too, but for limits and blocks.
    fn decodes_in_flight(&self) -> Option<(InFlight, InFlight)> {
        let depth = match self.config.scheduler.scheduling {
            Scheduling::Asynchronous => 2,
            Scheduling::Synchronous => 1,
        };
        let quiet = self.phase == Phase::Apply
            && self.in_flight.len() == depth
            && self.aborts.is_empty()
            && self.ended.is_empty()
            && self.scheduler.only_decodes();
        if !quiet {
            return None;
        }
        let count = self.scheduler.decoding();
        let state = |index: usize| {
            let batch = self.in_flight.get(index)?;
            let step = batch.step.as_ref()?;
            batch.plan.is_decodes(count).then_some(InFlight {
                start: step.start,
                end: batch.end,
                context: step.shape.decode_context,
            })
        };
        Some((state(0)?, state(depth - 1)?))
    }
}

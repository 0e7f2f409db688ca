//! How long an engine certainly does nothing but decode.
//!
//! What is to end is known by the number of the step with which it does, and the latency model's
//! [`DecodeLaw`](foretoken_latency_model::DecodeLaw) says when that is: no step has to be done to know. So
//! a host with many engines need not look at each of them in every step.

use foretoken_des_kernel::SimTime;
use foretoken_latency_model::Fine;

use super::{Engine, LONGEST_STEP, floor};
use crate::config::Scheduling;

impl Engine {
    /// Until when the engine certainly does nothing but decode if nothing is asked of it or handed to it;
    /// `None` while it is idle. It may be longer than that.
    ///
    /// A host need not [advance](Self::advance_until) it before, as long as it does so up to the present
    /// before it asks anything of the engine or looks at it.
    pub fn quiet_until(&mut self) -> Option<SimTime> {
        let wake = self.next_wake()?;
        Some(self.decodes_until().map_or(wake, |until| until.max(wake)))
    }

    /// A time before which no step is due but such as [runs](Self::run_decodes) consist of; `None` if that
    /// is not worth knowing.
    fn decodes_until(&mut self) -> Option<SimTime> {
        if !self.rejected.is_empty() {
            return None;
        }
        let [oldest, newest] = self.decodes_in_flight()?;
        // What else is in flight is left to the general way.
        if !oldest.is_counted() || !newest.is_counted() {
            return None;
        }
        let in_flight = oldest.shape.decodes.min(newest.shape.decodes);
        let computed = newest.end;
        let steps = self.scheduler.certain_decodes();
        if steps < 2 {
            return None;
        }
        let shape = self.next_decodes();
        let law = self.decode_times.law(&shape, &*self.latency)?;
        let steps = steps.min(law.steps());
        if steps < 2 || law.step(steps) > LONGEST_STEP {
            return None;
        }
        let host = &self.config.host;
        let schedule = host.schedule + host.schedule_per_sequence * u64::from(shape.decodes);
        let update =
            host.update + host.update_per_sequence * u64::from(in_flight.min(shape.decodes));
        let turns = Fine::from(schedule + update) * u128::from(steps);
        // The accelerator has to get through the batches before, and the host through its turns.
        let wake = match self.config.scheduler.scheduling {
            Scheduling::Asynchronous => {
                let computed = computed + law.sum(steps - 1) + Fine::from(update);
                computed.max(self.wake + turns)
            }
            Scheduling::Synchronous => self.wake + law.sum(steps) + turns,
        };
        let arrives = self.inbox.next();
        let until = floor(wake);
        Some(arrives.map_or(until, |arrives| arrives.min(until)))
    }
}

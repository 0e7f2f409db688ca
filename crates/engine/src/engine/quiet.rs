//! How long an engine certainly does nothing but decode.
//!
//! What is to end is known by the number of the step with which it does, and the latency model's
//! [`DecodeLaw`](foretoken_latency_model::DecodeLaw) says when that is: no step has to be done to know. So
//! a host with many engines need not look at each of them in every step.

use foretoken_des_kernel::SimTime;
use foretoken_latency_model::{DecodeLaw, Fine};

use super::{Engine, LONGEST_STEP, floor, instant};
use crate::config::Scheduling;
use crate::event::EngineStats;

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

    /// What [`stats`](Self::stats) would say if the engine had been advanced up to the instant before
    /// `now`, as far as that is certain: until then it does nothing but decode.
    ///
    /// So a host can ask how an engine is and leave it alone.
    pub fn stats_before(&mut self, now: SimTime) -> Option<EngineStats> {
        let mut stats = self.stats();
        if self.next_wake().is_none_or(|wake| wake >= now) {
            return Some(stats);
        }
        let arrives = self.inbox.next();
        let quiet = self.quiet().filter(|quiet| quiet.is_even)?;
        if arrives.is_some_and(|arrives| arrives < now) {
            return None;
        }
        let (now, law) = (instant(now), &quiet.law);
        let (first, turns, idle) = match self.config.scheduler.scheduling {
            Scheduling::Asynchronous => {
                // The accelerator must be what everybody waits for.
                let lags = self.wake + quiet.schedule > quiet.computed
                    || quiet.schedule + quiet.update > law.step(0);
                if lags {
                    return None;
                }
                (quiet.computed + quiet.update, *law, 1)
            }
            Scheduling::Synchronous => {
                let first = law.step(0) + quiet.schedule + quiet.update;
                (
                    self.wake,
                    DecodeLaw::new(first, law.increment(), law.steps()),
                    0,
                )
            }
        };
        let steps = idle + turns.steps_to_reach(now.saturating_sub(first))?;
        if steps > law.steps() {
            return None;
        }
        stats.kv_used = self.scheduler.occupied_after(steps)?;
        Some(stats)
    }

    /// A time before which no step is due but such as [runs](Self::run_decodes) consist of; `None` if that
    /// is not worth knowing.
    fn decodes_until(&mut self) -> Option<SimTime> {
        let wake = match self.quiet() {
            Some(quiet) => self.wake_after(&quiet),
            None => self.wake_after_one()?,
        };
        let until = floor(wake);
        let arrives = self.inbox.next();
        Some(arrives.map_or(until, |arrives| arrives.min(until)))
    }

    /// The engine does not wake again before this after all of these steps.
    fn wake_after(&self, quiet: &Quiet) -> Fine {
        let law = &quiet.law;
        let steps = law.steps();
        let turns = (quiet.schedule + quiet.update) * u128::from(steps);
        // The accelerator has to get through the batches before, and the host through its turns.
        match self.config.scheduler.scheduling {
            Scheduling::Asynchronous => {
                let computed = quiet.computed + law.sum(steps - 1) + quiet.update;
                computed.max(self.wake + turns)
            }
            Scheduling::Synchronous => self.wake + law.sum(steps) + turns,
        }
    }

    /// When the engine wakes again after its next step, if that certainly does nothing but decode: then the
    /// batch behind the oldest one, whatever it is, has been computed.
    fn wake_after_one(&self) -> Option<Fine> {
        if !self.rejected.is_empty() || self.config.scheduler.scheduling == Scheduling::Synchronous
        {
            return None;
        }
        let [oldest, newest] = self.decodes_in_flight()?;
        if !oldest.is_counted() || !self.scheduler.is_next_plain() {
            return None;
        }
        let host = &self.config.host;
        let submit = self.wake + Fine::from(host.scheduling(self.scheduler.decoding().into()));
        let update = host.updating(newest.shape.sequences().into());
        Some(submit.max(newest.end) + Fine::from(update))
    }

    /// What is known of the steps that the engine certainly does if it is left alone, two at least.
    fn quiet(&mut self) -> Option<Quiet> {
        if !self.rejected.is_empty() {
            return None;
        }
        let [oldest, newest] = self.decodes_in_flight()?;
        // What else is in flight is left to the general way.
        if !oldest.is_counted() || !newest.is_counted() {
            return None;
        }
        let in_flight = [oldest, newest].map(|batch| batch.shape.decodes);
        let computed = newest.end;
        let steps = self.scheduler.certain_decodes();
        if steps < 2 {
            return None;
        }
        let shape = self.next_decodes();
        let law = self.decode_times.law(&shape, &*self.latency)?;
        let law = law.limited(steps);
        if law.steps() < 2 || law.step(law.steps()) > LONGEST_STEP {
            return None;
        }
        let (host, count) = (&self.config.host, shape.decodes);
        let fewest = in_flight[0].min(in_flight[1]).min(count);
        Some(Quiet {
            law,
            computed,
            schedule: Fine::from(host.scheduling(count.into())),
            update: Fine::from(host.updating(fewest.into())),
            is_even: in_flight == [count; 2],
        })
    }
}

/// Steps that do nothing but decode.
struct Quiet {
    /// Of their times, for as many of them as are certain.
    law: DecodeLaw,
    /// When the accelerator has computed what is in flight.
    computed: Fine,
    /// What each costs the host: its plan, and at least the update of the state after it.
    schedule: Fine,
    update: Fine,
    /// Whether all batches are of one size, and each update costs exactly that.
    is_even: bool,
}

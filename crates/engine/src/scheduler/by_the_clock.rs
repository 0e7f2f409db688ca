//! The scheduler's part in decodes by the clock: who follows it, and steps of those who do. See
//! [`steady`](super::steady).

use foretoken_des_kernel::SimTime;
use foretoken_workload::DecodeRun;

use super::steady::{Appointment, Clock};
use super::{PLANNED_EXIST, Scheduler};
use crate::config::KvAllocation;
use crate::plan::StepPlan;
use crate::sequence::Sequence;

impl Scheduler {
    /// From now on sequences that only decode are counted: plans do not name them, and their tokens are
    /// told by [`decodes`](Self::decodes).
    pub(crate) fn count_decodes(&mut self) {
        self.counts_decodes = true;
    }

    /// Plans name all sequences, as they do unless they are told to [count](Self::count_decodes).
    ///
    /// # Panics
    /// If there are requests, or have been.
    pub(crate) fn name_decodes(&mut self) {
        assert!(
            self.clock.planned == 0 && self.slots.is_empty(),
            "how decodes are planned is chosen before the first request"
        );
        self.counts_decodes = false;
    }

    /// Whoever sampled a token in the step just planned follows the clock from now on.
    pub(super) fn settle_into(&mut self, plan: &StepPlan) {
        let mut joined = false;
        for entry in plan.entries.iter().filter(|entry| entry.samples) {
            let sequence = self.sequences[entry.slot as usize].as_mut();
            let sequence = sequence.expect(PLANNED_EXIST);
            if sequence.discarded == 0 {
                self.steady
                    .join(entry.slot, sequence, &self.clock, &self.kv);
                joined = true;
            }
        }
        if joined {
            let sequences = &self.sequences;
            self.visited.retain(|&slot| {
                let sequence = sequences[slot as usize].as_ref();
                !sequence.is_some_and(Sequence::is_steady)
            });
        }
    }

    /// Takes everybody off the clock.
    pub(super) fn unsettle(&mut self) {
        if self.steady.count() == 0 {
            return;
        }
        for &slot in &self.running {
            let sequence = self.sequences[slot as usize].as_mut();
            let sequence = sequence.expect(PLANNED_EXIST);
            if sequence.is_steady() {
                self.steady.leave(slot, sequence, &self.clock, &self.kv);
            }
        }
        self.steady.clear();
        self.visited.clone_from(&self.running);
    }

    /// Plans the running sequences with most of them by the clock, if budget and blocks are certain to
    /// suffice for all of these.
    pub(super) fn plan_by_the_clock(
        &mut self,
        plan: &mut StepPlan,
        budget: &mut u32,
        threshold: u32,
    ) -> bool {
        let (limit, clock) = (self.config.max_model_len, self.clock);
        let count = self.steady.count();
        // What those may take who are before the last of the steady ones.
        let mut tokens = u64::from(count);
        self.steady
            .look_at_limits(&mut self.sequences, &clock, &self.kv);
        let mut due = self.steady.due(clock.planned, &self.sequences);
        let by_clock = self.steady.takes(clock.planned);
        let mut blocks = due.len() as u64 + u64::from(by_clock);
        for &slot in &self.visited {
            let sequence = self.sequence(slot);
            let wanted = sequence.due(sequence.own, limit).min(threshold);
            if sequence.seat < self.steady.last_seat() {
                tokens += u64::from(wanted);
            }
            blocks += u64::from(sequence.lacks(sequence.own, wanted, &self.kv));
        }
        if tokens > u64::from(*budget) || blocks > u64::from(self.kv.free()) {
            self.steady.put_back(clock.planned, due);
            return false;
        }
        // What visited sequences may take; whoever is behind the steady ones may find too little.
        let mut left = *budget - count;
        let mut next = 0;
        let mut visited = 0;
        while next < due.len() || visited < self.visited.len() {
            let seat = self
                .visited
                .get(visited)
                .map(|&slot| self.sequence(slot).seat);
            if let Some(&appointment) = due.get(next)
                && seat.is_none_or(|seat| appointment.seat < seat)
            {
                next += 1;
                let slot = appointment.slot;
                let sequence = self.sequences[slot as usize].as_mut();
                let sequence = sequence.expect(PLANNED_EXIST);
                let at = sequence.progress(&clock);
                if sequence.due(at, limit) == 0 {
                    self.steady.leave(slot, sequence, &clock, &self.kv);
                    self.visited.insert(visited, slot);
                    visited += 1;
                    left += 1;
                } else {
                    let grown = sequence.grow(&mut self.kv, at, 1, limit);
                    debug_assert!(grown, "blocks were counted before");
                    let after = sequence.quiet_for(at, &clock, &self.kv).max(1);
                    self.steady.look_at(appointment, after, clock.planned);
                }
                continue;
            }
            let slot = self.visited[visited];
            visited += 1;
            let sequence = self.sequences[slot as usize].as_mut();
            let sequence = sequence.expect(PLANNED_EXIST);
            let wanted = sequence.due(sequence.own, limit).min(threshold).min(left);
            if wanted > 0 {
                let grown = sequence.grow(&mut self.kv, sequence.own, wanted, limit);
                debug_assert!(grown, "blocks were counted before");
                plan.push(sequence.advance(slot, wanted, self.config.scheduling));
                left -= wanted;
            }
        }
        due.clear();
        self.steady.put_back(clock.planned, due);
        self.kv.take(by_clock);
        let (decodes, context) = self.steady.step();
        plan.push_decodes(decodes, context);
        *budget = left;
        true
    }

    /// Sequences that decode by the clock.
    pub(crate) fn decoding(&self) -> u32 {
        self.steady.count()
    }

    /// Whether all who run decode by the clock, nobody can enter, steps in flight name nobody besides
    /// those that their plans do, and nobody wants to hear of changes in the prefix cache.
    pub(crate) fn only_decodes(&self) -> bool {
        let closed = self.waiting.is_empty() || !self.is_open(u32::MAX);
        self.steady.count() > 0
            && self.visited.is_empty()
            && closed
            && self.confirmations.is_empty()
            && !self.steady.is_anybody_named()
            && !self.kv.records_events()
    }

    /// Those who are told for the first time with the output of the oldest step are told from now on.
    pub(crate) fn begin_decodes(&mut self) {
        self.steady.follow(self.clock.applied, &self.sequences);
        self.steady.drop_void(&self.sequences);
    }

    /// How many steps can be [passed](Self::pass_decodes) as far as blocks suffice, where [only
    /// decodes](Self::only_decodes) are in all batches: with none of them anybody ends, is told for the
    /// first time or has to be looked at. 0 if something else is due. Whoever has to be looked at in the
    /// next one is, and so that one has to be passed.
    pub(crate) fn decodes_ahead(&mut self) -> u64 {
        let Clock {
            applied, planned, ..
        } = self.clock;
        let ahead = self.steady.undisturbed(applied, planned);
        let taken = self.steady.takes(planned);
        let short = self.steady.count() > self.config.max_num_batched_tokens;
        if ahead == 0 || short || taken > self.kv.free() {
            return 0;
        }
        if self.steady.anybody_due(planned) && !self.visit_due(taken) {
            return 0;
        }
        1 + self.steady.until_due(planned + 1, ahead - 1)
    }

    /// How many blocks the decodes of each step take by the clock, again and again, and where the next
    /// one is among these.
    pub(crate) fn block_takers(&self) -> (&[u32], usize) {
        self.steady.takers_at(self.clock.planned)
    }

    /// Applies the outputs of so many steps that are nothing but decodes, and plans as many others, which
    /// take `blocks` by the clock together.
    pub(crate) fn pass_decodes(&mut self, steps: u64, blocks: u32) {
        if blocks > 0 {
            self.kv.take(blocks);
        }
        self.steady.pass(steps);
        self.clock.applied += steps;
        self.clock.planned += steps;
        self.unflushed = false;
    }

    /// What is [occupied](Self::occupied_blocks) after so many steps more that are nothing but decodes;
    /// `None` if anything but the clock takes blocks in them, or these may lack.
    pub(crate) fn occupied_after(&self, steps: u64) -> Option<u32> {
        let planned = self.clock.planned;
        if self.steady.until_due(planned, steps) < steps {
            return None;
        }
        let taken = self.steady.takes_in(planned, steps);
        let taken = u32::try_from(taken)
            .ok()
            .filter(|&taken| taken <= self.kv.free())?;
        Some(match self.config.kv_allocation {
            KvAllocation::Paged => self.occupied_blocks() + taken,
            KvAllocation::Reserved => self.occupied_blocks(),
        })
    }

    /// What the decodes of the next step attend to, their own tokens included.
    pub(crate) fn decoded_context(&self) -> u64 {
        self.steady.context() + u64::from(self.steady.count())
    }

    /// As many [steps](Self::pass_decodes) as this are certain where [only decodes](Self::only_decodes)
    /// are in all batches.
    pub(crate) fn certain_decodes(&self) -> u64 {
        let count = self.steady.count();
        if count > self.config.max_num_batched_tokens {
            return 0;
        }
        // In so many steps each takes a block at most, and none may lack one in the last.
        let rounds = (self.kv.free() / count.max(1)).saturating_sub(2);
        let blocks = u64::from(rounds) * u64::from(self.config.block_size);
        self.steady.quiet_from(self.clock.planned).min(blocks)
    }

    /// Whether the next step is certain to be a matter of counting, whatever is in flight: somebody who is
    /// to be looked at may have got the last token with a batch that is named.
    pub(crate) fn is_next_plain(&self) -> bool {
        self.certain_decodes() > 0 && !self.steady.anybody_due(self.clock.planned)
    }

    /// Takes blocks and makes others findable for all who are due in the plan of a step, besides those
    /// `taken` by the clock; nothing, if somebody ends or the free ones might not suffice.
    fn visit_due(&mut self, taken: u32) -> bool {
        let limit = self.config.max_model_len;
        let clock = Clock {
            applied: self.clock.applied + 1,
            ..self.clock
        };
        let mut due = self.steady.due(clock.planned, &self.sequences);
        let ends = |appointment: &Appointment| {
            let sequence = self.sequence(appointment.slot);
            sequence.due(sequence.progress(&clock), limit) == 0
        };
        if due.len() > (self.kv.free() - taken) as usize || due.iter().any(ends) {
            self.steady.put_back(clock.planned, due);
            return false;
        }
        for appointment in due.drain(..) {
            let sequence = self.sequences[appointment.slot as usize].as_mut();
            let sequence = sequence.expect(PLANNED_EXIST);
            let at = sequence.progress(&clock);
            let grown = sequence.grow(&mut self.kv, at, 1, limit);
            debug_assert!(grown, "blocks were counted before");
            let after = sequence.quiet_for(at, &clock, &self.kv).max(1);
            self.steady.look_at(appointment, after, clock.planned);
        }
        self.steady.put_back(clock.planned, due);
        true
    }

    /// The tokens of the step applied last that were not delivered one by one.
    pub(crate) fn decodes<'a>(&'a self, times: &'a [SimTime]) -> DecodeRun<'a> {
        self.steady.told(times)
    }

    /// They have been told.
    pub(crate) fn decodes_told(&mut self) {
        self.steady.tell_over();
    }
}

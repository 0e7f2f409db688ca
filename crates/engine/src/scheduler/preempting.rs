//! Preemption: whose blocks are taken where none are free.

use foretoken_des_kernel::SimTime;

use super::{PLANNED_EXIST, Scheduler, take_out};
use crate::config::Scheduling;
use crate::plan::StepPlan;
use crate::preemption::RunningView;
use crate::sequence::Status;

impl Scheduler {
    /// Plans `running[index]`, for which no blocks are free, with those of others. Whose turn it is
    /// then; nobody's, if it had to give up its own.
    pub(super) fn plan_by_preemption(
        &mut self,
        mut index: usize,
        tokens: u32,
        plan: &mut StepPlan,
        budget: &mut u32,
        now: SimTime,
    ) -> Option<usize> {
        let (slot, limit) = (self.running[index], self.config.max_model_len);
        // Where the sequence stands now: victims before it move it forward.
        let mut needy = index;
        loop {
            let victim = self.choose_victim(needy, plan);
            let was_planned = self.preempt(victim, plan, budget, now);
            if victim == needy {
                let goes_on = self.config.semantics.continue_after_self_preemption;
                return goes_on.then_some(index);
            }
            if victim < needy {
                needy -= 1;
                // A victim that was passed over in this step does not move the turn back in 0.15.1, so
                // that the sequence behind the needy one loses its own.
                let moves = was_planned || self.config.semantics.victims_keep_turns;
                index -= usize::from(moves);
            }
            let sequence = self.sequences[slot as usize].as_mut().expect(PLANNED_EXIST);
            if sequence.grow(&mut self.kv, sequence.own, tokens, limit) {
                plan.push(sequence.advance(slot, tokens, self.config.scheduling));
                *budget -= tokens;
                return Some(index + 1);
            }
        }
    }

    /// Index of the running sequence whose blocks are taken while `plan` is being formed.
    fn choose_victim(&mut self, needy: usize, plan: &StepPlan) -> usize {
        let mut views = core::mem::take(&mut self.views);
        views.clear();
        // Planned sequences have the order of running ones. What is planned is not computed yet.
        let mut planned = plan.entries.iter().peekable();
        views.extend(self.running.iter().map(|&slot| {
            let sequence = self.sequence(slot);
            let request = &sequence.origin.request;
            let planned = planned.next_if(|entry| entry.slot == slot);
            RunningView {
                id: sequence.id,
                priority: request.priority,
                arrival: request.arrival,
                blocks: sequence.table.len(),
                computed_tokens: planned.map_or(sequence.own.computed, |it| it.computed_before),
                output_tokens: sequence.own.outputs,
                preemptions: sequence.origin.preemptions,
            }
        }));
        let victim = self.preemption.victim(&views, needy);
        assert!(
            victim < views.len(),
            "PreemptionPolicy {:?} chose victim {victim} of {} running sequences",
            self.preemption,
            views.len()
        );
        self.views = views;
        victim
    }

    /// Preempts `running[victim]`, and says whether it had a part in the step being planned.
    pub(super) fn preempt(
        &mut self,
        victim: usize,
        plan: &mut StepPlan,
        budget: &mut u32,
        now: SimTime,
    ) -> bool {
        let slot = self.running.remove(victim);
        take_out(&mut self.visited, slot);
        let sequence = self.sequences[slot as usize].as_mut().expect(PLANNED_EXIST);
        sequence.shrink(&mut self.kv);
        sequence.origin.preemptions += 1;
        sequence.status = Status::Preempted;
        let id = sequence.id;
        let planned = plan.withdraw(slot);
        if let Some(entry) = planned {
            *budget += entry.tokens;
            let asynchronous = self.config.scheduling == Scheduling::Asynchronous;
            sequence.own.placeholders -= u32::from(entry.samples && asynchronous);
        }
        let key = self.order_key(slot, now);
        self.waiting.push_preempted(key, id, slot);
        self.await_member();
        plan.preempted.push(id);
        planned.is_some()
    }
}

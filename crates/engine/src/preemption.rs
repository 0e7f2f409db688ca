//! [`PreemptionPolicy`]: whose KV blocks are taken when a running sequence needs one.

use foretoken_des_kernel::SimTime;
use foretoken_workload::{Priority, RequestId};

/// What a policy sees of a running sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningView {
    /// The request.
    pub id: RequestId,
    /// Its urgency; smaller is more urgent.
    pub priority: Priority,
    /// When it arrived.
    pub arrival: SimTime,
    /// KV blocks that it holds, shared ones included.
    pub blocks: u32,
    /// Tokens whose KV would have to be recomputed, prefix hits aside.
    pub computed_tokens: u32,
    /// Output tokens so far.
    pub output_tokens: u32,
    /// How often it was preempted before.
    pub preemptions: u32,
}

/// Decides whose KV blocks are taken when a running sequence needs blocks and none are free.
///
/// The host calls [`victim`](Self::victim) until enough is free. `running` is never empty, in the
/// order of admission; the needy sequence is `running[needy]`, and may be the victim itself. An
/// answer outside the list ends the run with a panic that names the policy's contract.
///
/// A policy must not let two sequences take each other's blocks for ever: prefer victims that the
/// queue order would not put back in front of the one that was served. [`LeastUrgent`] can do so
/// where two requests of equal priority arrive at the very same instant, as vLLM 0.15.1 can.
///
/// ```
/// use foretoken_engine::{PreemptionPolicy, RunningView};
///
/// /// Takes from the sequence that has least to recompute.
/// #[derive(Debug)]
/// struct CheapestRecompute;
///
/// impl PreemptionPolicy for CheapestRecompute {
///     fn victim(&mut self, running: &[RunningView], _needy: usize) -> usize {
///         let cost = |&index: &usize| running[index].computed_tokens;
///         (0..running.len()).min_by_key(cost).unwrap_or(0)
///     }
/// }
/// ```
pub trait PreemptionPolicy: core::fmt::Debug + Send {
    /// Index of the victim in `running`.
    fn victim(&mut self, running: &[RunningView], needy: usize) -> usize;
}

/// The sequence admitted (or resumed) last, whatever it is doing: vLLM under `fcfs`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastAdmitted;

impl PreemptionPolicy for LastAdmitted {
    fn victim(&mut self, running: &[RunningView], _needy: usize) -> usize {
        running.len() - 1
    }
}

/// The sequence with the largest (priority, arrival), the first in the list among equals: vLLM
/// under `priority`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeastUrgent;

impl PreemptionPolicy for LeastUrgent {
    fn victim(&mut self, running: &[RunningView], _needy: usize) -> usize {
        let mut victim = 0;
        for (index, candidate) in running.iter().enumerate() {
            let worst = &running[victim];
            if (candidate.priority, candidate.arrival) > (worst.priority, worst.arrival) {
                victim = index;
            }
        }
        victim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(id: u32, priority: i32, arrival: u64) -> RunningView {
        RunningView {
            id: RequestId::new(id),
            priority: Priority::new(priority),
            arrival: SimTime::from_nanos(arrival),
            blocks: 1,
            computed_tokens: 16,
            output_tokens: 0,
            preemptions: 0,
        }
    }

    #[test]
    fn the_least_urgent_is_the_latest_of_the_largest_priority_and_the_first_among_equals() {
        let running = [view(0, 1, 5), view(1, 2, 3), view(2, 2, 4), view(3, 2, 4)];
        assert_eq!(LeastUrgent.victim(&running, 0), 2);
        assert_eq!(LastAdmitted.victim(&running, 0), 3);
    }

    #[test]
    fn policies_are_object_safe() {
        let mut policies: Vec<Box<dyn PreemptionPolicy>> =
            vec![Box::new(LastAdmitted), Box::new(LeastUrgent)];
        assert!(
            policies
                .iter_mut()
                .all(|policy| policy.victim(&[view(0, 0, 0)], 0) == 0)
        );
    }
}

//! [`StepPlan`]: what one step computes.

use foretoken_latency_model::StepShape;
use foretoken_workload::RequestId;

use crate::connector::KvLoad;
use crate::sequence::Slot;

/// One sequence's part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// The request.
    pub request: RequestId,
    /// Tokens that the step computes for it.
    pub tokens: u32,
    /// Tokens computed before the step, prefix hits included.
    pub computed_before: u32,
    /// Whether the step reaches the end of its known tokens, and so samples an output token.
    pub samples: bool,
    pub(crate) slot: Slot,
    /// Its place in the order of admissions.
    pub(crate) seat: u64,
}

/// A sequence that entered the running batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admission {
    /// The request.
    pub request: RequestId,
    /// Tokens found in the prefix cache or read from outside.
    pub cached_tokens: u32,
    /// Whether it had been preempted before.
    pub resumed: bool,
}

/// What one step computes, in the order of planning: running sequences, then admissions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepPlan {
    /// The sequences of the step.
    pub entries: Vec<Planned>,
    /// Who entered the running batch.
    pub admitted: Vec<Admission>,
    /// Who lost its blocks, in the order of preemption.
    pub preempted: Vec<RequestId>,
    /// What the workers are to read from outside, from now on and beside the steps.
    pub loads: Vec<KvLoad>,
    /// The sums over `entries`, kept while they come and go.
    shape: StepShape,
}

impl StepPlan {
    /// Whether nothing is computed.
    pub fn is_empty(&self) -> bool {
        self.shape.is_empty()
    }

    /// Sequences of the step.
    pub fn sequences(&self) -> u32 {
        self.shape.sequences()
    }

    /// Tokens of the step.
    pub fn tokens(&self) -> u32 {
        u32::try_from(self.shape.tokens()).expect("a step's tokens are counted by 32 bits")
    }

    /// The shape of the step, unpadded.
    pub fn shape(&self) -> StepShape {
        let mut shape = self.shape;
        shape.settle(0);
        shape
    }

    /// Sequences that sample an output token.
    pub fn sampled(&self) -> u32 {
        self.shape.sampled
    }

    pub(crate) fn push(&mut self, entry: Planned) {
        self.shape
            .add(entry.tokens, entry.computed_before, entry.samples);
        self.entries.push(entry);
    }

    /// Adds decodes that are not named, with `context` computed tokens together.
    pub(crate) fn push_decodes(&mut self, decodes: u32, context: u64) {
        self.shape.decodes += decodes;
        self.shape.decode_context += context + u64::from(decodes);
        self.shape.sampled += decodes;
    }

    /// Whether it is nothing but decodes that are not named.
    pub(crate) fn is_counted(&self) -> bool {
        self.entries.is_empty() && self.shape.decodes > 0
    }

    /// Takes a sequence out again, if it is in. All are named.
    pub(crate) fn withdraw(&mut self, slot: Slot) -> Option<Planned> {
        let place = self.entries.iter().position(|entry| entry.slot == slot)?;
        let withdrawn = self.entries.remove(place);
        self.shape = StepShape::default();
        for entry in &self.entries {
            self.shape
                .add(entry.tokens, entry.computed_before, entry.samples);
        }
        Some(withdrawn)
    }

    /// Forgets everything but the memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.admitted.clear();
        self.preempted.clear();
        self.loads.clear();
        self.shape = StepShape::default();
    }
}

//! The shape of one engine step: sums over its batch, never a list of its requests.

/// What one forward step computes, as sums that an engine can maintain incrementally.
///
/// A *decode* is a sequence with exactly one new token; everything else is a *prefill chunk* (also
/// the few tokens that a prefix hit leaves over).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StepShape {
    /// Sequences with exactly one new token.
    pub decodes: u32,
    /// Tokens that these sequences attend to, summed: past context plus the new token itself.
    pub decode_context: u64,
    /// Context tokens that a sequence reads after another one of the batch has: their KV blocks are
    /// shared (a common prefix), each counted once for every reader but the first. Constant over a
    /// run of decodes.
    pub shared_context: u64,
    /// Sequences with a chunk of two or more new tokens.
    pub prefills: u32,
    /// New tokens of the prefill chunks, summed.
    pub prefill_tokens: u64,
    /// Past tokens (already in the KV cache) of the prefill chunks, summed.
    pub prefill_context: u64,
    /// Causal query-key pairs of the prefill chunks: the sum of `new * past + new * (new + 1) / 2`.
    pub prefill_pairs: u64,
    /// Sequences that sample a token: rows of the LM head.
    pub sampled: u32,
    /// Rows that the linear layers run on: the batch's tokens, padded to a captured graph size.
    pub padded_tokens: u64,
    /// How the step is launched.
    pub graph: GraphMode,
}

/// How a step's kernels are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum GraphMode {
    /// One captured graph for the whole step (a uniform decode batch).
    #[default]
    Full,
    /// Captured graphs for all but attention (a mixed batch of a captured size).
    Piecewise,
    /// Every kernel launched from the host.
    Eager,
}

impl StepShape {
    /// `batch` decodes that attend to `context` tokens together, each its own row, all sampling.
    pub const fn decode(batch: u32, context: u64) -> Self {
        Self {
            decodes: batch,
            decode_context: context,
            shared_context: 0,
            prefills: 0,
            prefill_tokens: 0,
            prefill_context: 0,
            prefill_pairs: 0,
            sampled: batch,
            padded_tokens: batch as u64,
            graph: GraphMode::Full,
        }
    }

    /// One prefill chunk of `new` tokens behind `past` cached ones, at the end of its prompt.
    pub fn prefill(new: u32, past: u32) -> Self {
        let mut shape = Self::default();
        shape.add(new, past, true);
        shape.settle(0);
        shape
    }

    /// `chunks` equal chunks, as if one by one, whatever their length.
    pub(crate) fn chunks(chunks: u32, new: u32, past: u32) -> Self {
        let [count, new, past] = [chunks, new, past].map(u64::from);
        Self {
            prefills: chunks,
            prefill_tokens: count * new,
            prefill_context: count * past,
            prefill_pairs: count.saturating_mul(new * past + new * (new + 1) / 2),
            ..Self::default()
        }
    }

    /// Adds a sequence with `new` tokens behind `past` computed ones; `samples` if it reaches the
    /// end of its known tokens. Call [`settle`](Self::settle) when the batch is complete.
    #[inline]
    pub fn add(&mut self, new: u32, past: u32, samples: bool) {
        let (new, past) = (u64::from(new), u64::from(past));
        if new == 1 {
            self.decodes += 1;
            self.decode_context += past + 1;
        } else {
            self.prefills += 1;
            self.prefill_tokens += new;
            self.prefill_context += past;
            self.prefill_pairs += new * past + new * (new + 1) / 2;
        }
        self.sampled += u32::from(samples);
    }

    /// Completes the batch: rows padded to `padded` (or unpadded where that is less), launched as a
    /// full graph if every sequence is a decode, and eagerly otherwise. Engines that know their
    /// captured sizes overwrite [`graph`](Self::graph).
    #[inline]
    pub fn settle(&mut self, padded: u64) {
        self.padded_tokens = self.tokens().max(padded);
        self.graph = if self.prefills == 0 {
            GraphMode::Full
        } else {
            GraphMode::Eager
        };
    }

    /// New tokens of the step.
    #[inline]
    pub fn tokens(&self) -> u64 {
        u64::from(self.decodes) + self.prefill_tokens
    }

    /// Sequences of the step.
    #[inline]
    pub fn sequences(&self) -> u32 {
        self.decodes + self.prefills
    }

    /// The part of [`shared_context`](Self::shared_context) that decodes read: their share of the
    /// context, rounded down.
    #[inline]
    pub fn decode_shared(&self) -> u64 {
        if self.shared_context == 0 || self.prefill_context == 0 {
            return self.shared_context.min(self.decode_context);
        }
        self.decodes_part_of_shared()
    }

    // A long division, out of the way of the common cases.
    #[inline(never)]
    fn decodes_part_of_shared(&self) -> u64 {
        let context = self.decode_context.saturating_add(self.prefill_context);
        let shared = u128::from(self.shared_context.min(context));
        let decodes = shared * u128::from(self.decode_context) / u128::from(context);
        u64::try_from(decodes).unwrap_or(u64::MAX)
    }

    /// `true` if nothing is computed.
    pub fn is_empty(&self) -> bool {
        self.sequences() == 0
    }

    /// `true` if some sequences prefill while others decode.
    #[inline]
    pub fn is_mixed(&self) -> bool {
        self.decodes > 0 && self.prefills > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_new_token_is_a_decode_that_attends_to_itself() {
        let mut shape = StepShape::default();
        shape.add(1, 99, true);
        shape.settle(0);
        assert_eq!(shape, StepShape::decode(1, 100));
    }

    #[test]
    fn two_new_tokens_are_a_prefill_chunk() {
        let shape = StepShape::prefill(2, 10);
        assert_eq!(
            (shape.decodes, shape.prefills, shape.prefill_context),
            (0, 1, 10)
        );
        // The first token sees 11 tokens, the second 12.
        assert_eq!(shape.prefill_pairs, 23);
        assert_eq!(shape.graph, GraphMode::Eager);
    }

    #[test]
    fn a_mixed_batch_counts_both_kinds_and_pads_upwards_only() {
        let mut shape = StepShape::default();
        shape.add(100, 0, false);
        shape.add(1, 5, true);
        shape.settle(64);
        assert!(shape.is_mixed() && !shape.is_empty());
        assert_eq!(
            (shape.tokens(), shape.sequences(), shape.sampled),
            (101, 2, 1)
        );
        assert_eq!(shape.padded_tokens, 101);
        shape.settle(128);
        assert_eq!(shape.padded_tokens, 128);
    }
}

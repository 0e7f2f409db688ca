//! A request inside the engine: how far its tokens are known, computed and cached.

use foretoken_workload::{BlockHash, BlockHasher, FinishReason, Request};

use crate::connector::KvTransfer;
use crate::kv::BlockTable;

/// Place of a sequence in the scheduler's store; reused after its end.
pub(crate) type Slot = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    /// Waits with blocks that are being filled from outside (`WAITING_FOR_REMOTE_KVS`).
    Loading,
    /// The load has been reported; the next scan of the queue that reaches it goes on with it.
    Loaded,
    Running,
    Preempted,
}

/// "Prefill" and "decode" are not states. A sequence has a gap between what is known and what is
/// computed; a step closes part of it. A decode is the case of a gap of one token.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) request: Request,
    pub(crate) transfer: KvTransfer,
    pub(crate) status: Status,
    /// Output tokens that the scheduler knows.
    pub(crate) outputs: u32,
    /// Tokens whose KV exists or is being computed by a planned step.
    pub(crate) computed: u32,
    /// Output tokens that steps in flight will deliver.
    pub(crate) placeholders: u32,
    /// Output tokens of steps in flight that a reset of the prefix cache threw away.
    pub(crate) discarded: u32,
    pub(crate) table: BlockTable,
    /// Keys of the full blocks of known tokens, computed when they are needed.
    chain: Vec<BlockHash>,
    pub(crate) preemptions: u32,
    /// Tokens planned for it in the step being formed.
    pub(crate) planned: u32,
}

impl Sequence {
    pub(crate) fn new(request: Request, transfer: KvTransfer) -> Self {
        Self {
            request,
            transfer,
            status: Status::Waiting,
            outputs: 0,
            computed: 0,
            placeholders: 0,
            discarded: 0,
            table: BlockTable::default(),
            chain: Vec::new(),
            preemptions: 0,
            planned: 0,
        }
    }

    /// Prompt and output tokens that the scheduler knows.
    pub(crate) fn known(&self) -> u32 {
        self.request.prompt.tokens() + self.outputs
    }

    /// Known tokens and those that steps in flight will deliver.
    pub(crate) fn expected(&self) -> u32 {
        self.known() + self.placeholders
    }

    /// Whether the steps in flight are certain to reach `max_tokens`.
    pub(crate) fn ends_in_flight(&self) -> bool {
        self.placeholders > 0
            && self.computed + 2 - self.placeholders
                >= self
                    .request
                    .prompt
                    .tokens()
                    .saturating_add(self.request.max_tokens)
    }

    /// Whether it ends with the output token just appended, and how.
    pub(crate) fn end(&self, max_model_len: u32) -> Option<FinishReason> {
        if self.request.stop_after() == Some(self.outputs) {
            Some(FinishReason::Stop)
        } else if self.known() >= max_model_len || self.outputs >= self.request.max_tokens {
            Some(FinishReason::Length)
        } else {
            None
        }
    }

    /// Keys of the full blocks among its first `tokens` known tokens.
    pub(crate) fn chain(&mut self, tokens: u32, block_size: u32) -> &[BlockHash] {
        let blocks = (tokens / block_size) as usize;
        if self.chain.len() < blocks {
            // A salted chain starts from the hash of a hash, so that no salt equals "no salt".
            let root = BlockHash::root(
                self.request
                    .cache_salt
                    .map_or(0, |salt| BlockHash::root(salt).get()),
            );
            let hasher = BlockHasher::new(
                &self.request.prompt,
                self.request.output_content,
                block_size,
            );
            hasher.extend(root, tokens, &mut self.chain);
        }
        &self.chain[..blocks]
    }
}

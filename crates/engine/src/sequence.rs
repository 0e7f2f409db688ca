//! A request inside the engine: how far its tokens are known, computed and cached.

use foretoken_workload::{BlockHash, BlockHasher, FinishReason, Request, RequestId};

use crate::config::Scheduling;
use crate::connector::KvTransfer;
use crate::kv::{BlockTable, KvCache};
use crate::plan::Planned;
use crate::scheduler::steady::{Clock, LONGEST_TURN};

/// Place of a sequence in the scheduler's store; reused after its end.
pub(crate) type Slot = u32;

/// How far a sequence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Output tokens that the scheduler knows.
    pub(crate) outputs: u32,
    /// Tokens whose KV exists or is being computed by a planned step.
    pub(crate) computed: u32,
    /// Output tokens that steps in flight will deliver.
    pub(crate) placeholders: u32,
}

/// In place of the number of a step, for sequences that do not follow the clock.
pub(crate) const NEVER: u64 = u64::MAX;

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
///
/// What every step looks at is here, and what joining and leaving need besides is behind a pointer, so
/// that the steps of a large batch stay within the processor's nearest cache.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: RequestId,
    pub(crate) status: Status,
    prompt: u32,
    /// The output token that it ends with, counted from 1.
    last_output: u32,
    /// Tokens of its prompt and of the longest output that it was asked for.
    longest: u32,
    /// How far it is; without the steps that it takes by the clock, for a [steady](Self::is_steady) one.
    pub(crate) own: Progress,
    /// From this step on it takes part in every one, without being named; or [`NEVER`].
    pub(crate) since: u64,
    /// Whether its blocks are taken by the clock, too: its table is as of the step `since`.
    pub(crate) counted: bool,
    /// Its place in the order of admissions.
    pub(crate) seat: u64,
    /// Output tokens of steps in flight that a reset of the prefix cache threw away.
    pub(crate) discarded: u32,
    /// Below so many computed tokens a step of one token is a matter of counting: its block is there and
    /// does not become full, and no limit is reached.
    quiet_below: u32,
    /// From so many computed tokens on a limit may be reached.
    last_quiet: u32,
    pub(crate) table: BlockTable,
    pub(crate) origin: Box<Origin>,
}

/// What a sequence came with, and what it gathers outside the steps.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) request: Box<Request>,
    pub(crate) transfer: KvTransfer,
    pub(crate) preemptions: u32,
    /// Whether it belongs to the static batch that is served.
    pub(crate) in_batch: bool,
    /// Tokens that somebody may look for in the prefix cache: their blocks have keys.
    repeatable: u32,
    /// Keys of the full blocks of known tokens, computed when they are needed.
    chain: Vec<BlockHash>,
}

/// The memory of a sequence that has ended, for the next one.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    table: BlockTable,
    chain: Vec<BlockHash>,
}

impl Sequence {
    pub(crate) fn new(
        request: Box<Request>,
        transfer: KvTransfer,
        max_model_len: u32,
        Remains { table, chain }: Remains,
    ) -> Self {
        let prompt = request.prompt.tokens();
        let room = max_model_len.saturating_sub(prompt).max(1);
        Self {
            id: request.id,
            status: Status::Waiting,
            prompt,
            last_output: request.output_tokens().min(room),
            longest: prompt.saturating_add(request.max_tokens),
            own: Progress::default(),
            since: NEVER,
            counted: false,
            seat: 0,
            discarded: 0,
            quiet_below: 0,
            last_quiet: prompt
                .saturating_add(request.max_tokens)
                .min(max_model_len)
                .saturating_sub(1),
            table,
            origin: Box::new(Origin {
                repeatable: request.repeatable_tokens(),
                request,
                transfer,
                preemptions: 0,
                in_batch: false,
                chain,
            }),
        }
    }

    /// What is left of it when its blocks are released or held by others.
    pub(crate) fn into_remains(mut self) -> Remains {
        debug_assert!(self.table.is_empty(), "blocks outlive their sequence");
        let mut chain = core::mem::take(&mut self.origin.chain);
        chain.clear();
        Remains {
            table: self.table,
            chain,
        }
    }

    /// Whether it follows the clock: it takes one token in every step, which nobody writes down.
    pub(crate) fn is_steady(&self) -> bool {
        self.since != NEVER
    }

    /// How far it is.
    #[inline]
    pub(crate) fn progress(&self, clock: &Clock) -> Progress {
        if self.is_steady() {
            clock.progress(self.own, self.since)
        } else {
            self.own
        }
    }

    /// Prompt and output tokens that the scheduler knows, of one that is not steady.
    pub(crate) fn known(&self) -> u32 {
        self.prompt + self.own.outputs
    }

    /// Known tokens and those that steps in flight will deliver.
    fn expected(&self, at: Progress) -> u32 {
        self.prompt + at.outputs + at.placeholders
    }

    /// Tokens that a step could compute for it.
    pub(crate) fn due(&self, at: Progress, max_model_len: u32) -> u32 {
        // Whether the steps in flight are certain to reach `max_tokens`.
        if at.placeholders > 0 && at.computed + 2 - at.placeholders >= self.longest {
            return 0;
        }
        // The last position of max_model_len is never computed.
        let room = (max_model_len - 1).saturating_sub(at.computed);
        room.min(self.expected(at) - at.computed)
    }

    /// Whether it ends with its output token of this number, and how.
    pub(crate) fn end(&self, outputs: u32) -> Option<FinishReason> {
        if outputs < self.last_output {
            return None;
        }
        let stops = self.origin.request.stop_after() == Some(outputs);
        Some(if stops {
            FinishReason::Stop
        } else {
            FinishReason::Length
        })
    }

    /// How many tokens it gets after those of its own steps, until the last.
    pub(crate) fn outputs_left(&self, in_flight: u32) -> u32 {
        self.last_output
            .saturating_sub(self.own.outputs + in_flight)
    }

    /// Blocks that it lacks for `tokens` more tokens.
    pub(crate) fn lacks(&self, at: Progress, tokens: u32, kv: &KvCache) -> u32 {
        kv.wanted(&self.table, &[], at.computed + tokens)
    }

    /// Takes blocks for `tokens` more tokens, and makes the full ones findable.
    pub(crate) fn grow(
        &mut self,
        kv: &mut KvCache,
        at: Progress,
        tokens: u32,
        max_model_len: u32,
    ) -> bool {
        let end = at.computed + tokens;
        let grown = kv.allocate(&mut self.table, &[], end.min(max_model_len));
        if grown {
            // Only known tokens have keys.
            self.register(kv, end.min(self.prompt + at.outputs));
            self.quiet_below = kv.quiet_below(&self.table, 0).min(self.last_quiet);
        }
        grown
    }

    /// Whether a step would compute one token and do nothing else.
    pub(crate) fn is_quiet(&self) -> bool {
        let own = self.own;
        own.computed < self.quiet_below && own.computed + 1 == self.expected(own)
    }

    /// For how many steps of one token from `at` on there is nothing else to do, by the clock.
    pub(crate) fn quiet_for(&self, at: Progress, clock: &Clock, kv: &KvCache) -> u32 {
        // Asynchronously the token before the one being planned is never known, as the step that gives it
        // is in flight: a block becomes findable one step later than it becomes full.
        let lag = u32::from(clock.asynchronous);
        let until = kv.quiet_below(&self.table, lag).min(self.last_quiet);
        until.saturating_sub(at.computed)
    }

    /// In how many steps of one token from its own last one a limit may be reached.
    pub(crate) fn until_limit(&self) -> u32 {
        self.last_quiet.saturating_sub(self.own.computed)
    }

    /// In how many steps of one token from its own last one it takes a block, and then once a block, if
    /// that is all that its blocks need.
    pub(crate) fn until_block(&self, kv: &KvCache) -> Option<u32> {
        let left = self.table.room().checked_sub(self.own.computed)?;
        let counts = kv.only_counts(&self.table, self.origin.repeatable);
        let block_size = kv.block_size();
        (counts && left < block_size && block_size <= LONGEST_TURN).then_some(left)
    }

    /// Enters the blocks that were taken by the clock into its table.
    pub(crate) fn count_up(&mut self, at: Progress, clock: &Clock, kv: &KvCache) {
        if core::mem::take(&mut self.counted) && at.computed > self.own.computed {
            let lag = u32::from(clock.asynchronous);
            kv.count_up(&mut self.table, at.computed, at.computed - lag);
        }
    }

    /// From now on all its blocks get keys, be it only that it may look for them itself or that others
    /// are told of them.
    pub(crate) fn keep_keys(&mut self, kv: &mut KvCache) {
        if self.origin.repeatable < u32::MAX {
            self.origin.repeatable = u32::MAX;
            let chain = self.origin.chain(self.table.registered(), kv.block_size());
            kv.publish(&mut self.table, chain);
        }
    }

    /// Gives its blocks back, and what they held with them. It may find that again when it goes on.
    pub(crate) fn shrink(&mut self, kv: &mut KvCache) {
        self.keep_keys(kv);
        kv.release(&mut self.table);
        self.own.computed = 0;
        self.quiet_below = 0;
    }

    /// Goes on by `tokens` tokens: its part of a step.
    pub(crate) fn advance(&mut self, slot: Slot, tokens: u32, scheduling: Scheduling) -> Planned {
        let computed_before = self.own.computed;
        self.own.computed += tokens;
        let samples = self.own.computed == self.expected(self.own);
        self.own.placeholders += u32::from(samples && scheduling == Scheduling::Asynchronous);
        Planned {
            request: self.id,
            tokens,
            computed_before,
            samples,
            slot,
            seat: self.seat,
        }
    }

    /// Keys of the full blocks among its first `tokens` known tokens, as far as anybody may look for
    /// them.
    pub(crate) fn chain(&mut self, tokens: u32, block_size: u32) -> &[BlockHash] {
        self.origin.chain(tokens, block_size)
    }

    /// Makes full blocks of its first `tokens` tokens findable, all of which are known.
    #[inline]
    pub(crate) fn register(&mut self, kv: &mut KvCache, tokens: u32) {
        if kv.has_unregistered(&self.table, tokens) {
            self.table
                .reserve_keys(self.origin.most_keys(kv.block_size()));
            let chain = self.origin.chain(tokens, kv.block_size());
            kv.register(&mut self.table, chain, tokens);
        }
    }
}

impl Origin {
    /// How many blocks get keys at the most: their lists are as long as that at once, so that decoding
    /// allocates nothing.
    fn most_keys(&self, block_size: u32) -> usize {
        let request = &self.request;
        let tokens = request
            .prompt
            .tokens()
            .saturating_add(request.output_tokens());
        (tokens.min(self.repeatable) / block_size) as usize
    }

    fn chain(&mut self, tokens: u32, block_size: u32) -> &[BlockHash] {
        let tokens = tokens.min(self.repeatable);
        let blocks = (tokens / block_size) as usize;
        if self.chain.len() < blocks {
            if self.chain.is_empty() {
                self.chain.reserve_exact(self.most_keys(block_size));
            }
            // A salted chain starts from the hash of a hash, so that no salt equals "no salt".
            let salt = self.request.cache_salt;
            let root = BlockHash::root(salt.map_or(0, |salt| BlockHash::root(salt).get()));
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

//! Counting what nobody looks for gives what keys for all give.

use foretoken_workload::BlockHash;
use proptest::prelude::*;

use super::{BlockTable, KvCache, KvEvent, block_count};

const BLOCK_SIZE: u32 = 4;
const SEQUENCES: usize = 5;

/// What is done to one of a few sequences.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// It begins, with so many blocks that others have too and a prompt of so many tokens; or it goes on
    /// after a preemption.
    Begin {
        text: u64,
        shared: usize,
        prompt: u32,
    },
    /// It gets so many more tokens, if there are blocks for them.
    Grow {
        tokens: u32,
    },
    /// So many of its tokens, from the last, are not known yet; the others are registered.
    Register {
        unknown: u32,
    },
    Preempt,
    End,
    /// All keys are forgotten, if nothing is in use.
    Reset,
}

fn actions() -> impl Strategy<Value = Vec<(usize, Action)>> {
    let begin = (0_u64..2, 0_usize..4, 1_u32..20);
    let action = prop_oneof![
        6 => begin.prop_map(|(text, shared, prompt)| Action::Begin { text, shared, prompt }),
        6 => (1_u32..9).prop_map(|tokens| Action::Grow { tokens }),
        6 => (0_u32..6).prop_map(|unknown| Action::Register { unknown }),
        2 => Just(Action::Preempt),
        3 => Just(Action::End),
        1 => Just(Action::Reset),
    ];
    prop::collection::vec((0..SEQUENCES, action), 0..200)
}

/// A sequence, and its blocks in both caches.
#[derive(Debug, Default, Clone)]
struct Sequence {
    number: u64,
    text: u64,
    /// Blocks that others may have too; all after a preemption, as it may find its own.
    shared: usize,
    tokens: u32,
    running: bool,
    preempted: bool,
    keyed: BlockTable,
    counted: BlockTable,
}

impl Sequence {
    /// Keys of its first blocks; those behind the shared ones are its own.
    fn chain(&self, tokens: u32, own_from: usize) -> Vec<BlockHash> {
        let key = |block: u32| {
            let owner = if (block as usize) < own_from {
                self.text
            } else {
                10 + self.number
            };
            BlockHash::root(owner << 32 | u64::from(block))
        };
        (0..tokens / BLOCK_SIZE).map(key).collect()
    }
}

/// Two caches to which the same is done. In one all full blocks have keys, in the other only those that
/// somebody may look for.
struct Pair {
    keyed: KvCache,
    counted: KvCache,
    sequences: Vec<Sequence>,
    /// Blocks that others may have, of each sequence.
    own_from: Vec<usize>,
    made: u64,
    /// Keys that the second cache has known.
    known: Vec<BlockHash>,
}

impl Pair {
    fn new(usable: u32, caching: bool, uncached_first: bool) -> Self {
        let cache = || {
            let mut cache = KvCache::new(usable + 1, BLOCK_SIZE, caching, uncached_first);
            cache.record_events();
            cache
        };
        Self {
            keyed: cache(),
            counted: cache(),
            sequences: vec![Sequence::default(); SEQUENCES],
            own_from: vec![0; SEQUENCES],
            made: 0,
            known: Vec::new(),
        }
    }

    fn act(&mut self, index: usize, action: Action) -> Result<(), TestCaseError> {
        let (keyed, counted) = (&mut self.keyed, &mut self.counted);
        let sequence = &mut self.sequences[index];
        match action {
            Action::Begin {
                text,
                shared,
                prompt,
            } if !sequence.running => {
                if !sequence.preempted {
                    self.made += 1;
                    self.own_from[index] = shared;
                    sequence.number = self.made;
                    (sequence.text, sequence.shared) = (text, shared);
                    sequence.tokens = prompt;
                }
                let tokens = sequence.tokens;
                let chain = sequence.chain(tokens - 1, self.own_from[index]);
                let findable = chain.len().min(sequence.shared);
                let (mut all, mut few) = (Vec::new(), Vec::new());
                if keyed.caching() {
                    keyed.lookup(&chain, &mut all);
                    counted.lookup(&chain[..findable], &mut few);
                }
                prop_assert_eq!(all.len(), few.len());
                let (table, other) = (&mut sequence.keyed, &mut sequence.counted);
                prop_assert_eq!(
                    keyed.wanted(table, &all, tokens),
                    counted.wanted(other, &few, tokens)
                );
                let begins = keyed.allocate(table, &all, tokens);
                prop_assert_eq!(begins, counted.allocate(other, &few, tokens));
                sequence.running = begins;
            }
            Action::Grow { tokens } if sequence.running => {
                let end = sequence.tokens + tokens;
                let (table, other) = (&mut sequence.keyed, &mut sequence.counted);
                let grows = keyed.allocate(table, &[], end);
                prop_assert_eq!(grows, counted.allocate(other, &[], end));
                if grows {
                    sequence.tokens = end;
                }
            }
            Action::Register { unknown } if sequence.running => {
                let tokens = sequence.tokens.saturating_sub(unknown);
                let chain = sequence.chain(tokens, self.own_from[index]);
                let findable = chain.len().min(sequence.shared);
                let (table, other) = (&mut sequence.keyed, &mut sequence.counted);
                let due = keyed.has_unregistered(table, tokens);
                prop_assert_eq!(due, counted.has_unregistered(other, tokens));
                keyed.register(table, &chain, tokens);
                counted.register(other, &chain[..findable], tokens);
            }
            Action::Preempt if sequence.running => {
                let registered = sequence.counted.registered();
                let chain = sequence.chain(registered, self.own_from[index]);
                counted.publish(&mut sequence.counted, &chain);
                sequence.shared = usize::MAX;
                sequence.preempted = true;
                self.release(index);
            }
            Action::End => {
                sequence.preempted = false;
                self.release(index);
            }
            Action::Reset => prop_assert_eq!(keyed.forget_all(), counted.forget_all()),
            _ => {}
        }
        self.check()
    }

    fn release(&mut self, index: usize) {
        let sequence = &mut self.sequences[index];
        sequence.running = false;
        self.keyed.release(&mut sequence.keyed);
        self.counted.release(&mut sequence.counted);
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let (keyed, counted) = (&self.keyed, &self.counted);
        prop_assert_eq!(
            (keyed.free(), keyed.used()),
            (counted.free(), counted.used())
        );
        prop_assert_eq!(keyed.shared_tokens(), counted.shared_tokens());
        for sequence in &self.sequences {
            let (table, other) = (&sequence.keyed, &sequence.counted);
            prop_assert_eq!(
                (table.len(), table.is_empty()),
                (other.len(), other.is_empty())
            );
            prop_assert_eq!(table.registered(), other.registered());
            prop_assert_eq!(keyed.quiet_below(table, 0), counted.quiet_below(other, 0));
        }
        let distinct = KvCache::distinct(self.sequences.iter().map(|it| &it.keyed));
        prop_assert_eq!(
            distinct,
            KvCache::distinct(self.sequences.iter().map(|it| &it.counted))
        );
        prop_assert_eq!(distinct, keyed.used());
        let held: u64 = self
            .sequences
            .iter()
            .map(|it| u64::from(it.keyed.len()))
            .sum();
        prop_assert_eq!(
            u64::from(distinct) + keyed.shared_tokens() / u64::from(BLOCK_SIZE),
            held
        );
        self.check_evictions()
    }

    /// What has a key in both caches is evicted from both, in one order.
    fn check_evictions(&mut self) -> Result<(), TestCaseError> {
        let few: Vec<KvEvent> = self.counted.drain_events().collect();
        for event in &few {
            if let KvEvent::Stored { hash } = event {
                self.known.push(*hash);
            }
        }
        let evicted = |event: &KvEvent| match *event {
            KvEvent::Removed { hash } => self.known.contains(&hash),
            KvEvent::Cleared => true,
            KvEvent::Stored { .. } => false,
        };
        let all: Vec<KvEvent> = self.keyed.drain_events().filter(evicted).collect();
        let few: Vec<KvEvent> = few.into_iter().filter(evicted).collect();
        prop_assert_eq!(all, few);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_that_are_counted_come_and_go_as_blocks_with_keys_do(
        usable in 4_u32..24,
        (caching, uncached_first) in (any::<bool>(), any::<bool>()),
        actions in actions(),
    ) {
        let mut pair = Pair::new(usable, caching, uncached_first);
        for (index, action) in actions {
            pair.act(index, action)?;
        }
        for index in 0..SEQUENCES {
            pair.act(index, Action::End)?;
        }
        prop_assert_eq!(pair.counted.free(), usable);
        // Evicting everything shows the whole order of the queue.
        let (mut table, mut other) = (BlockTable::default(), BlockTable::default());
        for _ in 0..usable {
            let tokens = (table.len() + 1) * BLOCK_SIZE;
            prop_assert!(pair.keyed.allocate(&mut table, &[], tokens));
            prop_assert!(pair.counted.allocate(&mut other, &[], tokens));
            pair.check_evictions()?;
        }
        prop_assert_eq!(other.len(), block_count(usable as usize));
    }
}

//! [`Holders`]: which endpoints hold which blocks, where each endpoint forgets its oldest.

use foretoken_workload::BlockHash;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::approximate_prefix::Insertion;
use super::recency::{Recency, Slab};
use crate::view::EndpointId;

/// Blocks of all endpoints, so that a prompt is looked up for all of them in one walk.
///
/// A block's key stands for all blocks before it as well, so that blocks that came together stay
/// together: they are one *run*, found by its first block, until part of it is used or forgotten alone,
/// which splits it. A new prompt costs one entry, however long it is, and a prefix that all endpoints
/// share is walked once.
#[derive(Debug)]
pub(super) struct Holders {
    insertion: Insertion,
    /// Runs by their first blocks. Every block that anybody holds is in one run.
    heads: HashMap<BlockHash, u32, FxBuildHasher>,
    runs: Vec<Run>,
    free_runs: Vec<u32>,
    /// That an endpoint holds a run: the run's number.
    holdings: Slab<u32>,
    /// What each endpoint holds, by id.
    endpoints: Vec<Option<Remembered>>,
    /// The runs of the prompt in hand.
    path: Vec<u32>,
}

/// Blocks that follow each other in a prompt, and have the same holders.
#[derive(Debug)]
struct Run {
    /// The first block, once more: who lets go of a run needs no other.
    head: BlockHash,
    blocks: Vec<BlockHash>,
    /// By id, each with its holding.
    holders: SmallVec<[(EndpointId, u32); 1]>,
}

/// What an endpoint holds.
#[derive(Debug)]
struct Remembered {
    holdings: Recency,
    blocks: usize,
    capacity: usize,
}

impl Holders {
    pub(super) const fn new(insertion: Insertion) -> Self {
        Self {
            insertion,
            heads: HashMap::with_hasher(FxBuildHasher),
            runs: Vec::new(),
            free_runs: Vec::new(),
            holdings: Slab::new(),
            endpoints: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Walks `keys` up to the first that nobody holds, and tells for each holder how many of them it
    /// holds; an endpoint may be told several times.
    pub(super) fn count(&self, keys: &[BlockHash], mut tell: impl FnMut(EndpointId, u32)) {
        let mut rest = keys;
        while let Some(&run) = rest.first().and_then(|key| self.heads.get(key)) {
            let run = &self.runs[run as usize];
            let shared = common(&run.blocks, rest);
            let blocks = u32::try_from(shared).unwrap_or(u32::MAX);
            for &(endpoint, _) in &run.holders {
                tell(endpoint, blocks);
            }
            rest = &rest[shared..];
        }
    }

    /// From now on `endpoint` holds `keys`. `capacity`, in blocks, counts only for an endpoint of which
    /// nothing is remembered.
    pub(super) fn record(&mut self, endpoint: EndpointId, capacity: usize, keys: &[BlockHash]) {
        let mut path = core::mem::take(&mut self.path);
        self.find_path(keys, &mut path);
        let index = endpoint.index();
        if self.endpoints.len() <= index {
            self.endpoints.resize_with(index + 1, || None);
        }
        let remembered = self.endpoints[index].get_or_insert(Remembered {
            holdings: Recency::new(),
            blocks: 0,
            capacity,
        });
        let mut hold = |number: u32| {
            let run = &mut self.runs[number as usize];
            match run.find(endpoint) {
                Ok(place) => {
                    let (_, holding) = run.holders[place];
                    remembered.holdings.touch(&mut self.holdings, holding);
                }
                Err(place) => {
                    let holding = self.holdings.insert(number);
                    run.holders.insert(place, (endpoint, holding));
                    remembered.holdings.push(&mut self.holdings, holding);
                    remembered.blocks += run.blocks.len();
                }
            }
        };
        match self.insertion {
            Insertion::HeadFirst => path.drain(..).for_each(&mut hold),
            Insertion::TailFirst => path.drain(..).rev().for_each(&mut hold),
        }
        self.path = path;
        self.forget_oldest(endpoint);
    }

    /// The runs that `keys` consist of from now on.
    fn find_path(&mut self, keys: &[BlockHash], path: &mut Vec<u32>) {
        let mut rest = keys;
        while let Some(key) = rest.first() {
            let (run, length) = if let Some(&run) = self.heads.get(key) {
                let blocks = &self.runs[run as usize].blocks;
                let shared = common(blocks, rest);
                if shared < blocks.len() {
                    self.split(run, shared);
                }
                (run, shared)
            } else {
                // The head of a prompt may be forgotten where its tail is not.
                let known = |key: &BlockHash| self.heads.contains_key(key);
                let length = rest.iter().position(known).unwrap_or(rest.len());
                (self.add_run(&rest[..length]), length)
            };
            path.push(run);
            rest = &rest[length..];
        }
    }

    /// Forgets what is more than an endpoint's capacity.
    fn forget_oldest(&mut self, endpoint: EndpointId) {
        while let Some(remembered) = &mut self.endpoints[endpoint.index()] {
            let excess = remembered.blocks.saturating_sub(remembered.capacity);
            let oldest = remembered.holdings.oldest().filter(|_| excess > 0);
            let Some(oldest) = oldest else { return };
            let run = *self.holdings.get(oldest);
            let length = self.runs[run as usize].blocks.len();
            if length > excess {
                let kept_apart = match self.insertion {
                    Insertion::HeadFirst => excess,
                    Insertion::TailFirst => length - excess,
                };
                self.split(run, kept_apart);
            } else {
                remembered.blocks -= length;
                remembered.holdings.remove(&mut self.holdings, oldest);
                self.let_go(endpoint, oldest);
            }
        }
    }

    /// Forgets all that an endpoint holds.
    pub(super) fn clear(&mut self, endpoint: EndpointId) {
        let remembered = self.endpoints.get_mut(endpoint.index());
        let Some(mut remembered) = remembered.and_then(Option::take) else {
            return;
        };
        while let Some(holding) = remembered.holdings.pop(&mut self.holdings) {
            self.let_go(endpoint, holding);
        }
    }

    fn add_run(&mut self, blocks: &[BlockHash]) -> u32 {
        let head = blocks[0];
        let number = self.free_runs.pop().unwrap_or_else(|| {
            self.runs.push(Run {
                head,
                blocks: Vec::new(),
                holders: SmallVec::new(),
            });
            u32::try_from(self.runs.len() - 1)
                .expect("fewer than 2^32 prompts are remembered at a time")
        });
        let run = &mut self.runs[number as usize];
        run.head = head;
        run.blocks.extend_from_slice(blocks);
        self.heads.insert(head, number);
        number
    }

    /// Makes two of a run: what is before its block number `at` stays, the rest is a new run that was used
    /// right before or after it.
    fn split(&mut self, number: u32, at: usize) {
        let run = &mut self.runs[number as usize];
        let mut tail = core::mem::take(&mut run.blocks);
        let holders = run.holders.clone();
        let new = self.add_run(&tail[at..]);
        for (endpoint, holding) in holders {
            let Some(remembered) = &mut self.endpoints[endpoint.index()] else {
                continue;
            };
            let list = &mut remembered.holdings;
            let other = self.holdings.insert(new);
            // As if its blocks had entered one by one.
            match self.insertion {
                Insertion::HeadFirst => list.insert_after(&mut self.holdings, holding, other),
                Insertion::TailFirst => list.insert_before(&mut self.holdings, holding, other),
            }
            self.runs[new as usize].holders.push((endpoint, other));
        }
        tail.truncate(at);
        self.runs[number as usize].blocks = tail;
    }

    /// An endpoint does not hold a run any more; the holding is in no list.
    fn let_go(&mut self, endpoint: EndpointId, holding: u32) {
        let number = *self.holdings.get(holding);
        self.holdings.free(holding);
        let run = &mut self.runs[number as usize];
        if let Ok(place) = run.find(endpoint) {
            run.holders.remove(place);
        }
        if run.holders.is_empty() {
            self.heads.remove(&run.head);
            run.blocks.clear();
            self.free_runs.push(number);
        }
    }
}

impl Run {
    /// Where an endpoint stands among the holders, or would stand.
    fn find(&self, endpoint: EndpointId) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&endpoint, |&(id, _)| id)
    }
}

/// How many blocks two prompts share from the first on.
fn common(one: &[BlockHash], other: &[BlockHash]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

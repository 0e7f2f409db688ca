//! [`Sharing`]: how much of the prompts was there before.

use foretoken_des_kernel::Fingerprint;
use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use serde::Serialize;

use crate::prompt::{ContentId, Segment};
use crate::request::RequestId;
use crate::trace::row::{Prefix, Row};

/// Texts that are remembered at most; about 10 bytes for each block, 20 for each text of another kind.
const REMEMBERED: usize = 6 << 20;

/// What part of the prompts a cache that never forgets would find, rows taken in the order of the trace: an upper bound
/// of every real cache's hit rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sharing {
    /// Tokens of prompts that are the beginning of something said before, over all tokens of prompts. For groups
    /// this is a shared part, for sessions with history what was said in them.
    pub shared: f64,
    /// Rows of whose content the trace says something.
    pub known_rows: u64,
    /// Of these, the rows that begin as something before.
    pub sharing_rows: u64,
    /// What a cache would hold, in tokens of prompts that were new.
    pub new_tokens: u64,
    /// One in so many blocks was looked at: 1 is exact.
    pub one_in: u64,
    /// Whether texts other than blocks were too many to be remembered, so that `shared` is too low.
    pub forgets: bool,
}

/// What was said so far.
#[derive(Debug)]
pub(super) struct Memory {
    /// Chains of block ids, those that fall into the sample.
    blocks: HashSet<u64, FxBuildHasher>,
    /// How long each text was, by what stands in front of it.
    texts: HashMap<u64, u32, FxBuildHasher>,
    /// Of 2^64 chains, those below are looked at.
    sampled_below: u64,
    one_in: u64,
    forgets: bool,
    known: u64,
    sharing: u64,
    tokens: u128,
    shared: f64,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            blocks: HashSet::default(),
            texts: HashMap::default(),
            sampled_below: u64::MAX,
            one_in: 1,
            forgets: false,
            known: 0,
            sharing: 0,
            tokens: 0,
            shared: 0.0,
        }
    }

    /// Notes a row; `history` are the tokens said in its session before, answers included.
    pub(super) fn add(&mut self, row: &Row, history: u64) {
        self.tokens += u128::from(row.input_tokens);
        let mut root = Fingerprint::new();
        if let Some(model) = &row.model {
            root = root.with_str(model);
        }
        if let Some(salt) = row.cache_salt {
            root = root.with(1).with(salt);
        }
        let shared = match &row.prefix {
            Prefix::Unknown => return,
            Prefix::Blocks { ids, block_tokens } => {
                self.blocks(root, ids, *block_tokens, row.input_tokens)
            }
            Prefix::Group { group, tokens } => {
                let key = root.with(2).with_str(group).value();
                f64::from(self.known_part(key, *tokens))
            }
            Prefix::History => history as f64,
            Prefix::Segments(segments) => {
                let answer = answer(row);
                self.segments(root, segments.iter().copied(), answer)
            }
        };
        self.known += 1;
        self.sharing += u64::from(shared > 0.0);
        self.shared += shared.min(row.input_tokens as f64);
    }

    fn blocks(&mut self, root: Fingerprint, ids: &[u64], block_tokens: u32, input: u64) -> f64 {
        let mut chain = root;
        let (mut left, mut shared) = (input, 0.0);
        for &id in ids {
            let tokens = left.min(u64::from(block_tokens));
            left -= tokens;
            chain = chain.with(id);
            if chain.value() > self.sampled_below {
                continue;
            }
            if !self.blocks.insert(chain.value()) {
                shared += tokens as f64 * self.one_in as f64;
            } else if self.blocks.len() > REMEMBERED {
                // Half of them say nearly as much: chains are spread evenly.
                self.sampled_below /= 2;
                self.one_in *= 2;
                let below = self.sampled_below;
                self.blocks.retain(|&chain| chain <= below);
            }
        }
        shared
    }

    /// How much of a text of `tokens` tokens was there before; remembers the longest.
    fn known_part(&mut self, key: u64, tokens: u32) -> u32 {
        if let Some(longest) = self.texts.get_mut(&key) {
            let part = tokens.min(*longest);
            *longest = tokens.max(*longest);
            return part;
        }
        if self.texts.len() < REMEMBERED / 2 {
            self.texts.insert(key, tokens);
        } else {
            self.forgets = true;
        }
        0
    }

    /// Segments of a prompt, and behind it the answer, which later prompts may begin with.
    fn segments(
        &mut self,
        root: Fingerprint,
        prompt: impl Iterator<Item = Segment>,
        answer: Option<Segment>,
    ) -> f64 {
        let (mut chain, mut shared, mut all_shared) = (root.with(3), 0.0, true);
        let mut parts = prompt
            .map(|part| (part, 1.0))
            .chain(answer.map(|part| (part, 0.0)))
            .peekable();
        while let Some((mut part, counts)) = parts.next() {
            // Pieces that follow each other in one text are one piece, however it was cut.
            while let Some(&(next, _)) = parts.peek()
                && next.content == part.content
                && Some(next.offset) == part.offset.checked_add(part.len)
            {
                part.len = part.len.saturating_add(next.len);
                parts.next();
            }
            let key = chain.with(part.content.get()).with(u64::from(part.offset));
            let known = self.known_part(key.value(), part.len);
            if all_shared {
                shared += f64::from(known) * counts;
            }
            all_shared &= known == part.len;
            chain = key.with(u64::from(part.len));
        }
        shared
    }

    pub(super) fn finish(&self) -> Option<Sharing> {
        let tokens = self.tokens as f64;
        (self.known > 0 && tokens > 0.0).then(|| Sharing {
            shared: (self.shared / tokens).min(1.0),
            known_rows: self.known,
            sharing_rows: self.sharing,
            new_tokens: crate::quantity::round_u64(tokens - self.shared),
            one_in: self.one_in,
            forgets: self.forgets,
        })
    }
}

/// The answer as content that later prompts name, for rows that were requests of this crate.
fn answer(row: &Row) -> Option<Segment> {
    let id = row.id.as_ref()?.parse().ok()?;
    let tokens = u32::try_from(row.output_tokens).ok()?;
    Some(Segment::new(
        ContentId::output_of(RequestId::new(id)),
        tokens,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::row::Place;

    fn shared(prefixes: impl IntoIterator<Item = (u64, Prefix)>) -> f64 {
        let mut memory = Memory::new();
        for (line, (input, prefix)) in (0..).zip(prefixes) {
            let mut row = Row::new(Place::Line(line), input, 10);
            row.prefix = prefix;
            memory.add(&row, 0);
        }
        memory.finish().map_or(-1.0, |sharing| sharing.shared)
    }

    fn assert_shared(seen: f64, expected: f64) {
        assert!((seen - expected).abs() < 1e-12, "{seen} is not {expected}");
    }

    #[test]
    fn blocks_are_shared_up_to_the_first_that_differs() {
        let blocks = |ids: &[u64]| Prefix::Blocks {
            ids: ids.to_vec(),
            block_tokens: 100,
        };
        // The third row's second block has the id of another block, behind another first one.
        let rows = [
            (250, blocks(&[1, 2, 3])),
            (220, blocks(&[1, 2, 9])),
            (200, blocks(&[7, 2])),
        ];
        assert_shared(shared(rows), 200.0 / 670.0);
        // A last block that is the same is as long as the prompt says.
        assert_shared(
            shared([(150, blocks(&[1, 2])), (150, blocks(&[1, 2]))]),
            0.5,
        );
    }

    #[test]
    fn a_group_shares_the_shorter_of_two_parts() {
        let group = |tokens| Prefix::Group {
            group: "a".into(),
            tokens,
        };
        assert_shared(
            shared([(100, group(40)), (100, group(60)), (100, group(50))]),
            90.0 / 300.0,
        );
    }

    #[test]
    fn segments_share_however_they_were_cut() {
        let text = |number, offset, len| Segment {
            content: ContentId::new(number),
            offset,
            len,
        };
        let rows = [
            (110, vec![text(1, 0, 100), text(2, 0, 10)]),
            (110, vec![text(1, 0, 60), text(1, 60, 40), text(3, 0, 10)]),
            (60, vec![text(1, 0, 50), text(2, 0, 10)]),
        ];
        let rows = rows.map(|(input, segments)| (input, Prefix::Segments(segments)));
        assert_shared(shared(rows), 150.0 / 280.0);
    }

    #[test]
    fn adapters_share_nothing() {
        let mut memory = Memory::new();
        for model in ["a", "b"] {
            let mut row = Row::new(Place::Line(1), 50, 1);
            row.model = Some(model.into());
            row.prefix = Prefix::Blocks {
                ids: vec![1],
                block_tokens: 50,
            };
            memory.add(&row, 0);
        }
        assert_shared(memory.finish().map_or(-1.0, |sharing| sharing.shared), 0.0);
    }

    #[test]
    fn a_trace_that_says_nothing_of_content_has_no_sharing() {
        assert_shared(shared([(5, Prefix::Unknown)]), -1.0);
    }
}

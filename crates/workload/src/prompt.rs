//! Prompt content as identity: which tokens are equal, without any token.
//!
//! A prompt is a concatenation of [`Segment`]s; a segment `(content, offset, len)` stands for the
//! tokens `(content, offset)`, `(content, offset + 1)`, and so on. Two tokens are equal if and only
//! if content and index are equal. Prefix sharing is therefore exact, and hashing a prompt costs
//! O(blocks + segments) instead of O(tokens).

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::request::RequestId;

/// Identity of a text: a system prompt, a question, the output of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(u64);

impl ContentId {
    const OUTPUT: u64 = 1 << 63;

    /// Text number `id`, from a namespace of 2^63 numbers that never meets the outputs'.
    ///
    /// # Panics
    /// If `id` is 2^63 or more.
    pub const fn new(id: u64) -> Self {
        assert!(id < Self::OUTPUT, "content ids are below 2^63");
        Self(id)
    }

    /// The text that request `id` generates.
    pub const fn output_of(id: RequestId) -> Self {
        Self(Self::OUTPUT | id.get() as u64)
    }

    /// Text number `number` (below 2^40) of source number `source`: sources of one run that number
    /// their texts alike share none. Source 0 has the ids that [`ContentId::new`] gives.
    ///
    /// # Panics
    /// If `number` is 2^40 or more.
    pub const fn of_source(source: u16, number: u64) -> Self {
        assert!(number >> 40 == 0, "a source numbers its texts below 2^40");
        // A u16 widens losslessly; `From` is not const.
        Self((source as u64) << 40 | number)
    }

    /// Text number `text` (below 2^20) of session number `session` (below 2^26) of source number `source`;
    /// never one of [`ContentId::of_source`].
    ///
    /// # Panics
    /// If `session` or `text` is out of range.
    pub const fn of_session(source: u16, session: u32, text: u32) -> Self {
        assert!(
            session >> 26 == 0,
            "a source numbers its sessions below 2^26"
        );
        assert!(text >> 20 == 0, "a session numbers its texts below 2^20");
        let number = (session as u64) << 20 | text as u64;
        Self(1 << 62 | (source as u64) << 46 | number)
    }

    /// The request that generates this text, if it is an output.
    pub const fn as_output(self) -> Option<RequestId> {
        if self.0 & Self::OUTPUT == 0 {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "outputs are numbered by 32 bits"
        )]
        Some(RequestId::new(self.0 as u32))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// `len` consecutive tokens of a text, from its token number `offset` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The text.
    pub content: ContentId,
    /// First token taken from it.
    pub offset: u32,
    /// Number of tokens taken.
    pub len: u32,
}

impl Segment {
    /// The first `len` tokens of a text.
    pub const fn new(content: ContentId, len: u32) -> Self {
        Self {
            content,
            offset: 0,
            len,
        }
    }

    /// A hash that goes on with these tokens.
    const fn absorbed(self, hash: u64) -> u64 {
        let place = (self.offset as u64) << 32 | self.len as u64;
        mix(mix(hash ^ self.content.get()) ^ place)
    }
}

/// A prompt that cannot exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// No tokens.
    #[error("prompt has 0 tokens: at least 1 is needed")]
    Empty,
    /// More tokens than 32 bits count.
    #[error("prompt has more than {max} tokens", max = u32::MAX)]
    TooLong,
}

/// A prompt: segments in order, never empty. Cloning shares the segments.
///
/// ```
/// use foretoken_workload::{ContentId, Prompt, Segment};
///
/// let system = Segment::new(ContentId::new(0), 100);
/// let question = Segment::new(ContentId::new(1), 447);
/// let prompt = Prompt::new([system, question])?;
/// assert_eq!(prompt.tokens(), 547);
/// # Ok::<(), foretoken_workload::PromptError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    segments: Arc<Shared>,
    tokens: u32,
}

/// What the clones of a prompt share.
struct Shared {
    segments: SmallVec<[Segment; 3]>,
    hashes: Kept,
}

/// The hashes of a prompt's full blocks, from the second time on that somebody asks for them: of prompts
/// that are sent again and again.
#[derive(Default)]
struct Kept {
    asked: AtomicBool,
    /// For blocks of one length.
    hashes: OnceLock<(u32, Box<[BlockHash]>)>,
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for Shared {}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.fmt(f)
    }
}

impl Prompt {
    /// The concatenation of `segments`; empty ones are dropped.
    ///
    /// # Errors
    /// [`PromptError`] if there is no token or if they are too many.
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Result<Self, PromptError> {
        let segments = segments.into_iter().filter(|segment| segment.len > 0);
        Self::of_filled(segments.collect())
    }

    /// The concatenation of `segments`, none of which is empty.
    pub(crate) fn of_filled(segments: SmallVec<[Segment; 3]>) -> Result<Self, PromptError> {
        let tokens = segments
            .iter()
            .try_fold(0_u32, |sum, segment| {
                segment.offset.checked_add(segment.len)?;
                sum.checked_add(segment.len)
            })
            .ok_or(PromptError::TooLong)?;
        if tokens == 0 {
            Err(PromptError::Empty)
        } else {
            let hashes = Kept::default();
            let segments = Arc::new(Shared { segments, hashes });
            Ok(Self { segments, tokens })
        }
    }

    /// Number of tokens, at least 1.
    pub const fn tokens(&self) -> u32 {
        self.tokens
    }

    /// The segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments.segments
    }

    /// The hashes of its full blocks, if the prompt keeps them, in a chain without salt.
    fn kept(&self, block_size: u32) -> Option<&[BlockHash]> {
        let kept = &self.segments.hashes;
        if kept.hashes.get().is_none() && !kept.asked.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (of, hashes) = kept.hashes.get_or_init(|| {
            let mut chain = Vec::with_capacity((self.tokens / block_size) as usize);
            // No full block reaches beyond the prompt, so that what follows it does not matter.
            let hasher = BlockHasher::new(self, ContentId(0), block_size);
            hasher.compute(UNSALTED, self.tokens, &mut chain);
            (block_size, chain.into())
        });
        (*of == block_size).then_some(hashes)
    }

    /// Appends the hashes of all its blocks of `block_size` tokens to `chain`, that of a last partial
    /// one included; `root` starts the chain. Those of full blocks are what [`BlockHasher`] gives.
    ///
    /// # Panics
    /// If `block_size` is zero.
    pub fn hash_blocks(&self, root: BlockHash, block_size: u32, chain: &mut Vec<BlockHash>) {
        // No block reaches beyond the prompt, so that what follows it does not matter.
        let hasher = BlockHasher::new(self, ContentId(0), block_size);
        let mut cursor = Cursor::default();
        let mut previous = root;
        let mut start = 0;
        while start < self.tokens {
            let end = self.tokens.min(start.saturating_add(block_size));
            previous = hasher.hash(&mut cursor, previous, start..end);
            chain.push(previous);
            start = end;
        }
    }
}

/// Identity of a full KV block: of its tokens and of everything before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(u64);

impl BlockHash {
    /// The root of a chain; `salt` separates chains that must never share (vLLM's `cache_salt`,
    /// adapters).
    pub const fn root(salt: u64) -> Self {
        Self(mix(salt ^ 0x5851_f42d_4c95_7f2d))
    }

    /// The 64 bits.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The root of chains without salt.
const UNSALTED: BlockHash = BlockHash::root(0);

/// A strong 64-bit mixer (the finaliser of `SplitMix64`).
const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The tokens of a request, prompt and output, cut into blocks.
///
/// Block hashes are chained: each depends on the one before and on the tokens of the block, however
/// these were cut into segments.
#[derive(Debug, Clone, Copy)]
pub struct BlockHasher<'a> {
    prompt: &'a Prompt,
    segments: &'a [Segment],
    prompt_tokens: u32,
    output: ContentId,
    block_size: u32,
}

impl<'a> BlockHasher<'a> {
    /// Cuts `prompt`, followed by the text `output`, into blocks of `block_size` tokens.
    ///
    /// # Panics
    /// If `block_size` is zero.
    pub fn new(prompt: &'a Prompt, output: ContentId, block_size: u32) -> Self {
        assert!(block_size > 0, "a block holds at least one token");
        Self {
            prompt,
            segments: prompt.segments(),
            prompt_tokens: prompt.tokens(),
            output,
            block_size,
        }
    }

    /// Hash of block `index`, which follows the block hashed as `previous` (or the root).
    ///
    /// # Panics
    /// If the block ends beyond token 2^32.
    pub fn block(&self, previous: BlockHash, index: u32) -> BlockHash {
        self.block_from(&mut Cursor::default(), previous, index)
    }

    /// Appends the hashes of the full blocks among the first `tokens` tokens to `chain`, which holds
    /// those of the first blocks already; `root` starts the chain.
    pub fn extend(&self, root: BlockHash, tokens: u32, chain: &mut Vec<BlockHash>) {
        if chain.is_empty()
            && root == UNSALTED
            && let Some(kept) = self.prompt.kept(self.block_size)
        {
            let full = tokens.min(self.prompt_tokens) / self.block_size;
            chain.extend_from_slice(&kept[..full as usize]);
        }
        self.compute(root, tokens, chain);
    }

    fn compute(&self, root: BlockHash, tokens: u32, chain: &mut Vec<BlockHash>) {
        let mut cursor = Cursor::default();
        // A chain of more blocks than 32 bits count has nothing to be extended by.
        let first = u32::try_from(chain.len()).unwrap_or(u32::MAX);
        for index in first..tokens / self.block_size {
            let previous = chain.last().copied().unwrap_or(root);
            chain.push(self.block_from(&mut cursor, previous, index));
        }
    }

    /// Hash of a block that does not begin before `cursor`.
    fn block_from(&self, cursor: &mut Cursor, previous: BlockHash, index: u32) -> BlockHash {
        let start = index * self.block_size;
        self.hash(cursor, previous, start..start + self.block_size)
    }

    /// Hash of the tokens in `range`, which does not begin before `cursor`.
    #[inline]
    fn hash(&self, cursor: &mut Cursor, previous: BlockHash, range: Range<u32>) -> BlockHash {
        match self.single(cursor, &range) {
            Some(piece) => BlockHash(mix(piece.absorbed(previous.0))),
            None => self.hash_pieces(cursor, previous, range),
        }
    }

    /// The same where the range may hold parts of several texts.
    #[inline(never)]
    fn hash_pieces(
        &self,
        cursor: &mut Cursor,
        previous: BlockHash,
        range: Range<u32>,
    ) -> BlockHash {
        let mut hash = previous.0;
        let mut open: Option<Segment> = None;
        // Pieces that continue each other are hashed as one: how a text was cut must not matter.
        self.pieces(cursor, range, |piece| match &mut open {
            Some(last)
                if last.content == piece.content && last.offset + last.len == piece.offset =>
            {
                last.len += piece.len;
            }
            other => {
                if let Some(last) = other.replace(piece) {
                    hash = last.absorbed(hash);
                }
            }
        });
        if let Some(last) = open {
            hash = last.absorbed(hash);
        }
        BlockHash(mix(hash))
    }

    /// The tokens in `range`, if they lie in the segment at `cursor` or all in the output: most do.
    #[inline]
    fn single(&self, cursor: &Cursor, range: &Range<u32>) -> Option<Segment> {
        let (text, start) = if range.start >= self.prompt_tokens {
            (Segment::new(self.output, u32::MAX), self.prompt_tokens)
        } else {
            (*self.segments.get(cursor.segment)?, cursor.start)
        };
        let from = range.start.checked_sub(start)?;
        let len = range.end - range.start;
        (range.end - start <= text.len).then_some(Segment {
            content: text.content,
            offset: text.offset + from,
            len,
        })
    }

    /// Calls `visit` for the pieces of segments inside `range`, in order, and leaves `cursor` at the
    /// segment that holds the end of the range.
    fn pieces(&self, cursor: &mut Cursor, range: Range<u32>, mut visit: impl FnMut(Segment)) {
        while let Some(segment) = self.segments.get(cursor.segment) {
            let end = cursor.start + segment.len;
            let from = range.start.max(cursor.start);
            let to = range.end.min(end);
            if from < to {
                let offset = segment.offset + (from - cursor.start);
                visit(Segment {
                    content: segment.content,
                    offset,
                    len: to - from,
                });
            }
            if end >= range.end {
                return;
            }
            *cursor = Cursor {
                segment: cursor.segment + 1,
                start: end,
            };
        }
        let from = range.start.max(self.prompt_tokens);
        if from >= range.end {
            return;
        }
        visit(Segment {
            content: self.output,
            offset: from - self.prompt_tokens,
            len: range.end - from,
        });
    }
}

/// A segment and its first token's place in the prompt.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    segment: usize,
    start: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: ContentId = ContentId::output_of(RequestId::new(0));

    fn prompt(segments: &[(u64, u32, u32)]) -> Prompt {
        let segment = |&(content, offset, len)| Segment {
            content: ContentId::new(content),
            offset,
            len,
        };
        Prompt::new(segments.iter().map(segment)).expect("tests have prompts")
    }

    fn chain(prompt: &Prompt, tokens: u32, block_size: u32) -> Vec<BlockHash> {
        let mut chain = Vec::new();
        let hasher = BlockHasher::new(prompt, OUTPUT, block_size);
        hasher.extend(BlockHash::root(0), tokens, &mut chain);
        chain
    }

    #[test]
    fn hashes_that_are_kept_are_those_that_are_computed() {
        let prompt = prompt(&[(1, 0, 21), (2, 5, 30)]);
        let chain = |prompt: &Prompt, root: BlockHash, block_size: u32, tokens: u32| {
            let mut chain = Vec::new();
            BlockHasher::new(prompt, OUTPUT, block_size).extend(root, tokens, &mut chain);
            chain
        };
        for (root, block_size) in [(UNSALTED, 8), (UNSALTED, 5), (BlockHash::root(3), 8)] {
            for tokens in [0, 20, 51, 70] {
                let fresh = Prompt::new(prompt.segments().iter().copied()).expect("it has tokens");
                let expected = chain(&fresh, root, block_size, tokens);
                for _ in 0..3 {
                    assert_eq!(chain(&prompt.clone(), root, block_size, tokens), expected);
                }
            }
        }
    }

    #[test]
    fn a_prompt_has_between_one_token_and_what_32_bits_count() {
        let text = |offset, len| Segment {
            content: ContentId::new(0),
            offset,
            len,
        };
        assert_eq!(Prompt::new([]), Err(PromptError::Empty));
        assert_eq!(Prompt::new([text(5, 0)]), Err(PromptError::Empty));
        assert_eq!(
            Prompt::new([text(0, u32::MAX), text(0, 1)]),
            Err(PromptError::TooLong)
        );
        assert_eq!(Prompt::new([text(u32::MAX, 1)]), Err(PromptError::TooLong));
        let longest = Prompt::new([text(0, u32::MAX)]).expect("as long as can be counted");
        assert_eq!(longest.tokens(), u32::MAX);
    }

    #[test]
    fn empty_segments_are_dropped() {
        assert_eq!(prompt(&[(0, 0, 5), (1, 3, 0)]), prompt(&[(0, 0, 5)]));
    }

    #[test]
    fn content_ids_keep_their_namespaces_apart() {
        let request = RequestId::new(u32::MAX);
        assert_eq!(ContentId::output_of(request).as_output(), Some(request));
        assert_eq!(
            ContentId::of_source(u16::MAX, (1 << 40) - 1).as_output(),
            None
        );
        assert_ne!(ContentId::of_source(0, 9), ContentId::of_source(1, 9));
        assert_eq!(ContentId::of_source(0, 9), ContentId::new(9));
        let last = ContentId::of_session(u16::MAX, (1 << 26) - 1, (1 << 20) - 1);
        assert_eq!(last.as_output(), None);
        assert!(ContentId::of_source(u16::MAX, (1 << 40) - 1) < ContentId::of_session(0, 0, 0));
        assert_ne!(
            ContentId::of_session(0, 1, 0),
            ContentId::of_session(1, 0, 0)
        );
    }

    #[test]
    fn only_full_blocks_are_hashed() {
        let prompt = prompt(&[(0, 0, 47)]);
        assert_eq!(chain(&prompt, 47, 16).len(), 2);
        assert_eq!(chain(&prompt, 48, 16).len(), 3);
        assert_eq!(chain(&prompt, 15, 16).len(), 0);
    }

    #[test]
    fn what_follows_the_prompt_is_its_output() {
        let asked = prompt(&[(0, 0, 10)]);
        let quoted = Prompt::new([
            Segment::new(ContentId::new(0), 10),
            Segment::new(OUTPUT, 22),
        ]);
        let quoted = quoted.expect("32 tokens");
        assert_eq!(chain(&asked, 32, 16), chain(&quoted, 32, 16));
    }

    #[test]
    fn all_blocks_of_a_prompt_are_its_full_blocks_and_the_rest() {
        let all = |tokens: u32, block_size| {
            let mut chain = Vec::new();
            prompt(&[(0, 0, 10), (1, 0, tokens - 10)]).hash_blocks(
                BlockHash::root(0),
                block_size,
                &mut chain,
            );
            chain
        };
        let full = chain(&prompt(&[(0, 0, 10), (1, 0, 120)]), 130, 64);
        assert_eq!(all(130, 64)[..2], full);
        assert_eq!((all(130, 64).len(), all(128, 64).len()), (3, 2));
        assert_eq!(all(128, 64), full);
        assert_ne!(all(129, 64)[2], all(130, 64)[2]);
    }

    #[test]
    fn a_salt_separates_equal_prompts() {
        let prompt = prompt(&[(0, 0, 16)]);
        let hasher = BlockHasher::new(&prompt, OUTPUT, 16);
        let [plain, salted] = [0, 1].map(|salt| hasher.block(BlockHash::root(salt), 0));
        assert_ne!(plain, salted);
    }

    #[test]
    fn hashes_are_the_same_in_every_build() {
        let chain = chain(&prompt(&[(3, 0, 20), (4, 8, 12)]), 32, 16);
        assert_eq!(
            chain.iter().map(|hash| hash.get()).collect::<Vec<_>>(),
            [815_633_334_022_010_665, 16_100_445_684_043_443_025]
        );
    }
}

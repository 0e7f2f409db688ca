//! Block hashes stand for tokens.

use foretoken_workload::{BlockHash, BlockHasher, ContentId, Prompt, RequestId, Segment};
use proptest::prelude::*;

const OUTPUT: ContentId = ContentId::output_of(RequestId::new(9));

/// Segments of few texts at few places, so that equal tokens are common.
fn segments() -> impl Strategy<Value = Vec<Segment>> {
    let segment = (0_u64..3, 0_u32..6, 1_u32..12).prop_map(|(content, offset, len)| Segment {
        content: ContentId::new(content),
        offset,
        len,
    });
    prop::collection::vec(segment, 1..6)
}

/// The tokens that a prompt stands for, followed by `output` tokens of output.
fn tokens(prompt: &Prompt, output: u32) -> Vec<(ContentId, u32)> {
    let written = prompt
        .segments()
        .iter()
        .copied()
        .chain([Segment::new(OUTPUT, output)]);
    written
        .flat_map(|segment| (0..segment.len).map(move |i| (segment.content, segment.offset + i)))
        .collect()
}

fn chain(prompt: &Prompt, output: u32, block_size: u32) -> Vec<BlockHash> {
    let mut chain = Vec::new();
    let hasher = BlockHasher::new(prompt, OUTPUT, block_size);
    hasher.extend(BlockHash::root(0), prompt.tokens() + output, &mut chain);
    chain
}

proptest! {
    #[test]
    fn blocks_have_equal_hashes_exactly_if_all_tokens_up_to_them_are_equal(
        first in segments(), second in segments(), shared in segments(),
        output in 0_u32..20, block_size in 1_u32..9,
    ) {
        // A common start makes equal prefixes likely; the rest makes the prompts differ.
        let [first, second] = [first, second].map(|rest| {
            Prompt::new(shared.iter().copied().chain(rest)).expect("at least one token")
        });
        let [one, other] = [&first, &second].map(|prompt| tokens(prompt, output));
        let chains = [&first, &second].map(|prompt| chain(prompt, output, block_size));
        for (index, (left, right)) in chains[0].iter().zip(&chains[1]).enumerate() {
            let end = (index + 1) * block_size as usize;
            prop_assert_eq!(left == right, one[..end] == other[..end], "block {}", index);
        }
    }

    #[test]
    fn hashes_do_not_depend_on_how_the_text_was_cut(
        whole in segments(), cuts in prop::collection::vec(0_u32..12, 6),
        output in 0_u32..20, block_size in 1_u32..9,
    ) {
        let pieces = whole.iter().zip(&cuts).flat_map(|(segment, cut)| {
            let cut = (*cut).min(segment.len);
            let rest = Segment { offset: segment.offset + cut, len: segment.len - cut, ..*segment };
            [Segment { len: cut, ..*segment }, rest]
        });
        let cut = Prompt::new(pieces).expect("as many tokens as the whole");
        let whole = Prompt::new(whole.iter().copied()).expect("at least one token");
        prop_assert_eq!(chain(&whole, output, block_size), chain(&cut, output, block_size));
    }

    #[test]
    fn a_chain_grows_block_by_block(
        segments in segments(), known in 0_u32..60, output in 0_u32..20, block_size in 1_u32..9,
    ) {
        let prompt = Prompt::new(segments).expect("at least one token");
        let hasher = BlockHasher::new(&prompt, OUTPUT, block_size);
        let all = prompt.tokens() + output;
        let mut grown = Vec::new();
        hasher.extend(BlockHash::root(7), known.min(all), &mut grown);
        hasher.extend(BlockHash::root(7), all, &mut grown);
        let mut previous = BlockHash::root(7);
        let single: Vec<_> = (0..all / block_size)
            .map(|index| {
                previous = hasher.block(previous, index);
                previous
            })
            .collect();
        prop_assert_eq!(grown, single);
    }
}

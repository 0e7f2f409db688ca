//! [`Chain`]: the block keys of the prompt in hand.

use foretoken_workload::{BlockHash, Prompt, RequestView};

/// Keys of a prompt's blocks, kept from a decision to its effect.
#[derive(Debug, Default)]
pub(super) struct Chain {
    keys: Vec<BlockHash>,
    /// Which prompt it is, cut into blocks of which length, from which root.
    of: Option<(Prompt, u32, BlockHash)>,
}

impl Chain {
    pub(super) fn keys(&self) -> &[BlockHash] {
        &self.keys
    }

    /// Has the keys of this request's prompt made, unless they are here.
    pub(super) fn of(
        &mut self,
        request: &RequestView<'_>,
        block_size: u32,
        make: impl FnOnce(BlockHash, &mut Vec<BlockHash>),
    ) {
        let root = request.cache_root();
        let here = |(prompt, size, from): &(Prompt, u32, BlockHash)| {
            (prompt, *size, *from) == (request.prompt, block_size, root)
        };
        if self.of.as_ref().is_some_and(here) {
            return;
        }
        self.of = Some((request.prompt.clone(), block_size, root));
        self.keys.clear();
        make(root, &mut self.keys);
    }
}

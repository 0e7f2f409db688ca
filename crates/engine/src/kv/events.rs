//! [`KvEvent`]: what the prefix cache tells those who keep an index of it.

use foretoken_workload::BlockHash;

/// A change of what the prefix cache can find, as vLLM publishes it (`BlockStored`, `BlockRemoved`,
/// `AllBlocksCleared`).
///
/// Two blocks may hold the same content ([`KvCache`](super::KvCache) does not merge them). Then each
/// is stored and each is removed, with the same hash: who follows the events counts, or takes the
/// content for lost when its first copy goes, as an index without counts does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvEvent {
    /// A block became findable. vLLM registers a block in the plan of the step that computes its last
    /// token, or when its load from outside is noticed.
    ///
    /// vLLM puts consecutive blocks of one request into one message; here each has its own event.
    Stored {
        /// Key of its content, and of all content before it.
        hash: BlockHash,
    },
    /// A findable block was taken for new content.
    Removed {
        /// Key of its former content.
        hash: BlockHash,
    },
    /// All keys were forgotten by a reset of the prefix cache.
    Cleared,
}

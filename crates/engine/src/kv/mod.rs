//! KV memory: a pool of blocks, the prefix cache over it, and the block table of a sequence.

mod cache;
mod pool;

pub use cache::{BlockTable, KvCache};
pub use pool::BlockId;

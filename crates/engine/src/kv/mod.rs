//! KV memory: a pool of blocks, the prefix cache over it and its events, and the block table of a
//! sequence.

mod cache;
#[cfg(test)]
mod equivalence;
mod events;
mod index;
mod pool;

pub(crate) use cache::block_count;
pub use cache::{BlockTable, KvCache};
pub use events::KvEvent;
pub use pool::BlockId;

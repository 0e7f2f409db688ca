//! Invariants of the crate, through its public interface.

mod arrivals;
mod conversations;
mod ground_truth;
mod object_safety;
mod oracle;
mod prompts;

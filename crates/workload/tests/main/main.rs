//! Invariants of the crate, through its public interface.

mod arrival_laws;
mod arrivals;
mod clients;
mod conversations;
mod ground_truth;
mod length_laws;
mod mixes;
mod object_safety;
mod oracle;
mod prefixes;
mod prompts;
mod statistics;

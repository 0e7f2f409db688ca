//! Small scenarios whose every step is known.
//!
//! The scenarios S01 to S45 are recorded traces of vLLM 0.15.1's scheduler; the others are worked
//! out by hand.

mod batching;
mod before_vllm;
mod clock;
mod ends;
mod graphs;
mod kv_events;
mod lifecycle;
mod preemption;
mod prefix;
mod serving;
mod table;
mod transfer;
mod versions;

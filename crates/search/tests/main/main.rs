//! Searches whose answers are known.

mod goodput;

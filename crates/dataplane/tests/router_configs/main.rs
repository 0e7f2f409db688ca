//! Router configurations: those that come with the crate, what is completed, and what is refused.

mod anything;
mod becomes;
mod behaviour;
mod completion;
mod parameters;
mod refused;
mod support;
mod warned;

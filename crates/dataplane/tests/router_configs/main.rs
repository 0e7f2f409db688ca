//! Router configurations: those that come with the crate, what is completed, and what is refused.

mod becomes;
mod behaviour;

mod support;

//! Tests of the kernel from outside: against queueing theory, and against what it promises.

mod determinism;
mod properties;
mod station;
mod theory;

//! Tests through the public API.

#[path = "suite/kernels.rs"]
mod kernels;
#[path = "suite/optimizers.rs"]
mod optimizers;
#[path = "suite/runtime.rs"]
mod runtime;

//! Properties of the latency models.

mod fits;
mod law;
mod physics;

//! Properties of the latency models.

mod confidence;
mod fits;
mod formats;
mod latent;
mod law;
mod physics;

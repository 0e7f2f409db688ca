//! What holds of every decision, whatever the endpoints and the request.

mod determinism;
mod indexes;
mod pickers;
mod scores;
mod setting;

//! Edges that the worked examples leave out.

mod filters;
mod handlers;
mod scorers;

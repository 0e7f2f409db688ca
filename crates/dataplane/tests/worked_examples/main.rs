//! The worked examples of the router's specification: small settings with known scores, picks and
//! verdicts. The program `router_examples` runs the same ones. What they leave out is in `edges`, and
//! in `books` what a host of flow control can rely on.

mod books;
mod cases;
mod edges;

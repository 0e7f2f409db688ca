//! What stands before the engines: admission and routing.
//!
//! A policy gets borrowed, read-only views of what a real gateway could know ([`EndpointView`],
//! [`RequestView`](foretoken_workload::RequestView)) and returns a value; whoever hosts it applies
//! the answer and keeps the books. A policy owns no clock and no queue.

pub mod admission;
pub mod router;
pub mod view;

pub use admission::{AdmitAll, Admitter, RejectAll, Verdict};
pub use router::{Placement, Random, RoundRobin, Router};
pub use view::{EndpointId, EndpointView, GatewayContext};

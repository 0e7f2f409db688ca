//! What stands before the engines: admission, flow control and routing, as llm-d's router does it.
//!
//! A policy gets borrowed, read-only views of what a real gateway could know ([`EndpointView`],
//! [`RequestView`](foretoken_workload::RequestView)) and returns a value; whoever hosts it applies
//! the answer and keeps the books. A policy owns no clock and no queue.

pub mod admission;
pub mod baselines;
pub mod config;
mod error;
pub mod flow;
pub mod gateway;
pub mod headers;
pub mod pipeline;
pub mod producer;
pub mod rewrite;
pub mod router;
pub mod saturation;
pub mod signals;
pub mod transfer;
pub mod view;

pub use admission::{AdmitAll, Admitter, RejectAll, Verdict};
pub use baselines::{
    JoinShortestExpectedWork, LeastRequests, LeastTokens, PowerOfTwoChoices, Random, RoundRobin,
    SessionAffinity,
};
pub use config::RouterConfig;
pub use error::DataplaneError;
pub use flow::{FairnessPolicy, FlowView, OrderingPolicy, UsageLimit};
pub use gateway::{Admission, Gateway, GatewayPolicies};
pub use pipeline::{Filter, Picker, Pipeline, Scorer};
pub use producer::{DataProducer, KvEvent, Response, Tier};
pub use router::{PickedBy, Placement, PrefillPlacement, Router};
pub use saturation::SaturationDetector;
pub use signals::Signals;
pub use view::{Adapters, EndpointId, EndpointView, GatewayContext, Labels, Role};

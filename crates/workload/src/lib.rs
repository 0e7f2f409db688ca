//! Who asks for what, and when: the vocabulary of requests, and the sources that make them.
//!
//! - [`request`], [`prompt`], [`lifecycle`]: what a request is, what a policy may see of it
//!   ([`RequestView`], without the output length), and what can happen to it. A prompt is content
//!   identity, not tokens: prefix sharing is exact and costs O(blocks).
//! - [`source`]: [`Workload`], a lazy stream of requests in order of arrival; [`Replay`] and
//!   [`Merge`].
//! - [`synthetic`], [`shared_prefix`]: the built-in loads, and [`spec`], their form in
//!   configurations.
//! - [`trace`]: what was asked of real deployments, read from the files of fourteen formats,
//!   inspected, cleaned, written, and replayed.
//! - [`arrival`], [`length`], [`dist`]: processes, distributions and the variates beneath them, with
//!   the same bits on every platform.
//! - [`order`]: [`QueueOrder`], who is next in a queue, shared by engines and gateways.
//!
//! A description (`…Spec`) is plain data; `build` checks it and makes the workload, with random
//! streams named after what is drawn. Whatever describes a request is drawn when the request is
//! made, and from a stream of its own, so two policies under comparison see the same load.
//!
//! ```
//! use foretoken_des_kernel::RngStreams;
//! use foretoken_workload::{LengthSpec, Synthetic, Workload};
//!
//! let prompts = LengthSpec::lognormal(500.0, 300.0);
//! let outputs = LengthSpec::uniform(50, 400);
//! let spec = Synthetic::poisson(20.0, 2_000, prompts, outputs)?;
//!
//! let mut load = spec.build(&RngStreams::new(7, 0))?;
//! let mut tokens = 0;
//! while let Some(request) = load.next() {
//!     tokens += u64::from(request.prompt.tokens()) + u64::from(request.output_tokens());
//! }
//! assert!((1_300_000..1_600_000).contains(&tokens));
//! # Ok::<(), foretoken_workload::WorkloadError>(())
//! ```

pub mod arrival;
pub mod client;
pub mod dist;
mod error;
mod file;
pub mod length;
pub mod lifecycle;
pub mod order;
pub mod prompt;
mod quantity;
pub mod request;
mod schema;
pub mod shared_prefix;
pub mod source;
pub mod spec;
pub mod synthetic;
pub mod trace;

pub use arrival::{ArrivalProcess, ArrivalSpec, Stage, StagedArrivals};
pub use client::{ClientSpec, Headers, SloClass};
pub use error::WorkloadError;
pub use file::{FileVersion, UnknownVersion, WorkloadFile};
pub use length::{LengthDistribution, LengthSpec};
pub use lifecycle::{DecodeRun, FinishReason, Lifecycle, Occurrence, RejectReason, TokenRun};
pub use order::{
    ByPriority, Fcfs, LongestPrefixMatch, OrderKey, QueueOrder, QueueSignals, Rekey, Requeue,
    ShortestJobFirst,
};
pub use prompt::{BlockHash, BlockHasher, ContentId, Prompt, PromptError, Segment};
pub use quantity::{Positive, Rate, Seconds};
pub use request::{
    FlowId, ObjectivePriority, Priority, Request, RequestId, RequestView, SessionId, StageId,
};
pub use shared_prefix::{DEFAULT_PROMPT_INFLATION, SharedPrefix, SharedPrefixSpec};
pub use source::{Merge, Replay, Workload};
pub use spec::WorkloadSpec;
pub use synthetic::{Synthetic, SyntheticSpec};

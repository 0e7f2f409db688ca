//! Who asks for what, and when: the vocabulary of requests, and the sources that make them.
//!
//! - [`request`], [`prompt`], [`lifecycle`]: what a request is, what a policy may see of it
//!   ([`RequestView`], without the output length), and what can happen to it. A prompt is content
//!   identity, not tokens: prefix sharing is exact and costs O(blocks).
//! - [`source`]: [`Workload`], a lazy stream of requests in order of arrival, which may react to
//!   answers; [`Replay`]. [`merge`]: [`Merge`], several of them at once.
//! - [`synthetic`], [`shared_prefix`]: the built-in loads, and [`spec`], their form in
//!   configurations.
//! - [`clients`], [`prefix`], [`preset`]: loads of many clients, texts that prompts share, and loads by
//!   name.
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

pub mod agents;
pub mod arrival;
pub mod client;
pub mod closed_loop;
pub mod conversation;
pub mod count;
pub mod delay;
pub mod dist;
mod error;
mod file;
pub mod length;
pub mod lifecycle;
pub mod merge;
pub mod order;
pub mod paced;
pub mod prompt;
mod quantity;
mod rate;
mod rate_within;
mod renumber;
pub mod request;
pub mod retry;
pub mod sessions;
pub mod shared_prefix;
pub mod source;
pub mod spec;
pub mod synthetic;
pub mod trace;
pub mod turns;

pub mod clients;
mod correlation;
mod mix;
mod popularity;
pub mod prefix;
pub mod preset;
mod spread;

pub use agents::{AgentsSpec, SubAgentsSpec};
pub use arrival::{ArrivalProcess, ArrivalSpec, Stage, StagedArrivals};
pub use client::{ClientSpec, Delivery, Headers, Patience, SloClass};
pub use closed_loop::ClosedLoopSpec;
pub use conversation::Conversations;
pub use count::CountSpec;
pub use delay::DelaySpec;
pub use error::WorkloadError;
pub use file::{FileVersion, UnknownVersion, WorkloadFile};
pub use length::{LengthBin, LengthDistribution, LengthPart, LengthSpec};
pub use lifecycle::{
    DecodeRun, Ended, Ending, FinishReason, Lifecycle, Occurrence, RejectReason, TokenRun,
};
pub use merge::Merge;
pub use order::{
    ByPriority, Fcfs, LongestPrefixMatch, OrderKey, QueueOrder, QueueSignals, Rekey, Requeue,
    ShortestJobFirst,
};
pub use paced::Paced;
pub use prompt::{BlockHash, BlockHasher, ContentId, Prompt, PromptError, Segment};
pub use quantity::{Positive, Rate, Seconds};
pub use request::{
    FlowId, ObjectivePriority, Priority, Request, RequestId, RequestView, SessionId, StageId,
};
pub use retry::{RetrySpec, Retrying};
pub use sessions::{SessionsSpec, StartSpec};
pub use shared_prefix::{DEFAULT_PROMPT_INFLATION, SharedPrefix, SharedPrefixSpec};
pub use source::{Lookahead, Replay, Upcoming, Workload};
pub use spec::WorkloadSpec;
pub use synthetic::{Synthetic, SyntheticSpec};
// What makes loads of many kinds out of few parts.
pub use arrival::{AfterPieces, GapSpec, MmppState, Piece, Spike, Variation, Varied};
pub use clients::{ClientGaps, ClientRates, Clients, ClientsSpec};
pub use correlation::Correlation;
pub use mix::{AdapterSpec, ClassShare};
pub use popularity::PopularitySpec;
pub use prefix::{DocumentOrder, PrefixSpec, TreeLevel};
pub use preset::{Preset, PresetSpec};
pub use spread::SpreadSpec;
pub use turns::TurnByTurn;

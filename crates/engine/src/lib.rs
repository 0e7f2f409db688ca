//! One serving engine as a state machine: a scheduler, KV blocks with a prefix cache, a step clock.
//!
//! The semantics are vLLM V1's (reference version 0.15.1, later changes behind [`Semantics`]): one
//! token budget for prefill and decode alike, chunked prefill, FCFS or priority queues, preemption
//! by recomputation, prefix caching by chained block hashes over a free queue in LRU order, and
//! asynchronous scheduling with two batches in flight. Two settings take it back to systems before
//! vLLM: static batches ([`Batching`]) and memory reserved for the longest sequence ([`KvAllocation`]).
//!
//! KV can come from other engines and stay for them ([`connector`]), and what the prefix cache holds
//! can be followed by its events ([`KvEvent`]).
//!
//! The engine owns no clock, thread or queue of events. It is told the time, answers, and says when
//! it wants to be called again:
//!
//! ```
//! use std::sync::Arc;
//! use foretoken_des_kernel::{SimDuration, SimTime};
//! use foretoken_engine::{Engine, EngineConfig, Policies};
//! use foretoken_latency_model::{Fine, LatencyModel, StepShape};
//! use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};
//!
//! /// Every step takes ten milliseconds.
//! #[derive(Debug)]
//! struct TenMillis;
//! impl LatencyModel for TenMillis {
//!     fn step(&self, _shape: &StepShape) -> Fine {
//!         Fine::from_nanos_f64(10e6).expect("a small positive number")
//!     }
//! }
//!
//! let config = EngineConfig::default();
//! let mut engine = Engine::new(config, Arc::new(TenMillis), Policies::fcfs())?;
//! let prompt = Prompt::new([Segment::new(ContentId::new(0), 100)])?;
//! engine.submit(SimTime::ZERO, Request::new(RequestId::new(0), SimTime::ZERO, prompt, 3));
//! let (mut first, mut last) = (None, None);
//! while let Some(now) = engine.next_wake() {
//!     engine.advance(now, &mut |event| {
//!         if let Some(run) = event.tokens() {
//!             first = first.or(run.last());
//!             last = run.last();
//!         }
//!     });
//! }
//! let millis = |n| Some(SimTime::ZERO + SimDuration::from_millis(n));
//! assert_eq!((first, last), (millis(10), millis(30)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod config;
pub mod connector;
pub mod engine;
pub mod event;
pub mod kv;
pub mod plan;
pub mod preemption;
mod queue;
pub mod scheduler;
mod sequence;

pub use config::{
    Batching, CudaGraphs, EngineConfig, EngineError, KvAllocation, SchedulerConfig, Scheduling,
    Semantics,
};
pub use connector::{AtEnd, KvLoad, KvOffer, KvTransfer};
pub use engine::{Engine, Policies};
pub use event::{EngineEvent, EngineStats, StepReport};
pub use kv::KvEvent;
pub use plan::{Planned, StepPlan};
pub use preemption::{LastAdmitted, LeastUrgent, PreemptionPolicy, RunningView};
pub use scheduler::{Output, Scheduler};

//! What is kept of a run, and what is printed of it.
//!
//! A simulation tells a [`MetricSink`] what happens: arrivals, stations in the life of requests,
//! steps, levels. [`Recorder`] is the sink that takes down everything a [`Report`] needs, and
//! returns it by value as a [`Recording`]: one [`RequestRecord`] per request, the distribution of
//! the times between tokens, and gauges over time. Where records are too many to be kept they go to a
//! [`RecordSink`] as requests end. [`Slo`] and [`Slos`] count how many requests were
//! served well, [`Stalls`] and [`Fluidity`] how smoothly answers came, [`jain`] says how evenly.
//!
//! This crate knows what happened and its statistics, not why: it depends on no engine.
//!
//! ```
//! use foretoken_des_kernel::SimTime;
//! use foretoken_metrics::{MetricSink, Recorder, Report};
//! use foretoken_workload::{
//!     ContentId, FinishReason, Lifecycle, Occurrence, Prompt, Request, RequestId, Segment,
//! };
//!
//! // Usually a simulation does this; here, one request with three tokens is told by hand.
//! let mut recorder = Recorder::new();
//! let (id, at) = (RequestId::new(0), |ms: u64| SimTime::from_nanos(ms * 1_000_000));
//! let prompt = Prompt::new([Segment::new(ContentId::new(1), 100)])?;
//! recorder.on_arrival(&Request::new(id, at(0), prompt, 3));
//! let mut tell = |ms, what| recorder.on_occurrence(&Occurrence::new(at(ms), id, what));
//! tell(1, Lifecycle::Scheduled { cached_tokens: 32 });
//! tell(50, Lifecycle::Tokens { count: 1 });
//! tell(60, Lifecycle::Tokens { count: 1 });
//! tell(72, Lifecycle::Tokens { count: 1 });
//! tell(72, Lifecycle::Finished { reason: FinishReason::Length });
//!
//! let report = Report::new(&recorder.finish(at(80)), 7, 0);
//! let itl = report.overall.itl_ms.expect("there are gaps between tokens");
//! assert_eq!((itl.count, itl.mean, itl.max), (2, 11.0, 12.0));
//! assert_eq!(report.overall.prefix_hit_rate, Some(0.32));
//! println!("{report}"); // tables
//! let json = serde_json::to_string(&report)?; // columns
//! assert_eq!(serde_json::from_str::<Report>(&json)?, report);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! - *Identity of latencies*: TTFT plus all gaps between tokens is the end-to-end latency of a
//!   complete request, in integer nanoseconds.
//! - *Conservation of requests*: what arrived has finished, was rejected, was cut short (aborted,
//!   evicted, lost with its endpoint) or is in flight; checked whenever a report is made, for every
//!   stage, class and tenant.
//! - *Groups add up*: stages, classes and tenants each are all requests, and every request is in one of
//!   each.
//! - *Request lifecycle*: things happen to a request after its arrival, in order of time, and
//!   nothing after its end; checked as they are told.
//! - *Decode membership*: the members of an engine's decodes are those that have joined and not left;
//!   checked as steps are told.
//! - A report depends neither on the order in which simultaneous occurrences of different requests
//!   were told, nor on the platform.

mod digest;
mod endpoint;
mod error;
pub mod estimate;
pub mod fairness;
mod fluidity;
mod gauges;
mod group;
mod load;
mod outcome;
pub mod record;
pub mod recorder;
pub mod recording;
pub mod report;
mod round;
mod series;
pub mod sink;
pub mod slo;
mod smoothness;
mod stalls;
pub mod steady;
mod summary;
mod table;
mod timeline;
mod window;

pub use digest::RunDigest;
pub use endpoint::EndpointReport;
pub use error::MetricsError;
pub use estimate::{Estimate, Verdict};
pub use fairness::{Fairness, jain};
pub use fluidity::{Fluidity, FluidityReport, FluiditySummary, TokenDeadlines};
pub use gauges::GaugeReport;
pub use load::{LoadReport, TimeSeries};
pub use outcome::{Counts, Outcome};
pub use record::{Gaps, KvTransfer, RequestRecord};
pub use recorder::Recorder;
pub use recording::{Kept, RecordSink, Recording};
pub use report::{ClassReport, Report, SCHEMA_VERSION, StageReport, TenantReport};
pub use sink::{DecodeSteps, LevelRecord, MetricSink, StepRecord};
pub use slo::{Attainment, Goodput, Slo, Slos};
pub use smoothness::ClassPart;
pub use stalls::{StallReport, StallSummary, Stalls};
pub use steady::{ClassJudgement, Judgement, MeasurementWindow, Part, Steady};
pub use summary::{Latency, Stall, Summary, Throughput};

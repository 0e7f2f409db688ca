//! Foretells, on a CPU and in milliseconds, how an LLM serving deployment will behave.
//!
//! This crate is the facade: it introduces the parts to each other and re-exports them. A
//! [`Scenario`] describes a simulation as data; a [`Simulation`] is built from parts, each of which
//! a user can replace with his own.
//!
//! | Crate | What it holds |
//! |---|---|
//! | [`des_kernel`] | simulated time, events in order, random streams, statistics |
//! | [`hwspec`] | accelerators, models, memory plans |
//! | [`latency_model`] | how long one forward step takes |
//! | [`workload`] | requests, arrivals, lengths, prompt content |
//! | [`engine`] | scheduler, KV blocks, step clock of one engine |
//! | [`dataplane`] | admission and routing |
//! | [`metrics`] | what is kept and printed |

pub mod cluster;
pub mod deployment;
pub mod energy;
mod error;
pub mod fleet;
pub mod gateway;
pub mod predictor;
pub mod scenario;
pub mod simulation;
mod sweep;
pub mod validation;
mod world;

pub use foretoken_dataplane as dataplane;
pub use foretoken_des_kernel as des_kernel;
pub use foretoken_engine as engine;
pub use foretoken_hwspec as hwspec;
pub use foretoken_latency_model as latency_model;
pub use foretoken_metrics as metrics;
pub use foretoken_workload as workload;

pub use deployment::{Deployment, EngineOptions, Physics};
pub use energy::{Energy, EnergySource};
pub use error::Error;
pub use fleet::{Cost, Fleet, Prices};
pub use gateway::GatewaySpec;
pub use scenario::{Prediction, Scenario};
pub use simulation::{Instance, RunEnd, Simulation};
pub use sweep::sweep;

/// What most programs need.
pub mod prelude {
    pub use foretoken_dataplane::{
        Admission, AdmitAll, Admitter, DataProducer, EndpointId, EndpointView, FairnessPolicy,
        Filter, GatewayContext, GatewayPolicies, OrderingPolicy, Picker, Pipeline, Placement,
        RoundRobin, Router, RouterConfig, SaturationDetector, Scorer, Signals, UsageLimit, Verdict,
    };
    pub use foretoken_des_kernel::{RngStreams, SimDuration, SimRng, SimTime};
    pub use foretoken_engine::{EngineConfig, Policies, PreemptionPolicy, SchedulerConfig};
    pub use foretoken_hwspec::{Catalog, GpuSpec, MemoryPlan, ModelSpec, TensorParallel};
    pub use foretoken_latency_model::{
        Affine, Explanation, Fine, HostCosts, KernelPhysics, LatencyModel, StepShape,
    };
    pub use foretoken_metrics::{MetricSink, Recorder, Report, Slo, Slos};
    pub use foretoken_workload::{
        ClientSpec, Headers, LengthSpec, Lifecycle, ObjectivePriority, Occurrence, Prompt,
        QueueOrder, Request, RequestId, RequestView, SharedPrefixSpec, SloClass, Synthetic,
        SyntheticSpec, Workload, WorkloadSpec,
    };

    pub use crate::cluster::{Freshness, Scraping, Wiring};
    pub use crate::{
        Deployment, EngineOptions, Error, Instance, Physics, Scenario, Simulation, sweep,
    };
}

/// The examples of README.md compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

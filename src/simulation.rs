//! [`Simulation`]: parts in, report out.

use std::sync::Arc;

use foretoken_dataplane::{AdmitAll, Admitter, RoundRobin, Router};
use foretoken_des_kernel::{Kernel, RngStreams, SimTime, Stop, StopReason};
use foretoken_engine::{Engine, EngineConfig, Policies};
use foretoken_latency_model::LatencyModel;
use foretoken_metrics::{MetricSink, Recorder, Report};
use foretoken_workload::{Workload, WorkloadSpec};

use crate::error::Error;
use crate::world::{Event, Parts, World};

/// A simulation of serving engines behind a gateway, built from its parts.
///
/// ```
/// use foretoken::prelude::*;
///
/// let report = Simulation::new()
///     .engines(2, EngineConfig::default())
///     .latency(Affine::example())
///     .workload(Synthetic::poisson(5.0, 200, LengthSpec::constant(300), LengthSpec::constant(50))?)
///     .router(|_: &RequestView<'_>, cx: &mut GatewayContext<'_>| {
///         cx.endpoints.iter().min_by_key(|e| e.running + e.queued).map(|e| e.id.into())
///     })
///     .seed(7)
///     .run()?;
/// assert_eq!(report.overall.counts.finished, 200);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation {
    engines: Vec<EngineSetup>,
    latency: Option<Arc<dyn LatencyModel>>,
    workload: Option<Load>,
    admitter: Box<dyn Admitter>,
    router: Box<dyn Router>,
    seed: u64,
    replication: u64,
    horizon: Option<SimTime>,
}

/// One engine to be built.
struct EngineSetup {
    config: EngineConfig,
    /// Its own latency model; the simulation's if unset.
    latency: Option<Arc<dyn LatencyModel>>,
    policies: Policies,
}

enum Load {
    Described(WorkloadSpec),
    Given(Box<dyn Workload>),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunEnd {
    /// The simulated time.
    pub at: SimTime,
    /// Events that were handled.
    pub events: u64,
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Simulation")
            .field("engines", &self.engines.len())
            .field("seed", &self.seed)
            .field("replication", &self.replication)
            .field("horizon", &self.horizon)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// No engines and no workload yet; everything is admitted and routed round robin; seed 0,
    /// replication 0; runs until everything is served.
    pub fn new() -> Self {
        Self {
            engines: Vec::new(),
            latency: None,
            workload: None,
            admitter: Box::new(AdmitAll),
            router: Box::new(RoundRobin::default()),
            seed: 0,
            replication: 0,
            horizon: None,
        }
    }

    /// Adds `count` engines with these settings, first come first served, timed by
    /// [`latency`](Self::latency).
    #[must_use]
    pub fn engines(mut self, count: usize, config: EngineConfig) -> Self {
        let setups = std::iter::repeat_n(config, count);
        self.engines.extend(setups.map(|config| EngineSetup {
            config,
            latency: None,
            policies: Policies::fcfs(),
        }));
        self
    }

    /// Adds one engine with policies and a latency model of its own.
    #[must_use]
    pub fn engine(
        mut self,
        config: EngineConfig,
        policies: Policies,
        latency: Arc<dyn LatencyModel>,
    ) -> Self {
        self.engines.push(EngineSetup {
            config,
            latency: Some(latency),
            policies,
        });
        self
    }

    /// The latency model of the engines that have none of their own.
    #[must_use]
    pub fn latency(mut self, model: impl LatencyModel + 'static) -> Self {
        self.latency = Some(Arc::new(model));
        self
    }

    /// A workload by its description; its draws follow the seed.
    #[must_use]
    pub fn workload(mut self, workload: impl Into<WorkloadSpec>) -> Self {
        self.workload = Some(Load::Described(workload.into()));
        self
    }

    /// A workload that makes its own requests.
    #[must_use]
    pub fn requests(mut self, workload: impl Workload + 'static) -> Self {
        self.workload = Some(Load::Given(Box::new(workload)));
        self
    }

    /// Who decides whether a request enters.
    #[must_use]
    pub fn admitter(mut self, admitter: impl Admitter + 'static) -> Self {
        self.admitter = Box::new(admitter);
        self
    }

    /// Who decides where a request goes.
    #[must_use]
    pub fn router(mut self, router: impl Router + 'static) -> Self {
        self.router = Box::new(router);
        self
    }

    /// Names the experiment: every random draw follows from it.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Names the repetition of the experiment.
    #[must_use]
    pub const fn replication(mut self, replication: u64) -> Self {
        self.replication = replication;
        self
    }

    /// Ends the run at this simulated time, whatever is still in flight.
    #[must_use]
    pub const fn horizon(mut self, horizon: SimTime) -> Self {
        self.horizon = Some(horizon);
        self
    }

    /// Runs to the end and reports.
    ///
    /// # Errors
    /// [`Error`] names the part that is missing or makes no sense.
    pub fn run(self) -> Result<Report, Error> {
        let (seed, replication) = (self.seed, self.replication);
        let (recorder, end) = self.run_with(Recorder::new())?;
        Ok(Report::new(&recorder.finish(end.at), seed, replication))
    }

    /// Runs to the end, pours what happens into `sink`, and gives it back.
    ///
    /// # Errors
    /// [`Error`] names the part that is missing or makes no sense.
    pub fn run_with<S: MetricSink>(self, sink: S) -> Result<(S, RunEnd), Error> {
        if self.engines.is_empty() {
            return Err(Error::Missing {
                needed: "an engine",
                method: "engines",
            });
        }
        let streams = RngStreams::new(self.seed, self.replication);
        let workload = match self.workload {
            None => {
                return Err(Error::Missing {
                    needed: "a workload",
                    method: "workload",
                });
            }
            Some(Load::Described(spec)) => spec.build(&streams)?,
            Some(Load::Given(workload)) => workload,
        };
        let shared = self.latency;
        let engines = self.engines.into_iter().map(|setup| {
            let latency = setup
                .latency
                .or_else(|| shared.clone())
                .ok_or(Error::Missing {
                    needed: "a latency model",
                    method: "latency",
                })?;
            Ok(Engine::new(setup.config, latency, setup.policies)?)
        });
        let horizon = self.horizon.unwrap_or(SimTime::MAX);
        let world = World::new(Parts {
            workload,
            admitter: self.admitter,
            router: self.router,
            engines: engines.collect::<Result<_, Error>>()?,
            admission_rng: streams.stream("admission", 0),
            routing_rng: streams.stream("routing", 0),
            horizon,
            sink,
        });
        let first = world.first_arrival();
        let mut kernel = Kernel::new(world);
        if let Some(first) = first {
            kernel.schedule(first, Event::Arrival);
        }
        let stop = Stop::never().at(horizon);
        let reason = kernel.run_with(
            stop.when(|world: &World<S>| world.failure.is_some()),
            &mut (),
        );
        let end = RunEnd {
            at: kernel.now(),
            events: kernel.events_handled(),
        };
        let world = kernel.into_model();
        if let Some(failure) = world.failure {
            return Err(failure);
        }
        assert!(
            reason != StopReason::QueueExhausted || world.is_drained(),
            "work conservation: the run ended with requests inside and nothing left to happen"
        );
        Ok((world.sink, end))
    }
}

//! One accelerator and one degree of tensor parallelism: how many replicas hold, and with what margin.

use std::sync::Arc;

use foretoken::deployment::Resolved;
use foretoken::latency_model::Confidence;
use foretoken::metrics::{Recorder, RequestRecord};
use foretoken::workload::{Seconds, WorkloadSpec};
use foretoken::{Deployment, Fleet, Prices, Scenario, Simulation};

use super::bottleneck::{Bottleneck, EngineWatch, MissWatch};
use super::report::{Excluded, PlanOption, Uncertainty};
use super::scaled::Scaled;
use super::spec::PlanSpec;
use crate::environment::Environment;
use crate::error::SearchError;
use crate::goodput::{GoodputSpec, Trial};

/// What has to hold.
#[derive(Debug)]
pub(super) struct Demand {
    /// Requests per second, without headroom.
    pub(super) asked: f64,
    /// With it.
    pub(super) required: f64,
    /// The load at the required rate.
    pub(super) load: WorkloadSpec,
    pub(super) goodput: GoodputSpec,
}

#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) spec: &'a PlanSpec,
    pub(super) environment: &'a Environment,
    pub(super) demand: &'a Demand,
    pub(super) prices: &'a Prices,
    pub(super) gpu: String,
    pub(super) tensor_parallel: u32,
}

pub(super) enum Outcome {
    Holds(PlanOption),
    Excluded(Excluded),
}

/// How far beyond the rate that fails the bottleneck is looked for: where it is plain.
const BEYOND: f64 = 1.1;

impl Candidate<'_> {
    pub(super) fn evaluate(&self) -> Result<Outcome, SearchError> {
        let most = self.spec.max_gpus / self.tensor_parallel;
        if most == 0 {
            return Ok(self.excluded(format!("more than {} GPUs", self.spec.max_gpus)));
        }
        let resolved = match self.resolve() {
            Ok(resolved) => resolved,
            // The model does not fit, or cannot be split in that way: an answer, not a failure.
            Err(error) => return Ok(self.excluded(error.to_string())),
        };
        let system = System {
            candidate: self,
            resolved: &resolved,
        };
        let alone = system.find(
            1,
            &GoodputSpec {
                resolution: 0.05,
                ..self.demand.goodput.clone()
            },
        )?;
        let Some(one) = alone.rate else {
            let misses = alone.fails.map(|trial| trial.misses).unwrap_or_default();
            let miss = misses.first().map(ToString::to_string);
            let why = format!("not even alone: {}", miss.unwrap_or_default());
            return Ok(self.excluded(why));
        };
        let guess = whole(self.demand.required / one);
        // A whole pool does better than its parts, but not by half.
        if f64::from(guess) > 1.5 * f64::from(most) + 1.0 {
            let about = u64::from(guess) * u64::from(self.tensor_parallel);
            return Ok(self.excluded(format!("about {about} GPUs needed")));
        }
        let Some(replicas) = system.replicas(guess, most)? else {
            return Ok(self.excluded(format!("{} GPUs are not enough", self.spec.max_gpus)));
        };
        self.describe(&system, replicas, most).map(Outcome::Holds)
    }

    fn describe(
        &self,
        system: &System<'_>,
        replicas: u32,
        most: u32,
    ) -> Result<PlanOption, SearchError> {
        let found = system.find(
            replicas,
            &GoodputSpec {
                min_rate_rps: Some(self.demand.required),
                ..self.demand.goodput.clone()
            },
        )?;
        let goodput = found.rate.unwrap_or(self.demand.required);
        let breaks_first = match &found.fails {
            Some(fails) => {
                Some(system.bottleneck(replicas, fails, found.warm_up_s, found.window_s)?)
            }
            None => None,
        };
        let confidence = system.confidence(replicas, found.warm_up_s + found.window_s)?;
        let uncertainty = match confidence.step_band {
            Some(band) => Some(Uncertainty {
                low: band.low,
                high: band.high,
                replicas_at_low: system
                    .times(band.low)
                    .replicas(whole(f64::from(replicas) * band.low), most)?,
                replicas_at_high: system
                    .times(band.high)
                    .replicas(whole(f64::from(replicas) * band.high), most)?,
                holds_at_high: system.times(band.high).holds(replicas)?,
            }),
            None => None,
        };
        let fleet = Fleet::of(&[system.replicated(replicas)], self.prices);
        Ok(PlanOption {
            gpu: self.gpu.clone(),
            tensor_parallel: self.tensor_parallel,
            replicas,
            gpus: fleet.gpus,
            usd_per_hour: fleet.usd_per_hour,
            goodput,
            margin: goodput / self.demand.asked,
            breaks_first,
            uncertainty,
            confidence: confidence.level,
        })
    }

    fn deployment(&self) -> Deployment {
        let mut deployment = Deployment::new(&self.spec.model, &self.gpu, self.tensor_parallel);
        deployment.engine = self.spec.engine.clone();
        deployment
    }

    fn resolve(&self) -> Result<Resolved, foretoken::Error> {
        let Environment {
            catalog, physics, ..
        } = self.environment;
        self.deployment().resolve(catalog, physics)
    }

    fn excluded(&self, reason: String) -> Outcome {
        Outcome::Excluded(Excluded {
            gpu: self.gpu.clone(),
            tensor_parallel: self.tensor_parallel,
            reason,
        })
    }
}

/// At least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion that saturates"
)]
fn whole(replicas: f64) -> u32 {
    (replicas.ceil() as u32).max(1)
}

/// A candidate's engines, of which there may be any number.
struct System<'a> {
    candidate: &'a Candidate<'a>,
    resolved: &'a Resolved,
}

/// The same engines, with steps that take longer or less long.
struct ScaledSystem<'a> {
    candidate: &'a Candidate<'a>,
    resolved: Resolved,
}

impl System<'_> {
    fn times(&self, factor: f64) -> ScaledSystem<'_> {
        let mut resolved = self.resolved.clone();
        resolved.latency = Arc::new(Scaled::new(resolved.latency.clone(), factor));
        ScaledSystem {
            candidate: self.candidate,
            resolved,
        }
    }

    fn scenario(&self, load: WorkloadSpec) -> Scenario {
        let PlanSpec { gateway, seed, .. } = self.candidate.spec;
        Scenario {
            gateway: gateway.clone(),
            seed: *seed,
            ..Scenario::new(self.candidate.deployment(), load)
        }
    }

    fn replicated(&self, replicas: u32) -> Resolved {
        let mut resolved = self.resolved.clone();
        resolved.replicas = replicas;
        resolved
    }

    fn build(&self, replicas: u32) -> Result<Simulation, SearchError> {
        let scenario = self.scenario(self.candidate.demand.load.clone());
        Ok(scenario.build_with(&[self.replicated(replicas)])?)
    }

    /// How far to trust step times under what is asked.
    fn confidence(&self, replicas: u32, seconds: f64) -> Result<Confidence, SearchError> {
        let lasting = Seconds::new(seconds).map_err(foretoken::Error::from)?;
        let load = self.candidate.demand.load.lasting(lasting);
        let mut scenario = self.scenario(load.map_err(foretoken::Error::from)?);
        scenario.horizon_s = Some(seconds);
        let prediction = scenario.predict_with(&[self.replicated(replicas)])?;
        Ok(prediction.confidence)
    }

    fn find(
        &self,
        replicas: u32,
        goodput: &GoodputSpec,
    ) -> Result<crate::goodput::GoodputReport, SearchError> {
        let (load, seed) = (&self.candidate.demand.load, self.candidate.spec.seed);
        goodput.find_about(load, seed, |_| self.build(replicas))
    }

    fn holds(&self, replicas: u32) -> Result<bool, SearchError> {
        let Demand {
            load,
            required,
            goodput,
            ..
        } = self.candidate.demand;
        let seed = self.candidate.spec.seed;
        let trial = goodput.trial(load, seed, *required, |_| self.build(replicas))?;
        Ok(trial.holds())
    }

    /// The fewest replicas that hold, sought from a guess on; `None` if `most` do not.
    fn replicas(&self, guess: u32, most: u32) -> Result<Option<u32>, SearchError> {
        let mut replicas = guess.min(most);
        if self.holds(replicas)? {
            while replicas > 1 && self.holds(replicas - 1)? {
                replicas -= 1;
            }
            return Ok(Some(replicas));
        }
        while replicas < most {
            replicas += 1;
            if self.holds(replicas)? {
                return Ok(Some(replicas));
            }
        }
        Ok(None)
    }

    fn bottleneck(
        &self,
        replicas: u32,
        fails: &Trial,
        warm_up_s: f64,
        window_s: f64,
    ) -> Result<Bottleneck, SearchError> {
        let window = crate::goodput::measurement_window(warm_up_s, window_s)?;
        let rate = BEYOND * fails.rate;
        let lasting = Seconds::new(warm_up_s + window_s).map_err(foretoken::Error::from)?;
        let load = self.candidate.demand.load.at_rate(rate);
        let load = load.and_then(|load| load.lasting(lasting));
        let simulation = self
            .build(replicas)?
            .workload(load.map_err(foretoken::Error::from)?)
            .horizon(window.end());
        let mut misses = MissWatch::new(window, self.candidate.spec.slos.clone());
        let recorder = Recorder::streaming(|record: RequestRecord| misses.add(&record));
        let engines = EngineWatch::new(window, &self.resolved.engine.scheduler);
        let ((recorder, engines), end) = simulation.run_with((recorder, engines))?;
        recorder.finish(end.at);
        Ok(engines.pressure(&misses).bottleneck())
    }
}

impl ScaledSystem<'_> {
    fn system(&self) -> System<'_> {
        System {
            candidate: self.candidate,
            resolved: &self.resolved,
        }
    }

    fn holds(&self, replicas: u32) -> Result<bool, SearchError> {
        self.system().holds(replicas)
    }

    fn replicas(&self, guess: u32, most: u32) -> Result<Option<u32>, SearchError> {
        self.system().replicas(guess, most)
    }
}

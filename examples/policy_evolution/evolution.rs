//! An admitter with a curve, the loads that it is trained and tested on, and what it is worth.

use foretoken::dataplane::AdmitAll;
use foretoken::prelude::*;
use foretoken::workload::ArrivalSpec;
use foretoken::workload::arrival::{Variation, Varied};
use foretoken_calibrate::CalibrateError;
use foretoken_calibrate::optimizer::{CmaEs, Parameter, Search, Space, minimise};
use foretoken_search::compare::{Comparison, Measure, Observed, Variant};
use foretoken_search::{Direction, SearchError};

/// The share of sheddable requests that is refused: `(scale × saturation) ^ exponent`, at most 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Curve {
    pub(crate) scale: f64,
    pub(crate) exponent: f64,
}

impl Curve {
    /// llm-d's `probabilistic-admitter`: 300 × saturation ^ 5.
    pub(crate) const HAND_MADE: Self = Self {
        scale: 3.129,
        exponent: 5.0,
    };
}

/// Refuses by a [`Curve`], without draws: what is to be refused adds up until it is a whole request.
struct CurveAdmitter {
    curve: Curve,
    owed: f64,
}

impl Admitter for CurveAdmitter {
    fn admit(&mut self, request: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Verdict {
        if request.class == SloClass::Critical {
            return Verdict::Admit;
        }
        // As llm-d counts: 5 waiting requests, or 80 % of the KV blocks, are a load of 1.
        let loads = cx.endpoints.iter();
        let loads = loads.map(|it| (f64::from(it.queued) / 5.0).max(it.kv_usage / 0.8));
        let saturation = loads.sum::<f64>() / cx.endpoints.len() as f64;
        let Curve { scale, exponent } = self.curve;
        self.owed += libm::pow(scale * saturation, exponent).min(1.0);
        if self.owed < 1.0 {
            return Verdict::Admit;
        }
        self.owed -= 1.0;
        Verdict::Shed
    }
}

fn pool() -> Simulation {
    Simulation::new()
        .engines(2, EngineConfig::default())
        .latency(Affine::example())
}

/// Everything enters.
pub(crate) fn admit_all() -> Variant<'static> {
    Variant::simulation("admit all", |_| Ok(pool().admitter(AdmitAll)))
}

/// What may be shed is refused by a curve.
pub(crate) fn shedding(name: &str, curve: Curve) -> Variant<'static> {
    Variant::simulation(name, move |_| {
        Ok(pool().admitter(CurveAdmitter { curve, owed: 0.0 }))
    })
}

/// A minute of critical requests that come evenly and of others that come in bursts: the larger `cv`, the larger they
/// are.
fn load(cv: f64) -> Result<WorkloadSpec, Error> {
    let part = |class, arrivals| {
        let (prompts, outputs) = (LengthSpec::uniform(500, 1_500), LengthSpec::constant(100));
        let mut part = SyntheticSpec::new(arrivals, 1, prompts, outputs);
        (part.requests, part.duration_s) = (None, Some(60.0.try_into()?));
        part.client.class = class;
        Ok::<_, Error>(WorkloadSpec::from(part))
    };
    let steady = ArrivalSpec::Poisson {
        rate: 25.0.try_into()?,
    };
    let bursts = ArrivalSpec::Gamma(Varied {
        rate: 60.0.try_into()?,
        variation: Variation::Cv(cv.try_into()?),
    });
    Ok(WorkloadSpec::Mix(vec![
        part(SloClass::Critical, steady)?,
        part(SloClass::Sheddable, bursts)?,
    ]))
}

/// What requests were promised.
fn promised() -> Slos {
    let within = |ttft: u64| Slo {
        ttft: Some(SimDuration::from_millis(ttft)),
        ..Slo::default()
    };
    [
        (SloClass::Critical, within(300)),
        (SloClass::Sheddable, within(2_000)),
    ]
    .into_iter()
    .collect()
}

/// What answers in time are worth per second: 1 each, and 5 if they are critical.
fn worth(observed: &Observed) -> f64 {
    let classes = observed.report.slo.iter();
    let worth = classes.map(|part| match part.class {
        SloClass::Critical => 5.0 * part.goodput.requests_per_s,
        _ => part.goodput.requests_per_s,
    });
    worth.sum()
}

/// The loads that curves are bred on.
fn training() -> Result<Comparison<'static>, Error> {
    Ok(Comparison::new()
        .workload("bursts of cv 2", load(2.0)?)
        .workload("bursts of cv 4", load(4.0)?)
        .replications(2)
        .slos(promised()))
}

/// Loads that no curve was bred on: other draws, and bursts of another size.
pub(crate) fn held_out() -> Result<Comparison<'static>, Error> {
    Ok(Comparison::new()
        .workload("bursts of cv 2", load(2.0)?)
        .workload("bursts of cv 6", load(6.0)?)
        .seed(1)
        .replications(5)
        .slos(promised())
        .measure(Measure::new("worth/s", Direction::Maximise, |seen| {
            Some(worth(seen))
        })))
}

/// The curve that is worth most on the training loads, after so many trials of it.
pub(crate) fn evolve(evaluations: usize) -> Result<Curve, CalibrateError> {
    let training = training()?;
    let loss = |values: &[f64]| {
        let &[scale, exponent] = values else {
            unreachable!("the space has two parameters")
        };
        let candidate = shedding("candidate", Curve { scale, exponent });
        // What cannot be run is worth nothing.
        let mean = |runs: Vec<Observed>| runs.iter().map(worth).sum::<f64>() / runs.len() as f64;
        let worth = training.observe(&candidate).map(mean);
        Ok(worth.map_or(f64::INFINITY, |worth| -worth))
    };
    let Curve { scale, exponent } = Curve::HAND_MADE;
    let space = Space::new(vec![
        Parameter::new("scale", 0.02, 20.0, scale, "")?.logarithmic()?,
        Parameter::new("exponent", 0.2, 10.0, exponent, "")?.logarithmic()?,
    ])?;
    let best = minimise(&mut CmaEs::new(space, 0), &loss, &Search::new(evaluations))?;
    Ok(Curve {
        scale: best.values[0],
        exponent: best.values[1],
    })
}

/// All three on held-out loads; the first is what the others are compared with.
pub(crate) fn judge(evolved: Curve) -> Result<foretoken_search::compare::Compared, SearchError> {
    held_out()?
        .variant(shedding("hand-made", Curve::HAND_MADE))
        .variant(admit_all())
        .variant(shedding("evolved", evolved))
        .run()
}

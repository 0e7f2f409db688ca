//! [`CapacityPlan`]: the deployments that hold, the cheapest first.

use core::fmt;

use foretoken::latency_model::Level;
use serde::Serialize;

use super::bottleneck::Bottleneck;
use super::candidate::{Demand, Outcome};
use super::spec::PlanSpec;

/// The deployments that hold, the cheapest first; those without a price come last, the fewest
/// accelerators first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CapacityPlan {
    /// The model.
    pub model: String,
    /// Requests per second (conversations, where these arrive) that were asked for: the mean over time.
    pub rate: f64,
    /// Requests per second that have to hold: with headroom.
    pub required_rate: f64,
    /// The share of requests that has to meet its objectives, 0 to 1.
    pub share: f64,
    /// What holds.
    pub options: Vec<PlanOption>,
    /// What does not, in the order of the candidates.
    pub excluded: Vec<Excluded>,
}

/// A deployment that holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlanOption {
    /// The accelerator.
    pub gpu: String,
    /// Accelerators that share an engine.
    pub tensor_parallel: u32,
    /// Engines.
    pub replicas: u32,
    /// Accelerators in all.
    pub gpus: u32,
    /// Their price in US dollars per hour; `None` if it is not known.
    pub usd_per_hour: Option<f64>,
    /// The highest rate at which the deployment holds, in requests per second (conversations, where these
    /// arrive).
    pub goodput: f64,
    /// How many times the rate asked for, without headroom, that is.
    pub margin: f64,
    /// What breaks first beyond it; `None` if nothing did, as where a trace is too short for a higher rate.
    pub breaks_first: Option<Bottleneck>,
    /// What the uncertainty of step times leaves of it; `None` if the latency model states none.
    pub uncertainty: Option<Uncertainty>,
    /// How far to trust the latency model.
    pub confidence: Level,
}

/// The same with steps as short and as long as they may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Uncertainty {
    /// The shortest that steps may be, as a multiple of the prediction.
    pub low: f64,
    /// The longest, as a multiple of the prediction.
    pub high: f64,
    /// Replicas needed with the shortest; `None` if the accelerators allowed are not enough.
    pub replicas_at_low: Option<u32>,
    /// Replicas needed with the longest; `None` if the accelerators allowed are not enough.
    pub replicas_at_high: Option<u32>,
    /// Whether the deployment holds with the longest.
    pub holds_at_high: bool,
}

/// A candidate that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Excluded {
    /// The accelerator.
    pub gpu: String,
    /// Accelerators that share an engine.
    pub tensor_parallel: u32,
    /// Why.
    pub reason: String,
}

impl CapacityPlan {
    pub(super) fn new(spec: &PlanSpec, demand: &Demand, outcomes: Vec<Outcome>) -> Self {
        let (mut options, mut excluded) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            match outcome {
                Outcome::Holds(option) => options.push(option),
                Outcome::Excluded(candidate) => excluded.push(candidate),
            }
        }
        let price = |option: &PlanOption| option.usd_per_hour.unwrap_or(f64::INFINITY);
        options.sort_by(|a, b| {
            let by_price = price(a).total_cmp(&price(b));
            by_price.then(a.gpus.cmp(&b.gpus))
        });
        Self {
            model: spec.model.clone(),
            rate: demand.asked,
            required_rate: demand.required,
            share: spec.share,
            options,
            excluded,
        }
    }
}

impl fmt::Display for CapacityPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            model,
            rate,
            required_rate,
            share,
            ..
        } = self;
        writeln!(
            f,
            "{model} at {rate:.2} requests/s, to hold at {required_rate:.2}, {} % within their objectives",
            100.0 * share
        )?;
        let name = |option: &PlanOption| format!("{} x {}", option.tensor_parallel, option.gpu);
        let widest = self.options.iter().map(|option| name(option).len()).max();
        let width = widest.unwrap_or_default();
        if self.options.is_empty() {
            write!(f, "\nno candidate holds")?;
        } else {
            write!(
                f,
                "\n{:<width$} {:>8} {:>5} {:>8} {:>9} {:>7}  {:<16}  steps longer or shorter",
                "GPU", "replicas", "GPUs", "USD/h", "goodput", "margin", "breaks first"
            )?;
        }
        for option in &self.options {
            let gpu = name(option);
            let price = option
                .usd_per_hour
                .map_or("-".to_owned(), |price| format!("{price:.2}"));
            let breaks = option
                .breaks_first
                .map_or("-".to_owned(), |what| what.to_string());
            let uncertain = option
                .uncertainty
                .map_or("-".to_owned(), |band| band.to_string());
            write!(
                f,
                "\n{gpu:<width$} {:>8} {:>5} {price:>8} {:>9.2} {:>6.2}x  {breaks:<16}  {uncertain}",
                option.replicas, option.gpus, option.goodput, option.margin,
            )?;
        }
        if !self.excluded.is_empty() {
            write!(f, "\n\nnot among them:")?;
        }
        for candidate in &self.excluded {
            let Excluded {
                gpu,
                tensor_parallel,
                reason,
            } = candidate;
            write!(f, "\n  {tensor_parallel} x {gpu}: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Uncertainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |replicas: Option<u32>| {
            replicas.map_or("more than allowed".to_owned(), |count| count.to_string())
        };
        let verdict = if self.holds_at_high { "holds" } else { "fails" };
        let (low, high) = (100.0 * (self.low - 1.0), 100.0 * (self.high - 1.0));
        write!(
            f,
            "{verdict} at {high:+.0} %, needs {}; {} at {low:+.0} %",
            count(self.replicas_at_high),
            count(self.replicas_at_low)
        )
    }
}

//! `foretoken goodput`: the highest rate at which a deployment keeps its objectives.

use clap::Args;
use foretoken::des_kernel::SimDuration;
use foretoken::metrics::{Slo, Slos};
use foretoken::workload::SloClass;
use foretoken_search::{GoodputSpec, Metric};

use crate::commands::Extras;
use crate::commands::scenario::ScenarioFlags;
use crate::failure::Failure;
use crate::output::{Files, JsonOutput};

/// Find the highest rate at which the required share of requests keeps every objective
///
/// The load's mix of requests stays, its rate is sought. Objectives are the scenario's `slos`, or those of
/// the flags, which hold for every class of service.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenario: ScenarioFlags,
    #[command(flatten)]
    objectives: ObjectiveFlags,
    #[command(flatten)]
    search: SearchFlags,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

/// What requests have to keep, in place of the file's `slos`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Objectives")]
pub(crate) struct ObjectiveFlags {
    /// Longest time to the first token
    #[arg(long, value_name = "MS")]
    slo_ttft: Option<f64>,
    /// Longest time per output token, of each request's mean
    #[arg(long, value_name = "MS")]
    slo_tpot: Option<f64>,
    /// Longest gap between two tokens
    #[arg(long, value_name = "MS")]
    slo_itl: Option<f64>,
    /// Longest time to the last token
    #[arg(long, value_name = "MS")]
    slo_e2e: Option<f64>,
    /// Share of requests that have to keep all of them [default: 0.99]
    #[arg(long)]
    pub(crate) share: Option<f64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
struct SearchFlags {
    /// Limit of a statistic of the window and of its last fifth, as ttft-p99-ms=500; may be given several times
    #[arg(long, value_name = "METRIC=VALUE", value_parser = limit)]
    limit: Vec<(Metric, f64)>,
    /// What arrives earlier does not count [default: a fifth of the window]
    #[arg(long, value_name = "SECONDS")]
    warm_up: Option<f64>,
    /// The first window that is tried; whole periods of a load that changes over time [default: 1000 requests
    /// at the load's rate, at least 60]
    #[arg(long, value_name = "SECONDS")]
    window: Option<f64>,
    /// How often the window may be doubled until the answer settles [default: 5]
    #[arg(long, value_name = "N")]
    max_doublings: Option<u32>,
    /// By how much doubling the window may move an answer that has settled [default: 0.02]
    #[arg(long, value_name = "SHARE")]
    tolerance: Option<f64>,
    /// How close the rate that fails has to be to the one that holds, from 1e-6 on [default: 0.005]
    #[arg(long, value_name = "SHARE")]
    resolution: Option<f64>,
    /// The lowest rate that is tried [default: that of ten requests in the first window]
    #[arg(long, value_name = "RPS")]
    min_rate: Option<f64>,
    /// The highest rate that is tried; of a trace no more than it lasts for [default: a thousand times the
    /// load's]
    #[arg(long, value_name = "RPS")]
    max_rate: Option<f64>,
    /// Repetitions with other draws [default: 3]
    #[arg(long, value_name = "N")]
    replications: Option<u32>,
}

fn limit(text: &str) -> Result<(Metric, f64), String> {
    let (metric, value) = text
        .split_once('=')
        .ok_or("allowed is a metric and its limit, as ttft-p99-ms=500")?;
    let metric: Metric = metric.parse().map_err(|error| format!("{error}"))?;
    let value = value.parse().map_err(|_| "the limit is not a number")?;
    Ok((metric, value))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    Files::read(arguments.scenario.files()).written("--json", arguments.output.file())?;
    let scenario = arguments.scenario.scenario()?;
    let environment = arguments.extras.environment()?;
    let report = arguments
        .spec(&scenario.slos)?
        .find_for(&scenario, &environment)?;
    arguments.output.emit(&report, &report.to_string())
}

impl Arguments {
    fn spec(&self, slos: &Slos) -> Result<GoodputSpec, Failure> {
        let flags = &self.search;
        let default = GoodputSpec::default();
        let given = self.objectives.slos()?;
        if given.is_none() && slos.is_empty() && flags.limit.is_empty() {
            return Err(Failure::Missing {
                missing: "what requests have to keep",
                flag: "--slo-ttft, --slo-tpot, --slo-itl, --slo-e2e or --limit",
            });
        }
        Ok(GoodputSpec {
            slos: given.unwrap_or_default(),
            limits: flags.limit.iter().copied().collect(),
            share: self.objectives.share.unwrap_or(default.share),
            warm_up_s: flags.warm_up,
            window_s: flags.window,
            max_doublings: flags.max_doublings.unwrap_or(default.max_doublings),
            tolerance: flags.tolerance.unwrap_or(default.tolerance),
            resolution: flags.resolution.unwrap_or(default.resolution),
            min_rate_rps: flags.min_rate,
            max_rate_rps: flags.max_rate,
            replications: flags.replications.unwrap_or(default.replications),
        })
    }
}

impl ObjectiveFlags {
    /// The same objectives for every class, if any are given.
    pub(crate) fn slos(&self) -> Result<Option<Slos>, Failure> {
        let limit = |flag: &'static str, ms: Option<f64>| {
            ms.map(|ms| {
                SimDuration::try_from_secs_f64(ms / 1e3).map_err(|_| Failure::Flag {
                    flag,
                    value: ms.to_string(),
                    allowed: "milliseconds from 0 to 1.8e13",
                })
            })
            .transpose()
        };
        let slo = Slo {
            ttft: limit("--slo-ttft", self.slo_ttft)?,
            tpot: limit("--slo-tpot", self.slo_tpot)?,
            itl: limit("--slo-itl", self.slo_itl)?,
            e2e: limit("--slo-e2e", self.slo_e2e)?,
        };
        if slo == Slo::default() {
            return Ok(None);
        }
        let classes = [
            SloClass::Critical,
            SloClass::Standard,
            SloClass::Sheddable,
            SloClass::Batch,
        ];
        Ok(Some(
            classes.map(|class| (class, slo)).into_iter().collect(),
        ))
    }
}

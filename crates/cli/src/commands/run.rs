//! `foretoken run`: one deployment under one workload.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use clap::Args;
use foretoken::des_kernel::SimDuration;
use foretoken::metrics::{
    Fluidity, FluidityReport, Recorder, RequestRecord, StallReport, Stalls, TokenDeadlines,
};
use foretoken::workload::{LengthSpec, Synthetic, WorkloadSpec};
use foretoken::{Cost, Fleet, Prediction, Prices, Scenario};
use serde::Serialize;

use crate::commands::Extras;
use crate::commands::deployment::DeploymentFlags;
use crate::commands::gateway::{GatewayFlags, relative_to};
use crate::commands::workload::spec_or_trace;
use crate::failure::{Failure, from_file};
use crate::output::{JsonOutput, Lines};

/// Simulate a deployment under a workload
///
/// From a scenario file (YAML or JSON), from flags, or both: flags take the place of what the file
/// says.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Scenario file (YAML or JSON)
    scenario: Option<PathBuf>,
    #[command(flatten)]
    deployment: DeploymentFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    gateway: GatewayFlags,
    /// Names the experiment: every random draw follows from it [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    /// Names the repetition of the experiment [default: 0]
    #[arg(long)]
    replication: Option<u64>,
    /// End the run at this simulated time [default: when all is served]
    #[arg(long, value_name = "SECONDS")]
    horizon: Option<f64>,
    /// Look at every sequence in every step, for comparison: same result, several times slower
    #[arg(long)]
    step_by_step: bool,
    /// Write a line of JSON for every request to this file
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// List every inter-token gap in the records
    #[arg(long, requires = "records")]
    gaps: bool,
    /// Count requests with a gap between two tokens longer than this
    #[arg(long, value_name = "MS")]
    stall_limit: Option<f64>,
    /// Judge every token by deadlines, as Etalon's fluidity index: milliseconds to the first token, and from one to
    /// the next
    #[arg(long, value_name = "TTFT_MS,TBT_MS", value_parser = deadlines)]
    fluidity: Option<TokenDeadlines>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

/// A simple load, in place of the file's whole workload. Richer ones are described in a file.
#[derive(Debug, Args)]
pub(crate) struct WorkloadFlags {
    /// Workload file (YAML or JSON) or trace, in place of a rate
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    workload: Option<PathBuf>,
    /// Requests per second, Poisson
    #[arg(long, value_name = "RPS")]
    rate: Option<f64>,
    /// Number of requests [default: 1000]
    #[arg(long, value_name = "N", requires = "rate", conflicts_with = "workload")]
    requests: Option<u32>,
    /// Tokens of each prompt [default: 512]
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "rate",
        conflicts_with = "workload"
    )]
    prompt_tokens: Option<u32>,
    /// Tokens that each request generates [default: 256]
    #[arg(
        long,
        value_name = "TOKENS",
        requires = "rate",
        conflicts_with = "workload"
    )]
    output_tokens: Option<u32>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let base = arguments.scenario.as_deref().map(scenario).transpose()?;
    let in_file = |source: foretoken::Error| match arguments.origin(&source) {
        Some(path) => Failure::InFile {
            path: path.clone(),
            source: Box::new(source),
        },
        None => source.into(),
    };
    let scenario = arguments.scenario(base)?;
    if let Some(gateway) = &scenario.gateway {
        for warning in gateway.config()?.warnings() {
            eprintln!("warning: router configuration: {warning}");
        }
    }
    let (catalog, physics) = (arguments.extras.catalog()?, arguments.extras.physics()?);
    let mut lines = arguments.records.as_deref().map(Lines::to);
    let mut stalls = arguments.stalls()?;
    let mut fluidity = arguments.fluidity.map(Fluidity::new);
    let keep_gaps = arguments.gaps || fluidity.is_some();
    let mut recorder = Recorder::streaming(|mut record: RequestRecord| {
        if let Some(stalls) = &mut stalls {
            stalls.add(&record);
        }
        if let Some(fluidity) = &mut fluidity {
            fluidity.add(&record);
        }
        if let Some(lines) = &mut lines {
            record.gaps.list = record.gaps.list.filter(|_| arguments.gaps);
            lines.add(&record);
        }
    });
    if keep_gaps {
        recorder = recorder.keeping_gaps();
    }
    let (prediction, _) = scenario
        .predict_recorded(&catalog, &physics, recorder)
        .map_err(in_file)?;
    if let Some(lines) = lines {
        lines.finish()?;
    }
    let fleet = Fleet::of(&scenario.resolve(&catalog, &physics)?, &Prices::default());
    let outcome = Outcome {
        stalls: stalls.map(Stalls::report),
        fluidity: fluidity.map(Fluidity::report),
        cost: fleet.cost(&prediction.report.overall.throughput),
        prediction,
    };
    arguments.output.emit(&outcome, &outcome.to_string())
}

/// A prediction with what was asked beside it.
#[derive(Serialize)]
struct Outcome {
    #[serde(flatten)]
    prediction: Prediction,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalls: Option<StallReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fluidity: Option<FluidityReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Prediction {
            report,
            energy,
            confidence,
            ..
        } = &self.prediction;
        write!(f, "{report}")?;
        let lines: [Option<&dyn Display>; 4] = [
            self.stalls.as_ref().map(|it| it as _),
            self.fluidity.as_ref().map(|it| it as _),
            self.cost.as_ref().map(|it| it as _),
            energy.as_ref().map(|it| it as _),
        ];
        for line in lines.into_iter().flatten() {
            write!(f, "\n{line}")?;
        }
        write!(f, "\n\n{confidence}")
    }
}

/// Two times, as `500,50`.
fn deadlines(text: &str) -> Result<TokenDeadlines, String> {
    let (ttft, tbt) = text
        .split_once(',')
        .and_then(|(ttft, tbt)| Some((ttft.parse().ok()?, tbt.parse().ok()?)))
        .ok_or("allowed are two numbers of milliseconds, as `500,50`")?;
    TokenDeadlines::from_ms(ttft, tbt).map_err(|error| error.to_string())
}

impl Arguments {
    fn stalls(&self) -> Result<Option<Stalls>, Failure> {
        let limit = self.stall_limit.map(|ms| {
            SimDuration::try_from_secs_f64(ms / 1e3).map_err(|_| Failure::Flag {
                flag: "--stall-limit",
                value: ms.to_string(),
                allowed: "0 to 1.8e13 ms",
            })
        });
        Ok(limit.transpose()?.map(Stalls::longer_than))
    }

    /// The file that an error is about, if what was asked comes from one.
    fn origin(&self, error: &foretoken::Error) -> Option<&PathBuf> {
        match (error, &self.workload.workload) {
            (foretoken::Error::Workload(_), Some(workload)) => Some(workload),
            _ => self.scenario.as_ref(),
        }
    }

    /// The file's scenario with the flags in place.
    fn scenario(&self, base: Option<Scenario>) -> Result<Scenario, Failure> {
        let (deployment, workload) = match &base {
            Some(base) => (Some(base.deployment.clone()), Some(base.workload.clone())),
            None => (None, None),
        };
        let deployment = self.deployment.apply(deployment)?;
        let workload = self.workload.spec()?.or(workload).ok_or(Failure::Missing {
            missing: "the load",
            flag: "--rate",
        })?;
        // What no flag speaks of stays as the file has it.
        let mut scenario = match base {
            Some(base) => Scenario {
                deployment,
                workload,
                ..base
            },
            None => Scenario::new(deployment, workload),
        };
        scenario.gateway = self.gateway.apply(scenario.gateway);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.replication = self.replication.unwrap_or(scenario.replication);
        scenario.horizon_s = self.horizon.or(scenario.horizon_s);
        scenario.step_by_step = self.step_by_step;
        Ok(scenario)
    }
}

impl WorkloadFlags {
    pub(crate) fn spec(&self) -> Result<Option<WorkloadSpec>, Failure> {
        if let Some(path) = &self.workload {
            return spec_or_trace(path).map(Some);
        }
        let Some(rate) = self.rate else {
            return Ok(None);
        };
        let (prompt, output) = (
            LengthSpec::constant(self.prompt_tokens.unwrap_or(512)),
            LengthSpec::constant(self.output_tokens.unwrap_or(256)),
        );
        let requests = self.requests.unwrap_or(1000);
        Ok(Some(
            Synthetic::poisson(rate, requests, prompt, output)?.into(),
        ))
    }
}

/// Reads a scenario file.
pub(crate) fn scenario(path: &Path) -> Result<Scenario, Failure> {
    let mut scenario: Scenario = from_file(path)?;
    scenario
        .workload
        .rebase(path.parent().unwrap_or(Path::new("")));
    if let Some(gateway) = &mut scenario.gateway {
        relative_to(path, gateway);
    }
    Ok(scenario)
}

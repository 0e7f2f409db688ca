//! `foretoken run`: one deployment under one workload.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use clap::Args;
use foretoken::des_kernel::SimDuration;
use foretoken::metrics::{
    Fluidity, FluidityReport, Recorder, RequestRecord, StallReport, Stalls, TokenDeadlines,
};
use foretoken::{Cost, Fleet, Prediction, Scenario};
use foretoken_search::Environment;
use serde::Serialize;

use crate::commands::Extras;
use crate::commands::scenario::ScenarioFlags;
use crate::failure::Failure;
use crate::output::{Files, JsonOutput, Lines};

/// Simulate a deployment under a workload
///
/// From a scenario file (YAML or JSON), from flags, or both: flags take the place of what the file
/// says.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenario: ScenarioFlags,
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

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    Files::read(arguments.scenario.files())
        .written("--records", arguments.records.as_deref())?
        .written("--json", arguments.output.file())?;
    let scenario = arguments.scenario()?;
    if let Some(gateway) = &scenario.gateway {
        for warning in gateway.config()?.warnings() {
            eprintln!("warning: router configuration: {warning}");
        }
    }
    let Environment {
        catalog,
        physics,
        prices,
    } = arguments.extras.environment()?;
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
        .map_err(|error| arguments.scenario.in_file(error))?;
    if let Some(lines) = lines {
        lines.finish()?;
    }
    let fleet = Fleet::of(&scenario.resolve(&catalog, &physics)?, &prices);
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

    fn scenario(&self) -> Result<Scenario, Failure> {
        let mut scenario = self.scenario.scenario()?;
        scenario.replication = self.replication.unwrap_or(scenario.replication);
        scenario.horizon_s = self.horizon.or(scenario.horizon_s);
        scenario.step_by_step = self.step_by_step;
        Ok(scenario)
    }
}

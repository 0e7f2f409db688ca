//! `foretoken compare`: scenarios on the same requests, with a verdict for each metric.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table};
use foretoken::metrics::Estimate;
use foretoken_search::compare::{Cell, Compared, Comparison, Row, Variant};
use foretoken_search::{Judgement, Metric};

use crate::commands::Extras;
use crate::commands::scenario::scenario;
use crate::failure::Failure;
use crate::output::{self, Files, JsonOutput};

/// Compare deployments or policies on the same requests
///
/// Every scenario runs several times, each time with other draws, but the same for all scenarios; the first is what the
/// others are compared with. A verdict needs the whole 95 % interval of the paired differences on one side of 0.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Scenario files (YAML or JSON), two or more; the workload, the objectives, the seed and the replication number of
    /// the first are taken for all
    #[arg(required = true, num_args = 2.., value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// How often each scenario runs, 1 to 1000 times; counted from the replication number of the first
    #[arg(long, value_name = "N", default_value_t = 5)]
    replications: u64,
    /// What is compared, as `ttft-p99-ms` or `usd-per-hour`; may be given several times [default: all that matter to
    /// most]
    #[arg(long = "metric", value_name = "METRIC")]
    metrics: Vec<Metric>,
    /// Let every scenario keep its own workload and objectives
    #[arg(long)]
    own_workloads: bool,
    /// Names the experiment [default: the seed of the first scenario]
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

/// What is compared unless something else is asked for.
const METRICS: [&str; 12] = [
    "ttft-mean-ms",
    "ttft-p99-ms",
    "itl-p99-ms",
    "tpot-mean-ms",
    "e2e-mean-ms",
    "e2e-p99-ms",
    "output-tokens-per-s",
    "completed-share",
    "slo-attainment",
    "gpus",
    "usd-per-million-output-tokens",
    "joules-per-output-token",
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    Files::read(&arguments.scenarios).written("--json", arguments.output.file())?;
    let environment = arguments.extras.environment()?;
    let scenarios = arguments.scenarios.iter();
    let scenarios: Result<Vec<_>, Failure> = scenarios.map(|path| scenario(path)).collect();
    let scenarios = scenarios?;
    let first = scenarios[0].clone();
    if !arguments.own_workloads {
        for (path, other) in arguments.scenarios.iter().zip(&scenarios) {
            if other.workload != first.workload || other.slos != first.slos {
                eprintln!(
                    "note: {} asks something else, or promises something else; the workload and the objectives of {} \
                     are taken for all (--own-workloads keeps each)",
                    path.display(),
                    arguments.scenarios[0].display()
                );
            }
        }
    }
    let mut comparison = Comparison::new()
        .workload(arguments.name(&arguments.scenarios[0]), first.workload)
        .seed(arguments.seed.unwrap_or(first.seed))
        .first_replication(first.replication)
        .replications(arguments.replications);
    for (path, mut scenario) in arguments.scenarios.iter().zip(scenarios) {
        let name = arguments.name(path);
        let variant = if arguments.own_workloads {
            Variant::whole_scenario(name, &environment, scenario)
        } else {
            // What clients were promised belongs to the load.
            scenario.slos = first.slos.clone();
            Variant::scenario(name, &environment, scenario)
        };
        comparison = comparison.variant(variant.map_err(|error| within(path, error))?);
    }
    for metric in arguments.metrics()? {
        comparison = comparison.measure(metric);
    }
    let compared = comparison.run()?;
    arguments.output.emit(&compared, &text(&compared))
}

impl Arguments {
    /// What a scenario is called: its file without folder and ending, or all of it if another is called the same.
    fn name(&self, path: &Path) -> String {
        let stems = self.scenarios.iter().map(|path| path.file_stem());
        let same = stems.filter(|stem| *stem == path.file_stem()).count();
        match path.file_stem() {
            Some(stem) if same == 1 => stem.to_string_lossy().into_owned(),
            _ => path.display().to_string(),
        }
    }

    fn metrics(&self) -> Result<Vec<Metric>, Failure> {
        if !self.metrics.is_empty() {
            return Ok(self.metrics.clone());
        }
        let metrics: Result<_, _> = METRICS.iter().map(|name| name.parse()).collect();
        Ok(metrics?)
    }
}

fn within(path: &Path, error: foretoken_search::SearchError) -> Failure {
    match error {
        foretoken_search::SearchError::Simulation(source) => Failure::InFile {
            path: path.into(),
            source,
        },
        other => other.into(),
    }
}

fn text(compared: &Compared) -> String {
    let Compared {
        variants,
        replications,
        seed,
        ..
    } = compared;
    let mut text = format!(
        "{} scenarios, replications: {replications}, seed {seed}; differences to {} in pairs, with 95 % intervals\n\n{}",
        variants.len(),
        variants[0],
        table(&compared.rows, variants)
    );
    for part in &compared.classes {
        let _ = write!(
            text,
            "\n\nclass {}\n{}",
            part.class,
            table(&part.rows, variants)
        );
    }
    text
}

fn table(rows: &[Row], variants: &[String]) -> Table {
    let mut table = output::table(["metric", "scenario", "mean", "difference", "[%]", "verdict"]);
    for column in table.column_iter_mut().skip(2).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        for (index, (cell, variant)) in row.cells.iter().zip(variants).enumerate() {
            let name = if index == 0 { row.measure.as_str() } else { "" };
            table.add_row(line(name, variant, cell, &row.cells[0]));
        }
    }
    table
}

fn line(name: &str, variant: &str, cell: &Cell, first: &Cell) -> [String; 6] {
    let dash = || "-".to_owned();
    let digits = first.mean.or(cell.mean).map_or(2, |mean| digits(mean.mean));
    let estimate = |value: Estimate| {
        if value.half_width == Some(0.0) {
            // All runs agree, as of numbers of accelerators.
            let digits = if value.mean.fract() == 0.0 { 0 } else { digits };
            format!("{:.digits$}", value.mean)
        } else {
            format!("{value:.digits$}")
        }
    };
    let (difference, relative, verdict) = match cell.judgement {
        None => (String::new(), String::new(), String::new()),
        Some(judgement) => (
            cell.difference.map_or_else(dash, |it| {
                let plus = if it.mean > 0.0 { "+" } else { "" };
                format!("{plus}{}", estimate(it))
            }),
            cell.relative(first)
                .map_or_else(dash, |share| format!("{:+.1}", 100.0 * share)),
            match judgement {
                Judgement::NotDistinguishable if is_same(cell) => "the same".to_owned(),
                // One run says nothing of chance.
                _ if cell.difference.is_none_or(|it| it.half_width.is_none()) => dash(),
                other => other.to_string(),
            },
        ),
    };
    [
        name.to_owned(),
        variant.to_owned(),
        cell.mean.map_or_else(dash, estimate),
        difference,
        relative,
        verdict,
    ]
}

/// Every pair is equal.
fn is_same(cell: &Cell) -> bool {
    cell.difference
        .is_some_and(|it| it.mean == 0.0 && it.half_width.is_none_or(|width| width == 0.0))
}

/// Digits after the point that such a number is worth.
fn digits(value: f64) -> usize {
    match value.abs() {
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        value if value < 10_000.0 => 1,
        _ => 0,
    }
}

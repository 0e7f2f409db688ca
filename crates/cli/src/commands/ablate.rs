//! `foretoken ablate`: what each feature of a deployment is worth.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Args;
use comfy_table::CellAlignment;
use foretoken::metrics::Estimate;
use foretoken_calibrate::progress::Progress;
use foretoken_search::ablation::{
    Ablation, AblationReport, AblationValue, Gain, ShapleyMethod, Step,
};
use foretoken_search::{Environment, GoodputSpec, Metric};

use crate::chart::bar;
use crate::commands::Extras;
use crate::commands::scenario::scenario;
use crate::failure::{Failure, from_file};
use crate::output::{self, Files, JsonOutput};

/// Tell what each feature of a deployment is worth: a ladder, leave-one-out and Shapley values
///
/// With a scenario, the built-in ladder of an engine's features: static batching, continuous batching,
/// paged KV, prefix caching, longest prefix first, chunked prefill, asynchronous scheduling, FP8.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Scenario (YAML, or JSON by its ending) whose engine's features are switched off and on
    #[arg(required_unless_present = "spec", conflicts_with = "spec")]
    scenario: Option<PathBuf>,
    /// Ablation (YAML or JSON): a scenario with all features off, the features, and what they are to be good for
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Number of a run that features are judged by, as ttft-p99-ms [default: output-tokens-per-s]
    #[arg(long, value_name = "METRIC", conflicts_with = "goodput")]
    metric: Option<Metric>,
    /// Judge features by goodput: the highest rate at which the scenario's slos hold for 99 % of the requests
    #[arg(long)]
    goodput: bool,
    /// Repetitions with other random numbers [default: 3]
    #[arg(long, value_name = "N")]
    replications: Option<u32>,
    /// Draw so many pairs of orders for Shapley values, in place of all orders
    #[arg(long, value_name = "N")]
    sampled_pairs: Option<u32>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    Files::read(arguments.scenario.iter().chain(&arguments.spec))
        .written("--json", arguments.output.file())?;
    let environment = arguments.extras.environment()?;
    let ablation = arguments.ablation(&environment)?;
    let bar = OnceLock::new();
    let report = ablation.run(&environment, &|_, runs| {
        bar.get_or_init(|| Progress::bar("ablation", runs))
            .advance();
    })?;
    arguments.output.emit(&report, &table(&report))
}

impl Arguments {
    fn ablation(&self, environment: &Environment) -> Result<Ablation, Failure> {
        let mut ablation = match (&self.spec, &self.scenario) {
            (Some(path), _) => spec(path)?,
            (None, Some(path)) => {
                let value = AblationValue::of(Metric::OutputTokensPerS);
                Ablation::of_engine(&scenario(path)?, value, environment)?
            }
            (None, None) => {
                return Err(Failure::Missing {
                    missing: "what to ablate",
                    flag: "--spec",
                });
            }
        };
        if let Some(metric) = self.metric {
            ablation.value = AblationValue::of(metric);
        }
        if self.goodput {
            ablation.value = AblationValue::Goodput(GoodputSpec {
                max_doublings: 0,
                ..GoodputSpec::default()
            });
        }
        ablation.replications = self.replications.unwrap_or(ablation.replications);
        if let Some(pairs) = self.sampled_pairs {
            ablation.method = Some(ShapleyMethod::Sampled { pairs });
        }
        Ok(ablation)
    }
}

/// Reads an ablation: JSON by its ending, else YAML.
fn spec(path: &Path) -> Result<Ablation, Failure> {
    let mut ablation: Ablation = from_file(path)?;
    ablation.rebase(path.parent().unwrap_or(Path::new("")));
    Ok(ablation)
}

/// Characters of the longest bar.
const BAR: usize = 24;

fn table(report: &AblationReport) -> String {
    let mut text = format!(
        "{} ({} is better): {} without the features, {} with all; gain {} ({})\n\
         {} coalitions, {} replications; ± is the 95 % confidence interval of paired differences; a gain above 0 is for the better\n",
        report.value,
        match report.value {
            AblationValue::Minimise(_) => "less",
            _ => "more",
        },
        show(&report.baseline),
        show(&report.full),
        signed(&report.total),
        report.total.judgement,
        report.coalitions,
        report.replications,
    );
    let steps = |steps: &[Step]| {
        let rows = steps.iter().map(|step| {
            vec![
                step.feature.clone(),
                show(&step.worth),
                signed(&step.gain),
                step.gain.judgement.to_string(),
            ]
        });
        rows.collect::<Vec<_>>()
    };
    let mut ladder = steps(&report.ladder);
    ladder.insert(
        0,
        vec![
            "none of them".into(),
            show(&report.baseline),
            String::new(),
            String::new(),
        ],
    );
    let _ = writeln!(
        text,
        "\nLadder: switched on in order\n{}",
        lines(&["feature", "value", "gain", ""], ladder)
    );
    let _ = writeln!(
        text,
        "\nLeave one out: all but this one\n{}",
        lines(
            &["feature", "value", "gain of having it", ""],
            steps(&report.leave_one_out)
        )
    );
    let sampled = match report.method {
        ShapleyMethod::Sampled { pairs } => format!(", from {pairs} pairs of orders"),
        _ => String::new(),
    };
    let largest = report
        .shapley
        .iter()
        .map(|share| share.gain.estimate.mean.abs());
    let largest = largest.fold(0.0, f64::max);
    let shapley = report.shapley.iter().map(|share| {
        let mean = share.gain.estimate.mean;
        let length = if largest > 0.0 {
            mean.abs() / largest
        } else {
            0.0
        };
        vec![
            share.feature.clone(),
            signed(&share.gain),
            share.gain.judgement.to_string(),
            number(share.least),
            number(share.most),
            bar(length, BAR),
        ]
    });
    let _ = write!(
        text,
        "\nShapley values: the mean gain over all orders{sampled}; they sum to {}\n{}",
        number(report.total.estimate.mean),
        lines(
            &["feature", "gain", "", "least", "most", ""],
            shapley.collect()
        ),
    );
    text
}

/// Rows under headings; numbers are right-aligned but for the last column.
fn lines(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = output::table(headings.iter().copied());
    table.add_rows(rows);
    for (heading, column) in headings.iter().zip(table.column_iter_mut()) {
        if !heading.is_empty() && *heading != "feature" {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn show(estimate: &Estimate) -> String {
    let digits = digits(estimate.mean);
    format!("{estimate:.digits$}")
}

fn signed(gain: &Gain) -> String {
    let mean = gain.estimate.mean;
    let digits = digits(mean.abs().max(gain.half_width().unwrap_or(0.0)));
    match gain.half_width() {
        Some(half_width) => format!("{mean:+.digits$} ± {half_width:.digits$}"),
        None => format!("{mean:+.digits$}"),
    }
}

fn number(value: f64) -> String {
    let digits = digits(value);
    format!("{value:+.digits$}")
}

/// Digits behind the point that leave about four in all.
fn digits(value: f64) -> usize {
    match value.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        0.0 => 0,
        _ => 3,
    }
}

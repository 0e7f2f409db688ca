//! `foretoken curve`: throughput of each accelerator against the speed that each user gets.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use comfy_table::{CellAlignment, Table};
use foretoken_search::interactivity::{CurvePoint, curve};
use serde::Serialize;

use crate::chart::{MARKS, scatter};
use crate::commands::Extras;
use crate::commands::scenario::scenario;
use crate::failure::{Failure, save};
use crate::output::{self, Files, JsonOutput};

/// Draw the interactivity curve: tokens per second of each GPU against those of each user
///
/// Ever more users ask in a closed loop, with the lengths of the scenario's workload: the more there are, the more a GPU
/// serves, and the slower each user is served.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Scenario files (YAML or JSON); each makes a curve
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// Numbers of users
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64, 128, 256])]
    users: Vec<u32>,
    /// Write the points as CSV to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    #[command(flatten)]
    extras: Extras,
    #[command(flatten)]
    output: JsonOutput,
}

/// The curve of one scenario.
#[derive(Debug, Serialize)]
struct Curve {
    scenario: String,
    points: Vec<CurvePoint>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    Files::read(&arguments.scenarios)
        .written("--csv", arguments.csv.as_deref())?
        .written("--json", arguments.output.file())?;
    let environment = arguments.extras.environment()?;
    let curves = arguments.scenarios.iter().map(|path| {
        Ok(Curve {
            scenario: path.display().to_string(),
            points: curve(&environment, &scenario(path)?, &arguments.users)?,
        })
    });
    let curves: Vec<Curve> = curves.collect::<Result<_, Failure>>()?;
    save(arguments.csv.as_deref(), &csv(&curves))?;
    arguments.output.emit(&curves, &text(&curves))
}

type Column = (&'static str, usize, fn(&CurvePoint) -> Option<f64>);

/// Header, digits after the point, value.
const COLUMNS: [Column; 6] = [
    ("tok/s/user", 1, |it| it.tokens_per_s_per_user),
    ("tok/s/GPU", 1, |it| it.output_tokens_per_s_per_gpu),
    ("TTFT ms", 1, |it| it.ttft_mean_ms),
    ("p99", 1, |it| it.ttft_p99_ms),
    ("$/M output", 3, |it| it.usd_per_million_output_tokens),
    ("J/token", 3, |it| it.joules_per_output_token),
];

fn text(curves: &[Curve]) -> String {
    let mut text = String::new();
    for (curve, mark) in curves.iter().zip(MARKS.iter().cycle()) {
        let _ = writeln!(
            text,
            "{mark} {}\n{}\n",
            curve.scenario,
            table(&curve.points)
        );
    }
    let points = |curve: &Curve| {
        let points = curve.points.iter();
        points
            .filter_map(|it| it.tokens_per_s_per_user.zip(it.output_tokens_per_s_per_gpu))
            .collect()
    };
    let drawn: Vec<Vec<(f64, f64)>> = curves.iter().map(points).collect();
    text.push_str("output tokens per second and GPU, over those per second and user\n");
    text.push_str(&scatter(&drawn, 60, 14).join("\n"));
    text
}

fn table(points: &[CurvePoint]) -> Table {
    let headings = core::iter::once("users").chain(COLUMNS.map(|(name, ..)| name));
    let mut table = output::table(headings);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for point in points {
        let values = COLUMNS.map(|(_, digits, value)| {
            value(point).map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        });
        table.add_row(core::iter::once(point.users.to_string()).chain(values));
    }
    table
}

fn csv(curves: &[Curve]) -> String {
    let mut text = String::from(
        "scenario,users,tokens_per_s_per_user,output_tokens_per_s_per_gpu,ttft_mean_ms,ttft_p99_ms,\
         usd_per_million_output_tokens,joules_per_output_token\n",
    );
    for curve in curves {
        let name = curve.scenario.replace('"', "\"\"");
        for point in &curve.points {
            let _ = write!(text, "\"{name}\",{}", point.users);
            for (.., value) in COLUMNS {
                let value = value(point).map(|value| value.to_string());
                let _ = write!(text, ",{}", value.unwrap_or_default());
            }
            text.push('\n');
        }
    }
    text
}

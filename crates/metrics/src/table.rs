//! Reports as tables for people.

use core::fmt;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use crate::report::{Latency, LoadReport, Report, Summary};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            replication,
            digest,
            duration_s,
            ..
        } = self;
        writeln!(
            f,
            "{duration_s:.3} s simulated, seed {seed}, replication {replication}, digest {digest}"
        )?;
        for table in [
            latencies(self),
            counts(self),
            rates(self),
            gauges(&self.load),
        ] {
            writeln!(f, "\n{}", table.trim_fmt())?;
        }
        write!(f, "\n{}", remarks(self).join("\n"))
    }
}

/// All requests last: a single stage is not worth rows of its own.
fn parts(report: &Report) -> Vec<(String, &Summary)> {
    let stages = report
        .stages
        .iter()
        .map(|part| (format!("stage {}", part.stage), &part.summary));
    let overall = ("overall".to_owned(), &report.overall);
    stages
        .filter(|_| report.stages.len() > 1)
        .chain([overall])
        .collect()
}

fn latencies(report: &Report) -> Table {
    let mut table = table(
        2,
        &["latency", "[ms]", "mean", "p50", "p90", "p95", "p99", "max"],
    );
    for (name, summary) in parts(report) {
        let rows = [
            ("TTFT", summary.ttft_ms),
            ("ITL", summary.itl_ms),
            ("TPOT", summary.tpot_ms),
            ("E2E", summary.e2e_ms),
            ("queue", summary.queue_ms),
        ];
        for (index, (measure, latency)) in rows.into_iter().enumerate() {
            let part = if index == 0 {
                name.clone()
            } else {
                String::new()
            };
            let values = latency.map_or_else(
                || vec!["-".to_owned(); 6],
                |Latency {
                     mean,
                     p50,
                     p90,
                     p95,
                     p99,
                     max,
                     ..
                 }| {
                    [mean, p50, p90, p95, p99, max]
                        .map(|ms| format!("{ms:.2}"))
                        .to_vec()
                },
            );
            table.add_row(
                [part, measure.to_owned()]
                    .into_iter()
                    .chain(values)
                    .map(right_from(2)),
            );
        }
    }
    table
}

fn counts(report: &Report) -> Table {
    let columns = [
        "requests",
        "arrived",
        "finished",
        "rejected",
        "aborted",
        "in flight",
        "preemptions",
    ];
    let mut table = table(1, &columns);
    for (name, summary) in parts(report) {
        let counts = &summary.counts;
        let numbers = [
            counts.arrived,
            counts.finished,
            counts.rejected_total(),
            counts.aborted,
            counts.in_flight,
            summary.preemptions,
        ];
        let row = [name]
            .into_iter()
            .chain(numbers.map(|number| number.to_string()));
        table.add_row(row.map(right_from(1)));
    }
    table
}

fn rates(report: &Report) -> Table {
    let columns = [
        "throughput",
        "requests/s",
        "output tok/s",
        "total tok/s",
        "prefix hits",
        "longest stall",
    ];
    let mut table = table(1, &columns);
    for (name, summary) in parts(report) {
        let Summary {
            throughput,
            prefix_hit_rate,
            longest_stall,
            ..
        } = summary;
        let row = [
            name,
            format!("{:.2}", throughput.requests_per_s),
            format!("{:.1}", throughput.output_tokens_per_s),
            format!("{:.1}", throughput.total_tokens_per_s),
            or_dash(prefix_hit_rate.map(percent)),
            or_dash(longest_stall.map(|stall| format!("{:.2} ms", stall.ms))),
        ];
        table.add_row(row.into_iter().map(right_from(1)));
    }
    table
}

fn gauges(load: &LoadReport) -> Table {
    let mut table = table(1, &["engines", "mean", "max"]);
    let number = |value: f64| format!("{value:.2}");
    let count = |value: f64| format!("{value:.0}");
    let rows = [
        [
            "KV occupancy".to_owned(),
            percent(load.kv_occupancy.mean),
            percent(load.kv_occupancy.max),
        ],
        [
            "running".to_owned(),
            number(load.running.mean),
            count(load.running.max),
        ],
        [
            "waiting".to_owned(),
            number(load.waiting.mean),
            count(load.waiting.max),
        ],
    ];
    for row in rows {
        table.add_row(row.into_iter().map(right_from(1)));
    }
    table
}

fn remarks(report: &Report) -> Vec<String> {
    let LoadReport {
        engines,
        steps,
        busy_share,
        tokens_per_step,
        sequences_per_step,
        ..
    } = &report.load;
    let busy = percent(*busy_share);
    let mut lines = vec![format!(
        "engines: {engines}, a step in flight {busy} of the time, steps: {steps}"
    )];
    if let (Some(tokens), Some(sequences)) = (tokens_per_step, sequences_per_step) {
        lines.push(format!(
            "{tokens:.1} tokens and {sequences:.1} sequences per step"
        ));
    }
    let rejected = &report.overall.counts.rejected;
    lines.extend(
        rejected
            .iter()
            .map(|(reason, times)| format!("rejected, {reason}: {times}")),
    );
    lines
}

/// A rule below the header, and nothing else.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// An empty table whose columns stand right, but for the first `names`.
fn table(names: usize, columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(
        columns
            .iter()
            .copied()
            .map(str::to_owned)
            .map(right_from(names)),
    );
    table
}

/// Makes cells of texts, aligned to the right from number `names` on.
fn right_from(names: usize) -> impl FnMut(String) -> Cell {
    let mut index = 0;
    move |text| {
        let right = index >= names;
        index += 1;
        let alignment = if right {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        };
        Cell::new(text).set_alignment(alignment)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

//! Reports as tables for people.

mod engines;
mod requests;

use core::fmt;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use crate::load::LoadReport;
use crate::report::Report;

/// Tables of tenants and engines have at most so many rows: longer ones are for programs.
const MAX_ROWS: usize = 16;

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
        let tables = [
            Some(requests::latencies(self)),
            Some(requests::counts(self)),
            Some(requests::rates(self)),
            requests::classes(self),
            requests::tenants(self),
            requests::objectives(self),
            Some(engines::together(&self.load)),
            engines::apart(&self.endpoints),
        ];
        for table in tables.into_iter().flatten() {
            writeln!(f, "\n{}", table.trim_fmt())?;
        }
        write!(f, "\n{}", remarks(self).join("\n"))
    }
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
    let overall = &report.overall;
    if let (Some(ms), Some(mb)) = (overall.kv_transfer_ms, overall.kv_transfer_mb) {
        lines.push(format!(
            "KV transfers: {}, of {:.1} MB in {:.2} ms on average",
            ms.count, mb.mean, ms.mean
        ));
    }
    if let Some(fairness) = report.fairness {
        lines.push(format!(
            "fairness between {} tenants (Jain's index): {:.3} of tokens served, {:.3} of the share \
             of demand served",
            report.tenants.len(),
            fairness.served_tokens,
            fairness.served_share
        ));
    }
    if let Some(error) = report.percentile_error {
        lines.push(format!("percentiles: within {:.2} %", 100.0 * error));
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

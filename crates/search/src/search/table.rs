//! A result as a table for people.

use core::fmt;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use super::result::{Candidate, Counts, SearchResult, Standing};

/// Names of columns have lines of this many characters at most, where hyphens allow it.
const HEADER_WIDTH: usize = 11;

/// Reasons of failures that are listed; the others are in the JSON.
const MAX_REASONS: usize = 5;

impl fmt::Display for SearchResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objectives: Vec<String> = self.objectives.iter().map(ToString::to_string).collect();
        let constraints: Vec<String> = self.constraints.iter().map(ToString::to_string).collect();
        write!(f, "{}", objectives.join(", "))?;
        if !constraints.is_empty() {
            write!(f, "; {}", constraints.join(", "))?;
        }
        if self.front.is_empty() {
            writeln!(f, "\n\nno candidate is feasible")?;
        } else {
            writeln!(f, "\n\n{}", self.front_table().trim_fmt())?;
        }
        self.counts_in_words(f)
    }
}

impl SearchResult {
    fn front_table(&self) -> Table {
        let mut table = Table::new();
        let rule = LineStyle::none().fill('─').junction('─');
        table.load_style(TableStyle::new().header_separator(rule));
        let mut header = vec!["front".to_owned()];
        if let Some(first) = self.front().next() {
            header.extend(first.knobs.iter().map(|(name, _)| name.clone()));
            header.extend(first.metrics.iter().map(|(metric, _)| metric.to_string()));
        }
        header.push("equals".to_owned());
        table.set_header(header.iter().map(|name| right(folded(name))));
        for member in self.front() {
            table.add_row(self.row(member).into_iter().map(right));
        }
        table
    }

    fn row(&self, member: &Candidate) -> Vec<String> {
        let equal = Standing::EqualTo(member.number);
        let equals = self
            .candidates
            .iter()
            .filter(|other| other.standing == equal);
        let mut row = vec![member.number.to_string()];
        row.extend(member.knobs.iter().map(|(_, label)| label.clone()));
        row.extend(member.metrics.iter().map(|(_, value)| number(*value)));
        row.push(equals.count().to_string());
        row
    }

    fn counts_in_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            candidates,
            feasible,
            infeasible,
            failed,
            stopped,
            violated,
            failures,
        } = &self.counts;
        let (space, method) = (self.space, self.method.name());
        write!(
            f,
            "\n{candidates} of {space} candidates run ({method}): {feasible} feasible, {infeasible} infeasible"
        )?;
        for (what, count) in [("failed", failed), ("stopped early", stopped)] {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        let with = |standing: fn(&Standing) -> bool| {
            let candidates = self.candidates.iter();
            candidates
                .filter(|candidate| standing(&candidate.standing))
                .count()
        };
        let equal = with(|standing| matches!(standing, Standing::EqualTo(_)));
        let dominated = with(|standing| matches!(standing, Standing::DominatedBy(_)));
        let front = self.front.len();
        write!(
            f,
            "\nfeasible: {front} on the front, {equal} equal to one of these, {dominated} dominated"
        )?;
        for (constraint, count) in violated {
            write!(f, "\nviolated: {constraint} by {count}")?;
        }
        let mut reasons: Vec<_> = failures.iter().collect();
        reasons.sort_by(|one, other| other.1.cmp(one.1));
        for (reason, count) in reasons.iter().take(MAX_REASONS) {
            write!(f, "\nfailed: {count}: {reason}")?;
        }
        match reasons.len().saturating_sub(MAX_REASONS) {
            0 => Ok(()),
            others => write!(f, "\nfailed: {others} more reasons"),
        }
    }
}

/// A name with line breaks after hyphens, so that columns are as wide as their values.
fn folded(name: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in name.split_inclusive('-') {
        match lines.last_mut() {
            Some(line) if line.len() + part.len() <= HEADER_WIDTH => line.push_str(part),
            _ => lines.push(part.to_owned()),
        }
    }
    lines.join("\n")
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Four digits or so.
fn number(value: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    let size = value.abs();
    if size.fract() <= 0.0 && size < 1e15 {
        return format!("{value}");
    }
    match size {
        1000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        0.01.. => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_folded_at_hyphens() {
        assert_eq!(
            folded("max-num-batched-tokens"),
            "max-num-\nbatched-\ntokens"
        );
        assert_eq!(folded("gpus"), "gpus");
    }

    #[test]
    fn numbers_have_about_four_digits() {
        let of = |value: f64| number(Some(value));
        assert_eq!(
            [of(8.0), of(1234.5), of(96.21), of(4.9871)],
            ["8", "1234", "96.21", "4.987"]
        );
        assert_eq!(
            (of(0.000_123), number(None)),
            ("1.23e-4".to_owned(), "-".to_owned())
        );
    }
}

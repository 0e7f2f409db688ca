//! A result as a table for people.

use core::fmt;

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use super::result::{Candidate, Counts, SearchResult, Verdict};

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
        table.set_header(header.into_iter().map(right));
        for member in self.front() {
            table.add_row(self.row(member).into_iter().map(right));
        }
        table
    }

    fn row(&self, member: &Candidate) -> Vec<String> {
        let equal = Verdict::EqualTo(member.number);
        let equals = self.candidates.iter().filter(|other| other.verdict == equal);
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
        write!(f, "\n{candidates} of {space} candidates run ({method}): {feasible} feasible, {infeasible} infeasible")?;
        for (what, count) in [("failed", failed), ("stopped early", stopped)] {
            if *count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        let with = |verdict: fn(&Verdict) -> bool| {
            let candidates = self.candidates.iter();
            candidates.filter(|candidate| verdict(&candidate.verdict)).count()
        };
        let equal = with(|verdict| matches!(verdict, Verdict::EqualTo(_)));
        let dominated = with(|verdict| matches!(verdict, Verdict::DominatedBy(_)));
        let front = self.front.len();
        write!(f, "\nfeasible: {front} on the front, {equal} equal to one of these, {dominated} dominated")?;
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

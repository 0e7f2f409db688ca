//! [`Table`]: what came of a scenario.

use core::fmt;

use foretoken::prelude::*;

/// One number per variation and column, and whether they look as reported.
pub(crate) struct Table {
    title: &'static str,
    /// What should be seen.
    expected: &'static str,
    /// Names, and digits after the point.
    columns: &'static [(&'static str, usize)],
    rows: Vec<(String, Vec<f64>)>,
    verdict: String,
}

impl Table {
    pub(crate) const fn new(
        title: &'static str,
        expected: &'static str,
        columns: &'static [(&'static str, usize)],
    ) -> Self {
        Self {
            title,
            expected,
            columns,
            rows: Vec::new(),
            verdict: String::new(),
        }
    }

    /// A scenario that the simulator has no means for.
    pub(crate) fn cannot_apply(
        title: &'static str,
        expected: &'static str,
        reason: &'static str,
    ) -> Self {
        let mut table = Self::new(title, expected, &[]);
        table.verdict = format!("cannot apply: {reason}");
        table
    }

    /// Adds a row for each variation: the numbers that `run` finds, `None` where there is none.
    pub(crate) fn measure<V: Sync, const N: usize>(
        mut self,
        variations: &[(impl AsRef<str> + Sync, V)],
        run: impl Fn(&V) -> Result<[Option<f64>; N], Error> + Sync + Send,
    ) -> Result<Self, Error> {
        assert_eq!(N, self.columns.len(), "one number for each column");
        let runs = sweep(variations, |(_, variation)| run(variation));
        for ((label, _), numbers) in variations.iter().zip(runs) {
            let numbers = numbers?.map(|number| number.unwrap_or(f64::NAN));
            self.rows
                .push((label.as_ref().to_owned(), numbers.to_vec()));
        }
        Ok(self)
    }

    /// The number in the row and the column of these names.
    pub(crate) fn at(&self, row: &str, column: &str) -> f64 {
        let place = self.columns.iter().position(|(name, _)| *name == column);
        let place = place.unwrap_or_else(|| panic!("no column {column}"));
        let (_, numbers) = self
            .rows
            .iter()
            .find(|(label, _)| label == row)
            .unwrap_or_else(|| panic!("no row {row}"));
        numbers[place]
    }

    /// Says whether it looks as reported, and what else there is to say.
    pub(crate) fn conclude(self, seen: impl FnOnce(&Self) -> bool, remark: &str) -> Self {
        self.answer(seen, SEEN, remark)
    }

    /// The same where `seen` is only a part of what was reported.
    pub(crate) fn conclude_in_part(self, seen: impl FnOnce(&Self) -> bool, remark: &str) -> Self {
        self.answer(seen, "seen in part", remark)
    }

    fn answer(mut self, seen: impl FnOnce(&Self) -> bool, yes: &str, remark: &str) -> Self {
        let answer = if seen(&self) { yes } else { "not seen" };
        self.verdict = match remark {
            "" => answer.to_owned(),
            remark => format!("{answer}; {remark}"),
        };
        self
    }

    /// Whether it looks as reported.
    pub(crate) fn is_seen(&self) -> bool {
        self.verdict.starts_with(SEEN)
    }
}

const SEEN: &str = "seen as reported";

/// Width of the text around tables.
const WIDTH: usize = 110;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        paragraph(f, &format!("Expected: {}", self.expected))?;
        let labels = self.rows.iter().map(|(label, _)| label.chars().count());
        let width = labels.max().unwrap_or(0);
        if !self.columns.is_empty() {
            write!(f, "   {:width$}", "")?;
            for (name, _) in self.columns {
                write!(f, "   {name}")?;
            }
            writeln!(f)?;
        }
        for (label, numbers) in &self.rows {
            write!(f, "   {label:width$}")?;
            for ((name, digits), number) in self.columns.iter().zip(numbers) {
                let text = if number.is_nan() {
                    "-".to_owned()
                } else {
                    format!("{number:.digits$}")
                };
                write!(f, "   {text:>width$}", width = name.chars().count())?;
            }
            writeln!(f)?;
        }
        paragraph(f, &format!("Verdict: {}", self.verdict))
    }
}

/// Breaks lines between words.
fn paragraph(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 && length + word.len() > WIDTH {
            writeln!(f)?;
            length = 0;
        }
        let gap = if length == 0 { "   " } else { " " };
        write!(f, "{gap}{word}")?;
        length += gap.len() + word.len();
    }
    writeln!(f)
}

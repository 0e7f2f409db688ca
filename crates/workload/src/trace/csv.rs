//! [`Table`]: CSV, row by row.
//!
//! RFC 4180 with either end of line and commas. A reader of our own because a trace is not trusted: a quote that is
//! never closed is an error that says where it was opened, and neither it nor anything else makes a row longer than
//! [`MAX_LINE`].

use core::ops::Range;

use memchr::{memchr, memchr_iter};

use super::error::TraceError;
use super::input::Text;
use super::lines::{Lines, MAX_LINE};
use super::row::Place;

/// A table whose first line that is not blank has the names of its columns.
pub(crate) struct Table {
    lines: Lines,
    names: Vec<String>,
    record: Record,
}

/// The fields of one row.
#[derive(Default)]
struct Record {
    text: String,
    fields: Vec<Range<usize>>,
    /// The line it begins in.
    line: u64,
}

/// A row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    names: &'a [String],
    record: &'a Record,
}

impl Table {
    /// The table in `text`, whose columns have the names of its first row.
    pub(crate) fn new(text: Text) -> Result<Self, TraceError> {
        let mut table = Self::headless(text);
        if !table.record.read(&mut table.lines)? {
            return Err(TraceError::broken(
                Place::Line(table.lines.number().max(1)),
                "the file is empty: needed is a line with the names of columns",
            ));
        }
        let record = &table.record;
        table.names = record
            .fields
            .iter()
            .map(|field| record.text[field.clone()].trim().to_owned())
            .collect();
        Ok(table)
    }

    /// The table in `text`, which has no names.
    pub(crate) fn headless(text: Text) -> Self {
        Self {
            lines: Lines::new(text),
            names: Vec::new(),
            record: Record::default(),
        }
    }

    /// The names of the columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The column called `name`, which must be there.
    pub(crate) fn column(&self, name: &str) -> Result<usize, TraceError> {
        self.find(name)?.ok_or_else(|| {
            let problem = format!(
                "there is no column {name:?}: there are {}",
                super::error::shortened(&self.names.join(","))
            );
            TraceError::broken(Place::Line(1), problem)
        })
    }

    /// The column called `name`, if it is there.
    pub(crate) fn find(&self, name: &str) -> Result<Option<usize>, TraceError> {
        let mut found = (0..).zip(&self.names).filter(|(_, other)| *other == name);
        let first = found.next().map(|(index, _)| index);
        if found.next().is_some() {
            let problem = format!("there are two columns {name:?}");
            return Err(TraceError::broken(Place::Line(1), problem));
        }
        Ok(first)
    }

    /// The next row; blank lines are passed over.
    ///
    /// # Errors
    /// [`TraceError::BadRow`] if it has not as many fields as there are names.
    pub(crate) fn next(&mut self) -> Result<Option<Fields<'_>>, TraceError> {
        if !self.record.read(&mut self.lines)? {
            return Ok(None);
        }
        let fields = Fields {
            names: &self.names,
            record: &self.record,
        };
        let count = fields.record.fields.len();
        if !self.names.is_empty() && count != self.names.len() {
            return Err(TraceError::bad(
                fields.place(),
                "the number of fields",
                &count.to_string(),
                &format!("{}, as there are columns", self.names.len()),
            ));
        }
        Ok(Some(fields))
    }
}

impl<'a> Fields<'a> {
    /// Where the row begins.
    pub(crate) fn place(self) -> Place {
        Place::Line(self.record.line)
    }

    /// The text of column `index`.
    pub(crate) fn get(self, index: usize) -> &'a str {
        let range = self.record.fields.get(index).cloned().unwrap_or_default();
        &self.record.text[range]
    }

    /// How many there are.
    pub(crate) fn len(self) -> usize {
        self.record.fields.len()
    }

    /// The name of column `index`.
    pub(crate) fn name(self, index: usize) -> &'a str {
        self.names.get(index).map_or("", String::as_str)
    }

    /// The field in column `index` is none of the `allowed`.
    pub(crate) fn bad(self, index: usize, allowed: &str) -> TraceError {
        TraceError::bad(self.place(), self.name(index), self.get(index), allowed)
    }

    /// What `parse` makes of column `index`, which is one of the `allowed`.
    pub(crate) fn parsed<T>(
        self,
        index: usize,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, TraceError> {
        parse(self.get(index)).ok_or_else(|| self.bad(index, allowed))
    }
}

impl Record {
    /// Reads the next row; false at the end.
    fn read(&mut self, lines: &mut Lines) -> Result<bool, TraceError> {
        self.fields.clear();
        self.text.clear();
        loop {
            if !lines.advance()? {
                return Ok(false);
            }
            if !lines.line().trim_ascii().is_empty() {
                break;
            }
        }
        self.line = lines.number();
        let line = lines.line();
        if memchr(b'"', line.as_bytes()).is_some() {
            self.read_quoted(lines)?;
            return Ok(true);
        }
        self.text.push_str(line);
        let mut start = 0;
        for comma in memchr_iter(b',', line.as_bytes()) {
            self.fields.push(start..comma);
            start = comma + 1;
        }
        self.fields.push(start..line.len());
        Ok(true)
    }

    /// Reads a row that has quotes, and so perhaps several lines.
    fn read_quoted(&mut self, lines: &mut Lines) -> Result<(), TraceError> {
        let mut at = 0;
        loop {
            let start = self.text.len();
            let rest = &lines.line()[at..];
            if rest.starts_with('"') {
                at = self.read_quotes(lines, at + 1)?;
            } else {
                let end = memchr(b',', rest.as_bytes()).unwrap_or(rest.len());
                self.text.push_str(&rest[..end]);
                at += end;
            }
            self.fields.push(start..self.text.len());
            match lines.line().as_bytes().get(at) {
                None => return Ok(()),
                Some(b',') => at += 1,
                Some(_) => {
                    return Err(TraceError::bad(
                        Place::Line(self.line),
                        &format!("what follows the quoted field {}", self.fields.len()),
                        &lines.line()[at..],
                        "a comma or the end of the line (two quotes stand for one)",
                    ));
                }
            }
        }
    }

    /// Reads what stands between quotes, from byte `at` of the line; gives the byte behind them.
    fn read_quotes(&mut self, lines: &mut Lines, mut at: usize) -> Result<usize, TraceError> {
        let opened = Place::Line(lines.number());
        loop {
            let rest = &lines.line()[at..];
            if let Some(quote) = memchr(b'"', rest.as_bytes()) {
                self.text.push_str(&rest[..quote]);
                if rest.as_bytes().get(quote + 1) != Some(&b'"') {
                    return Ok(at + quote + 1);
                }
                self.text.push('"');
                at += quote + 2;
                continue;
            }
            self.text.push_str(rest);
            self.text.push_str(lines.end());
            if self.text.len() > MAX_LINE {
                let problem = "a quote is opened here and not closed within 16 MiB";
                return Err(TraceError::broken(opened, problem));
            }
            if !lines.advance()? {
                let problem = "a quote is opened here and never closed";
                return Err(TraceError::broken(opened, problem));
            }
            at = 0;
        }
    }
}

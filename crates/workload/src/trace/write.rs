//! [`RowWriter`]: rows as files.

use core::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::columns::Field;
use super::error::TraceError;
use super::format::OutputFormat;
use super::row::{Fate, Prefix, Row, TraceTime};
use super::write_parquet::ParquetWriter;
use crate::client::Headers;

/// Writes rows, losslessly: what is read from the file equals what was written, but for the place of the rows.
///
/// Each field is a column of its name ([`Field`]); times are in seconds, to the nanosecond.
///
/// ```
/// use foretoken_workload::trace::{OpenOptions, OutputFormat, Place, Row, RowWriter, TraceFile};
///
/// let path = std::env::temp_dir().join(format!("foretoken-doc-{}.csv", std::process::id()));
/// let mut writer = RowWriter::create(&path, OutputFormat::of(&path)?)?;
/// let row = Row::new(Place::Line(2), 547, 248);
/// writer.write(&row)?;
/// writer.finish()?;
/// let mut rows = TraceFile::open(&path, &OpenOptions::default())?.into_rows();
/// assert_eq!(rows.next(), Some(Ok(row)));
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), foretoken_workload::trace::TraceError>(())
/// ```
pub struct RowWriter {
    path: PathBuf,
    output: Output,
    /// The text of a row.
    line: String,
}

enum Output {
    Csv(BufWriter<File>),
    Jsonl(BufWriter<File>),
    Parquet(Box<ParquetWriter>),
}

impl RowWriter {
    /// Begins the file at `path`, which is replaced if it exists.
    ///
    /// # Errors
    /// [`TraceError::InFile`] if it cannot be written.
    pub fn create(path: &Path, format: OutputFormat) -> Result<Self, TraceError> {
        let output = Output::create(path, format).map_err(|error| error.in_file(path))?;
        Ok(Self {
            path: path.to_owned(),
            output,
            line: String::new(),
        })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// [`TraceError::InFile`] if the file cannot be written, or if the row has a text with a NUL, which no format
    /// of text allows.
    pub fn write(&mut self, row: &Row) -> Result<(), TraceError> {
        self.line.clear();
        let written = match &mut self.output {
            Output::Csv(file) => csv(row, &mut self.line).and_then(|()| put(file, &self.line)),
            Output::Jsonl(file) => {
                jsonl(row, &mut self.line);
                put(file, &self.line)
            }
            Output::Parquet(file) => file.write(row),
        };
        written.map_err(|error| error.in_file(&self.path))
    }

    /// Writes what is not written yet, and ends the file.
    ///
    /// # Errors
    /// [`TraceError::InFile`] if the file cannot be written.
    pub fn finish(self) -> Result<(), TraceError> {
        let finished = match self.output {
            Output::Csv(mut file) | Output::Jsonl(mut file) => {
                file.flush().map_err(|error| TraceError::io(&error))
            }
            Output::Parquet(file) => file.finish(),
        };
        finished.map_err(|error| error.in_file(&self.path))
    }
}

impl fmt::Debug for RowWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowWriter")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Output {
    fn create(path: &Path, format: OutputFormat) -> Result<Self, TraceError> {
        let file = File::create(path).map_err(|error| TraceError::io(&error))?;
        Ok(match format {
            OutputFormat::Csv => {
                let mut file = BufWriter::new(file);
                let names: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
                put(&mut file, &format!("{}\n", names.join(",")))?;
                Self::Csv(file)
            }
            OutputFormat::Jsonl => Self::Jsonl(BufWriter::new(file)),
            OutputFormat::Parquet => Self::Parquet(Box::new(ParquetWriter::new(file)?)),
        })
    }
}

fn put(file: &mut BufWriter<File>, text: &str) -> Result<(), TraceError> {
    file.write_all(text.as_bytes())
        .map_err(|error| TraceError::io(&error))
}

/// What a field of a row holds.
pub(super) enum Cell<'a> {
    /// Nothing.
    Unknown,
    Text(&'a str),
    /// Text that is made for writing.
    Made(String),
    Whole(u64),
    Signed(i32),
    /// Nanoseconds.
    Time(i64),
    /// Nanoseconds, from 0.
    Span(u64),
}

/// What `field` of `row` holds.
pub(super) fn cell(row: &Row, field: Field) -> Cell<'_> {
    fn given<'a, T>(value: Option<T>, cell: impl FnOnce(T) -> Cell<'a>) -> Cell<'a> {
        value.map_or(Cell::Unknown, cell)
    }
    let time = |time: TraceTime| Cell::Time(time.as_nanos());
    let number = |number: u32| Cell::Whole(number.into());
    match field {
        Field::Id => given(row.id.as_deref(), Cell::Text),
        Field::Sent => given(row.sent, time),
        Field::InputTokens => Cell::Whole(row.input_tokens),
        Field::OutputTokens => Cell::Whole(row.output_tokens),
        Field::MaxTokens => given(row.max_tokens, Cell::Whole),
        Field::Model => given(row.model.as_deref(), Cell::Text),
        Field::Tenant => given(row.tenant.as_deref(), Cell::Text),
        Field::Session => given(row.session.as_deref(), Cell::Text),
        Field::Turn => given(row.turn, number),
        Field::Class => given(row.class, |class| Cell::Text(class.name())),
        Field::Priority => given(row.priority, Cell::Signed),
        Field::Objective => given(row.objective, Cell::Signed),
        Field::Timeout => given(row.timeout, Cell::Span),
        Field::Stage => given(row.stage, number),
        Field::CacheSalt => given(row.cache_salt, Cell::Whole),
        Field::Headers => given(
            Some(&row.headers).filter(|headers| !headers.is_empty()),
            |headers| Cell::Made(json_of(headers)),
        ),
        Field::Prefix => given(
            Some(&row.prefix).filter(|prefix| **prefix != Prefix::Unknown),
            |prefix| Cell::Made(prefix.to_string()),
        ),
        Field::Fate => given(
            Some(&row.fate).filter(|fate| **fate != Fate::Unknown),
            |fate| Cell::Made(fate.to_string()),
        ),
        Field::FirstToken => given(row.first_token, time),
        Field::Finished => given(row.finished, time),
    }
}

/// Headers as a JSON object.
fn json_of(headers: &Headers) -> String {
    let fields: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends nanoseconds as seconds, exactly.
pub(super) fn push_seconds(line: &mut String, nanos: u64) {
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    push(line, format_args!("{seconds}"));
    if rest > 0 {
        push(line, format_args!(".{rest:09}"));
        line.truncate(line.trim_end_matches('0').len());
    }
}

fn push(line: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = fmt::Write::write_fmt(line, text);
}

/// Appends a number or a time; gives the text of any other cell back.
fn push_number<'a>(line: &mut String, cell: &'a Cell<'_>) -> Option<&'a str> {
    match cell {
        Cell::Text(text) => return Some(text),
        Cell::Made(text) => return Some(text),
        Cell::Unknown => {}
        Cell::Whole(number) => push(line, format_args!("{number}")),
        Cell::Signed(number) => push(line, format_args!("{number}")),
        Cell::Span(nanos) => push_seconds(line, *nanos),
        Cell::Time(nanos) => {
            if *nanos < 0 {
                line.push('-');
            }
            push_seconds(line, nanos.unsigned_abs());
        }
    }
    None
}

/// Appends a row of CSV.
fn csv(row: &Row, line: &mut String) -> Result<(), TraceError> {
    for (index, &field) in Field::ALL.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        let cell = cell(row, field);
        let Some(text) = push_number(line, &cell) else {
            continue;
        };
        if text.contains('\0') {
            return Err(TraceError::bad(
                row.place,
                field.name(),
                text,
                "text without NUL",
            ));
        }
        if text.contains([',', '"', '\n', '\r']) {
            push(line, format_args!("\"{}\"", text.replace('"', "\"\"")));
        } else {
            line.push_str(text);
        }
    }
    line.push('\n');
    Ok(())
}

/// Appends a line of JSONL.
fn jsonl(row: &Row, line: &mut String) {
    line.push('{');
    for &field in Field::ALL {
        let cell = cell(row, field);
        if matches!(cell, Cell::Unknown) {
            continue;
        }
        if line.len() > 1 {
            line.push(',');
        }
        push(line, format_args!("\"{field}\":"));
        if let Some(text) = push_number(line, &cell) {
            let text = if field == Field::Headers {
                text.to_owned()
            } else {
                quoted(text)
            };
            line.push_str(&text);
        }
    }
    line.push_str("}\n");
}

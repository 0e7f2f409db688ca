//! The formats, one module each.

mod azure;
mod blis;
mod burst_gpt;
mod guide_llm;
pub(crate) mod inference_perf;
mod mooncake;
mod open_telemetry;
pub(crate) mod parquet;
pub(crate) mod serve_gen;
mod splitwise;
pub(crate) mod table;
mod vidur;
mod vllm_bench;

use super::columns::Columns;
use super::csv::{Fields, Table};
use super::document::{Document, Found, Pattern};
use super::error::TraceError;
use super::format::Format;
use super::input::{Source, Text};
use super::lines::Lines;
use super::row::{Place, Row, Rows};
use super::value::Texts;

/// The rows of `source`, which is of `format`.
pub(crate) fn rows(
    format: Format,
    source: Source,
    columns: Columns,
    seed: u64,
) -> Result<Box<dyn Rows>, TraceError> {
    match format {
        Format::Azure => azure::rows(source.into_text()?),
        Format::Mooncake => Ok(mooncake::rows(source.into_text()?)),
        Format::BurstGpt => burst_gpt::rows(source.into_text()?),
        Format::ServeGen => serve_gen::rows(source, seed),
        Format::Vidur => vidur::rows(source.into_text()?),
        Format::Splitwise => splitwise::rows(source.into_text()?),
        Format::Blis => blis::rows(source),
        Format::VllmBench => Ok(vllm_bench::rows(source.into_text()?)),
        Format::GuideLlm => Ok(guide_llm::rows(source.into_text()?)),
        Format::InferencePerf => Ok(inference_perf::rows(source.into_text()?)),
        Format::OpenTelemetry => Ok(open_telemetry::rows(source.into_text()?)),
        Format::Csv => table::csv(source.into_text()?, &columns),
        Format::Jsonl => Ok(table::jsonl(source.into_text()?, columns)),
        Format::Parquet => parquet::rows(source, &columns),
    }
}

/// What a format makes of each row of a CSV file.
struct TableRows<F> {
    table: Table,
    texts: Texts,
    parse: F,
}

impl<F> TableRows<F>
where
    F: FnMut(Fields<'_>, &mut Texts) -> Result<Row, TraceError> + Send + 'static,
{
    fn boxed(table: Table, parse: F) -> Box<dyn Rows> {
        Box::new(Self {
            table,
            texts: Texts::default(),
            parse,
        })
    }
}

impl<F> Iterator for TableRows<F>
where
    F: FnMut(Fields<'_>, &mut Texts) -> Result<Row, TraceError>,
{
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let fields = self.table.next().transpose()?;
        Some(fields.and_then(|fields| (self.parse)(fields, &mut self.texts)))
    }
}

/// What a format makes of each line of a file of JSON objects.
struct LineRows<F> {
    lines: Lines,
    texts: Texts,
    parse: F,
}

impl<F> LineRows<F>
where
    F: FnMut(&str, Place, &mut Texts) -> Result<Row, TraceError> + Send + 'static,
{
    fn boxed(text: Text, parse: F) -> Box<dyn Rows> {
        Box::new(Self {
            lines: Lines::new(text),
            texts: Texts::default(),
            parse,
        })
    }

    fn read(&mut self) -> Result<Option<Row>, TraceError> {
        while self.lines.advance()? {
            let line = self.lines.line().trim_ascii();
            if !line.is_empty() {
                let place = Place::Line(self.lines.number());
                return (self.parse)(line, place, &mut self.texts).map(Some);
            }
        }
        match self.lines.number() {
            0 => Err(empty()),
            _ => Ok(None),
        }
    }
}

impl<F> Iterator for LineRows<F>
where
    F: FnMut(&str, Place, &mut Texts) -> Result<Row, TraceError> + Send + 'static,
{
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A part of a JSON report.
struct Part<'a> {
    /// Number of the pattern that it lies at.
    pattern: usize,
    text: &'a str,
    /// Its number among all parts.
    place: Place,
    document: &'a Document,
}

/// What a format makes of each part of a JSON report: a row, or nothing.
struct PartRows<F> {
    document: Document,
    texts: Texts,
    parts: u64,
    /// What a report has parts for, for the case that there are none.
    needed: &'static str,
    parse: F,
}

impl<F> PartRows<F>
where
    F: FnMut(Part<'_>, &mut Texts) -> Result<Option<Row>, TraceError> + Send + 'static,
{
    fn boxed(
        text: Text,
        patterns: &'static [Pattern],
        needed: &'static str,
        parse: F,
    ) -> Box<dyn Rows> {
        Box::new(Self {
            document: Document::new(text, patterns),
            texts: Texts::default(),
            parts: 0,
            needed,
            parse,
        })
    }

    fn read(&mut self) -> Result<Option<Row>, TraceError> {
        while let Some(found) = self.document.next()? {
            let Found::Part(pattern) = found else {
                continue;
            };
            self.parts += 1;
            let part = Part {
                pattern,
                text: self.document.part(),
                place: Place::Row(self.parts),
                document: &self.document,
            };
            if let Some(row) = (self.parse)(part, &mut self.texts)? {
                return Ok(Some(row));
            }
        }
        if self.parts == 0 {
            let problem = format!("there is nothing to read: needed is {}", self.needed);
            return Err(TraceError::broken(self.document.place(), problem));
        }
        Ok(None)
    }
}

impl<F> Iterator for PartRows<F>
where
    F: FnMut(Part<'_>, &mut Texts) -> Result<Option<Row>, TraceError> + Send + 'static,
{
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn empty() -> TraceError {
    TraceError::broken(Place::Line(1), "the file is empty")
}

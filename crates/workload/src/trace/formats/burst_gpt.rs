//! `BurstGPT` (HPMLL/BurstGPT): CSV.
//!
//! | Column | Becomes |
//! |---|---|
//! | `Timestamp` | `sent`, from seconds since the trace's start |
//! | `Model` | `model` |
//! | `Request tokens` | `input-tokens` |
//! | `Response tokens` | `output-tokens`; 0 is a failure |
//! | `Log Type` | `tenant`: `Conversation log` or `API log` |
//! | `Session ID` (newer releases) | `session` |
//! | `Elapsed time` (newer releases) | `finished`, from seconds after `sent` |
//!
//! `Total tokens` and other columns are ignored. Whether a request of a session repeats what was said before is not
//! known of the trace, so its prefix is unknown.

use std::sync::Arc;

use super::super::columns::TimeUnit;
use super::super::row::{Fate, TraceTime};
use super::super::value::{self, TIME, TOKENS};
use super::{Row, Rows, Table, TableRows, Text, TraceError};

pub(super) fn rows(text: Text) -> Result<Box<dyn Rows>, TraceError> {
    let table = Table::new(text)?;
    let sent = table.column("Timestamp")?;
    let input = table.column("Request tokens")?;
    let output = table.column("Response tokens")?;
    let model = table.find("Model")?;
    let kind = table.find("Log Type")?;
    let session = table.find("Session ID")?;
    let elapsed = table.find("Elapsed time")?;
    let failure: Arc<str> = Arc::from("no tokens in the response");
    Ok(TableRows::boxed(table, move |fields, texts| {
        let seconds = |text: &str| value::nanos(text, TimeUnit::Seconds);
        let start = fields.parsed(sent, TIME, seconds)?;
        let mut row = Row::new(
            fields.place(),
            fields.parsed(input, TOKENS, value::whole)?,
            fields.parsed(output, TOKENS, value::whole)?,
        );
        row.sent = Some(TraceTime::from_nanos(start));
        row.model = model.and_then(|index| texts.keep(fields.get(index).trim()));
        row.tenant = kind.and_then(|index| texts.keep(fields.get(index).trim()));
        row.session = session.and_then(|index| texts.keep(fields.get(index).trim()));
        if let Some(index) = elapsed.filter(|&index| !fields.get(index).trim().is_empty()) {
            let end = |text: &str| {
                let span = seconds(text).filter(|&span| span >= 0)?;
                start.checked_add(span).map(TraceTime::from_nanos)
            };
            row.finished = Some(fields.parsed(index, "seconds, from 0", end)?);
        }
        row.fate = if row.output_tokens == 0 {
            let why = Arc::clone(&failure);
            Fate::Failed { why }
        } else {
            Fate::Answered
        };
        Ok(row)
    }))
}

//! Traces of Splitwise's simulator (Mutinifni/splitwise-sim): CSV.
//!
//! | Column | Becomes |
//! |---|---|
//! | `request_id` | `id` |
//! | `application_id` | `tenant` |
//! | `arrival_timestamp` | `sent`, from seconds |
//! | `batch_size` | must be 1: a batch is no request |
//! | `prompt_size` | `input-tokens` |
//! | `token_size` | `output-tokens` |
//!
//! `request_type` and other columns are ignored.

use std::sync::Arc;

use super::super::columns::TimeUnit;
use super::super::value::{self, TIME, TOKENS};
use super::{Row, Rows, Table, TableRows, Text, TraceError};

pub(super) fn rows(text: Text) -> Result<Box<dyn Rows>, TraceError> {
    let table = Table::new(text)?;
    let sent = table.column("arrival_timestamp")?;
    let input = table.column("prompt_size")?;
    let output = table.column("token_size")?;
    let id = table.find("request_id")?;
    let tenant = table.find("application_id")?;
    let batch = table.find("batch_size")?;
    Ok(TableRows::boxed(table, move |fields, texts| {
        let time = |text: &str| value::time(text, TimeUnit::Seconds);
        if let Some(index) = batch {
            let one = |text: &str| value::whole(text).filter(|&size| size == 1);
            fields.parsed(index, "1, since a batch is no request", one)?;
        }
        let mut row = Row::new(
            fields.place(),
            fields.parsed(input, TOKENS, value::whole)?,
            fields.parsed(output, TOKENS, value::whole)?,
        );
        row.sent = Some(fields.parsed(sent, TIME, time)?);
        let id = id.map(|index| fields.get(index).trim());
        row.id = id.filter(|id| !id.is_empty()).map(Arc::from);
        row.tenant = tenant.and_then(|index| texts.keep(fields.get(index).trim()));
        Ok(row)
    }))
}

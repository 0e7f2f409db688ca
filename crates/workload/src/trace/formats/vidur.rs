//! Vidur's processed traces (microsoft/vidur): CSV.
//!
//! | Column | Becomes |
//! |---|---|
//! | `arrived_at` | `sent`, from seconds; traces of lengths do not have it |
//! | `num_prefill_tokens` | `input-tokens` |
//! | `num_decode_tokens` | `output-tokens` |
//!
//! Other columns (`pd_ratio`, `num_total_tokens`) are ignored.

use super::super::columns::TimeUnit;
use super::super::value::{self, TIME, TOKENS};
use super::{Row, Rows, Table, TableRows, Text, TraceError};

pub(super) fn rows(text: Text) -> Result<Box<dyn Rows>, TraceError> {
    let table = Table::new(text)?;
    let sent = table.find("arrived_at")?;
    let input = table.column("num_prefill_tokens")?;
    let output = table.column("num_decode_tokens")?;
    Ok(TableRows::boxed(table, move |fields, _| {
        let time = |text: &str| value::time(text, TimeUnit::Seconds);
        let mut row = Row::new(
            fields.place(),
            fields.parsed(input, TOKENS, value::whole)?,
            fields.parsed(output, TOKENS, value::whole)?,
        );
        if let Some(index) = sent {
            row.sent = Some(fields.parsed(index, TIME, time)?);
        }
        Ok(row)
    }))
}

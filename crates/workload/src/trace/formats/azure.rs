//! Azure's LLM inference traces (Azure/AzurePublicDataset): `AzureLLMInferenceTrace_code.csv` and `…_conv.csv` of
//! 2023, and those of 2024 that cover a week.
//!
//! | Column | Becomes |
//! |---|---|
//! | `TIMESTAMP` | `sent`: `2023-11-16 18:15:46.6805900` (no zone: UTC) or `2024-05-10 00:00:00.009930+00:00` |
//! | `ContextTokens` | `input-tokens` |
//! | `GeneratedTokens` | `output-tokens` |
//!
//! Other columns are ignored. Times are instants since 1970.

use super::super::columns::TimeUnit;
use super::super::value::{self, TOKENS};
use super::{Row, Rows, Table, TableRows, Text, TraceError};

const DATE: &str = "a date and time of day, YYYY-MM-DD HH:MM:SS[.fraction][zone]";

pub(super) fn rows(text: Text) -> Result<Box<dyn Rows>, TraceError> {
    let table = Table::new(text)?;
    let sent = table.column("TIMESTAMP")?;
    let input = table.column("ContextTokens")?;
    let output = table.column("GeneratedTokens")?;
    Ok(TableRows::boxed(table, move |fields, _| {
        let time = |text: &str| {
            let date = text.contains(':');
            value::time(text, TimeUnit::Seconds).filter(|_| date)
        };
        let mut row = Row::new(
            fields.place(),
            fields.parsed(input, TOKENS, value::whole)?,
            fields.parsed(output, TOKENS, value::whole)?,
        );
        row.sent = Some(fields.parsed(sent, DATE, time)?);
        Ok(row)
    }))
}

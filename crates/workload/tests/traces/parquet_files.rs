//! Parquet files that others wrote.

use std::fs::File;
use std::sync::Arc;

use foretoken_workload::trace::{
    Columns, Field, Format, OpenOptions, Place, Row, TraceError, TraceFile,
};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::{Scratch, row, text};

/// A file of three rows, one in the last of two groups.
fn file(schema: &str) -> Scratch {
    let scratch = Scratch::empty("t.parquet");
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let file = File::create(&scratch.path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    for rows in [0..2, 2..3] {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let prompts = &[700_i32, -7, 9][rows.clone()];
        column
            .typed::<Int32Type>()
            .write_batch(prompts, None, None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        // The second row has none.
        let there = &[1_i16, 0, 1][rows.clone()];
        let answers = if rows.len() == 2 { &[5.0][..] } else { &[6.0] };
        column
            .typed::<DoubleType>()
            .write_batch(answers, Some(there), None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let times = &[1_500_i64, 1_600, 1_700][rows.clone()];
        column
            .typed::<Int64Type>()
            .write_batch(times, None, None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let names: Vec<_> = ["a", "b", "a"][rows]
            .iter()
            .map(|name| ByteArray::from(*name))
            .collect();
        let depth = vec![1_i16; names.len()];
        let first = vec![0_i16; names.len()];
        column
            .typed::<ByteArrayType>()
            .write_batch(&names, Some(&depth), Some(&first))
            .unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    scratch
}

const SCHEMA: &str = "message rows {
    required int32 prompt;
    optional double answer;
    required int64 sent (TIMESTAMP(MILLIS,true));
    repeated binary model (STRING);
}";

fn read(file: &Scratch, columns: Columns) -> Vec<Result<Row, TraceError>> {
    let options = OpenOptions {
        format: None,
        columns,
    };
    let trace = TraceFile::open(&file.path, &options).unwrap();
    assert_eq!(trace.format, Format::Parquet);
    trace.into_rows().collect()
}

fn lengths() -> Columns {
    Columns::default()
        .with(Field::InputTokens, "prompt")
        .with(Field::OutputTokens, "answer")
        .with(Field::Model, "name")
}

#[test]
fn numbers_of_any_type_are_read_and_bad_ones_are_named() {
    let file = file(&SCHEMA.replace("repeated binary model", "repeated binary other"));
    let columns = lengths().with(Field::Model, "answer");
    let error = read(&file, columns)[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("there is no column \"answer\""), "{error}");

    let columns = Columns::default()
        .with(Field::InputTokens, "prompt")
        .with(Field::OutputTokens, "answer");
    let rows = read(&file, columns);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0], Ok(row(Place::Row(1), 1_500_000_000, 700, 5)));
    let bad = rows[1].as_ref().unwrap_err();
    assert!(bad.is_about_one_row());
    assert_eq!(
        bad.to_string(),
        "row 2, prompt is \"-7\": allowed is a whole number of tokens, from 0"
    );
    assert_eq!(rows[2], Ok(row(Place::Row(3), 1_700_000_000, 9, 6)));
}

#[test]
fn integers_without_a_sign_and_missing_values() {
    let schema = SCHEMA
        .replace("int32 prompt", "int32 prompt (INTEGER(32,false))")
        .replace("repeated binary model", "repeated binary other");
    let columns = Columns::default()
        .with(Field::InputTokens, "prompt")
        .with(Field::OutputTokens, "answer");
    let rows = read(&file(&schema), columns);
    let bad = rows[1].as_ref().unwrap_err().to_string();
    assert_eq!(
        bad,
        "row 2, answer is \"missing\": allowed is a whole number of tokens, from 0"
    );
    let columns = Columns::default()
        .with(Field::InputTokens, "answer")
        .with(Field::OutputTokens, "prompt");
    let tokens = |row: &Result<Row, TraceError>| row.as_ref().ok().map(|row| row.output_tokens);
    assert_eq!(
        read(&file(&schema), columns)
            .iter()
            .map(tokens)
            .collect::<Vec<_>>(),
        [Some(700), None, Some(9)]
    );
    let columns = Columns::default()
        .with(Field::InputTokens, "prompt")
        .with(Field::OutputTokens, "sent");
    let rows = read(&file(&schema), columns);
    let second = rows[1].as_ref().unwrap();
    assert_eq!(
        (second.input_tokens, second.output_tokens),
        (4_294_967_289, 1_600)
    );
}

#[test]
fn a_column_that_is_wanted_and_repeated_is_refused() {
    let rows = read(&file(SCHEMA), lengths().with(Field::Model, "model"));
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0].as_ref().unwrap_err().to_string(),
        "row 1: column \"model\" is repeated or nested"
    );
}

#[test]
fn texts_are_read() {
    let file = Scratch::empty("t.parquet");
    let mut expected = row(Place::Row(1), 5, 1, 2);
    expected.model = text("é, \"quoted\"");
    let mut writer = foretoken_workload::trace::RowWriter::create(
        &file.path,
        foretoken_workload::trace::OutputFormat::Parquet,
    )
    .unwrap();
    writer.write(&expected).unwrap();
    writer.finish().unwrap();
    assert_eq!(read(&file, Columns::default()), [Ok(expected)]);
}

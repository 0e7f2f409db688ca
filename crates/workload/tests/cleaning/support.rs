//! Rows to clean, and what is left of them.

use foretoken_des_kernel::RngStreams;
use foretoken_workload::trace::{
    BadRows, CleanReport, CleanStep, Cleaning, Place, Row, TraceError, TraceTime,
};

/// A row sent at a number of milliseconds.
pub(crate) fn row(line: u64, sent_ms: i64, input: u64, output: u64) -> Row {
    let mut row = Row::new(Place::Line(line), input, output);
    row.sent = Some(TraceTime::from_nanos(sent_ms * 1_000_000));
    row
}

/// When a row was sent, in milliseconds.
pub(crate) fn sent_ms(row: &Row) -> i64 {
    row.sent.expect("rows of tests have times").as_nanos() / 1_000_000
}

/// Steps as files write them.
pub(crate) fn cleaning(steps: &str) -> Cleaning {
    let steps: Vec<CleanStep> = serde_json::from_str(steps).expect("well-formed steps");
    Cleaning::new(steps).expect("possible steps")
}

/// What comes out of these steps, which treat every row.
pub(crate) fn clean(steps: &str, rows: Vec<Row>) -> (Vec<Row>, CleanReport) {
    try_clean(steps, rows.into_iter().map(Ok).collect(), BadRows::Stop)
        .expect("every row is treated")
}

/// What comes out of these steps.
pub(crate) fn try_clean(
    steps: &str,
    rows: Vec<Result<Row, TraceError>>,
    bad_rows: BadRows,
) -> Result<(Vec<Row>, CleanReport), TraceError> {
    let mut cleaned = cleaning(steps).apply(rows.into_iter(), &RngStreams::new(7, 0), bad_rows);
    let rows = cleaned.by_ref().collect::<Result<_, _>>()?;
    Ok((rows, cleaned.into_report()))
}

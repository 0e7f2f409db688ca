//! What holds whatever the rows and the steps.

use foretoken_workload::trace::{BadRows, Fate, Place, Row, TraceError};
use proptest::prelude::*;

use crate::support::{row, try_clean};

fn any_row() -> impl Strategy<Value = Result<Row, TraceError>> {
    let ids = prop::option::of(0_u8..20);
    let parts = (
        0_u64..99,
        -5_000_i64..50_000,
        0_u64..300,
        0_u64..100,
        ids,
        0_u8..12,
    );
    parts.prop_map(|(line, at, input, output, id, kind)| {
        let mut row = row(line, at, input, output);
        row.id = id.map(|id| id.to_string().into());
        row.session = id
            .filter(|id| id % 2 == 0)
            .map(|id| (id % 6).to_string().into());
        row.tenant = id.map(|id| (id % 3).to_string().into());
        match kind {
            0 => {
                row.fate = Fate::Failed {
                    why: "overloaded".into(),
                }
            }
            1 => row.fate = Fate::TimedOut,
            2 => row.sent = None,
            3 => {
                return Err(TraceError::BadRow {
                    place: Place::Line(line),
                    column: "sent".into(),
                    value: "x".into(),
                    allowed: "a time".into(),
                });
            }
            _ => {}
        }
        Ok(row)
    })
}

fn any_step() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        r#"{"drop-failed": {}}"#,
        r#"{"drop-timed-out": {}}"#,
        r#"{"drop-retries": {"within-s": 3}}"#,
        r#"{"drop-duplicate-ids": {}}"#,
        r#"{"sort": {}}"#,
        r#"{"sort": {"within-s": 2}}"#,
        r#"{"sort": {"within-s": 2, "late": "drop"}}"#,
        r#"{"drop-lengths": {"total": {"max": 250}}}"#,
        r#"{"clip-lengths": {"input": {"min": 4, "max": 99}}}"#,
        r#"{"shift-to-zero": {}}"#,
        r#"{"scale-time": {"factor": 0.3}}"#,
        r#"{"resample": {"rate-rps": 3}}"#,
        r#"{"resample": {"rate-rps": 1, "from-rps": 2, "by": {"thin": {"whole": "tenant"}}}}"#,
        r#"{"resample": {"rate-rps": 7, "from-rps": 2, "by": {"overlay": {}}}}"#,
        r#"{"slice-time": {"from-s": 1, "to-s": 20}}"#,
        r#"{"slice-rows": {"skip": 3, "count": 40}}"#,
        r#"{"sample": {"share": 0.5}}"#,
    ])
}

proptest! {
    #[test]
    fn no_row_is_lost_and_none_comes_from_nowhere(
        rows in prop::collection::vec(any_row(), 0..80),
        steps in prop::collection::vec(any_step(), 0..6),
    ) {
        let steps = format!("[{}]", steps.join(","));
        // A rate that cannot be counted is an error, and no row is lost by one.
        if let Ok((kept, report)) = try_clean(&steps, rows.clone(), BadRows::Skip) {
            prop_assert_eq!(kept.len() as u64, report.rows_out);
            prop_assert_eq!(report.rows_in + report.added(), report.rows_out + report.dropped());
            for step in &report.steps {
                prop_assert_eq!(step.rows_in + step.added, step.rows_out + step.dropped());
            }
            for pair in report.steps.windows(2) {
                prop_assert_eq!(pair[0].rows_out, pair[1].rows_in);
            }
            let again = try_clean(&steps, rows, BadRows::Skip).expect("as before");
            prop_assert_eq!(again, (kept, report));
        }
    }
}

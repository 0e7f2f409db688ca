//! What the report of a trace says.

use foretoken_des_kernel::RngStreams;
use foretoken_workload::trace::{BadRows, Fate, Inspection, Part, Row, TraceTime, Warning};
use foretoken_workload::{
    ArrivalSpec, LengthSpec, SyntheticSpec, Workload, WorkloadFile, WorkloadSpec,
};

use crate::support::row;

fn inspected(rows: impl IntoIterator<Item = Row>) -> Inspection {
    let rows: Vec<_> = rows.into_iter().map(Ok).collect();
    Inspection::of(rows.into_iter(), BadRows::Stop).expect("no bad rows")
}

fn made(spec: &WorkloadSpec) -> Vec<Row> {
    let mut load = spec.build(&RngStreams::new(1, 0)).expect("a valid load");
    core::iter::from_fn(|| load.next())
        .map(|request| Row::of(&request))
        .collect()
}

fn described(arrivals: &str) -> WorkloadSpec {
    let arrivals: ArrivalSpec = serde_json::from_str(arrivals).expect("well-formed");
    let (input, output) = (
        LengthSpec::lognormal(700.0, 500.0),
        LengthSpec::normal(300.0, 40.0),
    );
    SyntheticSpec::new(arrivals, 20_000, input, output).into()
}

#[test]
fn a_generated_load_is_recognised() {
    let seen = inspected(made(&described(
        r#"{"gamma": {"rate-rps": 5.0, "cv": 2.0}}"#,
    )));
    let gaps = seen
        .gaps
        .as_ref()
        .and_then(|gaps| gaps.fits.as_ref())
        .expect("fits");
    assert_eq!(gaps.best().map(|fit| fit.law.name()), Some("gamma"));
    let input = seen.input.fits.as_ref().expect("fits");
    assert_eq!(input.best().map(|fit| fit.law.name()), Some("lognormal"));
    let output = seen.output.fits.as_ref().expect("fits");
    assert_eq!(output.best().map(|fit| fit.law.name()), Some("normal"));
    assert_eq!(seen.warnings, []);
    assert!(
        seen.relation
            .is_some_and(|relation| relation.spearman.abs() < 0.03)
    );
}

#[test]
fn the_workload_of_a_report_gives_the_same_report() {
    let first = inspected(made(&described(
        r#"{"weibull": {"rate-rps": 5.0, "cv": 1.5}}"#,
    )));
    let file = WorkloadFile::new(first.workload().expect("times and lengths"));
    let text = serde_json::to_string(&file).expect("plain data");
    let file: WorkloadFile = serde_json::from_str(&text).expect("just written");
    let second = inspected(made(&file.workload));
    let near =
        |a: f64, b: f64, tolerance: f64| assert!((a / b - 1.0).abs() < tolerance, "{a} is not {b}");
    near(
        first.rate_rps.expect("times"),
        second.rate_rps.expect("times"),
        0.05,
    );
    near(
        first.gaps.expect("gaps").cv,
        second.gaps.expect("gaps").cv,
        0.05,
    );
    near(first.input.mean, second.input.mean, 0.03);
    near(first.output.std, second.output.std, 0.05);
}

#[test]
fn the_same_rows_give_the_same_report() {
    let rows = made(&described(r#"{"poisson": {"rate-rps": 50.0}}"#));
    assert_eq!(inspected(rows.clone()), inspected(rows));
}

fn regular(count: u64, gap_ms: i64) -> impl Iterator<Item = Row> {
    (0..count).map(move |n| {
        let at = i64::try_from(n).expect("small") * gap_ms;
        row(n, at, 50 + n * 37 % 1_009, 20 + n * 53 % 997)
    })
}

fn warned(rows: impl IntoIterator<Item = Row>) -> Vec<Warning> {
    inspected(rows).warnings
}

fn has(warnings: &[Warning], found: impl Fn(&Warning) -> bool) -> bool {
    warnings.iter().any(found)
}

#[test]
fn what_is_odd_is_said() {
    let constant = warned(regular(1_000, 250));
    assert!(
        has(&constant, |it| matches!(it, Warning::ConstantGaps { .. })),
        "{constant:?}"
    );

    let mut odd: Vec<_> = regular(1_000, 250).collect();
    odd[500].sent = odd[400].sent;
    odd[600].output_tokens = 0;
    odd[700].input_tokens = 90_000_000;
    odd[800].fate = Fate::Failed { why: "x".into() };
    for row in &mut odd[..2] {
        row.id = Some("same".into());
    }
    for row in &mut odd[900..902] {
        row.session = Some("s".into());
        row.input_tokens = 77;
    }
    let seen = warned(odd);
    for kind in [
        |it: &Warning| matches!(it, Warning::OutOfOrder { rows: 1, late: 0 }),
        |it: &Warning| {
            matches!(
                it,
                Warning::ZeroLengths {
                    input: 0,
                    output: 1
                }
            )
        },
        |it: &Warning| matches!(it, Warning::HugeLengths { .. }),
        |it: &Warning| {
            matches!(
                it,
                Warning::Failed {
                    failed: 1,
                    timed_out: 0
                }
            )
        },
        |it: &Warning| matches!(it, Warning::DuplicateIds { rows: 1 }),
        |it: &Warning| matches!(it, Warning::Retries { rows: 1 }),
    ] {
        assert!(has(&seen, kind), "{seen:?}");
    }
    assert!(seen.iter().all(|it| !it.to_string().is_empty()));
}

#[test]
fn repeated_data_sets_and_limits_are_seen() {
    let repeated = regular(5_000, 10).map(|mut row| {
        (row.input_tokens, row.output_tokens) = (row.input_tokens % 20, 256);
        row
    });
    let seen = warned(repeated);
    assert!(
        has(&seen, |it| matches!(
            it,
            Warning::RepeatedLengths { distinct: 20, .. }
        )),
        "{seen:?}"
    );
    assert!(
        has(&seen, |it| matches!(
            it,
            Warning::OneOutputLength { tokens: 256, .. }
        )),
        "{seen:?}"
    );
}

#[test]
fn times_in_whole_seconds_are_coarse() {
    let rows = made(&described(r#"{"poisson": {"rate-rps": 4.0}}"#));
    let coarse = rows.into_iter().map(|mut row| {
        let nanos = row.sent.expect("sent").as_nanos();
        row.sent = Some(TraceTime::from_nanos(nanos - nanos % 1_000_000_000));
        row
    });
    let seen = warned(coarse);
    let found = |it: &Warning| matches!(it, Warning::CoarseTimes { zeros, .. } if (0.7..0.8).contains(zeros));
    assert!(has(&seen, found), "{seen:?}");
}

#[test]
fn a_slow_start_is_unlike_the_rest() {
    let rows = made(&described(r#"{"poisson": {"rate-rps": 10.0}}"#));
    let end = rows
        .last()
        .and_then(|row| row.sent)
        .expect("sent")
        .as_nanos();
    // Of the first tenth only every fourth.
    let slow = (0..)
        .zip(rows)
        .filter(|(n, row)| row.sent.expect("sent").as_nanos() > end / 10 || n % 4 == 0)
        .map(|(_, row)| row);
    let seen = warned(slow);
    let found = |it: &Warning| matches!(it, Warning::UnlikeTheRest { part: Part::Start, ratio, .. } if (0.1..0.4).contains(ratio));
    assert!(has(&seen, found), "{seen:?}");
}

#[test]
fn nothing_is_inspected_without_a_panic() {
    assert_eq!(warned([]), [Warning::Empty {}]);
    let one = inspected([Row::new(foretoken_workload::trace::Place::Line(1), 0, 0)]);
    assert!(one.workload().is_none() && one.gaps.is_none());
}

#[test]
fn rows_at_both_ends_of_time_are_inspected() {
    let ends = [i64::MIN, i64::MIN + 5, 0, i64::MAX - 5, i64::MAX, i64::MAX];
    let rows = (1..).zip(ends).map(|(line, at)| {
        let mut row = row(line, 0, 9, 9);
        row.sent = Some(TraceTime::from_nanos(at));
        row.first_token = row.sent;
        row.finished = Some(TraceTime::from_nanos(-at.max(i64::MIN + 1)));
        row.session = Some("all".into());
        Ok(row)
    });
    let seen = Inspection::of(rows, BadRows::Stop).expect("no bad rows");
    let gaps = seen.gaps.as_ref().expect("gaps");
    assert!(gaps.max_s > 9.2e9 && seen.rate_rps.is_some(), "{gaps:?}");
}

//! What each step does.

use foretoken_des_kernel::RngStreams;
use foretoken_workload::trace::{
    BadRows, Fate, Inspection, Place, Prefix, Reason, Row, TraceError, TraceReplay, TraceSpec,
    TraceTime,
};
use foretoken_workload::{ContentId, RequestId, Segment, Workload, dist};

use crate::support::{clean, row, sent_ms, try_clean};

fn lines(rows: &[Row]) -> Vec<u64> {
    let line = |row: &Row| match row.place {
        Place::Line(line) => line,
        _ => 0,
    };
    rows.iter().map(line).collect()
}

#[test]
fn failures_and_time_outs_are_dropped_apart() {
    let mut rows: Vec<_> = (1..=4).map(|line| row(line, 0, 10, 10)).collect();
    rows[1].fate = Fate::Failed {
        why: "overloaded".into(),
    };
    rows[2].fate = Fate::TimedOut;
    rows[3].fate = Fate::Answered;
    let (kept, report) = clean(r#"[{"drop-failed": {}}]"#, rows.clone());
    assert_eq!(lines(&kept), [1, 3, 4]);
    assert_eq!(report.steps[0].dropped[&Reason::Failed], 1);
    let (kept, _) = clean(r#"[{"drop-failed": {}}, {"drop-timed-out": {}}]"#, rows);
    assert_eq!(lines(&kept), [1, 4]);
}

#[test]
fn a_retry_is_the_same_question_of_the_same_asker_soon_after() {
    let of = |line, at, session: &str, input| {
        let mut row = row(line, at, input, 10 + line);
        row.session = Some(session.into());
        row
    };
    let rows = vec![
        of(1, 0, "a", 100),
        of(2, 100, "b", 100),
        of(3, 2_000, "a", 100),
        of(4, 3_000, "a", 250),
        of(5, 60_000, "a", 100),
    ];
    let (kept, report) = clean(r#"[{"drop-retries": {"within-s": 5}}]"#, rows);
    assert_eq!(lines(&kept), [1, 2, 4, 5]);
    assert_eq!(report.steps[0].dropped[&Reason::Retry], 1);
}

#[test]
fn without_a_session_the_first_must_have_failed_or_the_text_be_known() {
    let of = |line, output, fate| {
        let mut row = row(line, i64::try_from(line).expect("small") * 100, 100, output);
        row.tenant = Some("t".into());
        row.fate = fate;
        row
    };
    let failed = Fate::Failed { why: "x".into() };
    let rows = vec![
        of(1, 40, Fate::Unknown),
        of(2, 50, Fate::Unknown),
        of(3, 40, Fate::Unknown),
    ];
    let lengths_only = clean(r#"[{"drop-retries": {"within-s": 5}}]"#, rows.clone()).0;
    assert_eq!(lines(&lengths_only), [1, 2, 3]);
    let known = rows.into_iter().map(|mut row| {
        row.prefix = Prefix::Blocks {
            ids: vec![7],
            block_tokens: 100,
        };
        row
    });
    let text_known = clean(r#"[{"drop-retries": {"within-s": 5}}]"#, known.collect()).0;
    assert_eq!(lines(&text_known), [1, 2]);
    let rows = vec![of(1, 0, failed), of(2, 50, Fate::Answered)];
    assert_eq!(
        lines(&clean(r#"[{"drop-retries": {"within-s": 5}}]"#, rows).0),
        [1]
    );
    // Nobody knows who asked.
    let rows = vec![row(1, 0, 5, 5), row(2, 1, 5, 5)];
    assert_eq!(
        lines(&clean(r#"[{"drop-retries": {"within-s": 5}}]"#, rows).0),
        [1, 2]
    );
}

#[test]
fn the_first_row_of_an_id_stays() {
    let mut rows: Vec<_> = (1..=4).map(|line| row(line, 0, 10, 10)).collect();
    for (row, id) in rows.iter_mut().zip(["a", "b", "a"]) {
        row.id = Some(id.into());
    }
    assert_eq!(
        lines(&clean(r#"[{"drop-duplicate-ids": {}}]"#, rows).0),
        [1, 2, 4]
    );
}

#[test]
fn rows_are_sorted_within_a_span_or_altogether() {
    let at = [0, 3_000, 1_000, 2_000, 9_000, 2_500];
    let rows: Vec<_> = (1..)
        .zip(at)
        .map(|(line, at)| row(line, at, 10, 10))
        .collect();
    let times = |rows: &[Row]| rows.iter().map(sent_ms).collect::<Vec<_>>();
    let (kept, report) = clean(r#"[{"sort": {}}]"#, rows.clone());
    assert_eq!(times(&kept), [0, 1_000, 2_000, 2_500, 3_000, 9_000]);
    assert_eq!(report.steps[0].changed[&Reason::OutOfOrder], 3);

    let (kept, report) = clean(
        r#"[{"sort": {"within-s": 5, "late": "drop"}}]"#,
        rows.clone(),
    );
    assert_eq!(times(&kept), [0, 1_000, 2_000, 3_000, 9_000]);
    assert_eq!(report.steps[0].dropped[&Reason::Late], 1);

    let rows: Vec<_> = rows.into_iter().map(Ok).collect();
    let error = try_clean(r#"[{"sort": {"within-s": 5}}]"#, rows, BadRows::Stop).expect_err("late");
    let message = error.to_string();
    assert!(
        message.contains("line 6, sent is \"6500 ms before"),
        "{message}"
    );
}

#[test]
fn impossible_lengths_are_dropped_or_clipped() {
    let lengths = [(0, 5), (5, 0), (3_000_000, 5), (100, 50)];
    let rows: Vec<_> = (1..)
        .zip(lengths)
        .map(|(line, (i, o))| row(line, 0, i, o))
        .collect();
    let (kept, report) = clean(r#"[{"drop-lengths": {}}]"#, rows.clone());
    assert_eq!(lines(&kept), [4]);
    let dropped = &report.steps[0].dropped;
    let reasons = [Reason::ShortInput, Reason::ShortOutput, Reason::LongInput];
    assert!(
        reasons.iter().all(|reason| dropped[reason] == 1),
        "{report}"
    );

    let text = r#"[{"clip-lengths": {"input": {"min": 1, "max": 4096}, "output": {"min": 1}}}]"#;
    let (kept, report) = clean(text, rows);
    let seen: Vec<_> = kept
        .iter()
        .map(|row| (row.input_tokens, row.output_tokens))
        .collect();
    assert_eq!(seen, [(1, 5), (5, 1), (4_096, 5), (100, 50)]);
    assert_eq!(report.steps[0].changed(), 3);
}

#[test]
fn time_is_moved_and_stretched_and_answers_take_as_long_as_before() {
    let mut rows: Vec<_> = (0..3)
        .map(|n| {
            row(
                n + 1,
                5_000 + 1_000 * i64::try_from(n).expect("small"),
                9,
                9,
            )
        })
        .collect();
    for row in &mut rows {
        row.finished = Some(TraceTime::from_nanos(
            row.sent.expect("sent").as_nanos() + 70_000_000,
        ));
    }
    let (kept, _) = clean(
        r#"[{"shift-to-zero": {}}, {"scale-time": {"factor": 2.5}}]"#,
        rows,
    );
    assert_eq!(
        kept.iter().map(sent_ms).collect::<Vec<_>>(),
        [0, 2_500, 5_000]
    );
    for row in &kept {
        let (sent, finished) = (row.sent.expect("sent"), row.finished.expect("finished"));
        assert_eq!(finished.as_nanos() - sent.as_nanos(), 70_000_000);
    }
}

#[test]
fn slices_are_half_open_and_a_full_one_ends_the_reading() {
    let rows: Vec<_> = (0..10)
        .map(|n| row(n, 100_000 + 1_000 * i64::try_from(n).expect("small"), 9, 9))
        .collect();
    let (kept, _) = clean(
        r#"[{"slice-time": {"from-s": 2, "to-s": 5}}]"#,
        rows.clone(),
    );
    assert_eq!(lines(&kept), [2, 3, 4]);
    let (kept, report) = clean(r#"[{"slice-rows": {"skip": 1, "count": 2}}]"#, rows);
    assert_eq!(lines(&kept), [1, 2]);
    assert_eq!((report.rows_in, report.steps[0].closed), (3, true));
}

#[test]
fn sessions_are_sampled_whole_and_smaller_samples_lie_in_larger_ones() {
    let rows: Vec<_> = (0..4_000)
        .map(|n| {
            let mut row = row(n, 0, 9, 9);
            row.session = Some((n % 400).to_string().into());
            row
        })
        .collect();
    let sessions = |share: f64| {
        let (kept, _) = clean(
            &format!(r#"[{{"sample": {{"share": {share}}}}}]"#),
            rows.clone(),
        );
        let mut names: Vec<_> = kept
            .iter()
            .map(|row| row.session.clone().expect("named").to_string())
            .collect();
        names.sort();
        let rows = names.len();
        names.dedup();
        assert_eq!(rows, 10 * names.len());
        names
    };
    let (few, many) = (sessions(0.25), sessions(0.5));
    assert!((70..130).contains(&few.len()) && (160..240).contains(&many.len()));
    assert!(few.iter().all(|name| many.contains(name)));
}

/// Rows with exponential gaps, 10 in a second.
fn poisson(count: u64) -> Vec<Row> {
    let mut rng = RngStreams::new(3, 0).stream("gaps", 0);
    let mut now = 0.0;
    (0..count)
        .map(|n| {
            now += 100_000.0 * dist::exponential(&mut rng);
            let mut row = row(n, 0, 100 + n % 7, 10);
            #[expect(clippy::cast_possible_truncation, reason = "whole microseconds")]
            let micros = now.round() as i64;
            row.sent = Some(TraceTime::from_nanos(micros * 1_000));
            row
        })
        .collect()
}

fn inspected(rows: Vec<Row>) -> Inspection {
    Inspection::of(rows.into_iter().map(Ok), BadRows::Stop).expect("no bad rows")
}

#[test]
fn every_way_of_resampling_reaches_the_rate() {
    let trace = poisson(20_000);
    let before = inspected(trace.clone());
    for (rate, by, tolerance) in [
        (25.0, r#"{"stretch": {}}"#, 1e-6),
        (4.0, r#"{"thin": {"whole": "row"}}"#, 0.03),
        (25.0, r#"{"overlay": {}}"#, 0.03),
    ] {
        let steps = format!(r#"[{{"resample": {{"rate-rps": {rate}, "by": {by}}}}}]"#);
        let (rows, report) = clean(&steps, trace.clone());
        let after = inspected(rows);
        let seen = after.rate_rps.expect("times");
        assert!((seen / rate - 1.0).abs() < tolerance, "{by}: {seen}");
        let cv = after.gaps.as_ref().expect("gaps").cv;
        assert!(
            (cv - before.gaps.as_ref().expect("gaps").cv).abs() < 0.03,
            "{by}: {cv}"
        );
        assert_eq!(
            report.rows_in + report.added(),
            report.rows_out + report.dropped()
        );
        assert!(
            after
                .warnings
                .iter()
                .all(|warning| warning.remedy() != Some("sort")),
            "{by}"
        );
    }
}

#[test]
fn copies_have_texts_and_names_of_their_own() {
    let mut rows: Vec<_> = (0..4)
        .map(|n| row(n, 1_000 * i64::try_from(n).expect("small"), 64, 9))
        .collect();
    for row in &mut rows {
        row.id = Some("id".into());
        row.prefix = Prefix::Blocks {
            ids: vec![1, 2],
            block_tokens: 32,
        };
    }
    let (rows, report) = clean(
        r#"[{"resample": {"rate-rps": 2, "by": {"overlay": {}}}}]"#,
        rows,
    );
    assert_eq!(report.added(), 4);
    let kinds: std::collections::BTreeSet<_> = rows
        .iter()
        .map(|row| match &row.prefix {
            Prefix::Blocks { ids, .. } => (
                ids.clone(),
                row.id.as_ref().is_some_and(|id| id.contains('~')),
            ),
            _ => (Vec::new(), false),
        })
        .collect();
    assert_eq!(kinds.len(), 2, "{kinds:?}");
    assert!(rows.is_sorted_by_key(|row| row.sent));
}

#[test]
fn copies_of_exact_rows_can_be_replayed_and_quote_each_other() {
    // Two sessions of three turns, each of which quotes the one before.
    let rows: Vec<_> = (0_u32..6)
        .map(|id| {
            let mut row = row(id.into(), 1_000 * i64::from(id), 10, 4);
            row.id = Some(id.to_string().into());
            row.session = Some((id % 2).to_string().into());
            let mut segments = vec![Segment::new(ContentId::new(u64::from(id)), 7)];
            let before = id.checked_sub(2).unwrap_or(99);
            let answer = ContentId::output_of(RequestId::new(before));
            segments.push(Segment::new(answer, 3));
            row.prefix = Prefix::Segments(segments);
            row
        })
        .collect();
    let text = r#"[{"resample": {"rate-rps": 2, "by": {"overlay": {}}}}]"#;
    let (rows, report) = clean(text, rows);
    assert_eq!(report.added(), 6);
    let spec = TraceSpec::new("unused");
    let mut load = TraceReplay::of_rows(rows.into_iter().map(Ok), &spec).expect("replayable");
    let requests: Vec<_> = core::iter::from_fn(|| load.next()).collect();
    let mut sessions: Vec<_> = requests.iter().filter_map(|it| it.session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    // Two of the trace, two of the copy, and the rest of these from the start of the span on.
    assert_eq!(sessions.len(), 6);
    let mut found = 0;
    for request in &requests {
        let quoted = request.prompt.segments()[1].content.as_output();
        if let Some(quoted) = quoted {
            found += 1;
            assert!(quoted < request.id);
            assert_eq!(requests[quoted.index()].session, request.session);
        }
    }
    // Four of the trace; of the copy those two whose question is not behind them.
    assert_eq!(found, 6);
}

#[test]
fn numbers_of_copies_run_out_with_an_error() {
    let rows: Vec<_> = [(0, 3_000_000_000_u32), (1_000, 5)]
        .map(|(at, id)| {
            let mut row = row(7, at, 10, 4);
            row.id = Some(id.to_string().into());
            row.prefix = Prefix::Segments(vec![Segment::new(ContentId::new(1), 10)]);
            Ok(row)
        })
        .into();
    let text = r#"[{"resample": {"rate-rps": 2, "by": {"overlay": {}}}}]"#;
    let error = try_clean(text, rows, BadRows::Stop).expect_err("too high");
    let message = "line 7: resample by overlay finds rows with segments, ids below 3000000001 and \
                   sessions below 0: allowed are 2147483647 and";
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn copies_without_end_are_refused() {
    let far = || vec![Ok(row(1, 0, 9, 9)), Ok(row(2, 1_767_225_600_000, 9, 9))];
    let refused = |text: &str, rows| {
        let error = try_clean(text, rows, BadRows::Skip).expect_err("too many");
        error.to_string()
    };
    let text = r#"[{"resample": {"rate-rps": 3, "by": {"overlay": {}}}}]"#;
    let message = refused(text, far());
    assert!(
        message.ends_with(
            "rate-rps is 3: allowed is at most 1000 times the rate of the trace, unless by is stretch"
        ),
        "{message}"
    );
    let text = r#"[{"resample": {"rate-rps": 1000, "from-rps": 1, "by": {"overlay": {}}}}]"#;
    assert_eq!(
        clean(text, far().into_iter().flatten().collect()).1.added(),
        1_998
    );
    let many = poisson(140_000).into_iter().map(Ok).collect();
    let message = refused(text, many);
    assert!(
        message.contains("lays 140000 rows 1000 times over each other: allowed are 134217728 rows"),
        "{message}"
    );
}

#[test]
fn a_rate_out_of_reach_is_an_error() {
    let trace: Vec<_> = poisson(100).into_iter().map(Ok).collect();
    let text = r#"[{"resample": {"rate-rps": 100, "by": {"thin": {}}}}]"#;
    let message = try_clean(text, trace, BadRows::Skip)
        .expect_err("too high")
        .to_string();
    assert!(
        message.contains("at most the rate of the trace"),
        "{message}"
    );
}

#[test]
fn bad_rows_end_the_work_or_are_counted() {
    let bad = || TraceError::BadRow {
        place: Place::Line(2),
        column: "sent".into(),
        value: "soon".into(),
        allowed: "a time".into(),
    };
    let rows = || {
        vec![
            Ok(row(1, 0, 9, 9)),
            Err(bad()),
            Ok(Row::new(Place::Line(3), 9, 9)),
        ]
    };
    assert_eq!(try_clean("[]", rows(), BadRows::Stop), Err(bad()));
    // The third row has no time by which to sort it.
    let (kept, report) = try_clean(r#"[{"sort": {}}]"#, rows(), BadRows::Skip).expect("skipped");
    assert_eq!(
        (
            kept.len(),
            report.bad_rows.unread,
            report.bad_rows.untreated
        ),
        (1, 1, 1)
    );
    assert!(
        report
            .to_string()
            .contains("line 3, sent is \"\": allowed is a time"),
        "{report}"
    );
    let broken = TraceError::Broken {
        place: Place::Line(9),
        problem: "cut".into(),
    };
    let rows = vec![Err(broken.clone())];
    assert_eq!(try_clean("[]", rows, BadRows::Skip), Err(broken));
}

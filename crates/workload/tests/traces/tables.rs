//! What the formats that are CSV or lines of JSON say.

use foretoken_workload::trace::{
    Columns, Fate, Field, Format, OpenOptions, Place, Prefix, Row, TimeUnit, TraceFile,
};
use foretoken_workload::{ContentId, RequestId, Segment, SloClass};

use crate::{Scratch, at, failed, read, row, sample, text};

/// 2023-11-16 and 2024-05-13, midnight UTC, in nanoseconds.
const NOVEMBER: i64 = 1_700_092_800_000_000_000;
const MAY: i64 = 1_715_558_400_000_000_000;

#[test]
fn azure_of_2023() {
    let nine = NOVEMBER + 9 * 3_600_000_000_000;
    let expected = vec![
        row(Place::Line(2), nine + 100_000_000, 812, 17),
        row(Place::Line(3), nine + 234_567_800, 4096, 233),
        row(Place::Line(4), nine + 3_000_000_100, 31, 1),
    ];
    assert_eq!(read(&sample("azure-2023.csv")), (Format::Azure, expected));
}

#[test]
fn azure_of_2024() {
    let expected = vec![
        row(Place::Line(2), MAY - 1_000, 1200, 88),
        row(Place::Line(3), MAY, 77, 410),
        row(Place::Line(4), MAY + 1_500_000_000, 2500, 9),
    ];
    assert_eq!(read(&sample("azure-2024.csv")), (Format::Azure, expected));
}

#[test]
fn mooncake() {
    let blocks = |ids: &[u64]| Prefix::Blocks {
        ids: ids.to_vec(),
        block_tokens: 512,
    };
    let mut expected = vec![
        row(Place::Line(1), 0, 1300, 52),
        row(Place::Line(2), 0, 1024, 7),
        row(Place::Line(3), 3_052_000_000, 700, 410),
    ];
    expected[0].prefix = blocks(&[0, 1, 2]);
    expected[1].prefix = blocks(&[0, 1]);
    expected[2].prefix = blocks(&[0, 3]);
    assert_eq!(
        read(&sample("mooncake.jsonl")),
        (Format::Mooncake, expected)
    );
}

#[test]
fn burst_gpt() {
    let mut expected = vec![
        row(Place::Line(2), 5_000_000_000, 472, 18),
        row(Place::Line(3), 45_000_000_000, 1087, 230),
        row(Place::Line(4), 118_500_000_000, 417, 0),
    ];
    let about = [
        ("ChatGPT", "Conversation log", Fate::Answered),
        ("GPT-4", "API log", Fate::Answered),
        ("GPT-4", "API log", failed("no tokens in the response")),
    ];
    for (row, (model, tenant, fate)) in expected.iter_mut().zip(about) {
        (row.model, row.tenant, row.fate) = (text(model), text(tenant), fate);
    }
    assert_eq!(read(&sample("burst-gpt.csv")), (Format::BurstGpt, expected));

    let (format, rows) = read(&sample("burst-gpt-sessions.csv"));
    assert_eq!(format, Format::BurstGpt);
    assert_eq!(
        (&rows[0].session, rows[0].finished),
        (&text("9001"), Some(at(7_250_000_000)))
    );
    assert_eq!((&rows[1].session, rows[1].finished), (&None, None));
}

#[test]
fn vidur() {
    let expected = vec![
        row(Place::Line(2), 0, 374, 44),
        row(Place::Line(3), 617_183_500, 396, 109),
        row(Place::Line(4), 1_250_000_000, 879, 55),
    ];
    assert_eq!(read(&sample("vidur.csv")), (Format::Vidur, expected));
}

#[test]
fn splitwise() {
    let mut expected = vec![
        row(Place::Line(2), 0, 1155, 20),
        row(Place::Line(3), 48_213_000, 480, 122),
        row(Place::Line(4), 1_500_000_000, 99, 3),
    ];
    for (row, (id, tenant)) in expected
        .iter_mut()
        .zip([("0", "0"), ("1", "0"), ("2", "3")])
    {
        (row.id, row.tenant) = (text(id), text(tenant));
    }
    assert_eq!(
        read(&sample("splitwise.csv")),
        (Format::Splitwise, expected)
    );
}

#[test]
fn blis() {
    let mut expected = vec![
        row(Place::Line(2), 1_250_000, 164, 12),
        row(Place::Line(3), 2_000_000, 80, 40),
        row(Place::Line(4), 250_010_000, 9000, 1),
    ];
    let [first, second, third] = &mut expected[..] else {
        unreachable!("three rows")
    };
    (first.id, first.tenant, first.model) = (text("0"), text("acme"), text("base"));
    (first.class, first.fate) = (Some(SloClass::Critical), Fate::Answered);
    first.prefix = Prefix::Group {
        group: "docs".into(),
        tokens: 64,
    };
    first.timeout = Some(29_999_000_000);
    (first.first_token, first.finished) = (Some(at(51_250_000)), Some(at(151_250_000)));
    (second.id, second.tenant, second.model) = (text("1"), text("acme"), text("base"));
    (second.class, second.fate) = (Some(SloClass::Standard), Fate::TimedOut);
    (second.session, second.turn) = (text("s-1"), Some(1));
    (third.id, third.tenant) = (text("2"), text("nightly"));
    third.class = Some(SloClass::Batch);
    third.fate = failed("status 500, \"out of memory\"");
    assert_eq!(read(&sample("blis.csv")), (Format::Blis, expected));
}

#[test]
fn a_header_of_blis_in_another_unit_is_refused() {
    let file = Scratch::new("t.csv", std::fs::read(sample("blis.csv")).unwrap());
    std::fs::write(file.folder.join("t.yaml"), "time_unit: ms\n").unwrap();
    let mut rows = crate::open(&file.path, None).unwrap().into_rows();
    let error = rows.next().unwrap().unwrap_err().to_string();
    assert!(
        error.ends_with("time_unit is \"ms\": allowed is microseconds"),
        "{error}"
    );
    assert!(rows.next().is_none());
}

/// The rows of `table.csv`, which uses every column.
pub(crate) fn table() -> Vec<Row> {
    let mut first = row(Place::Line(2), -1_500_000_000, 547, 248);
    (first.id, first.max_tokens, first.model) = (text("r1"), Some(256), text("base"));
    (first.tenant, first.session, first.turn) = (text("acme"), text("s1"), Some(0));
    (first.class, first.priority, first.objective) = (Some(SloClass::Critical), Some(-3), Some(50));
    (first.timeout, first.stage) = (Some(30_000_000_000), Some(1));
    first.cache_salt = Some(u64::MAX);
    first.headers = [("x-a", "1")].into_iter().collect();
    first.prefix = Prefix::Group {
        group: "docs".into(),
        tokens: 100,
    };
    first.fate = failed("no more room");
    (first.first_token, first.finished) = (Some(at(1)), Some(at(2_000_000_000)));

    let second = row(Place::Line(3), 1_767_225_600_000_000_000, 0, 1);

    let mut third = row(Place::Line(4), 123_456_789, 10, 20);
    (third.id, third.model) = (text("q\"uoted"), text("two\nlines"));
    third.timeout = Some(500_000_000);
    third.prefix = Prefix::Blocks {
        ids: vec![7, 8, 9],
        block_tokens: 16,
    };
    third.fate = Fate::TimedOut;

    let mut fourth = row(Place::Line(6), 1_000_000_000, 30, 2);
    (fourth.id, fourth.session, fourth.turn) = (text("r4"), text("s1"), Some(1));
    (fourth.class, fourth.fate) = (Some(SloClass::Batch), Fate::Answered);
    fourth.prefix = Prefix::History;

    let mut fifth = row(Place::Line(7), 1_000_000_000, 30, 2);
    (fifth.id, fifth.class) = (text("r5"), Some(SloClass::Sheddable));
    fifth.prefix = Prefix::Segments(vec![
        Segment::new(ContentId::new(3), 10),
        Segment {
            content: ContentId::output_of(RequestId::new(2)),
            offset: 5,
            len: 20,
        },
    ]);
    vec![first, second, third, fourth, fifth]
}

#[test]
fn tables_of_our_own() {
    assert_eq!(read(&sample("table.csv")), (Format::Csv, table()));
}

#[test]
fn lines_of_json() {
    let mut first = row(Place::Line(1), 123_456_789, 547, 248);
    first.id = text("r1");
    first.headers = [("x-a", "1")].into_iter().collect();
    first.prefix = Prefix::Blocks {
        ids: vec![1, 2],
        block_tokens: 16,
    };
    let mut second = row(Place::Line(3), 1_767_225_600_000_000_001, 5, 6);
    (second.id, second.model) = (text("7"), text("a\"b"));
    second.timeout = Some(1_500_000_000);
    let expected = vec![first, second];
    assert_eq!(read(&sample("table.jsonl")), (Format::Jsonl, expected));
}

#[test]
fn columns_can_have_other_names_and_units() {
    let columns = Columns::default()
        .with(Field::Sent, "t")
        .with(Field::InputTokens, "in")
        .with(Field::OutputTokens, "out")
        .in_unit(TimeUnit::Milliseconds);
    let options = OpenOptions {
        format: None,
        columns,
    };
    let read = |content: &str| {
        let file = Scratch::new("x", content);
        let rows = TraceFile::open(&file.path, &options).unwrap().into_rows();
        rows.collect::<Result<Vec<_>, _>>().unwrap()
    };
    let expected = |place| vec![row(place, 1_500_000, 7, 8)];
    assert_eq!(read("out,t,in\r\n8,1.5,7\r\n"), expected(Place::Line(2)));
    assert_eq!(
        read(r#"{"t":15e-1,"in":7,"out":8}"#),
        expected(Place::Line(1))
    );
}

#[test]
fn a_client_of_servegen_draws_what_its_windows_say() {
    let (format, rows) = read(&sample("serve-gen/chunk-3-trace.csv"));
    assert_eq!(format, Format::ServeGen);
    let sent = |row: &Row| row.sent.unwrap().as_nanos();
    let counts = [0..60, 60..120, 120..180].map(|window| {
        let inside = |row: &&Row| window.contains(&(sent(row) / 1_000_000_000));
        rows.iter().filter(inside).count()
    });
    // 120, none and 240 are expected.
    assert!((80..160).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[1], 0);
    assert!((190..290).contains(&counts[2]), "{counts:?}");
    assert_eq!(rows.len(), counts[0] + counts[2]);
    let short = rows[..counts[0]]
        .iter()
        .filter(|row| row.input_tokens == 100);
    let share = short.count() as f64 / counts[0] as f64;
    assert!((0.6..0.9).contains(&share), "{share}");
    assert!(
        rows[counts[0]..]
            .iter()
            .all(|row| (row.input_tokens, row.output_tokens) == (7, 8))
    );
    assert!(rows.iter().all(|row| row.tenant == text("client-3")));
}

#[test]
fn clients_of_servegen_are_merged_in_order_and_drawn_alike_for_one_seed() {
    let (_, rows) = read(&sample("serve-gen"));
    assert!(rows.is_sorted_by_key(|row| row.sent));
    let of = |name: &str| rows.iter().filter(|row| row.tenant == text(name)).count();
    assert!(of("client-3") > 250 && of("client-12") > 400);
    assert_eq!(rows.len(), of("client-3") + of("client-12"));
    assert_eq!(read(&sample("serve-gen")).1, rows);
    let other = crate::open(&sample("serve-gen"), None)
        .unwrap()
        .with_seed(1);
    assert_ne!(
        other.into_rows().map(Result::unwrap).collect::<Vec<_>>(),
        rows
    );
}

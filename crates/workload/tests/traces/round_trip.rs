//! What is read, written and read again is the same.

use std::path::Path;

use foretoken_des_kernel::{RngStreams, SimTime};
use foretoken_workload::trace::{
    Fate, OutputFormat, Place, Prefix, Row, RowWriter, TraceSpec, TraceTime,
};
use foretoken_workload::{
    ContentId, LengthSpec, Priority, Prompt, Request, RequestId, Segment, SharedPrefixSpec,
    SloClass, Synthetic, Workload, WorkloadSpec,
};
use proptest::prelude::*;

use crate::{Scratch, read, sample};

pub(crate) const SAMPLES: [&str; 15] = [
    "azure-2023.csv",
    "azure-2024.csv",
    "mooncake.jsonl",
    "burst-gpt.csv",
    "burst-gpt-sessions.csv",
    "vidur.csv",
    "splitwise.csv",
    "blis.csv",
    "vllm-bench.json",
    "guide-llm.json",
    "inference-perf.json",
    "open-telemetry.jsonl",
    "table.csv",
    "table.jsonl",
    "serve-gen",
];

fn write(rows: &[Row], path: &Path) {
    let mut writer = RowWriter::create(path, OutputFormat::of(path).unwrap()).unwrap();
    for row in rows {
        writer.write(row).unwrap();
    }
    writer.finish().unwrap();
}

/// Rows without their places, which are those of the file.
fn placeless(mut rows: Vec<Row>) -> Vec<Row> {
    for row in &mut rows {
        row.place = Place::Row(0);
    }
    rows
}

fn assert_survives(rows: &[Row]) {
    for name in ["t.csv", "t.jsonl", "t.parquet"] {
        let file = Scratch::empty(name);
        write(rows, &file.path);
        let (format, again) = read(&file.path);
        assert!(
            file.path
                .extension()
                .is_some_and(|ending| ending == format.name())
        );
        assert_eq!(placeless(again), placeless(rows.to_vec()), "{name}");
    }
}

#[test]
fn samples_survive_writing_and_reading() {
    for name in SAMPLES {
        assert_survives(&read(&sample(name)).1);
    }
}

#[test]
fn many_rows_survive_as_several_row_groups() {
    let rows: Vec<_> = (0..70_000)
        .map(|number| {
            let mut row = Row::new(Place::Row(0), number % 1000, number);
            row.sent =
                (number % 7 > 0).then(|| TraceTime::from_nanos(number.cast_signed() * 1_001));
            row.model = (number % 3 > 0).then(|| format!("m{}", number % 5).into());
            row
        })
        .collect();
    assert_survives(&rows);
}

/// Draws all requests of a workload.
fn drain(load: &mut dyn Workload) -> Vec<Request> {
    core::iter::from_fn(|| load.next()).collect()
}

/// The requests of a workload that was written and is replayed.
fn replayed(requests: &[Request], name: &str) -> Vec<Request> {
    let file = Scratch::empty(name);
    let rows: Vec<_> = requests.iter().map(Row::of).collect();
    write(&rows, &file.path);
    let spec = WorkloadSpec::Trace(TraceSpec::new(&file.path));
    let mut load = spec.build(&RngStreams::new(9, 9)).unwrap();
    assert_eq!(load.total(), Some(requests.len() as u64));
    drain(&mut *load)
}

#[test]
fn generated_workloads_survive_to_the_token_and_the_nanosecond() {
    let shared = r#"{
        "num-groups": 3, "prompts-per-group": 4, "system-prompt-tokens": 100,
        "question-tokens": 447, "output-tokens": 248,
        "stages": [{"rate-rps": 8, "duration-s": 20}, {"rate-rps": 3, "duration-s": 10}],
        "client": {"class": "batch", "flow": 7, "priority": -2, "objective-priority": 3,
                   "model": "adapter", "headers": {"x-b": "1", "x-a": "two, \"three\""}}
    }"#;
    let shared: SharedPrefixSpec = serde_json::from_str(shared).unwrap();
    let (prompts, outputs) = (LengthSpec::uniform(1, 900), LengthSpec::uniform(1, 99));
    let mut synthetic = Synthetic::poisson(5.0, 200, prompts, outputs).unwrap();
    synthetic.max_tokens = Some(100);
    let mix = WorkloadSpec::Mix(vec![shared.into(), synthetic.into()]);
    let requests = drain(&mut *mix.build(&RngStreams::new(3, 1)).unwrap());
    assert!(requests.len() > 350);
    for name in ["t.csv", "t.jsonl", "t.parquet"] {
        assert_eq!(replayed(&requests, name), requests, "{name}");
    }
}

fn texts() -> impl Strategy<Value = Option<String>> {
    // Any characters but NUL, the ones of the formats often.
    prop::option::of(r#"[^\x00]|[,"'\r\n;:{}\\ ]{1,4}|[a-z ]{1,8}"#)
}

prop_compose! {
    fn request()(
        arrival in any::<u32>(),
        segments in prop::collection::vec((0..1_u64 << 63, 0..1_000_u32, 1..1_000_u32), 1..5),
        (output, limit) in (1..5_000_u32, 1..5_000_u32),
        stops in any::<bool>(),
        (priority, salt, class) in (any::<i32>(), any::<Option<u64>>(), 0..4_usize),
        model in texts(),
    ) -> Request {
        let segments = segments.into_iter().map(|(content, offset, len)| Segment {
            content: ContentId::new(content),
            offset,
            len,
        });
        let prompt = Prompt::new(segments).unwrap();
        let mut request = Request::new(RequestId::new(0), SimTime::from_nanos(arrival.into()), prompt, output);
        if stops && output != limit {
            request = request.stopping(output.min(limit), limit.max(output));
        }
        request.priority = Priority::new(priority);
        request.cache_salt = salt;
        request.model = model.filter(|model| !model.is_empty()).map(Into::into);
        request.class = [SloClass::Critical, SloClass::Standard, SloClass::Sheddable, SloClass::Batch][class];
        request.objective = request.class.objective();
        request
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_requests_survive(mut requests in prop::collection::vec(request(), 1..8)) {
        requests.sort_by_key(|request| request.arrival);
        // A replay begins at 0.
        let first = requests[0].arrival;
        for (number, request) in (0..).zip(&mut requests) {
            request.id = RequestId::new(number);
            request.output_content = ContentId::output_of(request.id);
            request.arrival = SimTime::ZERO + request.arrival.saturating_since(first);
        }
        for name in ["t.csv", "t.jsonl", "t.parquet"] {
            prop_assert_eq!(replayed(&requests, name), requests.clone());
        }
    }

    #[test]
    fn any_rows_survive(
        tokens in any::<[u64; 2]>(),
        limit in any::<Option<u64>>(),
        times in any::<[Option<i64>; 3]>(),
        names in prop::array::uniform5(texts()),
        numbers in any::<(Option<u32>, Option<i32>, Option<i32>, Option<u64>, Option<u32>, Option<u64>)>(),
        prefix in 0..4_usize,
    ) {
        let name = |index: usize| names[index].clone().filter(|name| !name.is_empty()).map(Into::into);
        let mut row = Row::new(Place::Row(0), tokens[0], tokens[1]);
        row.max_tokens = limit;
        (row.id, row.model, row.tenant, row.session) = (name(0), name(1), name(2), name(3));
        let [sent, first, last] = times.map(|time| time.map(TraceTime::from_nanos));
        (row.sent, row.first_token, row.finished) = (sent, first, last);
        (row.turn, row.priority, row.objective, row.timeout, row.stage, row.cache_salt) = numbers;
        let group = name(4).unwrap_or_else(|| "g".into());
        row.fate = Fate::Failed { why: group.clone() };
        row.prefix = match prefix {
            0 => Prefix::Unknown,
            1 => Prefix::History,
            2 => Prefix::Blocks { ids: tokens.to_vec(), block_tokens: 1 },
            _ => Prefix::Group { group, tokens: 4 },
        };
        assert_survives(&[row]);
    }
}

//! Whatever a file holds, reading it gives rows and errors and no panic.
//!
//! A few hundred cases by default. `FORETOKEN_FUZZ_SECONDS=300 cargo test --release --test traces fuzz` goes on for
//! that long with each reader.

use std::time::Duration;

use foretoken_workload::Workload;
use foretoken_workload::trace::{
    Columns, Field, Format, OpenOptions, OutputFormat, RowWriter, TraceFile, TraceReplay,
    TraceSpec, inference_perf_config, stage_report,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use crate::{Scratch, read, sample};

/// Rows that are drawn of one file: a description may have endless ones.
const ENOUGH: usize = 3_000;

/// Reads `content` as `format`, and as whatever it looks like, and replays what can be.
fn read_all(name: &str, content: &[u8], format: Format) {
    let file = Scratch::new(name, content);
    if format == Format::ServeGen {
        std::fs::copy(
            sample("serve-gen/chunk-3-dataset.json"),
            file.folder.join("chunk-3-dataset.json"),
        )
        .unwrap();
    }
    for format in [Some(format), None] {
        let options = OpenOptions {
            format,
            columns: Columns::default(),
        };
        let Ok(trace) = TraceFile::open(&file.path, &options) else {
            continue;
        };
        let rows = trace.into_rows().take(ENOUGH).filter_map(Result::ok);
        let rows: Vec<_> = rows.collect();
        for (index, row) in rows.iter().enumerate() {
            let spec = TraceSpec::new("unused");
            if index < 50
                && let Ok(mut load) = TraceReplay::of_rows(core::iter::once(Ok(row.clone())), &spec)
            {
                assert!(load.next().is_some());
            }
        }
    }
}

/// How `content` is spoiled.
#[derive(Debug, Clone)]
enum Damage {
    /// Nothing but these bytes.
    Instead(Vec<u8>),
    /// Cut at this share of its length, of 65536.
    Cut(u16),
    /// Bytes put in the place of others.
    Put(Vec<(u16, Vec<u8>)>),
    /// A part of it repeated.
    Twice(u16, u16),
}

impl Damage {
    fn done(&self, content: &[u8]) -> Vec<u8> {
        let at = |share: u16| content.len() * usize::from(share) / 65_536;
        match self {
            Self::Instead(bytes) => bytes.clone(),
            Self::Cut(share) => content[..at(*share)].to_vec(),
            Self::Put(puts) => {
                let mut content = content.to_vec();
                for (share, bytes) in puts {
                    let at = content.len() * usize::from(*share) / 65_536;
                    let end = content.len().min(at + bytes.len());
                    content.splice(at..end, bytes.iter().copied());
                }
                content
            }
            Self::Twice(one, other) => {
                let (from, to) = (at(*one.min(other)), at(*one.max(other)));
                [&content[..to], &content[from..]].concat()
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    // What formats are made of, and what breaks numbers.
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..4),
        prop::sample::select(vec![
            "\"",
            "\\",
            ",",
            "\n",
            "\r\n",
            "{",
            "}",
            "[",
            "]",
            ":",
            "-",
            ".",
            "e9",
            "e999",
            "0",
            "null",
            "true",
            "NaN",
            "inf",
            "9999999999",
            "18446744073709551616",
            "\u{feff}",
            "é",
            "\\u0000",
            "\\ud800",
            ";",
            " ",
            "-0",
            "0001",
            "2024-",
            "+",
            "\0",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Damage::Instead),
        2 => any::<u16>().prop_map(Damage::Cut),
        6 => prop::collection::vec((any::<u16>(), piece), 1..6).prop_map(Damage::Put),
        1 => any::<(u16, u16)>().prop_map(|(one, other)| Damage::Twice(one, other)),
    ]
}

/// How long to go on, if that was asked for.
fn long_run() -> Option<Duration> {
    let seconds = std::env::var("FORETOKEN_FUZZ_SECONDS").ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// Runs `test` on damaged forms of `content`.
fn fuzz(cases: u32, content: &[u8], test: impl Fn(&[u8])) {
    #[expect(clippy::disallowed_types, reason = "a test that goes on for some time")]
    let start = std::time::Instant::now();
    let limit = long_run();
    let mut rounds = 0_u64;
    loop {
        let config = Config {
            cases,
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner = TestRunner::new(config);
        let result = runner.run(&damage(), |damage| {
            test(&damage.done(content));
            Ok(())
        });
        if let Err(TestError::Fail(reason, damage)) = result {
            panic!(
                "{reason}: {:?}",
                String::from_utf8_lossy(&damage.done(content))
            );
        }
        rounds += u64::from(cases);
        if limit.is_none_or(|limit| start.elapsed() >= limit) {
            eprintln!("{rounds} cases");
            return;
        }
    }
}

fn fuzz_sample(name: &str, format: Format) {
    let content = std::fs::read(sample(name)).unwrap();
    let name = name.rsplit('/').next().unwrap();
    fuzz(150, &content, |content| read_all(name, content, format));
}

macro_rules! readers {
    ($($test:ident: $sample:literal as $format:ident,)*) => {
        $(#[test]
        fn $test() {
            fuzz_sample($sample, Format::$format);
        })*
    };
}

readers! {
    azure_of_2023: "azure-2023.csv" as Azure,
    azure_of_2024: "azure-2024.csv" as Azure,
    mooncake: "mooncake.jsonl" as Mooncake,
    burst_gpt: "burst-gpt-sessions.csv" as BurstGpt,
    vidur: "vidur.csv" as Vidur,
    splitwise: "splitwise.csv" as Splitwise,
    blis: "blis.csv" as Blis,
    vllm_bench: "vllm-bench.json" as VllmBench,
    guide_llm: "guide-llm.json" as GuideLlm,
    inference_perf: "inference-perf.json" as InferencePerf,
    open_telemetry: "open-telemetry.jsonl" as OpenTelemetry,
    csv: "table.csv" as Csv,
    jsonl: "table.jsonl" as Jsonl,
    serve_gen: "serve-gen/chunk-3-trace.csv" as ServeGen,
}

/// A sample, written as Parquet.
fn parquet_sample() -> Vec<u8> {
    let file = Scratch::empty("t.parquet");
    let mut writer = RowWriter::create(&file.path, OutputFormat::Parquet).unwrap();
    for row in read(&sample("table.csv")).1 {
        writer.write(&row).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(&file.path).unwrap()
}

#[test]
fn parquet() {
    let content = parquet_sample();
    fuzz(150, &content, |content| {
        read_all("t", content, Format::Parquet);
    });
}

#[test]
fn packed_data() {
    use std::io::Write;
    let content = std::fs::read(sample("table.csv")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&content).unwrap();
    let zstd =
        ruzstd::encoding::compress_to_vec(&*content, ruzstd::encoding::CompressionLevel::Fastest);
    for content in [gzip.finish().unwrap(), zstd] {
        fuzz(150, &content, |content| read_all("t", content, Format::Csv));
    }
}

#[test]
fn datasets_of_servegen() {
    let content = std::fs::read(sample("serve-gen/chunk-3-dataset.json")).unwrap();
    fuzz(150, &content, |content| {
        let file = Scratch::new("chunk-3-dataset.json", content);
        let trace = file.folder.join("chunk-3-trace.csv");
        std::fs::copy(sample("serve-gen/chunk-3-trace.csv"), &trace).unwrap();
        let trace = TraceFile::open(&trace, &OpenOptions::default()).unwrap();
        trace.into_rows().take(ENOUGH).for_each(drop);
    });
}

#[test]
fn texts_of_inference_perf() {
    let report = std::fs::read(sample("inference-perf-stage.json")).unwrap();
    fuzz(150, &report, |content| {
        let _ = stage_report(&String::from_utf8_lossy(content));
    });
    let config = std::fs::read(sample("inference-perf.yaml")).unwrap();
    fuzz(150, &config, |content| {
        let _ = inference_perf_config(&String::from_utf8_lossy(content));
    });
}

#[test]
fn names_of_columns() {
    fuzz(
        300,
        b"sent=t,input-tokens=prompt,time-unit=milliseconds",
        |content| {
            let text = String::from_utf8_lossy(content);
            if let Ok(columns) = text.parse::<Columns>() {
                let _ = columns.name(Field::Sent);
                let map = serde_json::to_string(&columns).unwrap();
                assert_eq!(serde_json::from_str::<Columns>(&map).unwrap(), columns);
            }
        },
    );
}

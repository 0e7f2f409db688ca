//! A tiny run, and its whole report.

use foretoken_des_kernel::SimTime;
use foretoken_metrics::{LevelRecord, MetricSink, Report, StepRecord};
use foretoken_workload::RequestId;

use crate::told::{End, Told, record};

const MS: u64 = 1_000_000;

/// Two stages; one request each is refused, left or not answered.
fn report() -> Report {
    let told = |stage, arrival, gaps: &[u64], end| Told {
        stage,
        arrival: arrival * MS,
        queue: MS,
        prefill: 20 * MS,
        gaps: gaps.iter().map(|gap| (gap * MS, 1)).collect(),
        end,
    };
    let requests = [
        told(0, 0, &[8, 8, 9], End::Complete),
        told(0, 5, &[8, 40], End::Complete),
        told(0, 6, &[], End::Shed),
        told(1, 100, &[10, 11, 10, 10], End::Complete),
        told(1, 110, &[10], End::Aborted),
        told(1, 111, &[], End::TooLong),
        told(1, 140, &[10], End::Open),
    ];
    let mut recorder = record(&requests, RequestId::get);
    let at = |ms| SimTime::from_nanos(ms * MS);
    for (ms, running, waiting) in [(1, 1, 0), (6, 2, 1), (74, 0, 0), (101, 2, 0)] {
        let level = LevelRecord {
            instance: 0,
            running,
            waiting,
            kv_blocks_used: running * 4,
            kv_blocks_total: 10,
        };
        recorder.on_level(at(ms), &level);
    }
    for (start, end) in [(1, 21), (25, 70), (101, 160)] {
        let step = StepRecord {
            instance: 0,
            start: at(start),
            end: at(end),
            tokens: 41,
            sequences: 2,
        };
        recorder.on_step(&step);
    }
    Report::new(&recorder.finish(at(200)), 7, 0)
}

#[test]
fn the_json_of_a_tiny_run_stays_as_it_is() {
    let mut report = report();
    // The curves have a test of their own and would fill pages.
    report.load.series.running.truncate(2);
    report.load.series.waiting.truncate(2);
    report.load.series.kv_occupancy.truncate(2);
    report.load.series.busy_share.truncate(2);
    let json = serde_json::to_string_pretty(&report).expect("a report can be written");
    assert_eq!(
        json,
        include_str!("golden/tiny.json").trim_end(),
        "\n{json}\n"
    );
}

#[test]
fn the_tables_of_a_tiny_run_stay_as_they_are() {
    let text = report().to_string();
    assert_eq!(
        text,
        include_str!("golden/tiny.txt").trim_end(),
        "\n{text}\n"
    );
}

//! A tiny run, and its whole report.

use foretoken_des_kernel::SimTime;
use foretoken_metrics::{LevelRecord, MetricSink, Report, Slos, StepRecord};
use foretoken_workload::{RequestId, SloClass};

use crate::told::{End, Route, Told, record};

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
        ..Told::default()
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

/// Two classes and three tenants behind a gateway; the prompt of one request is computed apart, one
/// engine is lost.
fn cluster() -> Report {
    let told = |class, flow, arrival, gateway, route: [Option<u32>; 2], end| Told {
        class,
        flow,
        arrival: arrival * MS,
        route: route[0].map(|endpoint| Route {
            gateway: gateway * MS,
            endpoint,
            prefill: route[1].map(|prefill| (prefill, 3 * MS)),
        }),
        queue: MS,
        prefill: 20 * MS,
        gaps: vec![(8 * MS, 1), (9 * MS, 1)],
        end,
        ..Told::default()
    };
    let (critical, batch) = (SloClass::Critical, SloClass::Batch);
    let requests = [
        told(critical, 1, 0, 0, [Some(0), Some(2)], End::Complete),
        told(critical, 1, 10, 1, [Some(0), None], End::Complete),
        told(critical, 7, 20, 0, [Some(1), None], End::Lost),
        told(batch, 7, 20, 40, [Some(0), None], End::Complete),
        told(batch, 7, 30, 45, [Some(0), None], End::Evicted),
        told(batch, 9, 40, 0, [None, None], End::Saturated),
    ];
    let mut recorder = record(&requests, RequestId::get);
    let at = |ms| SimTime::from_nanos(ms * MS);
    for (ms, instance, running) in [(0, 2, 1), (21, 0, 2), (21, 1, 1), (24, 2, 0), (45, 1, 0)] {
        let level = LevelRecord {
            instance,
            running,
            waiting: 0,
            kv_blocks_used: running * 4,
            kv_blocks_total: 10,
        };
        recorder.on_level(at(ms), &level);
    }
    for (instance, start, end) in [(2, 1, 21), (1, 21, 41), (0, 24, 114)] {
        let step = StepRecord {
            instance,
            start: at(start),
            end: at(end),
            tokens: 41,
            sequences: 2,
        };
        recorder.on_step(&step);
    }
    let recording = recorder.finish(at(120));
    let slos: Slos = [
        (critical, r#"{"ttft-ms": 23, "tpot-ms": 10}"#),
        (SloClass::Standard, "{}"),
        (batch, r#"{"e2e-ms": 1000}"#),
    ]
    .into_iter()
    .map(|(class, slo)| (class, serde_json::from_str(slo).expect("valid limits")))
    .collect();
    let mut report = Report::new(&recording, 7, 0);
    report.slo = slos.attainment(&recording);
    report
}

#[test]
fn the_json_of_a_tiny_cluster_stays_as_it_is() {
    let report = cluster();
    let mut json = serde_json::to_value(&report).expect("a report can be written");
    // What the other golden shows already.
    for part in ["classes", "tenants"] {
        for group in json[part].as_array_mut().expect("a list of groups") {
            group["summary"] = group["summary"]["counts"].take();
        }
    }
    let sections = [
        "overall",
        "classes",
        "tenants",
        "fairness",
        "slo",
        "endpoints",
    ];
    let shown: Vec<_> = sections.map(|section| json[section].take()).into();
    let json = serde_json::to_string_pretty(&shown).expect("a value can be written");
    assert_eq!(
        json,
        include_str!("golden/cluster.json").trim_end(),
        "\n{json}\n"
    );
}

#[test]
fn the_tables_of_a_tiny_cluster_stay_as_they_are() {
    let text = cluster().to_string();
    assert_eq!(
        text,
        include_str!("golden/cluster.txt").trim_end(),
        "\n{text}\n"
    );
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

//! Which sections a report has: what would say nothing new is left out.

use foretoken_des_kernel::SimTime;
use foretoken_metrics::{LevelRecord, MetricSink, Report};
use foretoken_workload::{RequestId, SloClass};

use crate::told::{Route, Told, record};

/// One request of each tenant, on its own engine.
fn report(tenants: u32, class: SloClass, engines: u32) -> Report {
    let requests: Vec<_> = (0..tenants)
        .map(|flow| Told {
            class,
            flow,
            queue: 5,
            prefill: 20,
            gaps: vec![(8, 1)],
            route: Some(Route {
                gateway: 0,
                endpoint: flow % engines,
                prefill: None,
            }),
            ..Told::default()
        })
        .collect();
    let mut recorder = record(&requests, RequestId::get);
    for instance in 0..engines {
        let level = LevelRecord {
            instance,
            running: 0,
            waiting: 0,
            kv_blocks_used: 0,
            kv_blocks_total: 8,
        };
        recorder.on_level(SimTime::ZERO, &level);
    }
    Report::new(&recorder.finish(SimTime::from_nanos(100)), 0, 0)
}

/// The keys of the report's JSON, and whether tables of classes, tenants and engines are printed.
fn shown(report: &Report) -> (Vec<String>, [bool; 3]) {
    let json = serde_json::to_value(report).expect("a report can be written");
    let keys = json.as_object().expect("a report is a map").keys();
    let text = report.to_string();
    let has = |title: &str| text.lines().any(|line| line.starts_with(title));
    let tables = [" class ", " tenant ", " engine "].map(has);
    (keys.cloned().collect(), tables)
}

#[test]
fn a_plain_run_has_no_sections_for_clients_and_engines() {
    let report = report(1, SloClass::Standard, 1);
    let (keys, tables) = shown(&report);
    let plain = [
        "digest",
        "duration_s",
        "load",
        "overall",
        "replication",
        "schema",
        "seed",
        "stages",
    ];
    assert_eq!(keys, plain);
    assert_eq!(tables, [false; 3]);
    let overall = serde_json::to_value(&report.overall).expect("it can be written");
    for column in ["gateway_ms", "kv_transfer_ms", "kv_transfer_mb"] {
        assert_eq!(overall.get(column), None);
    }
}

#[test]
fn one_class_that_is_not_the_default_is_worth_a_section() {
    let report = report(1, SloClass::Batch, 1);
    assert_eq!(report.classes.len(), 1);
    assert_eq!(report.classes[0].summary, report.overall);
    assert_eq!(shown(&report).1, [true, false, false]);
}

#[test]
fn several_tenants_and_engines_have_sections_and_fairness() {
    let report = report(4, SloClass::Standard, 2);
    assert_eq!((report.tenants.len(), report.endpoints.len()), (4, 2));
    assert_eq!(shown(&report).1, [false, true, true]);
    let fairness = report.fairness.expect("four tenants");
    assert!((fairness.served_tokens - 1.0).abs() < 1e-12);
    assert!((fairness.served_share - 1.0).abs() < 1e-12);
}

#[test]
fn many_tenants_and_engines_are_for_programs() {
    let at_most = report(16, SloClass::Standard, 16);
    assert_eq!(shown(&at_most).1, [false, true, true]);
    let many = report(17, SloClass::Standard, 17);
    assert_eq!((many.tenants.len(), many.endpoints.len()), (17, 17));
    assert_eq!(shown(&many).1, [false; 3]);
    assert!(many.to_string().contains("fairness between 17 tenants"));
}

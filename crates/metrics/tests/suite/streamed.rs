//! Records that are handed on are those that are kept.

use foretoken_des_kernel::SimDuration;
use foretoken_metrics::{Recorder, Report, RequestRecord, Slo};
use foretoken_workload::RequestId;
use proptest::prelude::*;

use crate::properties::{END, objectives, run};
use crate::told::{End, Told, record, record_with};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn a_streamed_run_has_the_same_records_and_the_same_report(requests in run()) {
        let slos = objectives(Slo {
            ttft: Some(SimDuration::from_nanos(500_000)),
            ..Slo::default()
        });
        let kept = record(&requests, RequestId::get).finish(END);
        let mut report = Report::new(&kept, 1, 2);
        report.slo = slos.attainment(&kept);

        let mut records = Vec::new();
        let recorder = Recorder::streaming(|record: RequestRecord| records.push(record));
        let recorder = recorder.keeping_gaps().judging(&slos);
        let streamed = record_with(recorder, &requests, RequestId::get).finish(END);
        prop_assert_eq!(Report::new(&streamed, 1, 2), report);
        let longest = streamed.longest_sequence();
        drop(streamed);
        prop_assert_eq!(records, kept.records());
        let scheduled = kept.records().iter().filter(|record| record.queue.is_some());
        let lengths = scheduled.map(|record| u64::from(record.prompt_tokens + record.output_tokens));
        prop_assert_eq!(longest, lengths.max().unwrap_or(0));
    }
}

/// Requests that take longer and longer.
fn many() -> Vec<Told> {
    let told = |number: u64| Told {
        arrival: number * 1_000,
        prefill: 1_000_000 + number * number,
        gaps: vec![(500_000 + number * 17, 1); 3],
        end: End::Complete,
        ..Told::default()
    };
    (0..3_000).map(told).collect()
}

#[test]
fn records_leave_when_no_earlier_request_is_inside() {
    use foretoken_metrics::MetricSink;
    use foretoken_workload::{FinishReason, Lifecycle, Occurrence};

    let mut left = Vec::new();
    let mut recorder = Recorder::streaming(|record: RequestRecord| left.push(record.id.get()));
    let told = many();
    for (id, told) in (0..3).map(RequestId::new).zip(&told) {
        recorder.on_arrival(&told.request(id));
    }
    let reason = FinishReason::Abort;
    for id in [2, 0, 1] {
        let what = Lifecycle::Finished { reason };
        recorder.on_occurrence(&Occurrence::new(END, RequestId::new(id), what));
    }
    drop(recorder);
    assert_eq!(left, [0, 1, 2]);
}

#[test]
fn reports_say_if_percentiles_are_rounded() {
    let told = many();
    let report = |exact: usize| {
        let recorder = Recorder::streaming(()).exact_up_to(exact);
        let recording = record_with(recorder, &told, RequestId::get).finish(END);
        Report::new(&recording, 1, 2)
    };
    let (exact, rounded) = (report(3_000), report(1_000));
    assert_eq!(
        (exact.percentile_error, rounded.percentile_error),
        (None, Some(0.000_488_281_25))
    );
    let json = serde_json::to_string(&exact).expect("plain data");
    assert!(!json.contains("percentile_error"));
    assert!(!exact.to_string().contains("percentiles:"));
    assert!(rounded.to_string().contains("percentiles: within 0.05 %"));

    assert_eq!(exact.digest, rounded.digest);
    let both = [&exact, &rounded].map(|report| report.overall.ttft_ms.expect("complete"));
    let [exact, rounded] = both;
    assert_eq!((exact.count, exact.max), (rounded.count, rounded.max));
    assert!((exact.mean - rounded.mean).abs() < 1e-12);
    assert!((exact.p99 - rounded.p99).abs() <= exact.p99 / 2_048.0);
    assert!((exact.p99 - rounded.p99).abs() > 0.0);
}

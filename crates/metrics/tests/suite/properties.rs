//! Invariants of recordings and reports, for any run.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_metrics::{Latency, Report, Slo};
use foretoken_workload::RequestId;
use proptest::prelude::*;

use crate::told::{End, Told, record};

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        6 => Just(End::Complete),
        1 => Just(End::Aborted),
        1 => Just(End::Shed),
        1 => Just(End::TooLong),
        1 => Just(End::Open),
    ]
}

/// Times come from few values, so that many things are simultaneous.
fn told() -> impl Strategy<Value = Told> {
    let gap = prop_oneof![Just(10_u64), Just(12), 0_u64..5_000_000];
    let count = prop_oneof![8 => Just(1_u32), 1 => 2_u32..5];
    (
        0_u32..3,
        (0_u64..20).prop_map(|n| n * 10),
        prop_oneof![Just(10_u64), 0_u64..1_000],
        prop_oneof![Just(50_u64), 1_u64..1_000_000],
        prop::collection::vec((gap, count), 0..20),
        end(),
    )
        .prop_map(|(stage, arrival, queue, prefill, gaps, end)| Told {
            stage,
            arrival,
            queue,
            prefill,
            gaps,
            end,
        })
}

fn run() -> impl Strategy<Value = Vec<Told>> {
    prop::collection::vec(told(), 0..40)
}

const END: SimTime = SimTime::from_nanos(1_000_000);

/// The distribution of `values` as `NumPy` has it, by sorting.
fn naive(mut values: Vec<u64>) -> Option<[f64; 6]> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    let sum: u128 = values.iter().copied().map(u128::from).sum();
    let percentile = |q: usize| {
        // In hundredths of a rank, as integers.
        let (below, hundredths) = (q * last / 100, q * last % 100);
        let above = (below + 1).min(last);
        let (low, high) = (values[below] as f64, values[above] as f64);
        low + (high - low) * hundredths as f64 / 100.0
    };
    let mean = sum as f64 / values.len() as f64;
    Some(
        [
            mean,
            percentile(50),
            percentile(90),
            percentile(95),
            percentile(99),
            percentile(100),
        ]
        .map(|nanos| nanos / 1e6),
    )
}

fn assert_same(got: Option<Latency>, expected: Option<[f64; 6]>) -> Result<(), TestCaseError> {
    let got = got.map(|got| [got.mean, got.p50, got.p90, got.p95, got.p99, got.max]);
    prop_assert_eq!(got.is_some(), expected.is_some());
    for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
        prop_assert!(
            (got - expected).abs() <= 1e-11 * expected.abs(),
            "{got} is not {expected}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn requests_are_conserved(requests in run()) {
        let report = Report::new(&record(&requests, RequestId::get).finish(END), 1, 2);
        prop_assert_eq!(report.overall.counts.arrived, requests.len() as u64);
        let counts = report.stages.iter().map(|part| &part.summary.counts);
        let mut sums = [0; 5];
        for counts in counts.chain([&report.overall.counts]) {
            let rejected = counts.rejected_total();
            let parts = [counts.finished, rejected, counts.aborted, counts.in_flight];
            prop_assert_eq!(counts.arrived, parts.iter().sum::<u64>());
            for (sum, part) in sums.iter_mut().zip([counts.arrived].into_iter().chain(parts)) {
                *sum += part;
            }
        }
        // Stages and all of them together count everything twice.
        prop_assert_eq!(sums[0], 2 * requests.len() as u64);
        let open = requests.iter().filter(|told| told.end == End::Open).count() as u64;
        prop_assert_eq!(sums[4], 2 * open);
    }

    #[test]
    fn time_to_first_token_and_gaps_add_up_to_the_whole(requests in run()) {
        let recording = record(&requests, RequestId::get).finish(END);
        for record in recording.records() {
            let list = record.gaps.list.as_ref().expect("gaps are kept");
            prop_assert_eq!(list.iter().copied().sum::<SimDuration>(), record.gaps.total);
            prop_assert_eq!(list.iter().copied().max().unwrap_or_default(), record.gaps.longest);
            prop_assert_eq!(list.len(), record.output_tokens.saturating_sub(1) as usize);
            if record.outcome.is_complete() {
                prop_assert_eq!(record.ttft.map(|ttft| ttft + record.gaps.total), record.e2e);
            }
        }
    }

    #[test]
    fn distributions_equal_naive_ones(requests in run()) {
        let recording = record(&requests, RequestId::get).finish(END);
        let report = Report::new(&recording, 1, 2);
        let stages = report.stages.iter().map(|part| (Some(part.stage), &part.summary));
        for (stage, summary) in stages.chain([(None, &report.overall)]) {
            let records = || recording.records().iter()
                .filter(|record| stage.is_none_or(|stage| record.stage.get() == stage));
            let complete = || records().filter(|record| record.outcome.is_complete());
            let nanos = |span: Option<SimDuration>| span.map(SimDuration::as_nanos);
            let gaps = records()
                .flat_map(|record| record.gaps.list.iter().flatten().map(|gap| gap.as_nanos()))
                .collect();
            assert_same(summary.itl_ms, naive(gaps))?;
            let ttft = complete().filter_map(|record| nanos(record.ttft)).collect();
            assert_same(summary.ttft_ms, naive(ttft))?;
            let e2e = complete().filter_map(|record| nanos(record.e2e)).collect();
            assert_same(summary.e2e_ms, naive(e2e))?;
            let tpot = complete().filter_map(|record| nanos(record.tpot())).collect();
            assert_same(summary.tpot_ms, naive(tpot))?;
            let queue = complete().filter_map(|record| nanos(record.queue)).collect();
            assert_same(summary.queue_ms, naive(queue))?;
        }
    }

    #[test]
    fn the_order_within_an_instant_does_not_matter(requests in run()) {
        let forth = record(&requests, RequestId::get).finish(END);
        let back = record(&requests, |id| u32::MAX - id.get()).finish(END);
        prop_assert_eq!(forth.records(), back.records());
        prop_assert_eq!(Report::new(&forth, 1, 2), Report::new(&back, 1, 2));
    }

    #[test]
    fn a_report_survives_json(requests in run()) {
        let report = Report::new(&record(&requests, RequestId::get).finish(END), u64::MAX, 2);
        let json = serde_json::to_string(&report).expect("a report can be written");
        let read: Report = serde_json::from_str(&json).expect("a report can be read");
        prop_assert_eq!(&read, &report);
        prop_assert_eq!(serde_json::to_string(&read).expect("a report can be written"), json);
    }

    #[test]
    fn without_limits_every_complete_request_is_good(requests in run()) {
        let recording = record(&requests, RequestId::get).finish(END);
        let report = Report::new(&recording, 1, 2);
        let goodput = Slo::default().goodput(&recording);
        prop_assert_eq!(goodput.met, report.overall.counts.finished);
        prop_assert_eq!(goodput.arrived, report.overall.counts.arrived);
        let rate = report.overall.throughput.requests_per_s;
        prop_assert!((goodput.requests_per_s - rate).abs() <= 1e-11 * rate);
    }
}

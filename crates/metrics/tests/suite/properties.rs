//! Invariants of recordings and reports, for any run.

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_metrics::{
    Goodput, Latency, LevelRecord, MetricSink, Recording, Report, RequestRecord, Slo, Slos, Summary,
};
use foretoken_workload::{RequestId, SloClass};
use proptest::prelude::*;

use crate::told::{End, KV_BYTES, OUTPUT, PROMPT, Route, Told, record};

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        6 => Just(End::Complete),
        1 => Just(End::Aborted),
        1 => Just(End::Evicted),
        1 => Just(End::Lost),
        1 => Just(End::Shed),
        1 => Just(End::Saturated),
        1 => Just(End::TooLong),
        1 => Just(End::Open),
    ]
}

/// Times come from few values, so that many things are simultaneous.
fn told() -> impl Strategy<Value = Told> {
    let gap = prop_oneof![Just(10_u64), Just(12), 0_u64..5_000_000];
    let count = prop_oneof![8 => Just(1_u32), 1 => 2_u32..5];
    (
        (0_u32..3, class(), 0_u32..4, prop::option::of(route())),
        (0_u64..20).prop_map(|n| n * 10),
        prop_oneof![Just(10_u64), 0_u64..1_000],
        prop_oneof![Just(50_u64), 1_u64..1_000_000],
        prop::collection::vec((gap, count), 0..20),
        end(),
    )
        .prop_map(|(who, arrival, queue, prefill, gaps, end)| {
            let (stage, class, flow, route) = who;
            Told {
                stage,
                class,
                flow,
                arrival,
                route,
                queue,
                prefill,
                gaps,
                end,
            }
        })
}

fn class() -> impl Strategy<Value = SloClass> {
    prop_oneof![
        Just(SloClass::Standard),
        Just(SloClass::Critical),
        Just(SloClass::Batch)
    ]
}

/// Between three engines.
fn route() -> impl Strategy<Value = Route> {
    let gateway = prop_oneof![Just(0_u64), 0_u64..1_000];
    let prefill = prop::option::of((0_u32..3, 0_u64..100_000));
    (gateway, 0_u32..3, prefill).prop_map(|(gateway, endpoint, prefill)| Route {
        gateway,
        endpoint,
        prefill,
    })
}

/// What is told of `requests` and three engines.
fn recorded(requests: &[Told]) -> Recording {
    let mut recorder = record(requests, RequestId::get);
    for instance in 0..3 {
        let level = LevelRecord {
            instance,
            running: instance,
            waiting: 0,
            kv_blocks_used: 0,
            kv_blocks_total: 8,
        };
        recorder.on_level(SimTime::ZERO, &level);
    }
    recorder.finish(END)
}

/// Ways to cut a report into parts; each is all requests, unless there is but one default part.
fn cuts(report: &Report) -> [Vec<&Summary>; 3] {
    let or_overall = |parts: Vec<_>| {
        if parts.is_empty() {
            vec![&report.overall]
        } else {
            parts
        }
    };
    [
        report.stages.iter().map(|part| &part.summary).collect(),
        or_overall(report.classes.iter().map(|part| &part.summary).collect()),
        or_overall(report.tenants.iter().map(|part| &part.summary).collect()),
    ]
}

/// What must add up.
fn sums(summary: &Summary) -> [u64; 16] {
    let counts = &summary.counts;
    let count = |latency: Option<Latency>| latency.map_or(0, |latency| latency.count);
    let rejected = |reason: &str| counts.rejected.get(reason).copied().unwrap_or(0);
    [
        counts.arrived,
        counts.finished,
        counts.aborted,
        counts.evicted,
        counts.endpoint_lost,
        counts.in_flight,
        rejected("shed"),
        rejected("saturated"),
        rejected("prompt too long"),
        summary.prompt_tokens,
        summary.output_tokens,
        summary.preemptions,
        count(summary.itl_ms),
        count(summary.ttft_ms),
        count(summary.queue_ms),
        count(summary.kv_transfer_mb),
    ]
}

pub(crate) fn run() -> impl Strategy<Value = Vec<Told>> {
    prop::collection::vec(told(), 0..40)
}

pub(crate) const END: SimTime = SimTime::from_nanos(1_000_000);

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

/// All distributions of `summary` are those of `records`.
fn assert_distributions(summary: &Summary, records: &[RequestRecord]) -> Result<(), TestCaseError> {
    let gaps = records
        .iter()
        .flat_map(|record| record.gaps.list.iter().flatten());
    assert_same(
        summary.itl_ms,
        naive(gaps.map(|gap| gap.as_nanos()).collect()),
    )?;
    let naive_of = |span: &dyn Fn(&RequestRecord) -> Option<SimDuration>| {
        let complete = records.iter().filter(|record| record.outcome.is_complete());
        naive(
            complete
                .filter_map(span)
                .map(SimDuration::as_nanos)
                .collect(),
        )
    };
    assert_same(summary.ttft_ms, naive_of(&|record| record.ttft))?;
    assert_same(summary.e2e_ms, naive_of(&|record| record.e2e))?;
    assert_same(summary.tpot_ms, naive_of(&RequestRecord::tpot))?;
    assert_same(summary.queue_ms, naive_of(&|record| record.queue))?;
    let took = naive_of(&|record| record.transfer.map(|transfer| transfer.took));
    assert_same(summary.kv_transfer_ms, took)?;
    let size = took.map(|_| [KV_BYTES as f64 / 1e6; 6]);
    assert_same(summary.kv_transfer_mb, size)?;
    let gateway = naive_of(&|record| record.gateway).filter(|[.., max]| *max > 0.0);
    assert_same(summary.gateway_ms, gateway)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn requests_are_conserved(requests in run()) {
        let report = Report::new(&recorded(&requests), 1, 2);
        prop_assert_eq!(report.overall.counts.arrived, requests.len() as u64);
        for summary in cuts(&report).into_iter().flatten().chain([&report.overall]) {
            let counts = &summary.counts;
            let lost = counts.aborted + counts.evicted + counts.endpoint_lost;
            prop_assert_eq!(counts.cut_short(), lost);
            let ended = counts.finished + counts.rejected_total() + lost;
            prop_assert_eq!(counts.arrived, ended + counts.in_flight);
        }
        let with = |end| requests.iter().filter(|told| told.end == end).count() as u64;
        let counts = &report.overall.counts;
        prop_assert_eq!(counts.in_flight, with(End::Open));
        prop_assert_eq!(counts.evicted, with(End::Evicted));
        prop_assert_eq!(counts.endpoint_lost, with(End::Lost));
        prop_assert_eq!(counts.rejected_total(), with(End::Shed) + with(End::Saturated) + with(End::TooLong));
    }

    #[test]
    fn groups_add_up_to_the_whole(requests in run()) {
        let report = Report::new(&recorded(&requests), 1, 2);
        let whole = &report.overall;
        for parts in cuts(&report) {
            let mut total = [0; 16];
            for part in &parts {
                total.iter_mut().zip(sums(part)).for_each(|(sum, part)| *sum += part);
            }
            prop_assert_eq!(total, sums(whole));
            let longest = |summary: &Summary| {
                summary.longest_stall.map(|stall| (stall.ms, core::cmp::Reverse(stall.request)))
            };
            let of_parts = parts.iter().filter_map(|part| longest(part));
            let of_parts = of_parts.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            prop_assert_eq!(of_parts, longest(whole));
        }
    }

    #[test]
    fn what_engines_served_is_what_was_sent_to_them(requests in run()) {
        let report = Report::new(&recorded(&requests), 1, 2);
        prop_assert_eq!(report.endpoints.len(), 3);
        for endpoint in &report.endpoints {
            let sent = requests.iter().filter(|told| {
                told.end == End::Complete
                    && told.route.is_some_and(|route| route.endpoint == endpoint.endpoint)
            });
            let tokens = |told: &Told| 1 + told.gaps.iter().map(|gap| u64::from(gap.1)).sum::<u64>();
            prop_assert_eq!(endpoint.served, sent.clone().count() as u64);
            prop_assert_eq!(endpoint.output_tokens, sent.map(tokens).sum::<u64>());
            let running = endpoint.running.mean - f64::from(endpoint.endpoint);
            prop_assert!(running.abs() < 1e-9);
            // Every prompt finds 16 of its tokens where it is computed, and the decode engine none of
            // its own.
            prop_assert!(endpoint.prefix_hit_rate.is_none_or(|rate| (rate - 0.4).abs() < 1e-9));
        }
        let prefills = requests.iter().filter(|told| {
            !matches!(told.end, End::Shed | End::Saturated | End::TooLong)
                && told.route.is_some_and(|route| route.prefill.is_some())
        });
        let told: u64 = report.endpoints.iter().map(|endpoint| endpoint.prefills).sum();
        prop_assert_eq!(told, prefills.count() as u64);
    }

    #[test]
    fn tenants_ask_for_what_their_requests_declare(requests in run()) {
        let report = Report::new(&recorded(&requests), 1, 2);
        for tenant in &report.tenants {
            let counts = &tenant.summary.counts;
            let each = u64::from(PROMPT + OUTPUT);
            prop_assert_eq!(tenant.demanded_tokens, counts.arrived * each);
            prop_assert!((0.0..=1.0).contains(&tenant.served_share));
            prop_assert_eq!(tenant.served_share > 0.0, counts.finished > 0);
        }
        let several = report.tenants.len() > 1 && report.overall.counts.finished > 0;
        prop_assert_eq!(report.fairness.is_some(), several);
        if let Some(fairness) = report.fairness {
            let least = 1.0 / report.tenants.len() as f64 - 1e-9;
            prop_assert!((least..=1.0).contains(&fairness.served_tokens));
            prop_assert!((least..=1.0).contains(&fairness.served_share));
        }
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
        let recording = recorded(&requests);
        let report = Report::new(&recording, 1, 2);
        let of = |keep: &dyn Fn(&RequestRecord) -> bool| -> Vec<_> {
            recording.records().iter().filter(|record| keep(record)).cloned().collect()
        };
        assert_distributions(&report.overall, &of(&|_| true))?;
        for part in &report.stages {
            assert_distributions(&part.summary, &of(&|record| record.stage.get() == part.stage))?;
        }
        for part in &report.classes {
            assert_distributions(&part.summary, &of(&|record| record.class == part.class))?;
        }
        for part in &report.tenants {
            assert_distributions(&part.summary, &of(&|record| record.flow.get() == part.tenant))?;
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
        let recording = recorded(&requests);
        let mut report = Report::new(&recording, u64::MAX, 2);
        report.slo = objectives(Slo::default()).attainment(&recording);
        let json = serde_json::to_string(&report).expect("a report can be written");
        let read: Report = serde_json::from_str(&json).expect("a report can be read");
        prop_assert_eq!(&read, &report);
        prop_assert_eq!(serde_json::to_string(&read).expect("a report can be written"), json);
    }

    #[test]
    fn without_limits_every_complete_request_is_good(requests in run()) {
        let recording = recorded(&requests);
        let report = Report::new(&recording, 1, 2);
        let good = |goodput: &Goodput, summary: &Summary| {
            prop_assert_eq!(goodput.met, summary.counts.finished);
            prop_assert_eq!(goodput.arrived, summary.counts.arrived);
            let rate = summary.throughput.requests_per_s;
            prop_assert!((goodput.requests_per_s - rate).abs() <= 1e-11 * rate);
            Ok(())
        };
        good(&Slo::default().goodput(&recording), &report.overall)?;
        let attained = objectives(Slo::default()).attainment(&recording);
        prop_assert_eq!(attained.len(), 3);
        for part in &report.classes {
            let of_class = attained.iter().find(|attained| attained.class == part.class);
            good(&of_class.expect("every class has objectives").goodput, &part.summary)?;
        }
    }

    #[test]
    fn what_is_refused_or_cut_short_meets_nothing(requests in run(), limit in 0_u64..2_000_000) {
        let recording = recorded(&requests);
        let slo = Slo { ttft: Some(SimDuration::from_nanos(limit)), ..Slo::default() };
        for attained in objectives(slo).attainment(&recording) {
            let of_class = requests.iter().filter(|told| told.class == attained.class);
            let met = of_class.clone().filter(|told| {
                let gateway = told.route.map_or(0, |route| route.gateway);
                let transfer = told.route.and_then(|route| route.prefill).map_or(0, |it| it.1);
                let ttft = gateway + told.queue + told.prefill + transfer;
                told.end == End::Complete && ttft <= limit
            });
            prop_assert_eq!(attained.goodput.met, met.count() as u64);
            prop_assert_eq!(attained.goodput.arrived, of_class.count() as u64);
        }
    }
}

/// The same objectives for each class that occurs.
pub(crate) fn objectives(slo: Slo) -> Slos {
    let classes = [SloClass::Standard, SloClass::Critical, SloClass::Batch];
    classes.map(|class| (class, slo)).into_iter().collect()
}

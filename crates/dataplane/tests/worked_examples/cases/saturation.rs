//! Detectors and admission.

use foretoken_dataplane::admission::{LatencySloAdmitter, ProbabilisticAdmitter};
use foretoken_dataplane::config::{BuildOptions, RouterConfig};
use foretoken_dataplane::saturation::{ConcurrencyDetector, ConcurrencyMode, UtilizationDetector};
use foretoken_dataplane::signals::{
    IN_FLIGHT_LOAD, InFlight, LatencyEstimate, PREDICTED_LATENCY, Signals,
};
use foretoken_dataplane::{Admitter, EndpointView, Filter, SaturationDetector, Verdict};
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{Headers, Positive, RejectReason};

use super::gateways::answer;
use super::queues::{NOW, endpoint, pool, request, with_context};
use super::support::{Outcome, close, equal};

worked_examples! {
    "W30" w30 "utilization-detector: the mean of what each endpoint reports";
    "W31" w31 "idle endpoints hide an overloaded one";
    "W32" w32 "stale endpoints count as full";
    "W33" w33 "utilization-detector as a filter fails open";
    "W34" w34 "concurrency-detector: what is in flight against what may be";
    "W35" w35 "legacy admission refuses only what may be shed, and only from saturation 1 on";
    "W36" w36 "probabilistic-admitter: which draws are refused";
    "W37" w37 "latency-slo-admitter refuses what nobody is predicted to answer in time";
}

fn saturation(
    detector: &mut dyn SaturationDetector,
    endpoints: &[EndpointView],
    signals: &Signals,
) -> f64 {
    with_context(endpoints, signals, |cx| {
        detector.saturation(&cx.everyone(), cx)
    })
}

fn utilization(detector: UtilizationDetector, endpoints: &[EndpointView]) -> f64 {
    saturation(&mut { detector }, endpoints, &Signals::new())
}

fn kept(filter: &mut dyn Filter, endpoints: &[EndpointView], signals: &Signals) -> Vec<usize> {
    with_context(endpoints, signals, |cx| {
        let mut candidates = cx.everyone();
        filter.filter(&request(0).view(), &mut candidates, cx);
        candidates
    })
}

/// Makes the metrics of an endpoint half a second old.
fn age(endpoint: &mut EndpointView) {
    let half_a_second_ago = NOW.as_nanos() - 500_000_000;
    endpoint.observed_at = Some(SimTime::from_nanos(half_a_second_ago));
}

fn positive(value: f64) -> Positive {
    Positive::new(value).expect("examples have positive thresholds")
}

fn w30() -> Outcome {
    let detector = UtilizationDetector::default();
    close("one", &[utilization(detector, &pool(&[(2, 0.4)]))], &[0.5])?;
    let three = pool(&[(2, 0.4), (10, 0.1), (0, 0.6)]);
    close(
        "three",
        &[utilization(detector, &three)],
        &[1.083_333_333_333],
    )?;
    close("none", &[utilization(detector, &[])], &[1.0])
}

fn w31() -> Outcome {
    let mut loads = [(0, 0.1); 8];
    loads[0] = (20, 0.95);
    let diluted = utilization(UtilizationDetector::default(), &pool(&loads));
    close("one hot of eight", &[diluted], &[0.609_375])
}

fn w32() -> Outcome {
    let mut endpoints = pool(&[(0, 0.08); 2]);
    age(&mut endpoints[1]);
    let detector = UtilizationDetector::default();
    close("defaults", &[utilization(detector, &endpoints)], &[0.55])?;

    let mut endpoints = pool(&[(0, 0.0), (20, 0.2), (1, 0.99)]);
    age(&mut endpoints[0]);
    let detector = UtilizationDetector {
        queue_depth: positive(5.0),
        kv_usage: positive(0.9),
        staleness: SimDuration::from_millis(200),
        ..UtilizationDetector::default()
    };
    let overloaded = utilization(detector, &endpoints);
    close("two thresholds", &[overloaded], &[2.033_333_333_333])
}

fn w33() -> Outcome {
    let mut detector = UtilizationDetector::default();
    let mut endpoints = pool(&[(4, 0.79), (5, 0.1), (0, 0.8), (0, 0.0)]);
    age(&mut endpoints[3]);
    let left = kept(&mut detector, &endpoints, &Signals::new());
    equal("with room", left, [0])?;
    let left = kept(&mut detector, &endpoints[1..3], &Signals::new());
    equal("without room", left, [0, 1])
}

fn w34() -> Outcome {
    let requests = ConcurrencyDetector {
        max_requests: positive(10.0),
        ..ConcurrencyDetector::default()
    };
    let tokens = ConcurrencyDetector {
        mode: ConcurrencyMode::Tokens,
        max_tokens: positive(100.0),
        ..ConcurrencyDetector::default()
    };
    let in_flight = |counts: &[u64], make: fn(u64) -> InFlight| {
        let mut signals = Signals::new();
        let column = signals.in_flight.begin(IN_FLIGHT_LOAD, counts.len());
        for (cell, &count) in column.iter_mut().zip(counts) {
            *cell = Some(make(count));
        }
        let endpoints: Vec<_> = (0..counts.len()).map(endpoint).collect();
        (endpoints, signals)
    };
    let count_requests = |count| InFlight::new(count, 0);
    for (counts, expected) in [
        (&[15, 5][..], 1.0),
        (&[15, 15], 1.5),
        (&[30, 0, 0, 0], 0.75),
    ] {
        let (endpoints, signals) = in_flight(counts, count_requests);
        let full = saturation(&mut requests.clone(), &endpoints, &signals);
        close(&format!("{counts:?} requests"), &[full], &[expected])?;
    }
    let (endpoints, signals) = in_flight(&[50, 0], |count| InFlight::new(0, count));
    let full = saturation(&mut tokens.clone(), &endpoints, &signals);
    close("tokens", &[full], &[0.25])?;

    let (endpoints, signals) = in_flight(&[9, 10, 11], count_requests);
    let left = kept(&mut requests.clone(), &endpoints, &signals);
    equal("one with room", left, [0])?;
    let (endpoints, signals) = in_flight(&[10, 11], count_requests);
    let left = kept(&mut requests.clone(), &endpoints, &signals);
    equal("none with room", left, [0; 0])
}

fn w35() -> Outcome {
    // By the configuration that llm-d has built in, which is legacy admission.
    let answer = |endpoints: &[EndpointView], priority| {
        let policies = RouterConfig::builtin_default().build(&BuildOptions::default());
        answer(policies, endpoints, request(priority)).map(|_| ())
    };
    let full = pool(&[(10, 0.0), (0, 0.0)]);
    let saturated = Err(RejectReason::Saturated);
    equal("sheddable, full", answer(&full, -1), saturated)?;
    equal("other, full", answer(&full, 0), Ok(()))?;
    let with_room = pool(&[(9, 0.0), (0, 0.0)]);
    equal("sheddable, room", answer(&with_room, -1), Ok(()))?;
    equal("other, room", answer(&with_room, 0), Ok(()))?;
    equal("sheddable, empty pool", answer(&[], -1), saturated)?;
    let missing = Err(RejectReason::NoEndpoint);
    equal("other, empty pool", answer(&[], 0), missing)?;
    equal("saturated", RejectReason::Saturated.http_status(), 429)?;
    equal("no endpoint", RejectReason::NoEndpoint.http_status(), 503)
}

fn w36() -> Outcome {
    let probability = |endpoints: &[EndpointView], priority| {
        with_context(endpoints, &Signals::new(), |cx| {
            ProbabilisticAdmitter::default().probability(&request(priority).view(), cx)
        })
    };
    let one = [
        ((0, 0.12), 0.022_781_25, [false, false, false]),
        ((1, 0.0), 0.096, [true, false, false]),
        ((0, 0.24), 0.729, [true, true, false]),
        ((0, 0.25), 0.894_069_671_631, [true, true, false]),
        ((0, 0.256), 1.0, [true, true, true]),
        ((2, 0.1), 1.0, [true, true, true]),
    ];
    for (load, expected, refused) in one {
        let p = probability(&pool(&[load]), -1).ok_or("it is sheddable")?;
        close(&format!("{load:?}"), &[p], &[expected])?;
        equal(
            &format!("{load:?}"),
            [0.05, 0.72, 0.9].map(|u| u < p),
            refused,
        )?;
    }
    let three = pool(&[(1, 0.04), (0, 0.08), (0, 0.0)]);
    let p = probability(&three, -1).ok_or("it is sheddable")?;
    close("three endpoints", &[p], &[0.003])?;
    equal(
        "three endpoints",
        [0.002, 0.01].map(|u| u < p),
        [true, false],
    )?;
    equal("priority 0", probability(&pool(&[(50, 0.99)]), 0), None)
}

fn w37() -> Outcome {
    let verdict = |running, target: Option<&str>| {
        let mut endpoints = pool(&[(0, 0.5), (0, 0.4)]);
        endpoints[0].running = running;
        endpoints[1].running = 2;
        let mut signals = Signals::new();
        let misses_ttft = LatencyEstimate::with_headroom(-1.0, 1.0);
        let misses_tpot = LatencyEstimate::with_headroom(1.0, -1.0);
        signals.latency.set(PREDICTED_LATENCY, 0, misses_ttft);
        signals.latency.set(PREDICTED_LATENCY, 1, misses_tpot);
        let mut request = request(-1);
        let target = target.map(|ms| ("x-llm-d-slo-ttft-ms", ms));
        request.headers = target.into_iter().collect::<Headers>();
        with_context(&endpoints, &signals, |cx| {
            LatencySloAdmitter::default().admit(&request.view(), cx)
        })
    };
    equal("all busy", verdict(3, Some("500")), Verdict::Shed)?;
    equal("one idle", verdict(0, Some("500")), Verdict::Admit)?;
    equal("no target", verdict(3, None), Verdict::Admit)?;
    equal("status", RejectReason::Shed.http_status(), 500)
}

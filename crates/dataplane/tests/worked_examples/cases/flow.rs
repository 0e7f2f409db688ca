//! Flow control. Requests arrive a millisecond apart unless a time is given; the saturation is imposed.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_dataplane::flow::{
    BandConfig, CeilingDomain, EarliestDeadline, Eviction, FlowConfig, FlowControl, Limits,
    PriorityHoldback, SloDeadline, SoftReflective, StaticLimit, UsageLimit, fairness,
};
use foretoken_dataplane::signals::Signals;
use foretoken_dataplane::view::ROLE_LABEL;
use foretoken_dataplane::{GatewayContext, SaturationDetector};
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{ObjectivePriority, RejectReason, RequestId};

use super::queues::{Gateway, NOW, endpoint, millis, request, with_context};
use super::support::{Outcome, close, equal};

worked_examples! {
    "W38" w38 "strict priority between bands";
    "W39" w39 "saturation 1 stops everything";
    "W40" w40 "round robin between flows, in the order of their ids";
    "W41" w41 "the strict policy pays no heed to flows";
    "W42" w42 "the earliest end of the time to live first";
    "W43" w43 "the earliest target of the first token first; without a (legible) target last";
    "W44" w44 "what would exceed a limit is refused; an exact fit is not, and nobody is displaced";
    "W45" w45 "a time to live ends at its very end";
    "W46" w46 "an endpoint's arrival starts the time to live anew";
    "W47" w47 "priority-holdback-policy: ceilings by rank and by value";
    "W48" w48 "holdback at work: less important bands stop earlier, and block what is below";
    "W49" w49 "soft-reflective-ceiling-policy: the alternation at constant saturation";
    "W50" w50 "soft-reflective at work";
    "W51" w51 "the fuller stage decides; an endpoint without a role belongs to decode";
    "W52" w52 "how many are evicted in one round";
}

/// Bands 10, 0 (always there) and -10.
fn three_bands() -> FlowConfig {
    FlowConfig::default()
        .with_band(10, BandConfig::default())
        .with_band(-10, BandConfig::default())
}

fn one_band(band: BandConfig) -> FlowConfig {
    FlowConfig::default().with_band(0, band)
}

fn w38() -> Outcome {
    let mut gateway = Gateway::new(three_bands());
    for (name, priority) in [("l1", -10), ("h1", 10), ("m1", 0), ("h2", 10)] {
        gateway.arrive(name, priority);
    }
    gateway.cycles(0.5, "h1 h2 m1 l1 -")
}

fn w39() -> Outcome {
    let mut gateway = Gateway::new(three_bands());
    gateway.arrive("h", 10);
    gateway.cycles(1.0, "-")?;
    gateway.cycles(0.999, "h")
}

fn w40() -> Outcome {
    let band = || BandConfig::default().with_fairness(fairness::RoundRobin::default);
    let mut gateway = Gateway::new(one_band(band()));
    gateway.arrive_in_flows(&["a1", "a2", "a3", "b1", "c1", "c2"]);
    gateway.cycles(0.0, "a1 b1 c1 a2 c2 a3 -")?;

    let mut gateway = Gateway::new(one_band(band()));
    gateway.arrive_in_flows(&["c1", "a1", "a2"]);
    gateway.cycles(0.0, "a1")?;
    gateway.arrive_in_flows(&["b1"]);
    gateway.cycles(0.0, "b1 c1 a2")
}

fn w41() -> Outcome {
    let mut gateway = Gateway::new(FlowConfig::default());
    gateway.arrive_in_flows(&["a1", "a2", "b1", "a3"]);
    gateway.cycles(0.0, "a1 a2 b1 a3")
}

fn w42() -> Outcome {
    let band = BandConfig::default().with_ordering(|| EarliestDeadline);
    let mut gateway = Gateway::new(one_band(band));
    for (name, at, ttl) in [("a", 0, 5), ("b", 1, 1), ("c", 2, 2)] {
        gateway.arrive_with_ttl(name, millis(at * 1000), SimDuration::from_secs(ttl));
    }
    gateway.cycles(0.0, "b c a")
}

fn w43() -> Outcome {
    let band = BandConfig::default().with_ordering(|| SloDeadline);
    let mut gateway = Gateway::new(one_band(band));
    gateway.arrive_with_target("a", millis(0), None);
    gateway.arrive_with_target("b", millis(0), Some("5000"));
    gateway.arrive_with_target("c", millis(1000), Some("1000"));
    gateway.arrive_with_target("d", millis(1000), Some("soon"));
    gateway.cycles(0.0, "c b a d")
}

fn w44() -> Outcome {
    let limited = BandConfig::default().with_limits(Limits::new(100, 2));
    let mut gateway = Gateway::new(one_band(limited));
    let arrivals = [("a", 60), ("b", 50), ("c", 40), ("d", 1)];
    let answers = arrivals.map(|(name, bytes)| gateway.arrive_with(name, 0, bytes));
    equal(
        "band limits",
        answers,
        ["in", "QueueFull", "in", "QueueFull"],
    )?;

    let mut config = three_bands();
    config.limits = Limits::new(u64::MAX, 2);
    let mut gateway = Gateway::new(config);
    let arrivals = [("a", 0), ("b", 0), ("c", 10)];
    let answers = arrivals.map(|(name, priority)| gateway.arrive(name, priority));
    equal("global limit", answers, ["in", "in", "QueueFull"])?;
    gateway.cycles(0.0, "a")?;
    equal("after a dispatch", gateway.arrive("d", 10), "in")?;

    let limited = BandConfig::default().with_limits(Limits::new(u64::MAX, 1));
    let mut gateway = Gateway::new(one_band(limited));
    with_context(&[], &Signals::new(), |cx| gateway.flow.cycle(cx))
        .map_err(|error| error.to_string())?;
    let answers = ["a", "b"].map(|name| gateway.arrive(name, 0));
    equal("empty pool", answers, ["in", "NoEndpoint"])?;
    let statuses =
        [RejectReason::QueueFull, RejectReason::NoEndpoint].map(RejectReason::http_status);
    equal("statuses", statuses, [429, 503])
}

fn w45() -> Outcome {
    let mut gateway = Gateway::new(FlowConfig::default());
    gateway.arrive("a", 0);
    gateway.cycles(1.0, "-")?;
    equal("early", gateway.sweep(millis(59_999)), [])?;
    let expired = [("a".to_owned(), RejectReason::TtlExpired)];
    equal("in time", gateway.sweep(millis(60_000)), expired)?;
    equal("status", RejectReason::TtlExpired.http_status(), 429)
}

fn w46() -> Outcome {
    let mut config = FlowConfig::default();
    config.request_ttl = Some(SimDuration::from_secs(1));
    config.no_endpoint_ttl = Some(SimDuration::from_secs(5));
    let mut gateway = Gateway::new(config);
    gateway.flow.pool_changed(SimTime::ZERO, 0);
    gateway.arrive("a", 0);
    equal("empty", gateway.sweep(millis(4_900)), [])?;
    gateway.flow.pool_changed(millis(4_900), 1);
    gateway.cycles(1.0, "-")?;
    equal("0.9 s after", gateway.sweep(millis(5_800)), [])?;
    let expired = [("a".to_owned(), RejectReason::TtlExpired)];
    equal("1 s after", gateway.sweep(millis(5_900)), expired)
}

fn ceilings(usage: &mut dyn UsageLimit, saturation: f64, bands: &[i32]) -> Vec<f64> {
    let bands: Vec<_> = bands.iter().copied().map(ObjectivePriority::new).collect();
    let mut ceilings = vec![1.0; bands.len()];
    usage.ceilings(saturation, &bands, &mut ceilings);
    ceilings
}

fn holdback(min: f64, domain: CeilingDomain) -> Result<PriorityHoldback, String> {
    PriorityHoldback::new(min, 1.0, domain).map_err(|error| error.to_string())
}

fn w47() -> Outcome {
    let mut rank = holdback(0.5, CeilingDomain::Rank)?;
    let actual = ceilings(&mut rank, 0.0, &[100, 75, 50, 10]);
    close("rank", &actual, &[1.0, 5.0 / 6.0, 2.0 / 3.0, 0.5])?;
    let mut value = holdback(0.5, CeilingDomain::Value)?;
    let actual = ceilings(&mut value, 0.0, &[100, 50, 10]);
    close("value", &actual, &[1.0, 0.5 + 0.5 * 40.0 / 90.0, 0.5])?;
    let actual = ceilings(&mut value, 0.0, &[100, 2, 1]);
    close("far apart", &actual, &[1.0, 0.5 + 0.5 / 99.0, 0.5])?;
    close("one band", &ceilings(&mut rank, 0.0, &[7]), &[1.0])
}

fn w48() -> Outcome {
    let gateway = || {
        let usage = holdback(0.5, CeilingDomain::Rank)?;
        Ok::<_, String>(Gateway::with_usage(three_bands(), usage))
    };
    let mut all = gateway()?;
    for (name, priority) in [("l", -10), ("m", 0), ("h", 10)] {
        all.arrive(name, priority);
    }
    all.cycles(0.6, "h m - -")?;
    all.cycles(0.49, "l")?;

    let mut low = gateway()?;
    low.arrive("l", -10);
    low.arrive("m", 0);
    low.cycles(0.8, "-")?;
    low.cycles(0.7, "m -")?;
    low.cycles(0.5, "-")
}

fn w49() -> Outcome {
    let calls = |saturation, bands: &[i32], calls: usize| -> Vec<Vec<f64>> {
        let mut usage = SoftReflective::default();
        let call = |_| ceilings(&mut usage, saturation, bands);
        (0..calls).map(call).collect()
    };
    let is_open = |ceilings: &Vec<f64>| ceilings.iter().all(|&ceiling| ceiling > 0.5);
    let opens = |saturation, bands: &[i32], count| -> Vec<bool> {
        calls(saturation, bands, count)
            .iter()
            .map(is_open)
            .collect()
    };
    let three = [10, 0, -10];
    let (closed, open) = ([1.0, 0.0, 0.0], [1.0; 3]);
    let expected = [closed, closed, open, closed, closed, open, closed];
    for (actual, expected) in calls(0.75, &three, 7).iter().zip(expected) {
        close("0.75", actual, &expected)?;
    }
    equal(
        "0.7",
        opens(0.7, &three, 5),
        [false, true, false, true, false],
    )?;
    equal("0.5", opens(0.5, &three, 5), [true; 5])?;
    equal("0.6", opens(0.6, &three, 5), [true; 5])?;
    for saturation in [1.0, 1.4] {
        for actual in calls(saturation, &three, 3) {
            close("full", &actual, &closed)?;
        }
    }
    let open_calls = |saturation, count| -> Vec<usize> {
        let opens = opens(saturation, &[10, 0], count).into_iter();
        opens
            .zip(1..)
            .filter_map(|(open, call)| open.then_some(call))
            .collect()
    };
    equal("two bands, 0.49", open_calls(0.49, 4), [1, 2, 3, 4])?;
    equal("two bands, 0.9", open_calls(0.9, 20), [9, 18])?;
    equal("two bands, 0.99", open_calls(0.99, 100), [99])?;
    equal("one band", opens(1.4, &[0], 2), [true; 2])
}

fn w50() -> Outcome {
    let mut gateway = Gateway::with_usage(three_bands(), SoftReflective::default());
    for (name, priority) in [("m1", 0), ("m2", 0), ("l1", -10)] {
        gateway.arrive(name, priority);
    }
    gateway.cycles(0.75, "- - m1 - - m2 - - l1")
}

/// Says what it was told of each endpoint; the mean of many.
struct Imposed(Vec<f64>);

impl SaturationDetector for Imposed {
    fn saturation(&mut self, pool: &[usize], _: &mut GatewayContext<'_>) -> f64 {
        let sum: f64 = pool.iter().map(|&position| self.0[position]).sum();
        sum / pool.len() as f64
    }
}

fn w51() -> Outcome {
    let dispatched = |roles: &[(&str, f64)]| {
        let with_role = |(id, &(role, _)): (usize, &(&str, f64))| {
            let mut labels = BTreeMap::new();
            if !role.is_empty() {
                labels.insert(ROLE_LABEL.to_owned(), role.to_owned());
            }
            let mut endpoint = endpoint(id);
            endpoint.labels = Arc::new(labels);
            endpoint
        };
        let endpoints: Vec<_> = roles.iter().enumerate().map(with_role).collect();
        let detector = Imposed(roles.iter().map(|&(_, value)| value).collect());
        let usage = StaticLimit::default();
        let mut flow = FlowControl::new(FlowConfig::default(), detector, usage);
        flow.enqueue(NOW, request(0), 1)
            .map_err(|rejection| rejection.reason.to_string())?;
        with_context(&endpoints, &Signals::new(), |cx| flow.cycle(cx))
            .map_err(|error| error.to_string())
    };
    let blocked = dispatched(&[("prefill", 1.2), ("decode", 0.1), ("decode", 0.1)])?;
    close("full prefill", &[blocked.saturation], &[1.2])?;
    equal("full prefill", blocked.dispatched.is_some(), false)?;
    let open = dispatched(&[("prefill", 0.9), ("decode", 0.1), ("", 1.7)])?;
    close("both at 0.9", &[open.saturation], &[0.9])?;
    equal("both at 0.9", open.dispatched.is_some(), true)
}

fn w52() -> Outcome {
    let unlimited = Eviction {
        per_round: usize::MAX,
        ..Eviction::default()
    };
    equal("wanted", unlimited.round_size(1.3, 1.0, 10, 0.0, 10), 3)?;
    let eviction = Eviction::default();
    equal("limited", eviction.round_size(1.3, 1.0, 10, 0.0, 10), 2)?;

    let mut config = three_bands();
    config.eviction = Some(eviction);
    let mut gateway = Gateway::new(config);
    for _ in 0..10 {
        gateway.arrive("l", -10);
        gateway.cycles(0.5, "l")?;
    }
    gateway.arrive("h", 10);
    let cycle = gateway.flow.cycle_at(gateway.now, 1.3);
    let evicted = cycle.map_err(|error| error.to_string())?.evict;
    let evicted: Vec<_> = evicted.into_iter().map(RequestId::get).collect();
    equal("the latest first", evicted, [9, 8])
}

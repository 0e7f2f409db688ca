//! What a host of flow control can rely on: bands that come and go, times to call, wrong answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foretoken_dataplane::flow::{
    BandConfig, FairnessPolicy, FlowConfig, FlowControl, FlowView, Limits, OrderingPolicy,
    ProgramAware, StaticLimit, UsageLimit,
};
use foretoken_dataplane::saturation::UtilizationDetector;
use foretoken_dataplane::signals::Signals;
use foretoken_dataplane::{GatewayContext, SaturationDetector};
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{
    ObjectivePriority, OrderKey, QueueSignals, RejectReason, Rekey, RequestView,
};

use crate::cases::queues::{Gateway, endpoint, millis, with_context};

fn bands(gateway: &Gateway) -> Vec<(i32, usize)> {
    let bands = gateway.flow.bands();
    bands.map(|(band, waiting)| (band.get(), waiting)).collect()
}

/// Answers by imposed numbers, sensible or not.
struct Says(f64);

impl SaturationDetector for Says {
    fn saturation(&mut self, _: &[usize], _: &mut GatewayContext<'_>) -> f64 {
        self.0
    }
}

impl UsageLimit for Says {
    fn ceilings(&mut self, _: f64, _: &[ObjectivePriority], ceilings: &mut [f64]) {
        if let Some(lowest) = ceilings.last_mut() {
            *lowest = self.0;
        }
    }
}

/// Chooses the flow at an imposed place.
struct Place(usize);

impl FairnessPolicy for Place {
    fn next(&mut self, _: ObjectivePriority, _: &[FlowView<'_>], _: SimTime) -> Option<usize> {
        Some(self.0)
    }
}

#[test]
fn a_saturation_that_is_no_number_names_the_detector() {
    for (answer, shown) in [(f64::NAN, "NaN"), (-0.5, "-0.5")] {
        let usage = StaticLimit::default();
        let mut flow = FlowControl::new(FlowConfig::default(), Says(answer), usage);
        let error = with_context(&[endpoint(0)], &Signals::new(), |cx| flow.cycle(cx));
        assert_eq!(
            error.expect_err("no saturation").to_string(),
            format!("the saturation detector answered {shown}: allowed is a number from 0 up")
        );
    }
}

#[test]
fn a_ceiling_out_of_range_names_the_policy_and_the_band() {
    let mut gateway = Gateway::with_usage(FlowConfig::default(), Says(1.5));
    let error = gateway.flow.cycle_at(gateway.now, 0.1);
    assert_eq!(
        error.expect_err("no ceiling").to_string(),
        "the usage-limit policy answered ceiling 1.5 for band 0: allowed is 0 or more, and at most 1"
    );
}

#[test]
fn a_place_without_a_request_names_the_policy_of_the_band() {
    let band = BandConfig::default().with_fairness(|| Place(3));
    let mut gateway = Gateway::new(FlowConfig::default().with_band(0, band));
    gateway.arrive("a", 0);
    let error = gateway.flow.cycle_at(gateway.now, 0.1);
    assert_eq!(
        error.expect_err("no such flow").to_string(),
        "the fairness policy of band 0 answered flow 3: \
         allowed is the place, below 1, of a flow in which something waits"
    );
}

#[test]
fn a_priority_without_a_band_waits_in_band_0() {
    let mut gateway = Gateway::new(FlowConfig::default().with_band(10, BandConfig::default()));
    gateway.arrive("promoted", -10);
    gateway.arrive("demoted", 7);
    assert_eq!(bands(&gateway), [(10, 0), (0, 2)]);
}

#[test]
fn a_band_comes_with_its_objective_and_goes_when_it_was_idle_for_ten_minutes() {
    let mut config = FlowConfig::default();
    config.default_negative_band =
        Some(BandConfig::default().with_limits(Limits::new(u64::MAX, 1)));
    let mut gateway = Gateway::new(config);
    let batch = ObjectivePriority::new(-10);
    gateway.flow.objective_added(gateway.now, batch);
    assert_eq!(gateway.arrive("a", -10), "in");
    assert_eq!(
        gateway.arrive("b", -10),
        "QueueFull",
        "as the template says"
    );
    assert_eq!(bands(&gateway), [(0, 0), (-10, 1)]);

    gateway.flow.objective_removed(batch);
    gateway.flow.objective_removed(ObjectivePriority::new(0));
    gateway.now = millis(30_000);
    assert_eq!(gateway.cycle(0.0), "a");
    let sweep = gateway.flow.next_sweep(millis(30_000));
    assert_eq!(sweep, Some(millis(31_000)), "a band is to be collected");
    gateway.sweep(millis(629_000));
    assert_eq!(bands(&gateway), [(0, 0), (-10, 0)]);
    gateway.sweep(millis(630_000));
    assert_eq!(bands(&gateway), [(0, 0)]);
    assert_eq!(gateway.flow.next_sweep(millis(630_000)), None);
}

#[test]
fn a_flow_goes_when_it_was_idle_for_five_minutes() {
    struct Counting(Arc<AtomicUsize>);
    impl FairnessPolicy for Counting {
        fn next(
            &mut self,
            _: ObjectivePriority,
            flows: &[FlowView<'_>],
            _: SimTime,
        ) -> Option<usize> {
            self.0.store(flows.len(), Ordering::Relaxed);
            flows.iter().position(|flow| flow.queued > 0)
        }
    }
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let band = BandConfig::default().with_fairness(move || Counting(Arc::clone(&counter)));
    let mut gateway = Gateway::new(FlowConfig::default().with_band(0, band));
    gateway.arrive_in_flows(&["a1", "b1"]);
    gateway.now = millis(1000);
    assert_eq!(gateway.cycle(0.0), "a1");
    assert_eq!(gateway.cycle(0.0), "b1");
    for (at, flows) in [(300_000, 2), (301_000, 1)] {
        gateway.sweep(millis(at));
        gateway.arrive_in_flows(&["b2"]);
        assert_eq!(gateway.cycle(0.0), "b2");
        assert_eq!(seen.load(Ordering::Relaxed), flows, "at {at} ms");
    }
}

#[test]
fn cycles_come_at_whole_milliseconds_while_something_waits() {
    let mut gateway = Gateway::new(FlowConfig::default());
    let between = SimTime::from_nanos(1_500_000);
    assert_eq!(gateway.flow.next_tick(between), None);
    assert_eq!(gateway.flow.next_sweep(between), None);
    gateway.arrive("a", 0);
    assert_eq!(gateway.flow.next_tick(between), Some(millis(2)));
    assert_eq!(gateway.flow.next_tick(millis(2)), Some(millis(3)));
    assert_eq!(gateway.flow.next_sweep(between), Some(millis(1000)));
    assert_eq!(gateway.cycle(1.0), "-");
    assert_eq!(gateway.flow.next_tick(between), Some(millis(2)));
    assert_eq!(gateway.cycle(0.0), "a");
    assert_eq!(gateway.flow.next_tick(between), Some(millis(2)), "one more");
    assert_eq!(gateway.cycle(0.0), "-");
    assert_eq!(gateway.flow.next_tick(between), None);
}

#[test]
fn a_time_to_live_of_its_own_counts_if_it_is_shorter() {
    let mut gateway = Gateway::new(FlowConfig::default());
    gateway.arrive_with_ttl("short", millis(0), SimDuration::from_secs(5));
    gateway.arrive_with_ttl("long", millis(0), SimDuration::from_secs(500));
    let expired = |name: &str| [(name.to_owned(), RejectReason::TtlExpired)];
    assert_eq!(gateway.sweep(millis(5_000)), expired("short"));
    assert_eq!(gateway.sweep(millis(60_000)), expired("long"));
}

#[test]
fn in_an_empty_pool_the_want_of_endpoints_is_to_blame() {
    let mut config = FlowConfig::default();
    config.no_endpoint_ttl = Some(SimDuration::from_secs(5));
    let mut gateway = Gateway::new(config);
    gateway.arrive("a", 0);
    gateway.flow.pool_changed(millis(2_000), 0);
    assert_eq!(gateway.sweep(millis(6_999)), []);
    let expired = [("a".to_owned(), RejectReason::NoEndpoint)];
    assert_eq!(gateway.sweep(millis(7_000)), expired);
}

#[test]
fn an_order_that_follows_the_time_is_asked_before_every_use() {
    /// The earliest first in the first second, the latest first from then on.
    #[derive(Debug)]
    struct Turning;
    impl OrderingPolicy for Turning {
        fn key(&self, request: &RequestView<'_>, signals: &QueueSignals) -> OrderKey {
            let arrival = request.arrival.as_nanos();
            if signals.now < millis(1000) {
                OrderKey::new(arrival, 0)
            } else {
                OrderKey::new(u64::MAX - arrival, 0)
            }
        }
        fn rekey(&self) -> Rekey {
            Rekey::EachStep
        }
    }
    let band = BandConfig::default().with_ordering(|| Turning);
    let mut gateway = Gateway::new(FlowConfig::default().with_band(0, band));
    for name in ["a", "b", "c"] {
        gateway.arrive(name, 0);
    }
    assert_eq!(gateway.cycle(0.0), "a");
    gateway.now = millis(1000);
    assert_eq!(gateway.cycle(0.0), "c");
    assert_eq!(gateway.cycle(0.0), "b");
}

#[test]
fn all_bands_hear_of_answers() {
    let band = BandConfig::default().with_fairness(ProgramAware::default);
    let config = FlowConfig::default()
        .with_band(10, band.clone())
        .with_band(0, band);
    let mut gateway = Gateway::new(config);
    gateway.flow.served(gateway.now, "A", 1000, 100);
    gateway.arrive_in_flows(&["a1", "b1"]);
    assert_eq!(gateway.cycle(0.0), "b1");
}

#[test]
fn flow_control_can_be_printed() {
    let (usage, detector) = (StaticLimit::default(), UtilizationDetector::default());
    let flow = FlowControl::new(FlowConfig::default(), detector, usage);
    assert!(format!("{flow:?}").starts_with("FlowControl"));
}

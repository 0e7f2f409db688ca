//! Properties of the queues and the dispatcher, step by step.

use std::collections::BTreeMap;

use foretoken_dataplane::flow::{
    BandConfig, CeilingDomain, Eviction, FlowConfig, FlowControl, Limits, PriorityHoldback,
    ProgramAware, Rejection, UsageLimit, fairness,
};
use foretoken_dataplane::saturation::UtilizationDetector;
use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{
    ContentId, FlowId, ObjectivePriority, Prompt, RejectReason, Request, RequestId, Segment,
};
use proptest::prelude::*;

use crate::cases;

/// Bands that are configured, the most important first.
const BANDS: [i32; 3] = [10, 0, -10];
const BAND_LIMITS: Limits = Limits::new(150, 6);
const ALL_LIMITS: Limits = Limits::new(300, 12);
const TTL: SimDuration = SimDuration::from_secs(3);
const NO_ENDPOINT_TTL: SimDuration = SimDuration::from_secs(5);

/// Something that happens.
#[derive(Debug, Clone, Copy)]
enum Event {
    Arrival {
        flow: u32,
        /// 5 has no band.
        priority: i32,
        bytes: u64,
    },
    Cycle {
        saturation: f64,
    },
    Sweep,
    Cancellation {
        request: u32,
    },
    End {
        request: u32,
    },
    PoolChange {
        endpoints: usize,
    },
    Pause {
        millis: u64,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let priority = prop_oneof![Just(10), Just(0), Just(-10), Just(5)];
    let arrival =
        (0u32..4, priority, 1u64..60).prop_map(|(flow, priority, bytes)| Event::Arrival {
            flow,
            priority,
            bytes,
        });
    let event = prop_oneof![
        6 => arrival,
        4 => (0.0..1.3f64).prop_map(|saturation| Event::Cycle { saturation }),
        2 => Just(Event::Cycle { saturation: 0.0 }),
        1 => Just(Event::Sweep),
        1 => (0u32..60).prop_map(|request| Event::Cancellation { request }),
        1 => (0u32..60).prop_map(|request| Event::End { request }),
        1 => (0usize..2).prop_map(|endpoints| Event::PoolChange { endpoints }),
        2 => (1u64..2000).prop_map(|millis| Event::Pause { millis }),
    ];
    prop::collection::vec(event, 1..120)
}

/// A band's configuration with the fairness policy of this number.
fn band(policy: usize) -> BandConfig {
    let band = BandConfig::default().with_limits(BAND_LIMITS);
    match policy {
        0 => band,
        1 => band.with_fairness(fairness::RoundRobin::default),
        _ => band.with_fairness(ProgramAware::default),
    }
}

fn config(policy: usize) -> FlowConfig {
    let mut config = FlowConfig::default();
    for priority in BANDS {
        config = config.with_band(priority, band(policy));
    }
    config.limits = ALL_LIMITS;
    config.request_ttl = Some(TTL);
    config.no_endpoint_ttl = Some(NO_ENDPOINT_TTL);
    config.eviction = Some(Eviction::after_live_counters());
    config
}

fn usage() -> PriorityHoldback {
    PriorityHoldback::new(0.5, 1.0, CeilingDomain::Rank).expect("in range")
}

/// What is known of a request that waits.
#[derive(Debug, Clone, Copy)]
struct Known {
    band: i32,
    flow: u32,
    bytes: u64,
    enqueued: SimTime,
}

/// How many requests met each fate.
#[derive(Debug, Default)]
struct Fates {
    offered: usize,
    refused: usize,
    dispatched: usize,
    expired: usize,
    cancelled: usize,
}

/// Flow control beside a plain account of what it must hold.
struct Checked {
    flow: FlowControl,
    now: SimTime,
    waiting: BTreeMap<RequestId, Known>,
    /// Priority of each request in flight that was not cancelled.
    in_flight: BTreeMap<RequestId, i32>,
    /// Cancelled since the last sweep: they still take room.
    lingering: Vec<(i32, u64)>,
    pool: (usize, SimTime),
    fates: Fates,
}

impl Checked {
    fn new(policy: usize) -> Self {
        let detector = UtilizationDetector::default();
        Self {
            flow: FlowControl::new(config(policy), detector, usage()),
            now: SimTime::ZERO,
            waiting: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            lingering: Vec::new(),
            pool: (1, SimTime::ZERO),
            fates: Fates::default(),
        }
    }

    fn step(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Arrival {
                flow,
                priority,
                bytes,
            } => self.arrive(flow, priority, bytes)?,
            Event::Cycle { saturation } => self.cycle(saturation)?,
            Event::Sweep => self.sweep()?,
            Event::Cancellation { request } => self.cancel(RequestId::new(request))?,
            Event::End { request } => {
                self.in_flight.remove(&RequestId::new(request));
                self.flow.finished(self.now, RequestId::new(request));
            }
            Event::PoolChange { endpoints } => {
                if endpoints != self.pool.0 {
                    self.pool = (endpoints, self.now);
                }
                self.flow.pool_changed(self.now, endpoints);
            }
            Event::Pause { millis } => self.now += SimDuration::from_millis(millis),
        }
        let fates = &self.fates;
        prop_assert_eq!(self.flow.waiting(), self.waiting.len());
        prop_assert_eq!(
            fates.offered,
            fates.refused
                + fates.dispatched
                + fates.expired
                + fates.cancelled
                + self.flow.waiting()
        );
        Ok(())
    }

    /// Bytes and requests that count against limits, of one band or of all.
    fn held(&self, band: Option<i32>) -> (u64, u64) {
        let waiting = self.waiting.values().map(|known| (known.band, known.bytes));
        waiting
            .chain(self.lingering.iter().copied())
            .filter(|(other, _)| band.is_none_or(|band| band == *other))
            .fold((0, 0), |(sum, count), (_, bytes)| (sum + bytes, count + 1))
    }

    fn arrive(&mut self, flow: u32, priority: i32, bytes: u64) -> Result<(), TestCaseError> {
        let id = RequestId::new(u32::try_from(self.fates.offered).expect("a few requests"));
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 4)]).expect("four tokens");
        let mut request = Request::new(id, self.now, prompt, 1);
        request.flow = FlowId::new(flow);
        request.objective = ObjectivePriority::new(priority);
        self.fates.offered += 1;

        let band = if priority == 5 { 0 } else { priority };
        let fits = [(Some(band), BAND_LIMITS), (None, ALL_LIMITS)]
            .into_iter()
            .all(|(band, limits)| {
                let (held, count) = self.held(band);
                held + bytes <= limits.bytes && count < limits.requests
            });
        match self.flow.enqueue(self.now, request, bytes) {
            Ok(()) => {
                prop_assert!(fits, "a limit is exceeded");
                let known = Known {
                    band,
                    flow,
                    bytes,
                    enqueued: self.now,
                };
                self.waiting.insert(id, known);
            }
            Err(rejection) => {
                prop_assert!(!fits, "refused although there is room");
                let reason = match self.pool.0 {
                    0 => RejectReason::NoEndpoint,
                    _ => RejectReason::QueueFull,
                };
                prop_assert_eq!((rejection.request.id, rejection.reason), (id, reason));
                self.fates.refused += 1;
            }
        }
        Ok(())
    }

    fn cycle(&mut self, saturation: f64) -> Result<(), TestCaseError> {
        let mut ceilings = [1.0; BANDS.len()];
        usage().ceilings(
            saturation,
            &BANDS.map(ObjectivePriority::new),
            &mut ceilings,
        );
        let may_go = BANDS
            .into_iter()
            .zip(ceilings)
            .take_while(|&(_, ceiling)| saturation < ceiling)
            .map(|(band, _)| band)
            .find(|band| self.waiting.values().any(|known| known.band == *band));
        let cycle = self.flow.cycle_at(self.now, saturation);
        let cycle = cycle.expect("the policies give sensible answers");
        // Work conservation, strict priority and the gate in one: exactly the first band that is
        // open and has something gets a dispatch.
        let dispatched = cycle.dispatched.map(|request| request.id);
        let from = dispatched.map(|id| self.waiting[&id].band);
        prop_assert_eq!(from, may_go);
        if let Some(id) = dispatched {
            let gone = self.waiting.remove(&id).expect("it waited");
            let earlier = self
                .waiting
                .range(..id)
                .find(|(_, known)| known.band == gone.band && known.flow == gone.flow);
            prop_assert!(
                earlier.is_none(),
                "{earlier:?} of its flow came before {id}"
            );
            self.fates.dispatched += 1;
            self.in_flight.insert(id, gone.band);
        }
        prop_assert!(cycle.evict.is_empty() || dispatched.is_none());
        for victim in cycle.evict {
            let band = self
                .in_flight
                .remove(&victim)
                .expect("it is in flight, once");
            let blocked = cycle.blocked.expect("a band is blocked").get();
            prop_assert!(band < 0 && band < blocked);
            prop_assert!(self.waiting.values().any(|known| known.band == blocked));
        }
        Ok(())
    }

    fn sweep(&mut self) -> Result<(), TestCaseError> {
        self.lingering.clear();
        let (endpoints, since) = self.pool;
        let (budget, reason) = match endpoints {
            0 => (NO_ENDPOINT_TTL, RejectReason::NoEndpoint),
            _ => (TTL, RejectReason::TtlExpired),
        };
        let backstop = NO_ENDPOINT_TTL + SimDuration::from_secs(2);
        for Rejection {
            request,
            reason: given,
            ..
        } in self.flow.sweep(self.now)
        {
            let known = self.waiting.remove(&request.id).expect("it waited");
            let charged = self.now - known.enqueued.max(since);
            prop_assert!(charged >= budget || self.now - known.enqueued >= backstop);
            prop_assert_eq!(given, reason);
            self.fates.expired += 1;
        }
        for known in self.waiting.values() {
            prop_assert!(self.now - known.enqueued.max(since) < budget, "{known:?}");
            prop_assert!(self.now - known.enqueued < backstop, "{known:?}");
        }
        Ok(())
    }

    fn cancel(&mut self, id: RequestId) -> Result<(), TestCaseError> {
        let known = self.waiting.remove(&id);
        let cancelled = self.flow.cancel(self.now, id);
        let reason = cancelled.map(|rejection| (rejection.request.id, rejection.reason));
        prop_assert_eq!(reason, known.map(|_| (id, RejectReason::ClientGone)));
        if let Some(known) = known {
            self.lingering.push((known.band, known.bytes));
            self.fates.cancelled += 1;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn every_request_meets_the_fate_that_the_books_foresee(
        events in events(),
        policy in 0usize..3,
    ) {
        let mut checked = Checked::new(policy);
        for event in events {
            checked.step(event)?;
        }
    }

    #[test]
    fn an_open_gate_empties_the_queues(events in events(), policy in 0usize..3) {
        let mut checked = Checked::new(policy);
        for event in events {
            checked.step(event)?;
        }
        for left in (0..checked.flow.waiting()).rev() {
            let tick = checked.flow.next_tick(checked.now);
            checked.now = tick.expect("something waits");
            checked.step(Event::Cycle { saturation: 0.0 })?;
            prop_assert_eq!(checked.flow.waiting(), left);
        }
        checked.step(Event::Cycle { saturation: 0.0 })?;
        prop_assert_eq!(checked.flow.next_tick(checked.now), None);
    }
}

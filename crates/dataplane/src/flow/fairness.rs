//! Fairness policies: whose turn it is among the flows of a band.

use std::collections::BTreeMap;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::ObjectivePriority;

use super::{FairnessPolicy, FlowView};

/// Takes the best head of all flows by the band's ordering policy, as if there were one queue (llm-d's
/// `global-strict-fairness-policy`, its default).
#[derive(Debug, Clone, Copy, Default)]
pub struct GlobalStrict;

impl FairnessPolicy for GlobalStrict {
    fn next(&mut self, _: ObjectivePriority, flows: &[FlowView<'_>], _: SimTime) -> Option<usize> {
        let heads = flows
            .iter()
            .enumerate()
            .filter_map(|(place, flow)| Some((place, flow.head?)));
        heads
            .min_by_key(|(_, head)| (head.key, head.sequence))
            .map(|(place, _)| place)
    }
}

/// One request of each flow in turn, whatever its size (llm-d's `round-robin-fairness-policy`).
///
/// Flows take turns in the order of their ids, beginning behind the one served last; empty ones are
/// skipped. When nothing waits the turn goes back to the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoundRobin {
    last: Option<String>,
}

impl FairnessPolicy for RoundRobin {
    fn next(&mut self, _: ObjectivePriority, flows: &[FlowView<'_>], _: SimTime) -> Option<usize> {
        let start = self.last.as_ref().map_or(0, |last| {
            flows.partition_point(|flow| flow.id <= last.as_str())
        });
        let next = (start..flows.len())
            .chain(0..start)
            .find(|&place| flows[place].queued > 0);
        match next {
            Some(place) => flows[place]
                .id
                .clone_into(self.last.get_or_insert_default()),
            None => self.last = None,
        }
        next
    }
}

/// Least attained service with ageing (llm-d's `program-aware-fairness`, strategy `las`).
///
/// The flow with the highest [`weight_service`](Self::weight_service) · (1 - norm(service)) +
/// [`weight_head_wait`](Self::weight_head_wait) · norm(wait of its head in ms) is next; ties go to the
/// first id. norm maps the smallest value among flows with requests to 0 and the largest to 1, and all
/// to 0.5 if they are equal. Service grows with each answer by prompt tokens + 2 · output tokens, and
/// halves in every [`half_life`](Self::half_life).
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramAware {
    /// Weight of having been served little (`lasWeightService`); 0.8 by default.
    pub weight_service: f64,
    /// Weight of waiting (`lasWeightHeadWait`); 0.2 by default.
    pub weight_head_wait: f64,
    /// In what time service counts half (`lasHalfLifeSeconds`); 60 s by default, `None` (there: 0)
    /// forgets nothing.
    pub half_life: Option<SimDuration>,
    /// After what time without an answer a flow's service is forgotten (`evictionTtlSeconds`); an hour
    /// by default.
    pub eviction_ttl: SimDuration,
    /// How long it is between two looks for those (`evictionSweepSeconds`); 300 s by default.
    pub eviction_sweep: SimDuration,
    service: BTreeMap<String, Service>,
    swept_at: SimTime,
}

/// What a flow got, as of an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Service {
    tokens: f64,
    at: SimTime,
}

impl Default for ProgramAware {
    fn default() -> Self {
        Self {
            weight_service: 0.8,
            weight_head_wait: 0.2,
            half_life: Some(SimDuration::from_secs(60)),
            eviction_ttl: SimDuration::from_secs(3600),
            eviction_sweep: SimDuration::from_secs(300),
            service: BTreeMap::new(),
            swept_at: SimTime::ZERO,
        }
    }
}

impl ProgramAware {
    /// Tokens that flow `id` was served, weighted and decayed.
    pub fn attained(&self, id: &str, now: SimTime) -> f64 {
        self.service
            .get(id)
            .map_or(0.0, |service| self.decayed(*service, now))
    }

    fn decayed(&self, service: Service, now: SimTime) -> f64 {
        match self.half_life {
            Some(half_life) if !half_life.is_zero() => {
                let elapsed = now.saturating_since(service.at).as_nanos() as f64;
                service.tokens * libm::exp2(-elapsed / half_life.as_nanos() as f64)
            }
            _ => service.tokens,
        }
    }

    fn forget(&mut self, now: SimTime) {
        if now.saturating_since(self.swept_at) < self.eviction_sweep {
            return;
        }
        self.swept_at = now;
        let ttl = self.eviction_ttl;
        self.service
            .retain(|_, service| now.saturating_since(service.at) < ttl);
    }
}

impl FairnessPolicy for ProgramAware {
    fn next(
        &mut self,
        _: ObjectivePriority,
        flows: &[FlowView<'_>],
        now: SimTime,
    ) -> Option<usize> {
        let service = |flow: &FlowView<'_>| self.attained(flow.id, now);
        let wait = |flow: &FlowView<'_>| {
            flow.head.map_or(0.0, |head| {
                now.saturating_since(head.enqueued).as_millis_f64()
            })
        };
        let waiting = || flows.iter().filter(|flow| flow.queued > 0);
        let services = Span::of(waiting().map(service));
        let waits = Span::of(waiting().map(wait));
        let mut best: Option<(usize, f64)> = None;
        for (place, flow) in flows.iter().enumerate() {
            if flow.queued == 0 {
                continue;
            }
            let score = self.weight_service * (1.0 - services.norm(service(flow)))
                + self.weight_head_wait * waits.norm(wait(flow));
            if best.is_none_or(|(_, highest)| score > highest) {
                best = Some((place, score));
            }
        }
        best.map(|(place, _)| place)
    }

    fn served(&mut self, id: &str, prompt_tokens: u32, output_tokens: u32, now: SimTime) {
        self.forget(now);
        let gained = f64::from(prompt_tokens) + 2.0 * f64::from(output_tokens);
        let service = Service {
            tokens: self.attained(id, now) + gained,
            at: now,
        };
        self.service.insert(id.to_owned(), service);
    }
}

/// From the smallest to the largest of some values.
#[derive(Debug, Clone, Copy)]
struct Span {
    min: f64,
    max: f64,
}

impl Span {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let nothing = Self {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        };
        values.fold(nothing, |span, value| Self {
            min: span.min.min(value),
            max: span.max.max(value),
        })
    }

    fn norm(self, value: f64) -> f64 {
        if self.max > self.min {
            (value - self.min) / (self.max - self.min)
        } else {
            0.5
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken_workload::OrderKey;

    use super::*;
    use crate::flow::HeadView;

    const BAND: ObjectivePriority = ObjectivePriority::new(0);

    fn seconds(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    fn flow(id: &str, enqueued: SimTime) -> FlowView<'_> {
        FlowView::new(id, 1, Some(HeadView::new(OrderKey::default(), 0, enqueued)))
    }

    #[test]
    fn the_turn_moves_on_when_the_last_flow_is_gone() {
        let mut policy = RoundRobin::default();
        let [a, b, c] = ["a", "b", "c"].map(|id| flow(id, SimTime::ZERO));
        assert_eq!(policy.next(BAND, &[a, b, c], SimTime::ZERO), Some(0));
        assert_eq!(policy.next(BAND, &[a, b, c], SimTime::ZERO), Some(1));
        assert_eq!(policy.next(BAND, &[a, c], SimTime::ZERO), Some(1));
        assert_eq!(policy.next(BAND, &[a, c], SimTime::ZERO), Some(0));
    }

    #[test]
    fn the_turn_goes_back_to_the_first_when_nothing_waits() {
        let mut policy = RoundRobin::default();
        let [a, b] = ["a", "b"].map(|id| flow(id, SimTime::ZERO));
        assert_eq!(policy.next(BAND, &[a, b], SimTime::ZERO), Some(0));
        let idle = FlowView::new("a", 0, None);
        assert_eq!(policy.next(BAND, &[idle], SimTime::ZERO), None);
        assert_eq!(policy.next(BAND, &[a, b], SimTime::ZERO), Some(0));
    }

    #[test]
    fn who_was_served_least_is_next() {
        let mut policy = ProgramAware::default();
        policy.served("a", 100, 50, SimTime::ZERO);
        policy.served("b", 10, 5, SimTime::ZERO);
        let [a, b] = ["a", "b"].map(|id| flow(id, SimTime::ZERO));
        assert_eq!(policy.next(BAND, &[a, b], SimTime::ZERO), Some(1));
        policy.served("b", 1000, 0, SimTime::ZERO);
        assert_eq!(policy.next(BAND, &[a, b], SimTime::ZERO), Some(0));
    }

    #[test]
    fn with_equal_service_the_longer_wait_decides() {
        let mut policy = ProgramAware::default();
        let flows = [flow("a", seconds(2)), flow("b", seconds(1))];
        assert_eq!(policy.next(BAND, &flows, seconds(3)), Some(1));
    }

    #[test]
    fn service_halves_and_is_forgotten() {
        let mut policy = ProgramAware::default();
        policy.served("a", 100, 50, SimTime::ZERO);
        assert!((policy.attained("a", seconds(60)) - 100.0).abs() < 1e-9);
        assert!((policy.attained("a", seconds(120)) - 50.0).abs() < 1e-9);
        policy.half_life = None;
        assert!((policy.attained("a", seconds(3599)) - 200.0).abs() < 1e-9);
        policy.served("b", 1, 0, seconds(3600));
        assert!(policy.attained("a", seconds(3600)).abs() < 1e-9);
    }
}

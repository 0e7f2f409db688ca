//! Routers that do without a pipeline: what any other policy is measured against.
//!
//! All are deterministic: ties go to the lowest id, and chance comes from the stream that is handed in.
//! Loads are the gateway's own counters, which are never stale.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_workload::{FlowId, RequestView, SessionId};

use crate::router::{Placement, Router};
use crate::signals::{APPROXIMATE_PREFIX, attribute};
use crate::view::{EndpointId, EndpointView, GatewayContext};

/// One endpoint after the other.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Router for RoundRobin {
    fn route(&mut self, _: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Option<Placement> {
        let endpoint = cx.endpoints.get(self.next).or(cx.endpoints.first())?;
        let place = if self.next < cx.endpoints.len() {
            self.next
        } else {
            0
        };
        self.next = (place + 1) % cx.endpoints.len();
        Some(endpoint.id.into())
    }

    fn goes_by_reports(&self) -> bool {
        false
    }
}

/// Any endpoint, uniformly.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

impl Router for Random {
    fn route(&mut self, _: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Option<Placement> {
        Some(cx.rng.choose(cx.endpoints)?.id.into())
    }

    fn goes_by_reports(&self) -> bool {
        false
    }
}

/// Of two endpoints chosen at random the one with fewer requests in flight (Mitzenmacher 2001).
#[derive(Debug, Clone, Copy, Default)]
pub struct PowerOfTwoChoices;

impl Router for PowerOfTwoChoices {
    fn route(&mut self, _: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Option<Placement> {
        let one = cx.rng.choose(cx.endpoints)?;
        let others = cx.endpoints.len() - 1;
        if others == 0 {
            return Some(one.id.into());
        }
        // Two different ones: the draw skips the first.
        let draw = usize::try_from(cx.rng.below(others as u64)).ok()?;
        let skip = usize::from(cx.endpoints[draw].id >= one.id);
        let other = &cx.endpoints[draw + skip];
        let best = [one, other]
            .into_iter()
            .min_by_key(|e| (e.in_flight, e.id))?;
        Some(best.id.into())
    }

    fn goes_by_reports(&self) -> bool {
        false
    }
}

/// The endpoint with the fewest requests in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeastRequests;

impl Router for LeastRequests {
    fn route(&mut self, _: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Option<Placement> {
        Some(least_requests(cx.endpoints)?.id.into())
    }

    fn goes_by_reports(&self) -> bool {
        false
    }
}

/// The endpoint with the fewest prompt tokens in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeastTokens;

impl Router for LeastTokens {
    fn route(&mut self, _: &RequestView<'_>, cx: &mut GatewayContext<'_>) -> Option<Placement> {
        let least = cx
            .endpoints
            .iter()
            .min_by_key(|e| (e.in_flight_tokens, e.id))?;
        Some(least.id.into())
    }

    fn goes_by_reports(&self) -> bool {
        false
    }
}

/// The endpoint with the least work in sight: the prompt tokens in flight plus those of this request's
/// that it does not hold. Without a prefix attribute it holds nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinShortestExpectedWork {
    /// The producer that matches prefixes; the approximate one by default.
    pub producer: Arc<str>,
}

impl Default for JoinShortestExpectedWork {
    fn default() -> Self {
        Self {
            producer: APPROXIMATE_PREFIX.into(),
        }
    }
}

impl Router for JoinShortestExpectedWork {
    fn route(
        &mut self,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<Placement> {
        let prefixes = cx.signals.prefix.column(&self.producer);
        let prompt = u64::from(request.prompt_tokens());
        let work = |(position, endpoint): &(usize, &EndpointView)| {
            let cached = attribute(prefixes, *position).map_or(0, |found| found.cached_tokens());
            let work = endpoint.in_flight_tokens + prompt.saturating_sub(cached);
            (work, endpoint.id)
        };
        let (_, least) = cx.endpoints.iter().enumerate().min_by_key(work)?;
        Some(least.id.into())
    }

    fn goes_by_reports(&self) -> bool {
        false
    }
}

/// The endpoint that the request's session was sent to before, or, without a session, its flow. New ones
/// go to the endpoint with the fewest requests in flight, and so do those whose endpoint went away.
///
/// It never forgets a session.
#[derive(Debug, Clone, Default)]
pub struct SessionAffinity {
    homes: BTreeMap<Client, EndpointId>,
}

/// Whose requests stay together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Client {
    Session(SessionId),
    Flow(FlowId),
}

impl Router for SessionAffinity {
    fn route(
        &mut self,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Option<Placement> {
        let client = request
            .session
            .map_or(Client::Flow(request.flow), Client::Session);
        let known = self.homes.get(&client).copied();
        let endpoint = match known.filter(|&home| cx.position(home).is_some()) {
            Some(home) => home,
            None => least_requests(cx.endpoints)?.id,
        };
        self.homes.insert(client, endpoint);
        Some(endpoint.into())
    }

    fn goes_by_reports(&self) -> bool {
        false
    }
}

fn least_requests(endpoints: &[EndpointView]) -> Option<&EndpointView> {
    endpoints.iter().min_by_key(|e| (e.in_flight, e.id))
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::{RngStreams, SimTime};
    use foretoken_workload::{ContentId, Prompt, Request, RequestId, Segment};

    use super::*;
    use crate::signals::{PrefixMatch, Signals};

    fn pool() -> Vec<EndpointView> {
        (0..3)
            .map(|id| EndpointView::new(EndpointId::new(id)))
            .collect()
    }

    fn request(tokens: u32) -> Request {
        let prompt = Prompt::new([Segment::new(ContentId::new(0), tokens)]).expect("a prompt");
        Request::new(RequestId::new(0), SimTime::ZERO, prompt, 1)
    }

    fn route(router: &mut dyn Router, request: &Request, pool: &[EndpointView]) -> Option<u32> {
        targets(router, request, pool, 1).first().copied()
    }

    fn targets(
        router: &mut dyn Router,
        request: &Request,
        pool: &[EndpointView],
        decisions: usize,
    ) -> Vec<u32> {
        let mut rng = RngStreams::new(1, 0).stream("routing", 0);
        (0..decisions)
            .filter_map(|_| {
                let mut cx = GatewayContext::new(SimTime::ZERO, pool, &mut rng);
                let placement = router.route(&request.view(), &mut cx)?;
                Some(placement.endpoint.get())
            })
            .collect()
    }

    #[test]
    fn round_robin_takes_one_after_the_other() {
        let taken = targets(&mut RoundRobin::default(), &request(4), &pool(), 5);
        assert_eq!(taken, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn random_reaches_every_endpoint_and_repeats_with_its_stream() {
        let first = targets(&mut Random, &request(4), &pool(), 50);
        assert!((0..3).all(|id| first.contains(&id)));
        assert_eq!(first, targets(&mut Random, &request(4), &pool(), 50));
    }

    #[test]
    fn the_worst_of_three_is_never_the_better_of_two() {
        let mut pool = pool();
        pool[1].in_flight = 9;
        let taken = targets(&mut PowerOfTwoChoices, &request(4), &pool, 50);
        assert!(taken.contains(&0) && taken.contains(&2) && !taken.contains(&1));
        assert_eq!(
            route(&mut PowerOfTwoChoices, &request(4), &pool[2..]),
            Some(2)
        );
        assert_eq!(route(&mut PowerOfTwoChoices, &request(4), &[]), None);
    }

    #[test]
    fn the_least_loaded_is_taken_and_ties_go_to_the_lowest_id() {
        let mut pool = pool();
        assert_eq!(route(&mut LeastRequests, &request(4), &pool), Some(0));
        assert_eq!(route(&mut LeastTokens, &request(4), &pool), Some(0));
        pool[0].in_flight = 1;
        pool[1].in_flight_tokens = 5;
        assert_eq!(route(&mut LeastRequests, &request(4), &pool), Some(1));
        assert_eq!(route(&mut LeastTokens, &request(4), &pool), Some(0));
    }

    #[test]
    fn cached_tokens_are_no_work() {
        let mut pool = pool();
        pool[1].in_flight_tokens = 100;
        let (mut router, request) = (JoinShortestExpectedWork::default(), request(1000));
        assert_eq!(route(&mut router, &request, &pool), Some(0));

        let mut signals = Signals::new();
        let found = PrefixMatch::new(2, 16, 64);
        signals.prefix.set(APPROXIMATE_PREFIX, 1, found);
        let mut rng = RngStreams::new(1, 0).stream("routing", 0);
        let mut cx = GatewayContext::with_signals(SimTime::ZERO, &pool, &signals, &mut rng);
        let placement = router.route(&request.view(), &mut cx);
        assert_eq!(placement, Some(EndpointId::new(1).into()));
    }

    #[test]
    fn a_session_stays_until_its_endpoint_goes_away() {
        let (mut pool, mut router) = (pool(), SessionAffinity::default());
        let mut talk = request(4);
        talk.session = Some(SessionId::new(7));
        assert_eq!(route(&mut router, &talk, &pool), Some(0));
        pool[0].in_flight = 1;
        assert_eq!(route(&mut router, &talk, &pool), Some(0));
        assert_eq!(route(&mut router, &request(4), &pool), Some(1));
        assert_eq!(route(&mut router, &talk, &pool[1..]), Some(1));
        assert_eq!(route(&mut router, &talk, &pool), Some(1));
    }
}

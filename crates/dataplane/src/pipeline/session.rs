//! Which endpoint a session is bound to: what the session affinity's filter and scorer share.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{RequestId, RequestView, SessionId};

use crate::headers;
use crate::router::Placement;
use crate::view::{EndpointId, GatewayContext};

mod base64;

/// How a gateway recognises a session and remembers where it belongs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SessionStrategy {
    /// `encoded_endpoint_header`: the answer carries the base64 of the name of the endpoint that gave it,
    /// and the client sends it along the next time, as `x-session-token`.
    ///
    /// Simulated clients do not read answers. For a request of a session without the header, the name
    /// of the endpoint that the session was last sent to stands for what its client would send.
    #[default]
    EncodedEndpointHeader,
    /// `session_id`: the gateway binds an id to an endpoint.
    ///
    /// A binding is refreshed by every use and moves only when its endpoint is no candidate any more.
    SessionId {
        /// Headers that carry the id, the first that is there; `x-session-id` by default. Without any,
        /// the request's own session stands for what its client would send.
        sources: Vec<Arc<str>>,
        /// How long an unused binding is remembered (`evictionTtlSeconds`); 300 s by default.
        ttl: SimDuration,
        /// How often forgotten bindings are cleared away (`evictionSweepSeconds`), which frees memory and
        /// changes no decision; 10 s by default.
        sweep: SimDuration,
    },
}

impl SessionStrategy {
    /// [`SessionId`](Self::SessionId) with llm-d's defaults.
    pub fn session_id() -> Self {
        Self::SessionId {
            sources: vec![headers::SESSION_ID.into()],
            ttl: SimDuration::from_secs(300),
            sweep: SimDuration::from_secs(10),
        }
    }
}

/// Which of a decision's picks a session is bound to (`profileName`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoundPick {
    /// That of the primary profile: the endpoint that answers.
    #[default]
    Primary,
    /// That of the prefill profile.
    Prefill,
}

/// Bindings of sessions to endpoints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions {
    strategy: SessionStrategy,
    bound: BoundPick,
    /// Bindings of ids that came in a header.
    by_header: BTreeMap<Box<str>, Binding>,
    /// Bindings of sessions without a header.
    by_session: BTreeMap<SessionId, Binding>,
    next_sweep: SimTime,
    /// The name in a session token.
    token: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Binding {
    endpoint: EndpointId,
    used: SimTime,
    /// The last request that found the endpoint among its candidates.
    found_by: Option<RequestId>,
}

#[derive(Debug, Clone, Copy)]
enum Key<'a> {
    Header(&'a str),
    Session(SessionId),
}

impl Sessions {
    pub(crate) fn new(strategy: SessionStrategy, bound: BoundPick) -> Self {
        Self {
            strategy,
            bound,
            ..Self::default()
        }
    }

    /// The position of the endpoint that the request's session is bound to, if it is a candidate.
    pub(crate) fn find(
        &mut self,
        request: &RequestView<'_>,
        candidates: &[usize],
        cx: &GatewayContext<'_>,
    ) -> Option<usize> {
        let mut candidates = candidates.iter().copied();
        if self.strategy == SessionStrategy::EncodedEndpointHeader
            && let Some(token) = request.headers.get(headers::SESSION_TOKEN)
        {
            self.token.clear();
            base64::decode(token, &mut self.token)?;
            return candidates
                .find(|&position| cx.endpoints[position].name.as_bytes() == self.token);
        }
        let binding = self.binding(request, cx.now)?;
        let position =
            candidates.find(|&position| cx.endpoints[position].id == binding.endpoint)?;
        binding.found_by = Some(request.id);
        binding.used = cx.now;
        Some(position)
    }

    /// Binds the request's session to its endpoint, unless it is bound to a candidate already.
    pub(crate) fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        cx: &GatewayContext<'_>,
    ) {
        let pick = match self.bound {
            BoundPick::Primary => Some(placement.endpoint),
            BoundPick::Prefill => placement.prefill.map(|prefill| prefill.endpoint),
        };
        let Some(pick) = pick else {
            return;
        };
        self.sweep(cx.now);
        let moves = match self.strategy {
            // The token names whoever answered last.
            SessionStrategy::EncodedEndpointHeader => true,
            SessionStrategy::SessionId { .. } => self
                .binding(request, cx.now)
                .is_none_or(|binding| binding.found_by != Some(request.id)),
        };
        if !moves {
            return;
        }
        let binding = Binding {
            endpoint: pick,
            used: cx.now,
            found_by: None,
        };
        match self.key(request) {
            Some(Key::Header(id)) => self.by_header.insert(id.into(), binding),
            Some(Key::Session(id)) => self.by_session.insert(id, binding),
            None => None,
        };
    }

    fn key<'r>(&self, request: &RequestView<'r>) -> Option<Key<'r>> {
        let header = match &self.strategy {
            SessionStrategy::EncodedEndpointHeader => None,
            SessionStrategy::SessionId { sources, .. } => sources
                .iter()
                .filter_map(|source| request.headers.get(source))
                .find(|id| !id.is_empty()),
        };
        header
            .map(Key::Header)
            .or_else(|| request.session.map(Key::Session))
    }

    /// The binding of the request's session, unless it is too old.
    fn binding(&mut self, request: &RequestView<'_>, now: SimTime) -> Option<&mut Binding> {
        let ttl = self.ttl();
        let binding = match self.key(request)? {
            Key::Header(id) => self.by_header.get_mut(id),
            Key::Session(id) => self.by_session.get_mut(&id),
        };
        binding.filter(|binding| now.saturating_since(binding.used) <= ttl)
    }

    fn ttl(&self) -> SimDuration {
        match self.strategy {
            SessionStrategy::EncodedEndpointHeader => SimDuration::MAX,
            SessionStrategy::SessionId { ttl, .. } => ttl,
        }
    }

    fn sweep(&mut self, now: SimTime) {
        let SessionStrategy::SessionId { ttl, sweep, .. } = self.strategy else {
            return;
        };
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now.checked_add(sweep).unwrap_or(SimTime::MAX);
        let fresh = |binding: &Binding| now.saturating_since(binding.used) <= ttl;
        self.by_header.retain(|_, binding| fresh(binding));
        self.by_session.retain(|_, binding| fresh(binding));
    }
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;
    use foretoken_workload::{ContentId, Headers, Prompt, Request, Segment};

    use super::*;
    use crate::view::EndpointView;

    fn request(id: u32, session: &str) -> Request {
        let prompt = Prompt::new([Segment::new(ContentId::new(0), 4)]).expect("four tokens");
        let mut request = Request::new(RequestId::new(id), SimTime::ZERO, prompt, 1);
        request.headers = [("x-session-id", session)].into_iter().collect::<Headers>();
        request
    }

    /// Where the session of a request is found at a time, and what it is bound to afterwards.
    fn send(sessions: &mut Sessions, request: &Request, seconds: u64, to: u32) -> Option<usize> {
        send_among(sessions, request, seconds, to, &[0, 1, 2])
    }

    fn send_among(
        sessions: &mut Sessions,
        request: &Request,
        seconds: u64,
        to: u32,
        candidates: &[usize],
    ) -> Option<usize> {
        let endpoints: Vec<_> = (0..3)
            .map(|id| EndpointView::new(EndpointId::new(id)))
            .collect();
        let mut rng = RngStreams::new(1, 0).stream("routing", 0);
        let now = SimTime::from_nanos(seconds * 1_000_000_000);
        let cx = GatewayContext::new(now, &endpoints, &mut rng);
        let found = sessions.find(&request.view(), candidates, &cx);
        sessions.placed(&request.view(), &EndpointId::new(to).into(), &cx);
        found
    }

    #[test]
    fn a_binding_stays_while_its_endpoint_is_a_candidate() {
        let mut sessions = Sessions::new(SessionStrategy::session_id(), BoundPick::Primary);
        assert_eq!(send(&mut sessions, &request(0, "s"), 0, 1), None);
        assert_eq!(send(&mut sessions, &request(1, "s"), 1, 2), Some(1));
        assert_eq!(send(&mut sessions, &request(2, "s"), 2, 2), Some(1));
        let moved = send_among(&mut sessions, &request(3, "s"), 3, 2, &[0, 2]);
        assert_eq!(moved, None);
        assert_eq!(send(&mut sessions, &request(4, "s"), 4, 0), Some(2));
        assert_eq!(send(&mut sessions, &request(5, "other"), 5, 0), None);
    }

    #[test]
    fn use_refreshes_a_binding_and_age_forgets_it() {
        let mut sessions = Sessions::new(SessionStrategy::session_id(), BoundPick::Primary);
        send(&mut sessions, &request(0, "s"), 0, 1);
        assert_eq!(send(&mut sessions, &request(1, "s"), 300, 1), Some(1));
        assert_eq!(send(&mut sessions, &request(2, "s"), 600, 1), Some(1));
        assert_eq!(send(&mut sessions, &request(3, "s"), 901, 2), None);
        assert_eq!(send(&mut sessions, &request(4, "s"), 902, 2), Some(2));
    }

    #[test]
    fn a_session_without_a_header_is_its_own_id() {
        for strategy in [SessionStrategy::default(), SessionStrategy::session_id()] {
            let mut sessions = Sessions::new(strategy, BoundPick::Primary);
            let mut request = request(0, "s");
            request.headers = Headers::default();
            request.session = Some(SessionId::new(7));
            assert_eq!(send(&mut sessions, &request, 0, 1), None);
            assert_eq!(send(&mut sessions, &request, 1, 1), Some(1));
        }
    }
}

//! [`TurnByTurn`]: recorded sessions whose next turn waits for the answer to the one before.

use core::fmt;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use foretoken_des_kernel::{SimDuration, SimTime};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::lifecycle::Ended;
use crate::renumber::Renumbering;
use crate::request::{Request, RequestId, SessionId};
use crate::source::{Lookahead, Upcoming, Workload};

/// An open loop as a closed one: no turn of a session is sent before the one before has ended.
///
/// A turn is sent when it was in the record, later by as much as its session is late; if the one before has not ended
/// by then, when it does, and the session is late by that. On a server that is faster than the one that was recorded
/// nothing moves; on a slower one users wait, as they would. Requests without a session are sent as recorded.
///
/// Memory follows the sessions: each has a few dozen bytes to the end, since a record does not say when it is done.
pub struct TurnByTurn {
    load: Lookahead,
    sessions: HashMap<SessionId, Session, FxBuildHasher>,
    /// Requests to be sent, by time and then by the order of the record.
    due: BinaryHeap<Reverse<Due>>,
    /// The session of each request in flight that has one.
    in_flight: HashMap<RequestId, SessionId, FxBuildHasher>,
    renumbering: Renumbering,
    made: u32,
}

#[derive(Debug, Default)]
struct Session {
    /// How much later than recorded its turns are sent.
    late: SimDuration,
    /// When the last turn ended.
    answered: SimTime,
    /// A turn is about to be sent or in flight.
    busy: bool,
    waiting: VecDeque<Request>,
}

impl Session {
    /// When a turn is sent that was recorded at `recorded`.
    fn send(&mut self, recorded: SimTime) -> SimTime {
        self.busy = true;
        let due = recorded.checked_add(self.late).unwrap_or(SimTime::MAX);
        let at = due.max(self.answered);
        self.late = at - recorded;
        at
    }
}

/// A request and when it is sent; ordered by that.
#[derive(Debug)]
struct Due {
    at: SimTime,
    request: Request,
}

impl Due {
    fn key(&self) -> (SimTime, RequestId) {
        (self.at, self.request.id)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl TurnByTurn {
    /// The requests of an open loop, each session turn by turn.
    pub fn new(workload: Box<dyn Workload>) -> Self {
        let mut load = Self {
            load: Lookahead::new(workload),
            sessions: HashMap::default(),
            due: BinaryHeap::new(),
            in_flight: HashMap::default(),
            renumbering: Renumbering::default(),
            made: 0,
        };
        load.look_ahead();
        load
    }

    /// Draws until it is certain what is sent next: nothing is sent before the record says.
    fn look_ahead(&mut self) {
        while let Some(recorded) = self.load.arrival() {
            if self.first().is_some_and(|first| first < recorded) {
                return;
            }
            let Some(request) = self.load.draw() else {
                return;
            };
            let mut at = request.arrival;
            if let Some(session) = request.session {
                let session = self.sessions.entry(session).or_default();
                if session.busy {
                    session.waiting.push_back(request);
                    continue;
                }
                at = session.send(at);
            }
            self.due.push(Reverse(Due { at, request }));
        }
    }

    fn first(&self) -> Option<SimTime> {
        self.due.peek().map(|Reverse(due)| due.at)
    }
}

impl Workload for TurnByTurn {
    fn next(&mut self) -> Option<Request> {
        let Reverse(Due { at, request }) = self.due.pop()?;
        let id = RequestId::new(self.made);
        self.made = self.made.checked_add(1)?;
        let mut request = self.renumbering.apply(request, id);
        request.arrival = at;
        if let Some(session) = request.session {
            self.in_flight.insert(id, session);
        }
        self.look_ahead();
        Some(request)
    }

    fn total(&self) -> Option<u64> {
        self.load.total()
    }

    fn upcoming(&self) -> Upcoming {
        self.first().map_or(Upcoming::AfterAnswer, Upcoming::At)
    }

    fn ended(&mut self, ended: &Ended) {
        let Some(id) = self.in_flight.remove(&ended.request) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.busy = false;
        session.answered = ended.at;
        if let Some(request) = session.waiting.pop_front() {
            let at = session.send(request.arrival);
            self.due.push(Reverse(Due { at, request }));
        }
        self.look_ahead();
    }
}

impl fmt::Debug for TurnByTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnByTurn")
            .field("sessions", &self.sessions.len())
            .field("due", &self.due.len())
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

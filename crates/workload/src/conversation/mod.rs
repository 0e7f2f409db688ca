//! [`Conversations`]: clients that wait for an answer before they ask again. Sessions, agents and closed loops
//! are all made of them.
//!
//! A conversation is a line of requests with a context that grows by what is asked and what is
//! answered. An agent's line may branch into the lines of sub-agents, and goes on when all of them have ended.
//! Everything that is drawn for a line comes from streams of its own, named after the line, so that the order
//! in which answers come moves no draw.

mod line;
mod plan;

use core::fmt;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foretoken_des_kernel::{Fingerprint, RngStreams, SimTime};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::lifecycle::Ended;
use crate::prompt::{ContentId, Segment};
use crate::request::{Request, RequestId, SessionId};
use crate::source::{Upcoming, Workload};
use line::{Line, LineId};
use plan::ramped;

pub(crate) use plan::{
    Branches, Limits, Plan, Script, Starts, declared, length, longest_context, share,
};

/// Conversations that one source can number: see [`ContentId::of_session`].
const MAX_SESSIONS: u32 = 1 << 26;

/// Texts that one conversation can number.
pub(crate) const MAX_TEXTS: u32 = 1 << 20;

/// Conversations as a stream of requests, which reacts to answers.
///
/// A request that fails ends its line, as far as its client does not [ask again](crate::Retrying). Memory
/// follows the conversations that are going on, and their turns: users who are still to come take none.
pub struct Conversations {
    plan: Plan,
    starts: Starts,
    limits: Limits,
    streams: RngStreams,
    source: u16,
    /// Those that are going on.
    sessions: HashMap<u32, Session, FxBuildHasher>,
    lines: HashMap<LineId, Line, FxBuildHasher>,
    /// When lines ask next.
    due: BinaryHeap<Reverse<(SimTime, LineId)>>,
    in_flight: HashMap<RequestId, LineId, FxBuildHasher>,
    /// When somebody new comes, who is number `newcomers`.
    newcomer: Option<SimTime>,
    newcomers: u32,
    /// Conversations of users: those that have started, and the first ones of users who are still to come.
    promised: u32,
    made: u32,
}

/// What is kept of a conversation beside its lines: how many numbers it has given away.
#[derive(Debug, Clone, Copy)]
struct Session {
    lines: u32,
    texts: u32,
}

impl Conversations {
    pub(crate) fn new(
        plan: Plan,
        starts: Starts,
        limits: Limits,
        source: u16,
        streams: &RngStreams,
    ) -> Self {
        let promised = starts.users().min(limits.sessions);
        let mut load = Self {
            plan,
            starts,
            limits,
            streams: *streams,
            source,
            sessions: HashMap::default(),
            lines: HashMap::default(),
            due: BinaryHeap::new(),
            in_flight: HashMap::default(),
            newcomer: None,
            newcomers: 0,
            promised,
            made: 0,
        };
        load.await_newcomer(SimTime::ZERO);
        load
    }

    /// Finds out when somebody new comes, from `now` on.
    fn await_newcomer(&mut self, now: SimTime) {
        let (user, limit) = (self.newcomers, self.limits.sessions);
        self.newcomer = match &mut self.starts {
            Starts::Arrivals { process, rng } if user < limit.min(MAX_SESSIONS) => {
                process.next_after(now, rng).map(|at| at.max(now))
            }
            Starts::Users { users, ramp_up, .. } if user < limit.min(*users) => {
                Some(ramped(*ramp_up, user, *users))
            }
            _ => None,
        };
    }

    /// Somebody new comes at `now`.
    fn welcome(&mut self, now: SimTime) {
        let session = self.newcomers;
        self.newcomers += 1;
        self.open(session, now);
        self.await_newcomer(now);
    }

    /// A user is back at `at` for another conversation, unless there were enough.
    fn come_again(&mut self, session: u32, at: SimTime) {
        if self.promised < self.limits.sessions && session < MAX_SESSIONS {
            self.promised += 1;
            self.open(session, at);
        }
    }

    /// A conversation starts at `at`.
    fn open(&mut self, session: u32, at: SimTime) {
        let name = u64::from(self.source) << 32 | u64::from(session);
        let line = Line::open(
            name,
            &self.streams,
            &self.plan,
            &self.plan.main,
            self.system_prompt(),
        );
        let texts = line.turns;
        self.sessions.insert(session, Session { lines: 1, texts });
        let id = LineId { session, number: 0 };
        self.lines.insert(id, line);
        self.due.push(Reverse((at, id)));
    }

    /// The text that all lines begin with.
    fn system_prompt(&self) -> Segment {
        let content = ContentId::of_source(self.source, 0);
        Segment::new(content, self.plan.system_prompt_tokens)
    }

    /// A line goes on after an answer.
    fn go_on(&mut self, id: LineId, at: SimTime) {
        let Some(line) = self.lines.get_mut(&id) else {
            return;
        };
        if line.made >= line.turns {
            return self.end_line(id, at);
        }
        let pause = line.prepare(&self.plan);
        line.resumes = at.checked_add(pause).unwrap_or(SimTime::MAX);
        self.branch(id, at);
        self.ask_again(id);
    }

    /// Starts sub-agents, if the line does that now.
    fn branch(&mut self, id: LineId, at: SimTime) {
        let system = self.system_prompt();
        let (Some(branches), Some(line), Some(session)) = (
            &self.plan.branches,
            self.lines.get_mut(&id),
            self.sessions.get_mut(&id.session),
        ) else {
            return;
        };
        if line.parent.is_some() || line.draws.branch.unit() >= branches.probability {
            return;
        }
        line.branches = branches.count.sample(&mut line.draws.branch);
        let name = Fingerprint::new().with(line.draws.name);
        let name = name.with(line.made.into());
        for branch in 0..line.branches {
            let name = name.with(branch.into()).value();
            let opened = Line::open(name, &self.streams, &self.plan, &branches.script, system);
            let opened = opened.under(id, session.texts);
            let id = LineId {
                session: id.session,
                number: session.lines,
            };
            session.lines += 1;
            session.texts += opened.turns;
            self.lines.insert(id, opened);
            self.due.push(Reverse((at, id)));
        }
    }

    /// The next request of a line comes when it may, unless its sub-agents are at work or its context is full.
    fn ask_again(&mut self, id: LineId) {
        let Some(line) = self.lines.get(&id) else {
            return;
        };
        let at = line.resumes;
        if line.branches > 0 {
            return;
        }
        if line.fits(&self.plan) {
            self.due.push(Reverse((at, id)));
        } else {
            self.end_line(id, at);
        }
    }

    /// A line has said all that it had to say, or failed.
    fn end_line(&mut self, id: LineId, at: SimTime) {
        let Some(mut line) = self.lines.remove(&id) else {
            return;
        };
        let Some(parent_id) = line.parent else {
            self.sessions.remove(&id.session);
            if let Starts::Users { pause, .. } = &self.starts {
                let pause = pause.sample(&mut line.draws.pause);
                // Numbered by the user and not in the order in which they come.
                let next = id.session.saturating_add(self.starts.users());
                if let Some(at) = at.checked_add(pause) {
                    self.come_again(next, at);
                }
            }
            return;
        };
        if let Some(parent) = self.lines.get_mut(&parent_id) {
            parent.join(id, &line, at);
            self.ask_again(parent_id);
        }
    }

    /// When the next request is due.
    fn first(&self) -> Option<SimTime> {
        let due = self.due.peek().map(|&Reverse((at, _))| at);
        let at = due.into_iter().chain(self.newcomer).min()?;
        (self.made < self.limits.requests && at <= self.limits.last).then_some(at)
    }
}

impl Workload for Conversations {
    fn next(&mut self) -> Option<Request> {
        let now = self.first()?;
        if self.newcomer == Some(now) {
            self.welcome(now);
        }
        let Reverse((at, id)) = self.due.pop()?;
        let line = self.lines.get_mut(&id)?;
        let (prompt, output_tokens) = line.ask(self.source, id.session);
        let number = RequestId::new(self.made);
        self.made += 1;
        self.in_flight.insert(number, id);
        let mut request = Request::new(number, at, prompt, output_tokens);
        if let Some(max_tokens) = self.plan.max_tokens {
            request = request.stopping(output_tokens, max_tokens);
        }
        if self.plan.repeats_only_the_system_prompt() {
            request = request.repeatable_up_to(self.plan.system_prompt_tokens);
        }
        self.plan.client.sign(&mut request);
        request.session = Some(SessionId::of_source(self.source, id.session));
        Some(request)
    }

    fn upcoming(&self) -> Upcoming {
        self.first().map_or(Upcoming::AfterAnswer, Upcoming::At)
    }

    fn ended(&mut self, ended: &Ended) {
        let Some(id) = self.in_flight.remove(&ended.request) else {
            return;
        };
        if !ended.is_complete() {
            return self.end_line(id, ended.at);
        }
        if let Some(line) = self.lines.get_mut(&id) {
            let answer = ContentId::output_of(ended.request);
            line.hear(answer, ended.output_tokens, self.plan.thinking);
        }
        self.go_on(id, ended.at);
    }
}

impl fmt::Debug for Conversations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversations")
            .field("plan", &self.plan)
            .field("going_on", &self.sessions.len())
            .field("in_flight", &self.in_flight.len())
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

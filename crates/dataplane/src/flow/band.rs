//! [`Band`]: the flows of one priority, and the queue of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{ObjectivePriority, OrderKey, QueueSignals, Rekey, Request, RequestId};

use super::config::{BandConfig, Held, Limits};
use super::{FairnessPolicy, FlowView, HeadView, OrderingPolicy, fairness_id};
use crate::error::DataplaneError;

/// How long a flow stays after its last request.
const IDLE_FLOW: SimDuration = SimDuration::from_secs(300);
/// How long a band stays after its last request and its objective.
const IDLE_BAND: SimDuration = SimDuration::from_secs(600);

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Box<Request>,
    pub(super) bytes: u64,
    pub(super) enqueued: SimTime,
    /// How long it may wait while the pool has endpoints.
    pub(super) ttl: Option<SimDuration>,
}

/// Why a band is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is configured, or band 0.
    Configured,
    /// An objective has its priority.
    Objective,
    /// An objective had its priority.
    FormerObjective,
}

pub(super) struct Band {
    pub(super) priority: ObjectivePriority,
    pub(super) origin: Origin,
    pub(super) limits: Limits,
    /// What waits, and what was cancelled since the last sweep.
    pub(super) held: Held,
    fairness: Box<dyn FairnessPolicy>,
    ordering: Box<dyn OrderingPolicy>,
    flows: BTreeMap<Arc<str>, Flow>,
    waiting: usize,
    /// Whether the fairness policy was asked since the last request left.
    settled: bool,
    /// Bytes of each that was cancelled since the last sweep.
    cancelled: Vec<u64>,
    idle_since: SimTime,
}

/// The requests of a flow by their place: key first, then entry.
struct Flow {
    queue: BTreeMap<(OrderKey, u64), Waiting>,
    idle_since: SimTime,
}

impl Flow {
    fn view<'a>(&self, id: &'a str) -> FlowView<'a> {
        let head = self.queue.first_key_value();
        let head =
            head.map(|(&(key, sequence), waiting)| HeadView::new(key, sequence, waiting.enqueued));
        FlowView::new(id, self.queue.len(), head)
    }
}

impl Band {
    pub(super) fn new(
        now: SimTime,
        priority: ObjectivePriority,
        origin: Origin,
        config: &BandConfig,
    ) -> Self {
        Self {
            priority,
            origin,
            limits: config.limits,
            held: Held::default(),
            fairness: config.make_fairness(),
            ordering: config.make_ordering(),
            flows: BTreeMap::new(),
            waiting: 0,
            settled: true,
            cancelled: Vec::new(),
            idle_since: now,
        }
    }

    /// Requests that wait in it.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn enqueue(&mut self, sequence: u64, waiting: Waiting) {
        let key = key(&*self.ordering, &waiting, waiting.enqueued);
        self.held.add(waiting.bytes);
        self.waiting += 1;
        self.settled = false;
        let view = waiting.request.view();
        let id = fairness_id(&view);
        let flow = if let Some(flow) = self.flows.get_mut(&*id) {
            flow
        } else {
            let id = Arc::from(&*id);
            self.flows.entry(id).or_insert(Flow {
                queue: BTreeMap::new(),
                idle_since: waiting.enqueued,
            })
        };
        flow.queue.insert((key, sequence), waiting);
    }

    /// Takes out the request that its policies put first.
    pub(super) fn take_next(&mut self, now: SimTime) -> Result<Option<Waiting>, DataplaneError> {
        if self.settled {
            return Ok(None);
        }
        self.settled = self.waiting == 0;
        if self.ordering.rekey() == Rekey::EachStep {
            self.rekey(now);
        }
        let views: Vec<_> = self.flows.iter().map(|(id, flow)| flow.view(id)).collect();
        let Some(place) = self.fairness.next(self.priority, &views, now) else {
            return Ok(None);
        };
        if views.get(place).is_none_or(|flow| flow.queued == 0) {
            return Err(self.wrong_place(place));
        }
        drop(views);
        let flow = self.flows.values_mut().nth(place);
        let flow = flow.expect("its view was there");
        let (_, waiting) = flow.queue.pop_first().expect("its view was not empty");
        flow.idle_since = now;
        self.forget(now, waiting.bytes);
        Ok(Some(waiting))
    }

    fn wrong_place(&self, place: usize) -> DataplaneError {
        DataplaneError::answer(
            format!("the fairness policy of band {}", self.priority),
            format_args!("flow {place}"),
            format!(
                "the place, below {}, of a flow in which something waits",
                self.flows.len()
            ),
        )
    }

    fn rekey(&mut self, now: SimTime) {
        for flow in self.flows.values_mut() {
            let queue = core::mem::take(&mut flow.queue).into_iter();
            let ordering = &*self.ordering;
            flow.queue = queue
                .map(|((_, sequence), waiting)| ((key(ordering, &waiting, now), sequence), waiting))
                .collect();
        }
    }

    /// Takes out a request whose client went away; its room is free from the next sweep on.
    pub(super) fn cancel(&mut self, now: SimTime, request: RequestId) -> Option<Waiting> {
        let (flow, place) = self.flows.values_mut().find_map(|flow| {
            let mut queue = flow.queue.iter();
            let (&place, _) = queue.find(|(_, waiting)| waiting.request.id == request)?;
            Some((flow, place))
        })?;
        let waiting = flow.queue.remove(&place)?;
        flow.idle_since = now;
        self.waiting -= 1;
        self.idle_since = now;
        self.cancelled.push(waiting.bytes);
        Some(waiting)
    }

    /// Frees the room of what was cancelled, takes out what `is_expired`, and drops flows that have
    /// been idle for long.
    pub(super) fn sweep(
        &mut self,
        now: SimTime,
        is_expired: impl Fn(&Waiting) -> bool,
        expired: &mut Vec<Waiting>,
    ) {
        for bytes in self.cancelled.drain(..) {
            self.held.remove(bytes);
        }
        let first = expired.len();
        for flow in self.flows.values_mut() {
            let all = flow.queue.iter();
            let gone: Vec<_> = all
                .filter(|(_, waiting)| is_expired(waiting))
                .map(|(&place, _)| place)
                .collect();
            if !gone.is_empty() {
                flow.idle_since = now;
            }
            expired.extend(gone.iter().filter_map(|place| flow.queue.remove(place)));
        }
        for waiting in &expired[first..] {
            self.forget(now, waiting.bytes);
        }
        self.flows.retain(|_, flow| {
            !flow.queue.is_empty() || now.saturating_since(flow.idle_since) < IDLE_FLOW
        });
    }

    fn forget(&mut self, now: SimTime, bytes: u64) {
        self.held.remove(bytes);
        self.waiting -= 1;
        self.idle_since = now;
    }

    /// Whether nobody has needed it for long.
    pub(super) fn is_obsolete(&self, now: SimTime) -> bool {
        self.origin == Origin::FormerObjective
            && self.held == Held::default()
            && now.saturating_since(self.idle_since) >= IDLE_BAND
    }

    pub(super) fn served(
        &mut self,
        id: &str,
        prompt_tokens: u32,
        output_tokens: u32,
        now: SimTime,
    ) {
        self.fairness.served(id, prompt_tokens, output_tokens, now);
    }
}

fn key(ordering: &dyn OrderingPolicy, waiting: &Waiting, now: SimTime) -> OrderKey {
    let mut signals = QueueSignals::new(now, 0);
    signals.ttl = waiting.ttl;
    ordering.key(&waiting.request.view(), &signals)
}

//! [`QueueOrder`]: who is next. Shared by the engines' waiting queues and the gateway's queues.

use foretoken_des_kernel::{SimDuration, SimTime};

use crate::request::RequestView;

/// Place in a queue: smaller keys go first. [`Requeue`] says who goes first among equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OrderKey([u64; 2]);

impl OrderKey {
    /// Compares by `major`, then by `minor`.
    ///
    /// ```
    /// use foretoken_workload::OrderKey;
    ///
    /// assert!(OrderKey::new(1, 9) < OrderKey::new(2, 0));
    /// assert!(OrderKey::new(1, 0) < OrderKey::new(1, 9));
    /// ```
    pub const fn new(major: u64, minor: u64) -> Self {
        Self([major, minor])
    }

    /// Maps a signed number to an unsigned one that orders alike.
    pub const fn signed(value: i64) -> u64 {
        value.cast_unsigned() ^ (1 << 63)
    }
}

/// What an order may look at besides the request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct QueueSignals {
    /// Now.
    pub now: SimTime,
    /// Prompt tokens that the prefix cache holds now; 0 unless the order is rekeyed each step.
    pub cached_tokens: u32,
    /// How long it may wait in this queue, if that is limited; `None` in engines.
    pub ttl: Option<SimDuration>,
}

impl QueueSignals {
    /// Signals at `now`.
    pub const fn new(now: SimTime, cached_tokens: u32) -> Self {
        Self {
            now,
            cached_tokens,
            ttl: None,
        }
    }
}

/// When keys are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rekey {
    /// Once, when a request enters the queue.
    #[default]
    OnEnqueue,
    /// Before every use of the queue, with fresh signals.
    EachStep,
}

/// Where a preempted request goes, and with it who goes first among equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Requeue {
    /// To the place of its key. Among equal keys the smaller request id goes first, whoever entered
    /// the queue first.
    #[default]
    ByKey,
    /// To the very front, whatever its key. Among equal keys the place in the queue decides: those
    /// put to the front first, the latest of them before the others, then the rest as they came.
    Front,
}

/// Decides who is next in a queue.
///
/// The host calls [`key`](Self::key) as often as [`rekey`](Self::rekey) says; the answer must be a
/// pure function of its arguments. The smallest key is served first. How often `rekey` and
/// [`requeue`](Self::requeue) are asked is unspecified: they answer the same throughout.
///
/// ```
/// use foretoken_workload::{OrderKey, QueueOrder, QueueSignals, RequestView};
///
/// /// Earliest deadline first: a second for every request, and a millisecond for each token that
/// /// it may generate.
/// #[derive(Debug)]
/// struct Deadline;
///
/// impl QueueOrder for Deadline {
///     fn key(&self, request: &RequestView<'_>, _signals: &QueueSignals) -> OrderKey {
///         let allowance = 1_000_000_000 + u64::from(request.max_tokens) * 1_000_000;
///         OrderKey::new(request.arrival.as_nanos() + allowance, 0)
///     }
/// }
///
/// let order: Box<dyn QueueOrder> = Box::new(Deadline);
/// ```
pub trait QueueOrder: core::fmt::Debug + Send {
    /// The place of `request`.
    fn key(&self, request: &RequestView<'_>, signals: &QueueSignals) -> OrderKey;

    /// When keys are computed.
    fn rekey(&self) -> Rekey {
        Rekey::OnEnqueue
    }

    /// Where a preempted request goes.
    fn requeue(&self) -> Requeue {
        Requeue::ByKey
    }
}

impl<O: QueueOrder + ?Sized> QueueOrder for Box<O> {
    fn key(&self, request: &RequestView<'_>, signals: &QueueSignals) -> OrderKey {
        (**self).key(request, signals)
    }

    fn rekey(&self) -> Rekey {
        (**self).rekey()
    }

    fn requeue(&self) -> Requeue {
        (**self).requeue()
    }
}

/// First come, first served; a preempted request goes to the front (vLLM's `fcfs`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Fcfs;

impl QueueOrder for Fcfs {
    fn key(&self, _request: &RequestView<'_>, _signals: &QueueSignals) -> OrderKey {
        OrderKey::default()
    }

    fn requeue(&self) -> Requeue {
        Requeue::Front
    }
}

/// The most urgent first, then the earliest arrival, then the smallest id; a preempted request goes
/// back to that place (vLLM's `priority`).
#[derive(Debug, Clone, Copy, Default)]
pub struct ByPriority;

impl QueueOrder for ByPriority {
    fn key(&self, request: &RequestView<'_>, _signals: &QueueSignals) -> OrderKey {
        let urgency = OrderKey::signed(i64::from(request.priority.get()));
        OrderKey::new(urgency, request.arrival.as_nanos())
    }
}

/// The least declared work first, prompt tokens and limit of output tokens together; then the
/// earliest arrival.
///
/// Long requests wait as long as shorter ones come.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShortestJobFirst;

impl QueueOrder for ShortestJobFirst {
    fn key(&self, request: &RequestView<'_>, _signals: &QueueSignals) -> OrderKey {
        let work = u64::from(request.prompt_tokens()) + u64::from(request.max_tokens);
        OrderKey::new(work, request.arrival.as_nanos())
    }
}

/// The request with the most cached prompt tokens first, then the earliest arrival; keys follow the
/// cache from step to step (`SGLang`'s `lpm`).
#[derive(Debug, Clone, Copy, Default)]
pub struct LongestPrefixMatch;

impl QueueOrder for LongestPrefixMatch {
    fn key(&self, request: &RequestView<'_>, signals: &QueueSignals) -> OrderKey {
        OrderKey::new(
            u64::from(u32::MAX - signals.cached_tokens),
            request.arrival.as_nanos(),
        )
    }

    fn rekey(&self) -> Rekey {
        Rekey::EachStep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::{ContentId, Prompt, Segment};
    use crate::request::{Priority, Request, RequestId};

    const NOW: QueueSignals = QueueSignals {
        now: SimTime::ZERO,
        cached_tokens: 0,
        ttl: None,
    };

    fn request(id: u32, at: u64, prompt_tokens: u32, max_tokens: u32, priority: i32) -> Request {
        let prompt = Prompt::new([Segment::new(ContentId::new(id.into()), prompt_tokens)]);
        let prompt = prompt.expect("tests have prompts");
        let mut request = Request::new(
            RequestId::new(id),
            SimTime::from_nanos(at),
            prompt,
            max_tokens,
        );
        request.priority = Priority::new(priority);
        request
    }

    /// Ids in the order in which a host that breaks ties by id serves them.
    fn served(order: &dyn QueueOrder, requests: &[Request]) -> Vec<u32> {
        let mut keys: Vec<_> = requests
            .iter()
            .map(|r| (order.key(&r.view(), &NOW), r.id.get()))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn signed_numbers_keep_their_order() {
        let numbers = [i64::MIN, -1, 0, 1, i64::MAX];
        assert!(numbers.map(OrderKey::signed).is_sorted());
    }

    #[test]
    fn first_come_first_served_leaves_the_order_to_the_queue() {
        let keys =
            [request(0, 9, 5, 5, -3), request(1, 1, 1, 1, 3)].map(|r| Fcfs.key(&r.view(), &NOW));
        assert_eq!(keys[0], keys[1]);
        assert_eq!(Fcfs.requeue(), Requeue::Front);
    }

    #[test]
    fn the_most_urgent_goes_first_then_the_earliest() {
        let requests = [
            request(0, 10, 1, 1, 0),
            request(1, 20, 1, 1, -5),
            request(2, 5, 1, 1, 7),
            request(3, 5, 1, 1, 0),
            request(4, 5, 1, 1, 0),
        ];
        assert_eq!(served(&ByPriority, &requests), [1, 3, 4, 0, 2]);
        assert_eq!(ByPriority.requeue(), Requeue::ByKey);
    }

    #[test]
    fn the_shortest_job_goes_first_by_what_it_declares() {
        let generates_one_of_many = request(0, 1, 10, 1, 0).stopping(1, 1000);
        let requests = [
            generates_one_of_many,
            request(1, 9, 10, 30, 0),
            request(2, 3, 20, 20, 0),
        ];
        assert_eq!(served(&ShortestJobFirst, &requests), [2, 1, 0]);
    }

    #[test]
    fn the_longest_cached_prefix_goes_first() {
        let [early, late] = [request(0, 1, 100, 1, 0), request(1, 2, 100, 1, 0)];
        let key = |request: &Request, cached| {
            LongestPrefixMatch.key(&request.view(), &QueueSignals::new(SimTime::ZERO, cached))
        };
        assert!(key(&late, 64) < key(&early, 48));
        assert!(key(&early, 64) < key(&late, 64));
        assert_eq!(LongestPrefixMatch.rekey(), Rekey::EachStep);
    }

    #[test]
    fn a_boxed_order_answers_as_the_order_itself() {
        fn assert_order<O: QueueOrder>(order: &O) -> (Rekey, Requeue) {
            (order.rekey(), order.requeue())
        }
        let boxed: [Box<dyn QueueOrder>; 4] = [
            Box::new(Fcfs),
            Box::new(ByPriority),
            Box::new(ShortestJobFirst),
            Box::new(LongestPrefixMatch),
        ];
        let answers = boxed.each_ref().map(assert_order);
        assert_eq!(answers[0], (Rekey::OnEnqueue, Requeue::Front));
        assert_eq!(answers[1], (Rekey::OnEnqueue, Requeue::ByKey));
        assert_eq!(answers[3], (Rekey::EachStep, Requeue::ByKey));
        let view = request(0, 3, 8, 8, 0);
        assert_eq!(
            boxed[2].key(&view.view(), &NOW),
            ShortestJobFirst.key(&view.view(), &NOW)
        );
    }
}

//! [`FlowControl`]: the queues of a gateway and its dispatcher.

use core::cmp::Reverse;
use core::fmt;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{ObjectivePriority, RejectReason, Request, RequestId};

use super::UsageLimit;
use super::band::{Band, Origin, Waiting};
use super::config::{FlowConfig, Held};
use super::eviction::Evictor;
use super::ttl::TimeToLive;
use crate::error::DataplaneError;
use crate::saturation::{SaturationDetector, Stages, checked};
use crate::view::GatewayContext;

/// Period of the dispatcher.
const TICK: SimDuration = SimDuration::from_millis(1);
/// Period of the look for what waited too long.
const SWEEP: SimDuration = SimDuration::from_secs(1);

/// Holds requests in queues and lets them go one at a time while the pool has room (llm-d's flow
/// control, feature gate `flowControl`).
///
/// It is driven from outside. The host
///
/// - offers each request with [`enqueue`](Self::enqueue) and runs a [`cycle`](Self::cycle) right after;
/// - runs a cycle at [`next_tick`](Self::next_tick), and sends on what a cycle dispatches;
/// - calls [`sweep`](Self::sweep) at [`next_sweep`](Self::next_sweep), and answers for what it returns;
/// - tells of clients that go away ([`cancel`](Self::cancel)), of the pool's size
///   ([`pool_changed`](Self::pool_changed)), of objectives ([`objective_added`](Self::objective_added)),
///   of answers ([`served`](Self::served)) and, with eviction, of every end of a request that was
///   dispatched ([`finished`](Self::finished)).
///
/// While nothing waits no cycle is asked for, but one after the last request has left, where llm-d
/// goes on with a thousand per second. Two policies can tell: the phase of
/// [`SoftReflective`](super::SoftReflective) does not advance meanwhile, and the turn of
/// [`RoundRobin`](super::RoundRobin) does not go back to the first flow if that one cycle finds the
/// pool saturated. A host that runs a cycle every millisecond anyway gets llm-d's answers.
///
/// ```
/// use foretoken_dataplane::flow::{BandConfig, FlowConfig, FlowControl, StaticLimit};
/// use foretoken_dataplane::saturation::ConcurrencyDetector;
/// use foretoken_des_kernel::SimTime;
/// use foretoken_workload::{ContentId, ObjectivePriority, Prompt, Request, RequestId, Segment};
///
/// let config = FlowConfig::default().with_band(10, BandConfig::default());
/// let (detector, usage) = (ConcurrencyDetector::default(), StaticLimit::default());
/// let mut flow = FlowControl::new(config, detector, usage);
///
/// for (id, priority) in [(0, 0), (1, 10)] {
///     let prompt = Prompt::new([Segment::new(ContentId::new(id.into()), 100)])?;
///     let mut request = Request::new(RequestId::new(id), SimTime::ZERO, prompt, 10);
///     request.objective = ObjectivePriority::new(priority);
///     assert!(flow.enqueue(SimTime::ZERO, request, 400).is_ok());
/// }
/// assert!(flow.cycle_at(SimTime::ZERO, 1.0)?.dispatched.is_none());
/// let first = flow.cycle_at(SimTime::ZERO, 0.9)?.dispatched;
/// assert_eq!(first.map(|request| request.id), Some(RequestId::new(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FlowControl {
    config: FlowConfig,
    detector: Box<dyn SaturationDetector>,
    usage: Box<dyn UsageLimit>,
    evictor: Option<Evictor>,
    stages: Stages,
    /// The most important first.
    bands: Vec<Band>,
    /// Their priorities, as the usage policy sees them.
    levels: Vec<ObjectivePriority>,
    ceilings: Vec<f64>,
    /// Requests that ever entered.
    entries: u64,
    ttl: TimeToLive,
    /// Whether a cycle would find something to do.
    awake: bool,
}

/// What came of a dispatch cycle.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Cycle {
    /// The request that is let go.
    pub dispatched: Option<Box<Request>>,
    /// Requests in flight that are to be cancelled, to make room.
    pub evict: Vec<RequestId>,
    /// The band that stopped the cycle: it and those below wait, whether they hold something or not.
    pub blocked: Option<ObjectivePriority>,
    /// How full the pool is.
    pub saturation: f64,
}

/// A request that flow control gives back.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rejection {
    /// The request.
    pub request: Box<Request>,
    /// Why.
    pub reason: RejectReason,
}

impl FlowControl {
    /// Empty queues before a pool that is taken to have endpoints.
    pub fn new(
        config: FlowConfig,
        detector: impl SaturationDetector + 'static,
        usage: impl UsageLimit + 'static,
    ) -> Self {
        let start = SimTime::ZERO;
        let configured = |(&priority, band)| Band::new(start, priority, Origin::Configured, band);
        let mut flow = Self {
            bands: config.bands.iter().map(configured).collect(),
            evictor: config.eviction.map(Evictor::new),
            ttl: TimeToLive::new(config.request_ttl, config.no_endpoint_ttl),
            config,
            detector: Box::new(detector),
            usage: Box::new(usage),
            stages: Stages::default(),
            levels: Vec::new(),
            ceilings: Vec::new(),
            entries: 0,
            awake: false,
        };
        flow.list_levels();
        flow.provision(start, ObjectivePriority::new(0), Origin::Configured);
        flow
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.bands.iter().map(Band::waiting).sum()
    }

    /// Whether requests may wait for ever while the pool stays as it is: there is no time to live then.
    pub fn never_expires(&self) -> bool {
        self.ttl.is_unlimited()
    }

    /// The bands that there are, the most important first, with how many requests wait in each.
    pub fn bands(&self) -> impl Iterator<Item = (ObjectivePriority, usize)> {
        self.bands
            .iter()
            .map(|band| (band.priority, band.waiting()))
    }

    /// Takes `request`, whose body has so many `bytes`, into the queue of its band and flow; into band
    /// 0 if its priority has none, which promotes what may be shed.
    ///
    /// # Errors
    /// The request itself if it would exceed a limit, global ones first: [`RejectReason::QueueFull`],
    /// or [`RejectReason::NoEndpoint`] while the pool is empty. Nobody is displaced.
    pub fn enqueue(
        &mut self,
        now: SimTime,
        request: impl Into<Box<Request>>,
        bytes: u64,
    ) -> Result<(), Box<Rejection>> {
        self.enqueue_within(now, request, bytes, None)
    }

    /// The same for a request with a time to live of its own, which counts if it is shorter than the
    /// configured one (in llm-d nothing sets it but a client's deadline).
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_within(
        &mut self,
        now: SimTime,
        request: impl Into<Box<Request>>,
        bytes: u64,
        ttl: Option<SimDuration>,
    ) -> Result<(), Box<Rejection>> {
        let request = request.into();
        let all = self
            .bands
            .iter()
            .fold(Held::default(), |held, band| held.plus(band.held));
        let place = self
            .place(request.objective)
            .or_else(|_| self.place(ObjectivePriority::new(0)))
            .expect("band 0 always exists");
        let band = &mut self.bands[place];
        if !self.config.limits.fits(all, bytes) || !band.limits.fits(band.held, bytes) {
            let reason = self.ttl.blame(RejectReason::QueueFull);
            return Err(Box::new(Rejection { request, reason }));
        }
        let waiting = Waiting {
            request,
            bytes,
            enqueued: now,
            ttl: self.ttl.of_request(ttl),
        };
        band.enqueue(self.entries, waiting);
        self.entries += 1;
        self.awake = true;
        Ok(())
    }

    /// One dispatch cycle at `cx.now`, by what the detector says of the pool's [`Stages`].
    ///
    /// # Errors
    /// [`DataplaneError::Answer`] if a policy gives an answer that means nothing.
    pub fn cycle(&mut self, cx: &mut GatewayContext<'_>) -> Result<Cycle, DataplaneError> {
        self.pool_changed(cx.now, cx.endpoints.len());
        let saturation = self.stages.saturation(&mut *self.detector, cx)?;
        self.cycle_at(cx.now, saturation)
    }

    /// One dispatch cycle at this `saturation`.
    ///
    /// From the most important band down: one whose ceiling is reached stops the cycle, even if it is
    /// empty; one with a request that its fairness policy lets go ends it.
    ///
    /// # Errors
    /// [`DataplaneError::Answer`] if a policy gives an answer that means nothing, the saturation
    /// included.
    pub fn cycle_at(&mut self, now: SimTime, saturation: f64) -> Result<Cycle, DataplaneError> {
        let mut cycle = Cycle {
            dispatched: None,
            evict: Vec::new(),
            blocked: None,
            saturation: checked(saturation)?,
        };
        self.ask_ceilings(saturation)?;
        for (band, &ceiling) in self.bands.iter_mut().zip(&self.ceilings) {
            if saturation >= ceiling {
                cycle.blocked = Some(band.priority);
                if let Some(evictor) = &mut self.evictor
                    && band.waiting() > 0
                {
                    cycle.evict = evictor.round(now, saturation, ceiling, band.priority);
                }
                break;
            }
            if let Some(waiting) = band.take_next(now)? {
                if let Some(evictor) = &mut self.evictor {
                    evictor.dispatched(waiting.request.id, band.priority);
                }
                cycle.dispatched = Some(waiting.request);
                break;
            }
        }
        // One cycle more after the last request, so that fairness policies see that nothing waits.
        self.awake = cycle.dispatched.is_some() || self.waiting() > 0;
        Ok(cycle)
    }

    fn ask_ceilings(&mut self, saturation: f64) -> Result<(), DataplaneError> {
        self.ceilings.clear();
        self.ceilings.resize(self.levels.len(), 1.0);
        self.usage
            .ceilings(saturation, &self.levels, &mut self.ceilings);
        let mut above = 1.0;
        for (&ceiling, level) in self.ceilings.iter().zip(&self.levels) {
            if !(0.0..=above).contains(&ceiling) {
                return Err(DataplaneError::answer(
                    "the usage-limit policy",
                    format_args!("ceiling {ceiling} for band {level}"),
                    format!("0 or more, and at most {above}"),
                ));
            }
            above = ceiling;
        }
        Ok(())
    }

    /// Takes out what waited too long: [`RejectReason::TtlExpired`], or [`RejectReason::NoEndpoint`]
    /// while the pool is empty. The most important bands come first, then flows by id, then places.
    ///
    /// What counts is the time to live for the pool's state now, charged from the later of entry and
    /// the last change of that state. Whatever the changes, nothing waits more than 2 s longer than
    /// the longer of the two times to live. Room of cancelled requests becomes free, and flows and
    /// bands that nobody needs go away.
    pub fn sweep(&mut self, now: SimTime) -> Vec<Rejection> {
        let ttl = self.ttl;
        let mut expired = Vec::new();
        for band in &mut self.bands {
            band.sweep(now, |waiting| ttl.is_over(now, waiting), &mut expired);
        }
        let bands = self.bands.len();
        self.bands.retain(|band| !band.is_obsolete(now));
        if self.bands.len() < bands {
            self.list_levels();
        }
        let reason = ttl.blame(RejectReason::TtlExpired);
        let reject = |waiting: Waiting| Rejection {
            request: waiting.request,
            reason,
        };
        expired.into_iter().map(reject).collect()
    }

    /// Takes out a request whose client went away ([`RejectReason::ClientGone`]); `None` if it does
    /// not wait here. Its room becomes free with the next sweep. Takes time in proportion to what
    /// waits.
    pub fn cancel(&mut self, now: SimTime, request: RequestId) -> Option<Rejection> {
        let waiting = self
            .bands
            .iter_mut()
            .find_map(|band| band.cancel(now, request))?;
        Some(Rejection {
            request: waiting.request,
            reason: RejectReason::ClientGone,
        })
    }

    /// The pool has so many `endpoints` now. [`cycle`](Self::cycle) notices by itself, but only when
    /// it runs.
    pub fn pool_changed(&mut self, now: SimTime, endpoints: usize) {
        self.ttl.pool_changed(now, endpoints);
    }

    /// There is an objective of this priority: its band is made unless it is there.
    pub fn objective_added(&mut self, now: SimTime, priority: ObjectivePriority) {
        self.provision(now, priority, Origin::Objective);
    }

    /// There is no objective of this priority any more: its band goes away once it has been idle for
    /// 10 minutes, unless it is configured.
    pub fn objective_removed(&mut self, priority: ObjectivePriority) {
        if let Ok(place) = self.place(priority)
            && self.bands[place].origin == Origin::Objective
        {
            self.bands[place].origin = Origin::FormerObjective;
        }
    }

    /// A request of flow `id` was answered: all fairness policies hear of it.
    pub fn served(&mut self, now: SimTime, id: &str, prompt_tokens: u32, output_tokens: u32) {
        for band in &mut self.bands {
            band.served(id, prompt_tokens, output_tokens, now);
        }
    }

    /// A request that was dispatched has ended, in whatever way. Without eviction nobody needs to
    /// know.
    pub fn finished(&mut self, now: SimTime, request: RequestId) {
        if let Some(evictor) = &mut self.evictor {
            evictor.finished(now, request);
        }
    }

    /// The next whole millisecond after `now`, if a cycle would find something to do then.
    pub fn next_tick(&self, now: SimTime) -> Option<SimTime> {
        self.awake.then(|| now.next_tick(TICK))
    }

    /// The next whole second after `now`, if a sweep may find something to do then.
    pub fn next_sweep(&self, now: SimTime) -> Option<SimTime> {
        let needs_it =
            |band: &Band| band.held != Held::default() || band.origin == Origin::FormerObjective;
        let needed = self.bands.iter().any(needs_it);
        needed.then(|| now.next_tick(SWEEP))
    }

    /// Where the band of this priority stands, or would stand.
    fn place(&self, priority: ObjectivePriority) -> Result<usize, usize> {
        self.levels
            .binary_search_by_key(&Reverse(priority), |&level| Reverse(level))
    }

    fn provision(&mut self, now: SimTime, priority: ObjectivePriority, origin: Origin) {
        if let Ok(place) = self.place(priority) {
            let band = &mut self.bands[place];
            if band.origin == Origin::FormerObjective {
                band.origin = origin;
            }
        } else {
            let band = Band::new(now, priority, origin, self.config.template(priority));
            self.bands.push(band);
            self.list_levels();
        }
    }

    fn list_levels(&mut self) {
        self.bands.sort_by_key(|band| Reverse(band.priority));
        self.levels.clear();
        self.levels
            .extend(self.bands.iter().map(|band| band.priority));
    }
}

impl fmt::Debug for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowControl")
            .field("config", &self.config)
            .field("bands", &self.bands().collect::<Vec<_>>())
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

//! The one model of the kernel: introduces workload, gateways, engines, links and sink to each other.

mod catching_up;
mod event;
mod flight;
mod instance;
mod reported;
mod serving;
mod signals;
mod users;
mod wake_up;

use foretoken_dataplane::gateway::{Gateway, GatewayEvent};
use foretoken_dataplane::transfer::KvLinks;
use foretoken_dataplane::{EndpointId, Placement};
use foretoken_des_kernel::{
    Context, Kernel, Model, Rank, RngStreams, SimDuration, SimTime, Stop, StopReason,
};
use foretoken_engine::Engine;
use foretoken_metrics::MetricSink;
use foretoken_workload::{
    Ended, Ending, FinishReason, Lifecycle, Lookahead, Occurrence, RejectReason, Request,
    RequestId, Workload,
};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::cluster::{Freshness, PoolChange};
use crate::error::Error;
use crate::simulation::RunEnd;
use catching_up::Levels;
use event::Event;
use flight::Flight;
use instance::Instance;
use reported::Reported;
use signals::{Poller, Unseen};
use wake_up::WakeUp;

pub(crate) use instance::Identity;

/// Steps without an output token after which an engine counts as stuck; a prompt of a million tokens
/// in chunks of one takes fewer.
const FRUITLESS_WAKES: u64 = 1 << 21;

/// How long nothing happens until what waits in a gateway without a time to live is given up: all
/// metrics have been read by then, and no policy of llm-d goes by the time of day.
const PATIENCE: SimDuration = SimDuration::from_secs(60);

pub(crate) struct World<S> {
    load: Asking<Lookahead>,
    gateways: Vec<Asking<Gateway>>,
    /// The gateway that gets the next request.
    turn: usize,
    engines: Vec<Instance>,
    links: Asking<KvLinks>,
    network: Network,
    freshness: Freshness,
    /// When each endpoint joins or leaves.
    changes: Vec<PoolChange>,
    pollers: Vec<Poller>,
    /// By gateway, if they see the present.
    unseen: Vec<Unseen>,
    flights: HashMap<RequestId, Flight, FxBuildHasher>,
    arrived: u64,
    ended: u64,
    /// When something happened last that matters to a request.
    last: SimTime,
    horizon: SimTime,
    /// Buffers.
    said: Vec<GatewayEvent>,
    reported: Reported,
    levels: Levels,
    sink: S,
    failure: Option<Error>,
}

/// How long things take between gateways and engines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Network {
    /// One way, between a gateway and an engine, or between two engines.
    pub(crate) delay: SimDuration,
    /// From a change of an engine's cache until gateways know of it.
    pub(crate) kv_event_delay: SimDuration,
}

/// A component, and when it wants to be advanced.
struct Asking<C> {
    component: C,
    wake_up: WakeUp,
}

impl<C> Asking<C> {
    fn new(component: C) -> Self {
        Self {
            component,
            wake_up: WakeUp::default(),
        }
    }
}

/// The parts of a world.
pub(crate) struct Parts<S> {
    pub(crate) workload: Box<dyn Workload>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) engines: Vec<(Engine, Identity)>,
    pub(crate) links: KvLinks,
    pub(crate) network: Network,
    pub(crate) freshness: Freshness,
    pub(crate) changes: Vec<PoolChange>,
    pub(crate) streams: RngStreams,
    /// The end of the run.
    pub(crate) horizon: SimTime,
    pub(crate) sink: S,
}

impl<S: MetricSink> World<S> {
    pub(crate) fn new(parts: Parts<S>) -> Self {
        let engines: Vec<Instance> = (0..)
            .zip(parts.engines)
            .map(|(number, (engine, identity))| Instance::new(number, engine, identity))
            .collect();
        let levels = Levels::of(engines.len());
        let mut world = Self {
            load: Asking::new(Lookahead::new(parts.workload)),
            gateways: parts.gateways.into_iter().map(Asking::new).collect(),
            turn: 0,
            engines,
            links: Asking::new(parts.links),
            network: parts.network,
            freshness: parts.freshness,
            changes: parts.changes,
            pollers: Vec::new(),
            unseen: Vec::new(),
            flights: HashMap::with_hasher(FxBuildHasher),
            arrived: 0,
            ended: 0,
            last: SimTime::ZERO,
            horizon: parts.horizon,
            said: Vec::new(),
            reported: Reported::default(),
            levels,
            sink: parts.sink,
            failure: None,
        };
        world.pollers = world.make_pollers(parts.streams);
        world.unseen = world.make_unseen();
        for instance in &world.engines {
            world.sink.on_level(SimTime::ZERO, &instance.level);
        }
        world
    }

    /// Runs to the end, or to the horizon.
    pub(crate) fn run(mut self) -> Result<(S, RunEnd), Error> {
        let (first, horizon) = (self.first_events(), self.horizon);
        let mut kernel = Kernel::new(self);
        for (at, event) in first {
            kernel.schedule(at, event);
        }
        let stop = Stop::never().at(horizon);
        let stop = stop.when(|world: &Self| world.failure.is_some() || world.sink.is_satisfied());
        let reason = kernel.run_with(stop, &mut ());
        let (now, events) = (kernel.now(), kernel.events_handled());
        let mut world = kernel.into_model();
        if let Some(failure) = world.failure {
            return Err(failure);
        }
        world.tell_levels(after(now));
        // Gateways read metrics, and clients would have waited, for longer than anybody needs.
        let drained = world.is_drained();
        let at = if drained { world.last } else { now };
        world.assert_conserved();
        let mut engines = world.engines.iter();
        if let Some(stalled) = engines.find(|instance| instance.engine.is_stalled()) {
            return Err(Error::Stalled {
                engine: stalled.level.instance,
                at,
            });
        }
        assert!(
            drained || reason != StopReason::QueueExhausted,
            "work conservation: the run ended with requests inside and nothing left to happen"
        );
        Ok((world.sink, RunEnd { at, events }))
    }

    /// What is to happen before anything else does.
    fn first_events(&mut self) -> Vec<(SimTime, Event)> {
        let mut events: Vec<_> = self.ask_for_arrival().into_iter().collect();
        if !events.is_empty() {
            let changes = (0..).zip(&self.changes);
            events.extend(changes.map(|(change, pool)| (pool.at, Event::Pool { change })));
            events.extend(self.first_scrapes());
        }
        events
    }

    /// Whether nothing is left inside; checks that no engine leaked a KV block.
    fn is_drained(&self) -> bool {
        self.is_over()
            && self
                .engines
                .iter()
                .all(|instance| instance.engine.is_drained())
    }

    /// Whether no request is left, nor will come.
    fn is_over(&self) -> bool {
        self.load.component.arrival().is_none() && self.flights.is_empty() && self.held() == 0
    }

    /// Requests that wait in gateways.
    fn held(&self) -> usize {
        let gateways = self.gateways.iter();
        gateways.map(|gateway| gateway.component.held().0).sum()
    }

    /// The invariant *conservation of requests*: what arrived has ended, waits in a gateway or is on its
    /// way.
    fn assert_conserved(&self) {
        let inside = (self.held() + self.flights.len()) as u64;
        assert_eq!(
            self.arrived,
            self.ended + inside,
            "conservation of requests: {} arrived, {} ended, {inside} are inside",
            self.arrived,
            self.ended
        );
    }

    /// Lets a gateway act, and does what it says.
    fn with_gateway(
        &mut self,
        gateway: usize,
        cx: &mut Context<'_, Event>,
        act: impl FnOnce(
            &mut Gateway,
            SimTime,
            &mut dyn FnMut(GatewayEvent),
        ) -> Result<(), foretoken_dataplane::DataplaneError>,
    ) {
        self.show_present(gateway, cx.now());
        let mut said = core::mem::take(&mut self.said);
        let result = act(
            &mut self.gateways[gateway].component,
            cx.now(),
            &mut |event| said.push(event),
        );
        if let Err(error) = result {
            self.failure = Some(error.into());
        }
        for event in said.drain(..) {
            match event {
                GatewayEvent::Dispatch { request, placement } => {
                    self.dispatch(gateway, request, placement, cx);
                }
                GatewayEvent::Reject { request, reason } => self.reject(request, reason, cx),
                GatewayEvent::Evict { request } => self.evict(request, cx),
                _ => {}
            }
        }
        self.said = said;
        self.settle_gateway(gateway, cx);
    }

    fn settle_gateway(&mut self, gateway: usize, cx: &mut Context<'_, Event>) {
        let asking = &mut self.gateways[gateway];
        let wake = asking.component.next_wake();
        if let Some((time, asked)) = asking.wake_up.ask(wake) {
            cx.at(time.max(cx.now()), Event::Gateway { gateway, asked });
        }
    }

    /// A request that no endpoint has seen is refused.
    fn reject(&mut self, request: RequestId, reason: RejectReason, cx: &mut Context<'_, Event>) {
        let now = cx.now();
        self.last = now;
        let occurrence = Occurrence::new(now, request, Lifecycle::Rejected { reason });
        self.sink.on_occurrence(&occurrence);
        let ending = Ending::Rejected(reason);
        self.end(&Ended::without_answer(request, now, ending), cx);
    }

    fn dispatch(
        &mut self,
        gateway: usize,
        request: Box<Request>,
        placement: Placement,
        cx: &mut Context<'_, Event>,
    ) {
        let config = self.engines[index(placement.endpoint)]
            .engine
            .scheduler()
            .config();
        let room = config.max_model_len.saturating_sub(request.prompt.tokens());
        let output_tokens = request.output_tokens().min(room);
        let flight = Flight::new(gateway, placement, &request, output_tokens);
        let prefill = flight.placement.prefill;
        if let Some(prefill) = prefill
            && let Some(endpoint) = self.without_exchange([placement.endpoint, prefill.endpoint])
        {
            self.failure = Some(Error::Policy {
                policy: "router".into(),
                answer: format!("a prefill endpoint for {}", request.id),
                allowed: format!(
                    "none with endpoint {endpoint}, which exchanges no KV: its batching is static or its \
                     kv-allocation reserved"
                ),
            });
            return;
        }
        let what = Lifecycle::Dispatched {
            endpoint: placement.endpoint.get(),
            prefill: prefill.map(|prefill| prefill.endpoint.get()),
        };
        self.sink
            .on_occurrence(&Occurrence::new(cx.now(), request.id, what));
        let mut targets = flight.targets();
        let lost = targets.any(|target| !self.engines[index(target)].up);
        self.flights.insert(request.id, flight);
        if lost {
            // It went away while the decision took effect.
            self.cut(request.id, FinishReason::EndpointLost, cx);
            return;
        }
        let mut delay = self.network.delay;
        if prefill.is_some() {
            // The endpoint that answers asks the other one.
            delay += self.network.delay;
        }
        if delay.is_zero() {
            self.deliver(request, cx);
        } else {
            cx.at(cx.now() + delay, Event::Deliver(request));
        }
    }

    /// The first of these endpoints whose KV stays where it is.
    fn without_exchange(&self, endpoints: [EndpointId; 2]) -> Option<u32> {
        let exchanges = |endpoint: &EndpointId| {
            let engine = &self.engines[index(*endpoint)].engine;
            engine.scheduler().config().exchanges_kv()
        };
        let mut without = endpoints.iter().filter(|endpoint| !exchanges(endpoint));
        without.next().map(|endpoint| endpoint.get())
    }

    /// Ends the run if requests wait in a gateway and nothing will ever let them go.
    fn check_hope(&mut self, gateway: usize, now: SimTime) {
        if self.load.component.arrival().is_some() || !self.flights.is_empty() {
            return;
        }
        let changed = self.changes.iter().map(|change| change.at).max();
        let stirred = self.last.max(changed.unwrap_or(SimTime::ZERO));
        let quiet = now.saturating_since(stirred) > PATIENCE;
        if quiet && self.gateways[gateway].component.waits_for_ever() {
            self.failure = Some(Error::Waiting {
                requests: self.gateways[gateway].component.held().0,
                at: now,
            });
        }
    }

    /// An endpoint joins or leaves.
    fn change_pool(&mut self, change: usize, cx: &mut Context<'_, Event>) {
        let PoolChange { engine, up, .. } = self.changes[change];
        let Some(instance) = self.engines.get_mut(engine) else {
            return;
        };
        if instance.up == up {
            return;
        }
        instance.up = up;
        let id = instance.id();
        let view = instance.identity.endpoint(id);
        if up {
            self.mark_unseen(engine);
        } else {
            self.lose(id, cx);
        }
        for gateway in 0..self.gateways.len() {
            let component = &mut self.gateways[gateway].component;
            if up {
                component.add_endpoint(cx.now(), view.clone());
            } else {
                component.remove_endpoint(cx.now(), id);
            }
            self.settle_gateway(gateway, cx);
        }
    }

    /// After an engine was touched: reports its level if it changed, and asks for the next wake-up
    /// if that is not on its way already.
    fn settle(&mut self, engine: usize, cx: &mut Context<'_, Event>) {
        self.mark_unseen(engine);
        let instance = &mut self.engines[engine];
        if let Some(level) = instance.take_level() {
            self.levels.tell(cx.now(), &level, &mut self.sink);
        }
        let quiet = instance.engine.quiet_until();
        if let Some((time, asked)) = instance.wake_up.ask(quiet) {
            let event = if instance.engine.next_wake() < quiet {
                Event::Look { engine, asked }
            } else {
                Event::Wake { engine, asked }
            };
            cx.at(time, event);
        }
    }
}

impl<S: MetricSink> Model for World<S> {
    type Event = Event;

    fn rank(event: &Event) -> Rank {
        event.rank()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_, Event>) {
        self.thin_out_levels(cx.now());
        let last = self.last;
        // What follows matters to a request, unless it turns out to be stale, or is taken back below.
        self.last = cx.now();
        match event {
            Event::Arrival { asked } if self.load.wake_up.takes(asked) => self.arrive(cx),
            Event::Wake { engine, asked } | Event::Look { engine, asked }
                if self.engines[engine].wake_up.takes(asked) =>
            {
                self.act(engine, cx);
            }
            Event::Response {
                gateway,
                request,
                response,
            } => {
                let component = &mut self.gateways[gateway].component;
                component.responded(cx.now(), request, response);
                self.settle_gateway(gateway, cx);
            }
            Event::Deliver(request) => self.deliver(request, cx),
            Event::HandOver { request } => self.hand_over(request, cx),
            Event::Read { request, blocks } => self.read(request, blocks, cx),
            Event::Links { asked } if self.links.wake_up.takes(asked) => self.move_blocks(cx),
            other => {
                self.last = last;
                self.meanwhile(other, cx);
            }
        }
    }
}

impl<S: MetricSink> World<S> {
    /// What happens beside requests, and matters to one only if it ends it; stale events do nothing.
    fn meanwhile(&mut self, event: Event, cx: &mut Context<'_, Event>) {
        match event {
            Event::Pool { change } => self.change_pool(change, cx),
            Event::Scrape { poller } => self.scrape(poller, cx),
            Event::Scraped(metrics) => self.scraped(&metrics, cx.now()),
            Event::KvEvents { engine, events } => self.publish(engine, &events, cx.now()),
            Event::Gateway { gateway, asked } if self.gateways[gateway].wake_up.takes(asked) => {
                self.with_gateway(gateway, cx, Gateway::advance);
                self.check_hope(gateway, cx.now());
            }
            Event::Patience { request, over } => self.lose_patience(request, over, cx),
            _ => {}
        }
    }
}

/// The first instant after one, if there is any.
fn after(instant: SimTime) -> SimTime {
    let next = instant.checked_add(SimDuration::from_nanos(1));
    next.unwrap_or(instant)
}

/// Whether a request is over with this.
const fn is_end(what: &Lifecycle) -> bool {
    matches!(
        what,
        Lifecycle::Finished { .. } | Lifecycle::Rejected { .. }
    )
}

/// How a request ends that was cancelled.
const fn cancelled(evicted: bool) -> FinishReason {
    if evicted {
        FinishReason::Evicted
    } else {
        FinishReason::Abort
    }
}

/// The place of an endpoint among the engines.
const fn index(endpoint: EndpointId) -> usize {
    endpoint.index()
}

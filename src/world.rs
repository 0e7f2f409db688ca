//! The one model of the kernel: introduces workload, gateway, engines and sink to each other.

use foretoken_dataplane::{Admitter, EndpointId, EndpointView, GatewayContext, Router, Verdict};
use foretoken_des_kernel::{Context, Generation, Model, Rank, SimRng, SimTime};
use foretoken_engine::{Engine, EngineEvent};
use foretoken_metrics::{LevelRecord, MetricSink, StepRecord};
use foretoken_workload::{Lifecycle, Occurrence, RejectReason, Request, RequestId, Workload};

use crate::error::Error;

/// What happens in a simulation.
#[derive(Debug)]
pub(crate) enum Event {
    /// The next request of the workload reaches the gateway.
    Arrival,
    /// An engine asked to be advanced; stale if it has asked again since.
    Wake { engine: usize, asked: Generation },
}

/// The order inside one instant.
#[repr(u8)]
enum Phase {
    /// Requests come first, so that a step planned at this instant sees them.
    Arrival,
    /// Then engines move, in the order of their numbers.
    Wake,
}

/// Steps without an output token after which an engine counts as stuck; a prompt of a million tokens
/// in chunks of one takes fewer.
const FRUITLESS_WAKES: u64 = 1 << 21;

pub(crate) struct World<S> {
    workload: Box<dyn Workload>,
    next: Option<Request>,
    admitter: Box<dyn Admitter>,
    router: Box<dyn Router>,
    engines: Vec<Instance>,
    views: Vec<EndpointView>,
    admission_rng: SimRng,
    routing_rng: SimRng,
    horizon: SimTime,
    pub(crate) sink: S,
    pub(crate) failure: Option<Error>,
}

struct Instance {
    engine: Engine,
    /// Wake-ups since it last served anybody.
    fruitless: u64,
    asked: Generation,
    /// The wake-up that is on its way.
    wake: Option<SimTime>,
    level: LevelRecord,
}

/// The parts of a world.
pub(crate) struct Parts<S> {
    pub(crate) workload: Box<dyn Workload>,
    pub(crate) admitter: Box<dyn Admitter>,
    pub(crate) router: Box<dyn Router>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) admission_rng: SimRng,
    pub(crate) routing_rng: SimRng,
    /// The end of the run.
    pub(crate) horizon: SimTime,
    pub(crate) sink: S,
}

impl<S: MetricSink> World<S> {
    pub(crate) fn new(parts: Parts<S>) -> Self {
        let engines: Vec<Instance> = (0..)
            .zip(parts.engines)
            .map(|(instance, engine)| Instance {
                level: level(instance, &engine),
                engine,
                fruitless: 0,
                asked: Generation::default(),
                wake: None,
            })
            .collect();
        let views = engines
            .iter()
            .map(|instance| EndpointView::new(EndpointId::new(instance.level.instance)))
            .collect();
        let mut world = Self {
            workload: parts.workload,
            next: None,
            admitter: parts.admitter,
            router: parts.router,
            engines,
            views,
            admission_rng: parts.admission_rng,
            routing_rng: parts.routing_rng,
            horizon: parts.horizon,
            sink: parts.sink,
            failure: None,
        };
        for instance in &world.engines {
            world.sink.on_level(SimTime::ZERO, &instance.level);
        }
        world.next = world.workload.next();
        world
    }

    /// When the first request arrives, if there is one.
    pub(crate) fn first_arrival(&self) -> Option<SimTime> {
        self.next.as_ref().map(|request| request.arrival)
    }

    /// Whether nothing is left inside; checks that no engine leaked a KV block.
    pub(crate) fn is_drained(&self) -> bool {
        self.next.is_none()
            && self
                .engines
                .iter()
                .all(|instance| instance.engine.is_drained())
    }

    fn arrive(&mut self, cx: &mut Context<'_, Event>) {
        let Some(request) = self.next.take() else {
            return;
        };
        self.next = self.workload.next();
        if let Some(next) = &self.next {
            if next.arrival < cx.now() {
                self.failure = Some(Error::Policy {
                    policy: "Workload",
                    answer: format!("request {} at {}", next.id, next.arrival),
                    allowed: format!("requests in order of arrival, from {} on", cx.now()),
                });
                return;
            }
            cx.at(next.arrival, Event::Arrival);
        }
        self.sink.on_arrival(&request);
        let now = cx.now();
        for (view, instance) in self.views.iter_mut().zip(&self.engines) {
            let stats = instance.engine.stats();
            view.observed_at = Some(now);
            view.running = stats.running;
            view.queued = stats.waiting;
            view.kv_usage = f64::from(stats.kv_used) / f64::from(stats.kv_total.max(1));
            view.kv_blocks = stats.kv_total;
        }
        let mut context = GatewayContext::new(now, &self.views, &mut self.admission_rng);
        if self.admitter.admit(&request.view(), &mut context) != Verdict::Admit {
            return self.reject(now, request.id, RejectReason::Shed);
        }
        let mut context = GatewayContext::new(now, &self.views, &mut self.routing_rng);
        let Some(placement) = self.router.route(&request.view(), &mut context) else {
            return self.reject(now, request.id, RejectReason::NoCandidate);
        };
        let index = placement.endpoint.index();
        let Some(instance) = self.engines.get_mut(index) else {
            self.failure = Some(Error::Policy {
                policy: "Router",
                answer: placement.endpoint.to_string(),
                allowed: format!("endpoint 0 to {}", self.engines.len() - 1),
            });
            return;
        };
        let dispatched = Lifecycle::Dispatched {
            endpoint: instance.level.instance,
            prefill: None,
        };
        let occurrence = Occurrence::new(now, request.id, dispatched);
        self.sink.on_occurrence(&occurrence);
        instance.engine.submit(now, request);
        self.settle(index, cx);
    }

    fn reject(&mut self, now: SimTime, request: RequestId, reason: RejectReason) {
        let occurrence = Occurrence::new(now, request, Lifecycle::Rejected { reason });
        self.sink.on_occurrence(&occurrence);
    }

    fn wake(&mut self, index: usize, asked: Generation, cx: &mut Context<'_, Event>) {
        let instance = &mut self.engines[index];
        if !instance.asked.is_current(asked) {
            return;
        }
        instance.wake = None;
        instance.fruitless += 1;
        let (number, horizon) = (instance.level.instance, self.horizon);
        let (sink, router) = (&mut self.sink, &mut self.router);
        instance.engine.advance(cx.now(), &mut |event| match event {
            // What a client sees after the end of the run has not happened.
            EngineEvent::Request(occurrence) if occurrence.at > horizon => {}
            EngineEvent::Request(occurrence) => {
                if matches!(
                    occurrence.what,
                    Lifecycle::Tokens { .. }
                        | Lifecycle::Finished { .. }
                        | Lifecycle::Rejected { .. }
                ) {
                    instance.fruitless = 0;
                }
                router.observe(&occurrence);
                sink.on_occurrence(&occurrence);
            }
            EngineEvent::Step(step) => sink.on_step(&StepRecord {
                instance: number,
                start: step.start,
                end: step.end,
                tokens: u32::try_from(step.shape.tokens()).unwrap_or(u32::MAX),
                sequences: step.shape.sequences(),
            }),
            _ => {}
        });
        if instance.fruitless > FRUITLESS_WAKES {
            self.failure = Some(Error::Stuck {
                engine: number,
                at: cx.now(),
                wakes: instance.fruitless,
            });
            return;
        }
        self.settle(index, cx);
    }

    /// After an engine was touched: reports its level if it changed, and asks for the next wake-up
    /// if that is not on its way already.
    fn settle(&mut self, index: usize, cx: &mut Context<'_, Event>) {
        let instance = &mut self.engines[index];
        let level = level(instance.level.instance, &instance.engine);
        if level != instance.level {
            instance.level = level;
            self.sink.on_level(cx.now(), &level);
        }
        let wake = instance.engine.next_wake();
        if wake != instance.wake {
            instance.wake = wake;
            let asked = instance.asked.bump();
            if let Some(time) = wake {
                cx.at(
                    time,
                    Event::Wake {
                        engine: index,
                        asked,
                    },
                );
            }
        }
    }
}

fn level(instance: u32, engine: &Engine) -> LevelRecord {
    let stats = engine.stats();
    LevelRecord {
        instance,
        running: stats.running,
        waiting: stats.waiting,
        kv_blocks_used: stats.kv_used,
        kv_blocks_total: stats.kv_total,
    }
}

impl<S: MetricSink> Model for World<S> {
    type Event = Event;

    fn rank(event: &Event) -> Rank {
        match event {
            Event::Arrival => Rank::new(Phase::Arrival as u8, 0),
            Event::Wake { engine, .. } => Rank::new(
                Phase::Wake as u8,
                u32::try_from(*engine).unwrap_or(u32::MAX),
            ),
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_, Event>) {
        match event {
            Event::Arrival => self.arrive(cx),
            Event::Wake { engine, asked } => self.wake(engine, asked, cx),
        }
    }
}

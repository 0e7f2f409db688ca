//! What gateways learn of engines: metrics, in the present or scraped, and changes of KV caches.

use foretoken_dataplane::gateway::EngineMetrics;
use foretoken_dataplane::producer::{KvEvent, Tier};
use foretoken_des_kernel::{Context, RngStreams, SimDuration, SimRng, SimTime};
use foretoken_engine::kv::KvEvent as EngineKvEvent;
use foretoken_metrics::MetricSink;

use super::World;
use super::event::Event;
use crate::cluster::Freshness;

/// A scrape that takes longer fails (llm-d).
const SCRAPE_TIMEOUT: SimDuration = SimDuration::from_secs(1);

/// Reads the metrics of one engine for one gateway, again and again.
#[derive(Debug)]
pub(crate) struct Poller {
    gateway: usize,
    engine: usize,
    /// The tick that the reading in hand belongs to.
    tick: SimTime,
    rng: SimRng,
}

/// Metrics on their way from an engine to a gateway.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(super) poller: usize,
    values: EngineMetrics,
}

/// Engines that may not be any more what a gateway has seen of them.
#[derive(Debug, Clone)]
pub(crate) struct Unseen {
    engines: Vec<usize>,
    /// Whether each engine is among them.
    marks: Vec<bool>,
}

impl Unseen {
    /// All of so many engines.
    fn everyone(engines: usize) -> Self {
        Self {
            engines: (0..engines).collect(),
            marks: vec![true; engines],
        }
    }

    fn mark(&mut self, engine: usize) {
        if !core::mem::replace(&mut self.marks[engine], true) {
            self.engines.push(engine);
        }
    }
}

impl<S: MetricSink> World<S> {
    /// An engine was touched, or returns: what gateways have seen of it may not be true any more.
    pub(super) fn mark_unseen(&mut self, engine: usize) {
        for unseen in &mut self.unseen {
            unseen.mark(engine);
        }
    }

    /// For each gateway that sees the present, what it has not seen yet; nothing if none of them looks.
    pub(super) fn make_unseen(&self) -> Vec<Unseen> {
        let mut gateways = self.gateways.iter();
        let looks = gateways.any(|gateway| gateway.component.goes_by_reports());
        match self.freshness {
            Freshness::Live if looks => {
                vec![Unseen::everyone(self.engines.len()); self.gateways.len()]
            }
            _ => Vec::new(),
        }
    }

    /// Shows a gateway that sees the present all engines as they are.
    pub(super) fn show_present(&mut self, gateway: usize, now: SimTime) {
        if !self.unseen.is_empty() {
            self.catch_all_up(now);
        }
        let Some(unseen) = self.unseen.get_mut(gateway) else {
            return;
        };
        let component = &mut self.gateways[gateway].component;
        for engine in unseen.engines.drain(..) {
            unseen.marks[engine] = false;
            let instance = &self.engines[engine];
            // One that is not in the pool is marked when it returns.
            if let Some(view) = component.endpoint_mut(instance.id()) {
                instance.show(view);
            }
        }
        component.observed(now);
    }

    /// Every gateway has a ticker for every endpoint; their phases have nothing to do with each other.
    pub(super) fn make_pollers(&self, streams: RngStreams) -> Vec<Poller> {
        let Freshness::Scraped(scraping) = self.freshness else {
            return Vec::new();
        };
        let pairs = (0..self.gateways.len())
            .flat_map(|gateway| (0..self.engines.len()).map(move |engine| (gateway, engine)));
        let poller = |(number, (gateway, engine))| {
            let mut rng = streams.stream("scrape", number);
            let phase = SimDuration::from_nanos(rng.below(scraping.interval.as_nanos().max(1)));
            Poller {
                gateway,
                engine,
                tick: SimTime::ZERO + phase,
                rng,
            }
        };
        (0_u64..).zip(pairs).map(poller).collect()
    }

    pub(super) fn first_scrapes(&self) -> impl Iterator<Item = (SimTime, Event)> {
        let ticks = self.pollers.iter().map(|poller| poller.tick);
        (0..)
            .zip(ticks)
            .map(|(poller, tick)| (tick, Event::Scrape { poller }))
    }

    pub(super) fn scrape(&mut self, number: usize, cx: &mut Context<'_, Event>) {
        let Freshness::Scraped(scraping) = self.freshness else {
            return;
        };
        if self.is_over() {
            return;
        }
        let now = cx.now();
        let engine = self.pollers[number].engine;
        if self.engines[engine].refresh_gauges(now).is_none() {
            self.catch_up(engine, now);
            self.engines[engine].refresh_gauges(now);
        }
        let poller = &mut self.pollers[number];
        let mut answered = now;
        let instance = &self.engines[engine];
        if instance.up {
            let delay = scraping.delay + poller.jitter(scraping.delay_jitter);
            answered = now + delay.min(SCRAPE_TIMEOUT);
            if delay.is_zero() {
                let gateway = &mut self.gateways[poller.gateway].component;
                gateway.scraped(instance.id(), now, instance.gauges());
            } else if delay <= SCRAPE_TIMEOUT {
                let metrics = Metrics {
                    poller: number,
                    values: instance.gauges().clone(),
                };
                cx.at(answered, Event::Scraped(Box::new(metrics)));
            }
        }
        // A poller does not ask again before it has the answer. Of the ticks that it missed meanwhile it
        // makes up for one, at once.
        let poller = &mut self.pollers[number];
        let interval = scraping.interval;
        let missed = answered.saturating_since(poller.tick).as_nanos() / interval.as_nanos();
        poller.tick += interval * missed.max(1);
        let next = poller.tick + poller.jitter(scraping.jitter);
        cx.at(next.max(answered), Event::Scrape { poller: number });
    }

    /// Their age counts from now on, as llm-d has it: when they were taken nobody knows.
    pub(super) fn scraped(&mut self, metrics: &Metrics, now: SimTime) {
        let Poller {
            gateway, engine, ..
        } = self.pollers[metrics.poller];
        let id = self.engines[engine].id();
        let gateway = &mut self.gateways[gateway].component;
        gateway.scraped(id, now, &metrics.values);
    }

    /// Changes of a cache that all gateways hear of.
    pub(super) fn publish(&mut self, engine: usize, events: &[KvEvent], now: SimTime) {
        let id = self.engines[engine].id();
        for gateway in &mut self.gateways {
            for event in events {
                gateway.component.kv_event(now, id, event);
            }
        }
    }
}

impl Poller {
    /// A uniform draw from 0 to `most`.
    fn jitter(&mut self, most: SimDuration) -> SimDuration {
        match most.as_nanos() {
            0 => SimDuration::ZERO,
            nanos => SimDuration::from_nanos(self.rng.below(nanos.saturating_add(1))),
        }
    }
}

/// The event in the words of gateways, which know no engine.
pub(super) fn translate(event: EngineKvEvent) -> Option<KvEvent> {
    let tier = Tier::Gpu;
    match event {
        EngineKvEvent::Stored { hash } => Some(KvEvent::Stored { block: hash, tier }),
        EngineKvEvent::Removed { hash } => Some(KvEvent::Removed { block: hash, tier }),
        EngineKvEvent::Cleared => Some(KvEvent::Cleared),
        _ => None,
    }
}

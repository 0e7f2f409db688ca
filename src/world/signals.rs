//! What gateways learn of engines: metrics, in the present or scraped, and changes of KV caches.

use foretoken_dataplane::gateway::EngineMetrics;
use foretoken_dataplane::producer::{KvEvent, Tier};
use foretoken_des_kernel::{Context, SimDuration, SimTime};
use foretoken_engine::kv::KvEvent as EngineKvEvent;
use foretoken_metrics::MetricSink;

use super::{Event, World, index};
use crate::cluster::{Freshness, Scraping};

/// Metrics on their way from an engine to a gateway.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(super) gateway: usize,
    pub(super) engine: usize,
    values: EngineMetrics,
}

impl<S: MetricSink> World<S> {
    /// Shows a gateway all engines as they are.
    pub(super) fn show_present(&mut self, gateway: usize, now: SimTime) {
        let engines = &self.engines;
        for view in self.gateways[gateway].component.endpoints_mut() {
            let instance = &engines[index(view.id)];
            let stats = instance.engine.stats();
            view.observed_at = Some(now);
            view.running = stats.running;
            view.queued = stats.waiting;
            view.kv_usage = f64::from(stats.kv_used) / f64::from(stats.kv_total.max(1));
            view.kv_blocks = stats.kv_total;
            view.block_size = instance.gauges.block_size;
            view.adapters.clone_from(&instance.gauges.adapters);
        }
    }

    /// Every gateway has a ticker for every endpoint; their phases have nothing to do with each other.
    pub(super) fn first_scrapes(&mut self) -> Vec<(SimTime, Event)> {
        let Freshness::Scraped(scraping) = self.freshness else {
            return Vec::new();
        };
        let mut events = Vec::new();
        for gateway in 0..self.gateways.len() {
            for engine in 0..self.engines.len() {
                let phase = self.scrape_rng.below(scraping.interval.as_nanos().max(1));
                let at = SimTime::ZERO + SimDuration::from_nanos(phase);
                events.push((at, Event::Scrape { gateway, engine }));
            }
        }
        events
    }

    pub(super) fn scrape(&mut self, gateway: usize, engine: usize, cx: &mut Context<'_, Event>) {
        let Freshness::Scraped(scraping) = self.freshness else {
            return;
        };
        if self.is_over() {
            return;
        }
        let Scraping {
            interval, jitter, ..
        } = scraping;
        let mut delay = SimDuration::ZERO;
        let instance = &self.engines[engine];
        if instance.up {
            let metrics = Metrics {
                gateway,
                engine,
                values: instance.gauges.clone(),
            };
            delay = scraping.delay + self.jitter(scraping.delay_jitter);
            if delay.is_zero() {
                self.scraped(&metrics, cx.now());
            } else {
                cx.at(cx.now() + delay, Event::Scraped(Box::new(metrics)));
            }
        }
        // A poller does not ask again before it has the answer, and at once if its tick has passed.
        let next = (interval + self.jitter(jitter)).max(delay);
        cx.at(cx.now() + next, Event::Scrape { gateway, engine });
    }

    /// A uniform draw from 0 to `most`.
    fn jitter(&mut self, most: SimDuration) -> SimDuration {
        match most.as_nanos() {
            0 => SimDuration::ZERO,
            nanos => SimDuration::from_nanos(self.scrape_rng.below(nanos + 1)),
        }
    }

    /// Their age counts from now on, as llm-d has it: when they were taken nobody knows.
    pub(super) fn scraped(&mut self, metrics: &Metrics, now: SimTime) {
        let id = self.engines[metrics.engine].id();
        let gateway = &mut self.gateways[metrics.gateway].component;
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

//! One engine of the cluster, and what it shows to the outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_dataplane::gateway::EngineMetrics;
use foretoken_dataplane::{Adapters, EndpointId, EndpointView};
use foretoken_des_kernel::SimTime;
use foretoken_engine::{Engine, EngineStats};
use foretoken_metrics::LevelRecord;
use foretoken_workload::TokenRun;

use super::wake_up::WakeUp;

/// What a gateway is told of an engine from the start.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: Arc<str>,
    pub(crate) labels: Arc<BTreeMap<String, String>>,
    /// Bytes of one KV block, over all accelerators of the engine.
    pub(crate) block_bytes: u64,
    /// Adapters that may be active at once; 0 without LoRA.
    pub(crate) max_adapters: u32,
}

impl Identity {
    /// The endpoint as a gateway knows it before it has read any metrics.
    pub(crate) fn endpoint(&self, id: EndpointId) -> EndpointView {
        let mut view = EndpointView::new(id);
        view.name = self.name.clone();
        view.labels = self.labels.clone();
        view
    }
}

pub(crate) struct Instance {
    pub(crate) engine: Engine,
    pub(crate) identity: Identity,
    /// Whether it is in the pool.
    pub(crate) up: bool,
    /// Wake-ups since it last served anybody.
    pub(crate) fruitless: u64,
    pub(super) wake_up: WakeUp,
    /// When a client got the last token that it sent.
    pub(super) last_told: SimTime,
    pub(crate) level: LevelRecord,
    /// What a scraper reads, as far as it is not read from the engine.
    gauges: EngineMetrics,
    /// Requests by adapter: waiting and running. Those of the base model are not counted.
    adapters: BTreeMap<Arc<str>, [u32; 2]>,
}

/// Where a request with an adapter stands inside an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Outside,
    Waiting,
    Running,
}

impl Instance {
    pub(crate) fn new(number: u32, engine: Engine, identity: Identity) -> Self {
        let level = level(number, engine.stats());
        let gauges = EngineMetrics {
            block_size: engine.scheduler().config().block_size,
            ..EngineMetrics::default()
        };
        let mut instance = Self {
            engine,
            identity,
            up: true,
            fruitless: 0,
            wake_up: WakeUp::default(),
            last_told: SimTime::ZERO,
            level,
            gauges,
            adapters: BTreeMap::new(),
        };
        instance.refresh_adapters();
        instance
    }

    pub(crate) fn id(&self) -> EndpointId {
        EndpointId::new(self.level.instance)
    }

    /// Further tokens are on their way to clients.
    pub(crate) fn streamed(&mut self, run: &TokenRun<'_>) {
        self.fruitless = 0;
        self.last_told = self.last_told.max(run.last().unwrap_or(SimTime::ZERO));
    }

    /// Takes the level down; gives it if it changed.
    pub(crate) fn take_level(&mut self) -> Option<LevelRecord> {
        let level = level(self.level.instance, self.engine.stats());
        (level != self.level).then(|| {
            self.level = level;
            level
        })
    }

    /// Shows its level: what its gauges would be if they were refreshed at any time, and what is still in
    /// the front end counted; only adapters are as of the last step.
    pub(crate) fn show(&self, view: &mut EndpointView) {
        view.running = self.level.running;
        view.queued = self.level.waiting;
        view.kv_usage = share(self.level.kv_blocks_used, self.level.kv_blocks_total);
        view.kv_blocks = self.level.kv_blocks_total;
        view.block_size = self.gauges.block_size;
        if !Arc::ptr_eq(&view.adapters, &self.gauges.adapters) {
            view.adapters.clone_from(&self.gauges.adapters);
        }
    }

    /// After a step: a scraper reads from now on which adapters are active.
    pub(crate) fn refresh_adapters(&mut self) {
        if !self.adapters.is_empty() || self.gauges.adapters.max != self.identity.max_adapters {
            let with = |place: usize| {
                let some = self.adapters.iter().filter(|(_, counts)| counts[place] > 0);
                some.map(|(name, _)| name.clone()).collect()
            };
            self.gauges.adapters = Arc::new(Adapters {
                waiting: with(0),
                running: with(1),
                max: self.identity.max_adapters,
            });
        }
    }

    /// Reads the gauges as they were before `now`; `None` if that is not known until the engine has caught
    /// up. Steps refresh them, and between steps nothing changes that they tell but adapters.
    pub(crate) fn refresh_gauges(&mut self, now: SimTime) -> Option<()> {
        let stats = self.engine.stats_before(now)?;
        if self.engine.next_wake().is_some_and(|wake| wake < now) {
            // A step that has not been done yet would have: whoever moved did so before it.
            self.refresh_adapters();
        }
        self.gauges.running = stats.running;
        // What is still in the front end does not count.
        let waiting = self.engine.scheduler().waiting_len();
        self.gauges.queued = u32::try_from(waiting).unwrap_or(u32::MAX);
        self.gauges.kv_blocks = stats.kv_total;
        self.gauges.kv_usage = share(stats.kv_used, stats.kv_total);
        Some(())
    }

    /// What a scraper reads.
    pub(crate) const fn gauges(&self) -> &EngineMetrics {
        &self.gauges
    }

    /// A request with an adapter moves.
    pub(crate) fn move_adapter(&mut self, adapter: &Arc<str>, from: Standing, to: Standing) {
        let counts = self.adapters.entry(adapter.clone()).or_default();
        for (standing, place) in [(Standing::Waiting, 0), (Standing::Running, 1)] {
            if from == standing {
                counts[place] = counts[place].saturating_sub(1);
            }
            if to == standing {
                counts[place] += 1;
            }
        }
    }
}

fn share(used: u32, total: u32) -> f64 {
    f64::from(used) / f64::from(total.max(1))
}

pub(crate) const fn level(instance: u32, stats: EngineStats) -> LevelRecord {
    LevelRecord {
        instance,
        running: stats.running,
        waiting: stats.waiting,
        kv_blocks_used: stats.kv_used,
        kv_blocks_total: stats.kv_total,
    }
}

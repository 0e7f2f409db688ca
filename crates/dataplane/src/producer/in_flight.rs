//! `inflight-load-producer`: counts what was sent to each endpoint and not yet answered.

use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{RequestId, RequestView};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::producer::{DataProducer, Response};
use crate::router::{PickedBy, Placement};
use crate::signals::{APPROXIMATE_PREFIX, IN_FLIGHT_LOAD, InFlight, PrefixMatch, Signals};
use crate::view::{EndpointId, EndpointView, position};

/// Settings of [`InFlightLoad`], named as llm-d's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct InFlightLoadConfig {
    /// Count tokens that will be generated, and keep a request's tokens until its end; off by default.
    pub add_estimated_output_tokens: bool,
    /// Output tokens for each prompt token, 1.5 by default.
    pub output_ratio: f64,
    /// The most output tokens counted for a request; no limit by default.
    pub max_estimated_output_tokens: Option<u64>,
    /// The producer whose prefix matches are believed.
    pub prefix_producer: Arc<str>,
    /// Drop a request that was silent for this long, looking once a minute. Not by default: counters
    /// are bound to the life of the connection. Five minutes is what llm-d did before (its issue 2295).
    pub drop_silent_after: Option<SimDuration>,
}

impl Default for InFlightLoadConfig {
    fn default() -> Self {
        Self {
            add_estimated_output_tokens: false,
            output_ratio: 1.5,
            max_estimated_output_tokens: None,
            prefix_producer: APPROXIMATE_PREFIX.into(),
            drop_silent_after: None,
        }
    }
}

const JANITOR_PERIOD: SimDuration = SimDuration::from_secs(60);

/// Counts requests and tokens in flight by endpoint, live.
///
/// Every pick of a decision is charged, that of a prefill profile too. With the first chunk of the
/// answer the pick of the profile `prefill` is released, and the tokens of the others unless output is
/// estimated; with the last chunk the rest.
#[derive(Debug)]
pub struct InFlightLoad {
    name: Arc<str>,
    config: InFlightLoadConfig,
    counters: Counters,
    requests: HashMap<RequestId, Charged, FxBuildHasher>,
    next_janitor: SimTime,
}

/// The counter of an endpoint. One that goes away takes its counter along: what is released later is
/// not taken off the counter of whoever returns under its name.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    load: InFlight,
    life: u32,
}

/// The counters of all endpoints, by id.
#[derive(Debug, Default)]
struct Counters(Vec<Counter>);

impl Counters {
    fn of(&mut self, endpoint: EndpointId) -> &mut Counter {
        let index = endpoint.index();
        if self.0.len() <= index {
            self.0.resize(index + 1, Counter::default());
        }
        &mut self.0[index]
    }

    /// Takes `load` off the entry's endpoint, never below zero.
    fn release(&mut self, entry: &Entry, load: InFlight) {
        let counter = self.of(entry.endpoint);
        if counter.life == entry.life {
            counter.load.requests = counter.load.requests.saturating_sub(load.requests);
            counter.load.tokens = counter.load.tokens.saturating_sub(load.tokens);
        }
    }
}

#[derive(Debug)]
struct Charged {
    entries: SmallVec<[Entry; 2]>,
    last_seen: SimTime,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    endpoint: EndpointId,
    life: u32,
    load: InFlight,
    /// Who picked it: the first chunk releases what the profile `prefill` did.
    profile: PickedBy,
}

impl Default for InFlightLoad {
    fn default() -> Self {
        Self::new(IN_FLIGHT_LOAD, InFlightLoadConfig::default())
    }
}

impl InFlightLoad {
    /// Counters at zero whose attributes carry the producer's `name`.
    pub fn new(name: impl Into<Arc<str>>, config: InFlightLoadConfig) -> Self {
        Self {
            name: name.into(),
            config,
            counters: Counters::default(),
            requests: HashMap::with_hasher(FxBuildHasher),
            next_janitor: SimTime::ZERO + JANITOR_PERIOD,
        }
    }

    /// The counter of an endpoint.
    pub fn load(&self, endpoint: EndpointId) -> InFlight {
        let counter = self.counters.0.get(endpoint.index());
        counter.map_or(InFlight::default(), |counter| counter.load)
    }

    fn charge(&mut self, endpoint: EndpointId, tokens: u64, profile: PickedBy) -> Entry {
        let counter = self.counters.of(endpoint);
        counter.load.requests += 1;
        counter.load.tokens += tokens;
        Entry {
            endpoint,
            life: counter.life,
            load: InFlight::new(1, tokens),
            profile,
        }
    }

    /// Output tokens expected of a request.
    fn estimate(&self, request: &RequestView<'_>) -> u64 {
        if !self.config.add_estimated_output_tokens {
            return 0;
        }
        let exact = f64::from(request.prompt_tokens()) * self.config.output_ratio;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "prompts have fewer than 2^32 tokens; what is negative counts as none"
        )]
        let tokens = libm::round(exact) as u64;
        let cap = self.config.max_estimated_output_tokens.unwrap_or(u64::MAX);
        tokens.min(u64::from(request.max_tokens)).min(cap)
    }

    fn drop_silent(&mut self, now: SimTime) {
        let Some(limit) = self.config.drop_silent_after else {
            return;
        };
        if now < self.next_janitor {
            return;
        }
        self.next_janitor = now.next_tick(JANITOR_PERIOD);
        let mut silent: Vec<RequestId> = self
            .requests
            .iter()
            .filter(|(_, charged)| now.saturating_since(charged.last_seen) >= limit)
            .map(|(&id, _)| id)
            .collect();
        silent.sort_unstable();
        for id in silent {
            self.responded(id, Response::End { output_tokens: 0 }, now);
        }
    }
}

/// Tokens of a prompt of `prompt_tokens` that an endpoint with this match has to compute. The last
/// block counts in full.
pub fn uncached_tokens(prefix: Option<PrefixMatch>, prompt_tokens: u32) -> u64 {
    let prompt_tokens = u64::from(prompt_tokens);
    match prefix {
        Some(found) if found.block_size > 0 => {
            let block = u64::from(found.block_size);
            let total = u64::from(found.total) * block;
            total.saturating_sub(u64::from(found.matched) * block)
                + prompt_tokens.saturating_sub(total)
        }
        _ => prompt_tokens,
    }
}

impl DataProducer for InFlightLoad {
    fn produce(
        &mut self,
        request: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        now: SimTime,
        signals: &mut Signals,
    ) {
        self.drop_silent(now);
        let column = signals.in_flight.begin(&self.name, endpoints.len());
        for (value, endpoint) in column.iter_mut().zip(endpoints) {
            *value = Some(self.load(endpoint.id));
        }
        let Some(request) = request else { return };
        let tokens = request.prompt_tokens();
        let unknown = uncached_tokens(None, tokens);
        signals
            .uncached
            .begin_with(&self.name, endpoints.len(), unknown);
        let column = signals.uncached.values(&self.name);
        let prefixes = signals.prefix.column(&self.config.prefix_producer);
        // Most endpoints hold as much of a prompt as the one before: nothing.
        let (mut last, mut left) = (None, unknown);
        for (value, &prefix) in column.iter_mut().zip(prefixes) {
            if prefix != last {
                (last, left) = (prefix, uncached_tokens(prefix, tokens));
            }
            *value = Some(left);
        }
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        endpoints: &[EndpointView],
        signals: &Signals,
        now: SimTime,
    ) {
        let estimate = self.estimate(request);
        let prefill = placement.prefill;
        let picks = [
            Some((placement.endpoint, placement.profile)),
            prefill.map(|prefill| (prefill.endpoint, prefill.profile)),
        ];
        let mut entries = SmallVec::new();
        for (endpoint, profile) in picks.into_iter().flatten() {
            let prefix = position(endpoints, endpoint)
                .and_then(|position| signals.prefix.get(&self.config.prefix_producer, position));
            let tokens = uncached_tokens(prefix, request.prompt_tokens()) + estimate;
            entries.push(self.charge(endpoint, tokens, profile));
        }
        let charged = Charged {
            entries,
            last_seen: now,
        };
        self.requests.insert(request.id, charged);
    }

    fn responded(&mut self, request: RequestId, response: Response, now: SimTime) {
        let Response::FirstChunk = response else {
            let charged = self.requests.remove(&request);
            for entry in charged.iter().flat_map(|charged| &charged.entries) {
                self.counters.release(entry, entry.load);
            }
            return;
        };
        let Some(charged) = self.requests.get_mut(&request) else {
            return;
        };
        for entry in &mut charged.entries {
            if entry.profile == PickedBy::Prefill {
                self.counters.release(entry, entry.load);
                entry.load = InFlight::default();
            } else if !self.config.add_estimated_output_tokens {
                let tokens = InFlight::new(0, entry.load.tokens);
                self.counters.release(entry, tokens);
                entry.load.tokens = 0;
            }
        }
        charged.last_seen = now;
    }

    fn removed(&mut self, endpoint: EndpointId, _now: SimTime) {
        let counter = self.counters.of(endpoint);
        counter.load = InFlight::default();
        counter.life += 1;
    }
}

//! `predicted-latency-producer`: what each endpoint's latency would be for the request in hand.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::{SimDuration, SimTime};
use foretoken_workload::{RequestId, RequestView};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::headers::{tpot_target, ttft_target};
use crate::producer::{DataProducer, Response};
use crate::router::Placement;
use crate::signals::{
    APPROXIMATE_PREFIX, IN_FLIGHT_LOAD, LatencyEstimate, PREDICTED_LATENCY, Signals, attribute,
};
use crate::view::{EndpointId, EndpointView, Role};

/// What a predictor goes by: the features of llm-d's regression service.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LatencyFeatures {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Share of its KV blocks in use, as last reported.
    pub kv_usage: f64,
    /// Requests waiting in it, as last reported.
    pub queued: u32,
    /// Requests running in it, as last reported.
    pub running: u32,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Share of the prompt that it holds.
    pub prefix_share: f64,
    /// Prompt tokens that it has still to compute for others.
    pub prefill_tokens_in_flight: u64,
}

impl LatencyFeatures {
    /// An idle endpoint of which nothing is in flight or cached, and an empty prompt.
    pub const fn new(endpoint: EndpointId) -> Self {
        Self {
            endpoint,
            kv_usage: 0.0,
            queued: 0,
            running: 0,
            input_tokens: 0,
            prefix_share: 0.0,
            prefill_tokens_in_flight: 0,
        }
    }
}

/// A prediction, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PredictedLatency {
    /// Time to first token.
    pub ttft_ms: f64,
    /// Time per output token.
    pub tpot_ms: f64,
}

/// Predicts the latency of a request on an endpoint.
///
/// llm-d asks an online-trained regression service. A simulation can hand in a perfect predictor (from
/// its own latency model), a noisy or a stale one. `None` is a failed prediction.
///
/// ```
/// use foretoken_dataplane::producer::{LatencyFeatures, LatencyPredictor, PredictedLatency};
///
/// /// 0.1 ms a prompt token, and 10 ms a token.
/// struct Proportional;
///
/// impl LatencyPredictor for Proportional {
///     fn predict(&mut self, features: &LatencyFeatures) -> Option<PredictedLatency> {
///         let tokens = features.prefill_tokens_in_flight as f64 + f64::from(features.input_tokens);
///         Some(PredictedLatency { ttft_ms: 0.1 * tokens, tpot_ms: 10.0 })
///     }
/// }
/// ```
pub trait LatencyPredictor: Send {
    /// The prediction for these features.
    fn predict(&mut self, features: &LatencyFeatures) -> Option<PredictedLatency>;
}

/// Settings of [`PredictedLatencies`], named as llm-d's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictedLatencyConfig {
    /// Multiplies targets of the time per output token; 1 by default.
    pub slo_buffer_factor: f64,
    /// Whether answers are streamed, so that the time per output token matters; off by default.
    pub streaming_mode: bool,
    /// The producer whose prefix matches are believed.
    pub prefix_producer: Arc<str>,
    /// The producer whose counts are believed.
    pub in_flight_producer: Arc<str>,
}

impl Default for PredictedLatencyConfig {
    fn default() -> Self {
        Self {
            slo_buffer_factor: 1.0,
            streaming_mode: false,
            prefix_producer: APPROXIMATE_PREFIX.into(),
            in_flight_producer: IN_FLIGHT_LOAD.into(),
        }
    }
}

/// Writes predictions and what they leave of the request's targets.
///
/// A target that a request does not name is taken as 0, so that nothing is valid, as llm-d has it. The
/// time per output token counts only in streaming mode and not on prefill endpoints: otherwise it is
/// valid with headroom 0.
pub struct PredictedLatencies {
    name: Arc<str>,
    config: PredictedLatencyConfig,
    predictor: Option<Box<dyn LatencyPredictor>>,
    /// Where each request runs, and its target of the time per output token.
    running: HashMap<RequestId, (EndpointId, Option<SimDuration>), FxBuildHasher>,
    /// What runs on each endpoint, by id.
    loads: Vec<Load>,
}

/// What this gateway has running on an endpoint.
#[derive(Debug, Clone, Default)]
struct Load {
    requests: u64,
    /// How many of them have each target of the time per output token.
    targets: BTreeMap<SimDuration, u32>,
}

impl Load {
    fn add(&mut self, target: Option<SimDuration>) {
        self.requests += 1;
        if let Some(target) = target {
            *self.targets.entry(target).or_default() += 1;
        }
    }

    fn remove(&mut self, target: Option<SimDuration>) {
        self.requests -= 1;
        let Some(target) = target else { return };
        if let Some(count) = self.targets.get_mut(&target) {
            *count -= 1;
            if *count == 0 {
                self.targets.remove(&target);
            }
        }
    }

    /// The smallest target, in milliseconds.
    fn tightest(&self) -> Option<f64> {
        let (target, _) = self.targets.first_key_value()?;
        Some(target.as_millis_f64())
    }
}

impl fmt::Debug for PredictedLatencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredictedLatencies")
            .field("name", &self.name)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Default for PredictedLatencies {
    fn default() -> Self {
        Self::new(PREDICTED_LATENCY, PredictedLatencyConfig::default())
    }
}

impl PredictedLatencies {
    /// Attributes carry the producer's `name`. Without a predictor there are none, as if the service
    /// did not answer.
    pub fn new(name: impl Into<Arc<str>>, config: PredictedLatencyConfig) -> Self {
        Self {
            name: name.into(),
            config,
            predictor: None,
            running: HashMap::with_hasher(FxBuildHasher),
            loads: Vec::new(),
        }
    }

    /// Asks `predictor`.
    #[must_use]
    pub fn with_predictor(mut self, predictor: Box<dyn LatencyPredictor>) -> Self {
        self.predictor = Some(predictor);
        self
    }

    fn load(&mut self, endpoint: EndpointId) -> &mut Load {
        let index = endpoint.index();
        if self.loads.len() <= index {
            self.loads.resize_with(index + 1, Load::default);
        }
        &mut self.loads[index]
    }
}

impl PredictedLatencyConfig {
    /// What `predicted` leaves of the targets in milliseconds, 0 if there is none.
    fn estimate(
        &self,
        predicted: PredictedLatency,
        ttft_target: f64,
        tpot_target: f64,
        endpoint: &EndpointView,
        load: Option<&Load>,
    ) -> LatencyEstimate {
        let ttft_headroom_ms = ttft_target - predicted.ttft_ms;
        let buffer = self.slo_buffer_factor;
        let ignored = !self.streaming_mode || endpoint.role() == Role::Prefill;
        let (tpot_headroom_ms, tpot_valid) = if ignored {
            (0.0, true)
        } else {
            let own = tpot_target * buffer;
            let tightest = load.and_then(Load::tightest);
            let target = tightest.map_or(own, |least| own.min(least * buffer));
            (target - predicted.tpot_ms, predicted.tpot_ms < target)
        };
        LatencyEstimate {
            ttft_ms: predicted.ttft_ms,
            tpot_ms: predicted.tpot_ms,
            ttft_headroom_ms,
            tpot_headroom_ms,
            ttft_valid: ttft_headroom_ms > 0.0,
            tpot_valid,
            dispatched: load.map_or(0, |load| load.requests),
        }
    }
}

impl DataProducer for PredictedLatencies {
    fn produce(
        &mut self,
        request: Option<&RequestView<'_>>,
        endpoints: &[EndpointView],
        _now: SimTime,
        signals: &mut Signals,
    ) {
        let Some(request) = request else { return };
        let column = signals.latency.begin(&self.name, endpoints.len());
        let Some(predictor) = &mut self.predictor else {
            return;
        };
        let ms = |target: Option<SimDuration>| target.map_or(0.0, SimDuration::as_millis_f64);
        let (ttft, tpot) = (ms(ttft_target(request)), ms(tpot_target(request)));
        let prefixes = signals.prefix.column(&self.config.prefix_producer);
        let in_flight = signals.in_flight.column(&self.config.in_flight_producer);
        for (position, endpoint) in endpoints.iter().enumerate() {
            let prefix = attribute(prefixes, position);
            let load = attribute(in_flight, position);
            let features = LatencyFeatures {
                endpoint: endpoint.id,
                kv_usage: endpoint.kv_usage,
                queued: endpoint.queued,
                running: endpoint.running,
                input_tokens: request.prompt_tokens(),
                prefix_share: prefix.map_or(0.0, |found| found.share()),
                prefill_tokens_in_flight: load.map_or(0, |load| load.tokens),
            };
            let load = self.loads.get(endpoint.id.index());
            column[position] = predictor
                .predict(&features)
                .map(|predicted| self.config.estimate(predicted, ttft, tpot, endpoint, load));
        }
    }

    fn placed(
        &mut self,
        request: &RequestView<'_>,
        placement: &Placement,
        _endpoints: &[EndpointView],
        _signals: &Signals,
        _now: SimTime,
    ) {
        let (endpoint, target) = (placement.endpoint, tpot_target(request));
        if let Some((before, target)) = self.running.insert(request.id, (endpoint, target)) {
            self.load(before).remove(target);
        }
        self.load(endpoint).add(target);
    }

    fn responded(&mut self, request: RequestId, response: Response, _now: SimTime) {
        if let Response::End { .. } = response
            && let Some((endpoint, target)) = self.running.remove(&request)
        {
            self.load(endpoint).remove(target);
        }
    }
}

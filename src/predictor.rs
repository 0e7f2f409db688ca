//! [`StepPredictor`]: latencies of a request on an endpoint, predicted from the endpoint's own latency
//! model.

use std::sync::Arc;

use foretoken_dataplane::producer::{LatencyFeatures, LatencyPredictor, PredictedLatency};
use foretoken_des_kernel::SimRng;
use foretoken_engine::EngineConfig;
use foretoken_latency_model::{LatencyModel, StepShape};
use foretoken_workload::dist;

/// One engine as a predictor sees it.
#[derive(Debug, Clone)]
pub struct PredictedEngine {
    /// How long its steps take.
    pub latency: Arc<dyn LatencyModel>,
    /// Its settings.
    pub config: EngineConfig,
}

/// Predicts latencies as well as anybody could who knows the engines' latency models and sees what a
/// gateway sees.
///
/// The first token comes after the prompt tokens that the endpoint has still to compute and those of
/// the request that it does not hold, in steps of the engine's token budget, beside the sequences that
/// it reported as running; further tokens come one a step. It is wrong where the gateway's view is
/// stale, and it does not foresee what arrives later.
#[derive(Debug)]
pub struct StepPredictor {
    engines: Vec<PredictedEngine>,
    noise: Option<(f64, SimRng)>,
}

impl StepPredictor {
    /// A predictor for these engines, in the order of their numbers.
    pub const fn new(engines: Vec<PredictedEngine>) -> Self {
        Self {
            engines,
            noise: None,
        }
    }

    /// Multiplies each prediction by a log-normal factor of median 1 and this standard deviation of
    /// its logarithm.
    #[must_use]
    pub fn with_noise(mut self, sigma: f64, rng: SimRng) -> Self {
        self.noise = Some((sigma, rng));
        self
    }
}

impl LatencyPredictor for StepPredictor {
    fn predict(&mut self, features: &LatencyFeatures) -> Option<PredictedLatency> {
        let engine = self.engines.get(features.endpoint.index())?;
        let scheduler = &engine.config.scheduler;
        let blocks = features.kv_usage * f64::from(scheduler.usable_blocks());
        let context = blocks * f64::from(scheduler.block_size);
        let running = features.running;
        let ms = |shape: &StepShape| {
            let time = engine.latency.step(&engine.config.launched(*shape));
            time.floor().as_millis_f64()
        };
        let own = f64::from(features.input_tokens) * (1.0 - features.prefix_share);
        let budget = scheduler
            .max_num_batched_tokens
            .saturating_sub(running)
            .max(1);
        let mut left = round(own + features.prefill_tokens_in_flight as f64).max(1);
        let decodes = decodes(running, context);
        let mut ttft_ms = 0.0;
        // All full steps take the same time: the model is asked once.
        let mut full_step = None;
        while left > 0 {
            let chunk = u32::try_from(left).unwrap_or(u32::MAX).min(budget);
            let step = || {
                let mut shape = decodes;
                shape.add(chunk, 0, true);
                shape.settle(0);
                ms(&shape)
            };
            ttft_ms += if chunk == budget {
                *full_step.get_or_insert_with(step)
            } else {
                step()
            };
            left -= u64::from(chunk);
        }
        let mut predicted = PredictedLatency {
            ttft_ms,
            tpot_ms: ms(&{
                let grown = context + f64::from(features.input_tokens);
                let mut shape = self::decodes(running + 1, grown);
                shape.settle(0);
                shape
            }),
        };
        if let Some((sigma, rng)) = &mut self.noise {
            predicted.ttft_ms *= dist::log_normal(rng, 0.0, *sigma);
            predicted.tpot_ms *= dist::log_normal(rng, 0.0, *sigma);
        }
        Some(predicted)
    }
}

/// `running` sequences with so many tokens of context together.
fn decodes(running: u32, context: f64) -> StepShape {
    StepShape::decode(running, round(context).max(u64::from(running)))
}

fn round(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of tokens; what is negative is none"
    )]
    {
        value.round() as u64
    }
}

//! What each engine did.

use serde::{Deserialize, Serialize};

use crate::gauges::GaugeReport;
use crate::record::RequestRecord;
use crate::round::share_of_some;

/// One engine: how full and how busy it was, from time 0 to the end of the run, and what it did for
/// requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EndpointReport {
    /// Its number.
    pub endpoint: u32,
    /// Sequences in the running batch.
    pub running: GaugeReport,
    /// Requests in the waiting queue.
    pub waiting: GaugeReport,
    /// Share of KV blocks held by sequences.
    pub kv_occupancy: GaugeReport,
    /// Share of time for which the accelerator worked.
    pub busy_share: f64,
    /// Steps done.
    pub steps: u64,
    /// Complete requests that it answered.
    pub served: u64,
    /// Requests whose prompts it took into a batch so that another endpoint could answer.
    pub prefills: u64,
    /// Output tokens of the complete requests that it answered.
    pub output_tokens: u64,
    /// Share of prompt tokens found in its prefix cache, over all requests whose prompts it took into
    /// a batch; `None` if there was none.
    pub prefix_hit_rate: Option<f64>,
}

/// What an endpoint did for requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Service {
    pub(crate) served: u64,
    pub(crate) prefills: u64,
    pub(crate) output_tokens: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
}

impl Service {
    /// Adds what endpoints did for a request to what each did.
    pub(crate) fn add(services: &mut Vec<Self>, record: &RequestRecord) {
        if let Some(endpoint) = record.endpoint.filter(|_| record.outcome.is_complete()) {
            let answers = Self::at(services, endpoint);
            answers.served += 1;
            answers.output_tokens += u64::from(record.output_tokens);
        }
        let computes = record.prefill_endpoint.or(record.endpoint);
        if let Some(endpoint) = computes.filter(|_| record.queue.is_some()) {
            let computes = Self::at(services, endpoint);
            computes.prefills += u64::from(record.prefill_endpoint.is_some());
            computes.prompt_tokens += u64::from(record.prompt_tokens);
            computes.cached_tokens += u64::from(record.cached_tokens);
        }
    }

    fn at(services: &mut Vec<Self>, endpoint: u32) -> &mut Self {
        let index = endpoint as usize;
        if services.len() <= index {
            services.resize_with(index + 1, Self::default);
        }
        &mut services[index]
    }

    pub(crate) fn prefix_hit_rate(&self) -> Option<f64> {
        share_of_some(self.cached_tokens, self.prompt_tokens)
    }
}

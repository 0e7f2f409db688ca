//! The file format of recorded scheduler traces, and which scenarios the engine supports.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

/// A file of scenarios.
#[derive(Debug, Deserialize)]
pub(crate) struct GoldenFile {
    #[serde(default)]
    pub(crate) scenarios: Vec<Scenario>,
    #[serde(default)]
    pub(crate) worked_scenarios: Vec<Scenario>,
}

/// One scenario: settings, requests, and the trace that the real scheduler left.
#[derive(Debug, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) id: String,
    pub(crate) config: Config,
    pub(crate) requests: Vec<GoldenRequest>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    pub(crate) block_size: u32,
    pub(crate) num_gpu_blocks: u32,
    pub(crate) max_num_seqs: u32,
    pub(crate) max_num_batched_tokens: u32,
    pub(crate) max_model_len: u32,
    pub(crate) enable_prefix_caching: bool,
    pub(crate) policy: String,
    #[serde(default)]
    pub(crate) long_prefill_token_threshold: u32,
    pub(crate) enable_chunked_prefill: bool,
    pub(crate) async_scheduling: bool,
    /// `scripted`: transfers take the numbers of steps that the scenario says.
    pub(crate) kv_connector: Option<String>,
    /// Steps from the start of a load to its report.
    #[serde(default)]
    pub(crate) load_latency_steps: u64,
    /// Settings beyond these: features, some of them unsupported.
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GoldenRequest {
    pub(crate) id: String,
    pub(crate) arrival_step: u64,
    #[serde(default)]
    pub(crate) arrival_time: f64,
    #[serde(default)]
    pub(crate) priority: i32,
    pub(crate) prompt: Vec<GoldenSegment>,
    pub(crate) output_len: u32,
    pub(crate) output_group: u64,
    pub(crate) eos_at: Option<u32>,
    pub(crate) abort_step: Option<u64>,
    pub(crate) cache_salt: Option<String>,
    /// How the connector offers KV: `async` or `sync`.
    pub(crate) remote: Option<String>,
    /// Tokens on offer; without it the whole prompt.
    pub(crate) ext_tokens: Option<u32>,
    /// Steps from the end of the request to the report that its blocks were read.
    #[serde(default)]
    pub(crate) send_latency_steps: u64,
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GoldenSegment {
    pub(crate) group: u64,
    pub(crate) len: u32,
    #[serde(default)]
    pub(crate) offset: u32,
}

/// What one iteration of the engine loop did. The same type holds what was recorded and what the
/// replay does, so that comparing is `==`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the file")]
pub(crate) struct Step {
    pub(crate) step: u64,
    pub(crate) scheduled: Vec<(String, u32)>,
    pub(crate) total_tokens: u32,
    pub(crate) computed_before: BTreeMap<String, u32>,
    pub(crate) new: Vec<String>,
    pub(crate) resumed: Vec<String>,
    pub(crate) preempted: Vec<String>,
    pub(crate) loading_remote: BTreeSet<String>,
    pub(crate) running: Vec<String>,
    pub(crate) waiting: Vec<String>,
    pub(crate) free_blocks: u32,
    pub(crate) output_of_step: Option<u64>,
    pub(crate) tokens: Vec<(String, u32)>,
    pub(crate) finished: Vec<(String, String)>,
    pub(crate) running_after: Vec<String>,
    pub(crate) waiting_after: Vec<String>,
    pub(crate) free_blocks_after: u32,
}

/// The ways in which a connector can offer KV.
const OFFERS: [&str; 2] = ["async", "sync"];

impl Scenario {
    /// Why the engine cannot replay this scenario, if it cannot.
    pub(crate) fn unsupported(&self) -> Option<String> {
        let set = |key: &str| {
            let value = self.config.other.get(key)?;
            let off =
                matches!(value, Value::Null | Value::Bool(false)) || value.as_u64() == Some(0);
            (!off).then(|| format!("{key} = {value}"))
        };
        let features = [
            ("spec_method", "speculative decoding"),
            ("num_spec_tokens", "speculative decoding"),
            ("sliding_window", "sliding window"),
            ("max_loras", "LoRA"),
        ];
        let known = |key: &str| {
            features.iter().any(|(feature, _)| *feature == key) || key == "sliding_window_only"
        };
        if let Some((key, feature)) = features.iter().find(|(key, _)| set(key).is_some()) {
            return Some(format!("{feature} ({})", set(key).unwrap_or_default()));
        }
        if let Some(request) = self
            .requests
            .iter()
            .find(|r| r.other.get("lora").is_some_and(|v| !v.is_null()))
        {
            return Some(format!("LoRA (request {})", request.id));
        }
        if let Some(key) = self
            .config
            .other
            .keys()
            .find(|key| !known(key) && set(key).is_some())
        {
            return Some(format!("unknown setting {key}"));
        }
        if let Some(connector) = self.config.kv_connector.as_deref()
            && connector != "scripted"
        {
            return Some(format!("KV connector {connector}"));
        }
        let offers = |r: &&GoldenRequest| {
            r.remote
                .as_deref()
                .is_some_and(|how| !OFFERS.contains(&how))
        };
        if let Some(request) = self.requests.iter().find(offers) {
            return Some(format!("unknown offer of KV (request {})", request.id));
        }
        if !["fcfs", "priority"].contains(&self.config.policy.as_str()) {
            return Some(format!("unknown policy {}", self.config.policy));
        }
        None
    }
}

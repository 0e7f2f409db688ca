//! The types of plugins that a file may name.

use super::document::{ConfigError, Value};
use super::reading::{Reading, Roles, only};
use super::role::{Handler, Role};
use super::{filters, gates, producers, profiles, queueing, scorers};
use crate::flow::{EarliestDeadline, Fcfs, GlobalStrict, RoundRobin, SloDeadline, SoftReflective};
use crate::pipeline::deciders::{AlwaysDisaggregate, AlwaysDisaggregateMedia};
use crate::pipeline::filters::RoleFilter;
use crate::pipeline::scorers::{
    KvCacheUtilizationScorer, LoraAffinityScorer, MmEmbeddingsCacheScorer, QueueScorer,
    RunningRequestsScorer, TopologyAffinityScorer,
};

type Read = fn(&mut Reading<'_>) -> Roles;

/// A type of plugins.
#[derive(Debug, Clone, Copy)]
pub(super) struct PluginType {
    pub(super) name: &'static str,
    pub(super) standing: Standing,
    /// Reads the parameters of an instance; `None` if nothing comes of the type here.
    pub(super) read: Option<Read>,
}

/// What llm-d thinks of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Stable,
    /// Needs a flag.
    Alpha,
    /// Another one is to be used instead.
    Deprecated(&'static str),
}

const fn stable(name: &'static str, read: Read) -> PluginType {
    PluginType {
        name,
        standing: Standing::Stable,
        read: Some(read),
    }
}

const fn alpha(name: &'static str, read: Read) -> PluginType {
    PluginType {
        name,
        standing: Standing::Alpha,
        read: Some(read),
    }
}

const fn deprecated(name: &'static str, instead: &'static str, read: Read) -> PluginType {
    PluginType {
        name,
        standing: Standing::Deprecated(instead),
        read: Some(read),
    }
}

const fn ignored(name: &'static str) -> PluginType {
    PluginType {
        name,
        standing: Standing::Stable,
        read: None,
    }
}

const TYPES: &[PluginType] = &[
    // Scorers.
    stable("queue-scorer", |_| only(Role::scorer(QueueScorer))),
    stable("running-requests-size-scorer", |_| {
        only(Role::scorer(RunningRequestsScorer))
    }),
    stable("kv-cache-utilization-scorer", |_| {
        only(Role::scorer(KvCacheUtilizationScorer))
    }),
    stable("load-aware-scorer", scorers::load_aware),
    stable("active-request-scorer", scorers::active_request),
    stable("token-load-scorer", scorers::token_load),
    stable("prefix-cache-scorer", scorers::prefix_cache),
    stable("lora-affinity-scorer", |_| {
        only(Role::scorer(LoraAffinityScorer))
    }),
    stable("no-hit-lru-scorer", scorers::no_hit_lru),
    alpha("session-affinity-scorer", scorers::session_affinity),
    stable("context-length-aware", scorers::context_length),
    stable("latency-scorer", scorers::latency),
    alpha("header-label-affinity-scorer", scorers::header_label),
    alpha("topology-affinity-scorer", |_| {
        only(Role::scorer(TopologyAffinityScorer::default()))
    }),
    alpha("endpoint-attribute-scorer", scorers::endpoint_attribute),
    stable("mm-embeddings-cache-scorer", |reading| {
        reading.ignore("producerName", "simulated requests have no media");
        only(Role::scorer(MmEmbeddingsCacheScorer))
    }),
    // Filters.
    stable("decode-filter", |_| only(Role::filter(RoleFilter::Decode))),
    stable("prefill-filter", |_| {
        only(Role::filter(RoleFilter::Prefill))
    }),
    stable("encode-filter", |_| only(Role::filter(RoleFilter::Encode))),
    stable("label-selector-filter", filters::label_selector),
    deprecated(
        "by-label-selector",
        "label-selector-filter",
        filters::label_selector,
    ),
    deprecated("by-label", "label-selector-filter", filters::by_label),
    stable("prefix-cache-affinity-filter", filters::prefix_affinity),
    stable("slo-headroom-tier-filter", filters::slo_headroom),
    alpha("utilization-filter", filters::utilization),
    alpha("endpoint-attribute-filter", filters::endpoint_attribute),
    alpha("session-affinity-filter", filters::session_affinity),
    alpha("topology-affinity-filter", filters::topology),
    // Pickers, profile handlers and deciders.
    stable("max-score-picker", profiles::max_score),
    stable("random-picker", profiles::random),
    stable("weighted-random-picker", profiles::weighted_random),
    stable("single-profile-handler", |_| {
        only(Role::Handler(Handler::Single))
    }),
    stable("disagg-profile-handler", profiles::disagg),
    deprecated(
        "pd-profile-handler",
        "disagg-profile-handler",
        profiles::prefill_decode,
    ),
    deprecated(
        "data-parallel-profile-handler",
        "several target ports",
        profiles::data_parallel,
    ),
    alpha("header-profile-handler", profiles::header),
    stable("always-disagg-pd-decider", |_| {
        only(Role::decider(AlwaysDisaggregate))
    }),
    stable("always-disagg-multimodal-decider", |_| {
        only(Role::decider(AlwaysDisaggregateMedia))
    }),
    stable("prefix-based-pd-decider", profiles::prefix_based),
    // Data producers.
    stable("approx-prefix-cache-producer", producers::approximate),
    stable("precise-prefix-cache-producer", producers::precise),
    deprecated(
        "precise-prefix-cache-scorer",
        "precise-prefix-cache-producer with prefix-cache-scorer",
        producers::precise_with_scorer,
    ),
    stable("inflight-load-producer", producers::in_flight),
    stable("predicted-latency-producer", producers::predicted_latency),
    // Saturation and admission.
    stable("utilization-detector", gates::utilization),
    stable("concurrency-detector", gates::concurrency),
    stable("probabilistic-admitter", gates::probabilistic),
    stable("latency-slo-admitter", gates::latency_slo),
    // Flow control.
    stable("global-strict-fairness-policy", |_| {
        only(Role::fairness(GlobalStrict))
    }),
    stable("round-robin-fairness-policy", |_| {
        only(Role::fairness(RoundRobin::default()))
    }),
    stable("program-aware-fairness", queueing::program_aware),
    stable("fcfs-ordering-policy", |_| only(Role::ordering(Fcfs))),
    stable("edf-ordering-policy", |_| {
        only(Role::ordering(EarliestDeadline))
    }),
    stable("slo-deadline-ordering-policy", |_| {
        only(Role::ordering(SloDeadline))
    }),
    stable("static-usage-limit-policy", queueing::static_limit),
    alpha("priority-holdback-policy", queueing::holdback),
    alpha("soft-reflective-ceiling-policy", |_| {
        only(Role::usage(SoftReflective::default()))
    }),
    // What a simulation has no use for: it has tokens, metrics and endpoints of its own.
    ignored("token-producer"),
    ignored("tokenizer"),
    ignored("burst-prefix-cache-producer"),
    ignored("p2p-source-producer"),
    ignored("mm-embeddings-cache-producer"),
    ignored("session-id-producer"),
    ignored("openai-parser"),
    ignored("anthropic-parser"),
    ignored("vllmhttp-parser"),
    ignored("vllmgrpc-parser"),
    ignored("sglanghttp-parser"),
    ignored("vertexai-parser"),
    ignored("passthrough-parser"),
    ignored("metrics-data-source"),
    ignored("core-metrics-extractor"),
    ignored("models-data-source"),
    ignored("models-data-extractor"),
    ignored("dcgm-data-source"),
    ignored("dcgm-extractor"),
    ignored("endpoint-notification-source"),
    ignored("k8s-notification-source"),
    ignored("topology-extractor"),
    ignored("file-discovery"),
    ignored("disagg-headers-handler"),
    ignored("prefill-header-handler"),
    ignored("agent-identity"),
    ignored("request-attribute-reporter"),
    ignored("disaggregatedset-rollout-screener"),
    ignored("disaggregatedset-rollout-extractor"),
    ignored("sheddable-eviction-filter"),
    ignored("priority-then-time-eviction-order-policy"),
];

/// Variants for several clusters, of which a simulation has one.
const MULTICLUSTER: &str = "multicluster-";

/// The type `name`, which is written at `place`.
pub(super) fn find(name: &str, place: &Value) -> Result<PluginType, ConfigError> {
    if let Some(found) = TYPES.iter().find(|known| known.name == name) {
        return Ok(*found);
    }
    if name.starts_with(MULTICLUSTER) {
        return Ok(ignored(MULTICLUSTER));
    }
    let similar = similar(name, TYPES.iter().map(|known| known.name));
    Err(place.error(format!("unknown plugin type {name}: {similar}")))
}

/// Which of `names` might have been meant: the closest ones.
pub(super) fn similar<'a>(meant: &str, names: impl Iterator<Item = &'a str>) -> String {
    // Nothing is close to an absurdly long name.
    let meant: Vec<char> = meant.chars().take(100).collect();
    let mut names: Vec<_> = names.map(|name| (distance(&meant, name), name)).collect();
    names.sort_unstable();
    let closest: Vec<_> = names.iter().take(3).map(|&(_, name)| name).collect();
    match closest.as_slice() {
        [] => "there are none".to_owned(),
        [only] => format!("there is only {only}"),
        _ => format!("the most similar are {}", closest.join(", ")),
    }
}

/// Letters to insert, remove or replace between two words (Levenshtein).
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, b) in b.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, &a) in a.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

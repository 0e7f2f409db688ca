//! The scenarios, by their numbers in llm-d's list of complaints.

pub(crate) mod adapters;
pub(crate) mod batch;
pub(crate) mod counters;
pub(crate) mod disaggregation;
pub(crate) mod documents;
pub(crate) mod events;
pub(crate) mod hotspots;
pub(crate) mod index;
pub(crate) mod pool;
pub(crate) mod replicas;
pub(crate) mod saturation;
mod seen;
mod setting;
pub(crate) mod staleness;
pub(crate) mod table;

use foretoken::prelude::*;
use table::Table;

/// Runs a setting with its variations.
pub(crate) type Run = fn() -> Result<Table, Error>;

/// All of them.
pub(crate) const ALL: [(u32, Run); 24] = [
    (1, staleness::herding),
    (2, staleness::overshoot),
    (3, saturation::hidden_by_the_mean),
    (4, staleness::late_scrapes),
    (5, pool::scaled_to_zero),
    (6, counters::lost_accounting),
    (7, counters::drift_after_flaps),
    (8, saturation::blind_detector),
    (9, index::another_size_than_the_cache),
    (10, index::head_evicted_first),
    (11, hotspots::hot_prefix),
    (12, adapters::invisible_when_idle),
    (13, hotspots::cold_groups),
    (14, disaggregation::silently_together),
    (15, disaggregation::static_threshold),
    (16, replicas::partial_knowledge),
    (17, pool::dead_ports),
    (18, batch::burst),
    (19, batch::starvation),
    (20, pool::ties),
    (21, events::lost_events),
    (22, documents::sparse_groups),
    (23, documents::parity),
    (24, hotspots::kv_usage_term),
];

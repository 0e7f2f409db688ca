//! [`BuildOptions`]: what a gateway needs beside the file.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use foretoken_des_kernel::SimDuration;
use foretoken_workload::ObjectivePriority;

use crate::pipeline::pickers::Ties;
use crate::producer::{Insertion, LatencyPredictor};
use crate::rewrite::ModelRewrite;
use crate::saturation::Unseen;

type MakePredictor = Arc<dyn Fn() -> Box<dyn LatencyPredictor> + Send + Sync>;

/// What a gateway's policies need beside the configuration file: llm-d has it in flags, in other
/// resources or not at all.
///
/// ```
/// use foretoken_dataplane::config::BuildOptions;
/// use foretoken_dataplane::pipeline::pickers::Ties;
/// use foretoken_workload::ObjectivePriority;
///
/// let options = BuildOptions::default()
///     .ties(Ties::First)
///     .objective("batch", ObjectivePriority::new(-1));
/// assert_eq!(options.objectives.len(), 1);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct BuildOptions {
    /// Who goes first of equal totals; anybody by default, as in llm-d.
    pub ties: Ties,
    /// Priorities by the names of objectives (llm-d's `InferenceObjective`); none by default.
    pub objectives: BTreeMap<String, ObjectivePriority>,
    /// Which model requests are really for (llm-d's `InferenceModelRewrite`); no rules by default.
    pub rewrite: ModelRewrite,
    /// From a pick until counters know of it; 0 by default.
    pub decision_time: SimDuration,
    /// Period of the scrapes (`--refresh-metrics-interval`), which eviction waits for; 50 ms by default.
    pub refresh_interval: SimDuration,
    /// In which order blocks enter approximate prefix indexes.
    pub insertion: Insertion,
    /// After what silence requests are dropped from in-flight counters; never by default.
    pub drop_silent_after: Option<SimDuration>,
    /// What utilization detectors make of requests that the metrics cannot show yet.
    pub unseen: Unseen,
    predictor: Option<MakePredictor>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            ties: Ties::default(),
            objectives: BTreeMap::new(),
            rewrite: ModelRewrite::default(),
            decision_time: SimDuration::ZERO,
            refresh_interval: SimDuration::from_millis(50),
            insertion: Insertion::default(),
            drop_silent_after: None,
            unseen: Unseen::default(),
            predictor: None,
        }
    }
}

impl BuildOptions {
    /// The same with another choice among equal totals.
    #[must_use]
    pub const fn ties(mut self, ties: Ties) -> Self {
        self.ties = ties;
        self
    }

    /// The same with one more objective.
    #[must_use]
    pub fn objective(mut self, name: impl Into<String>, priority: ObjectivePriority) -> Self {
        self.objectives.insert(name.into(), priority);
        self
    }

    /// The same with other rules for models.
    #[must_use]
    pub fn rewrite(mut self, rewrite: ModelRewrite) -> Self {
        self.rewrite = rewrite;
        self
    }

    /// The same with another time from a pick until counters know of it.
    #[must_use]
    pub const fn decision_time(mut self, time: SimDuration) -> Self {
        self.decision_time = time;
        self
    }

    /// The same with another period of the scrapes.
    #[must_use]
    pub const fn refresh_interval(mut self, interval: SimDuration) -> Self {
        self.refresh_interval = interval;
        self
    }

    /// The same with another order in which blocks enter approximate prefix indexes.
    #[must_use]
    pub const fn insertion(mut self, insertion: Insertion) -> Self {
        self.insertion = insertion;
        self
    }

    /// The same, and in-flight counters drop requests that were silent for so long.
    #[must_use]
    pub const fn drop_silent_after(mut self, silence: SimDuration) -> Self {
        self.drop_silent_after = Some(silence);
        self
    }

    /// The same, and utilization detectors take requests that the metrics cannot show yet for this.
    #[must_use]
    pub const fn unseen(mut self, unseen: Unseen) -> Self {
        self.unseen = unseen;
        self
    }

    /// The same, and each `predicted-latency-producer` asks a predictor that `make` makes. Without one
    /// nothing is predicted, as if the service did not answer.
    #[must_use]
    pub fn predictor(
        mut self,
        make: impl Fn() -> Box<dyn LatencyPredictor> + Send + Sync + 'static,
    ) -> Self {
        self.predictor = Some(Arc::new(make));
        self
    }

    pub(super) fn make_predictor(&self) -> Option<Box<dyn LatencyPredictor>> {
        self.predictor.as_ref().map(|make| make())
    }
}

impl fmt::Debug for BuildOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildOptions")
            .field("ties", &self.ties)
            .field("objectives", &self.objectives)
            .field("rewrite", &self.rewrite)
            .field("decision_time", &self.decision_time)
            .field("refresh_interval", &self.refresh_interval)
            .field("insertion", &self.insertion)
            .field("drop_silent_after", &self.drop_silent_after)
            .field("unseen", &self.unseen)
            .field("predicts", &self.predictor.is_some())
            .finish()
    }
}

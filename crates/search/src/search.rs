//! [`SearchSpec`]: which deployment is best, as plain data; [`Search`] finds it.

mod evaluator;
mod result;
mod table;

pub(crate) use evaluator::{Evaluator, Share, whole_s};
pub use result::{Candidate, Counts, SearchResult, Standing};

use std::collections::BTreeMap;
use std::path::Path;

use foretoken::Scenario;
use foretoken_calibrate::progress::Progress;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::SearchError;
use crate::journal::{Context, Journal};
use crate::method::Method;
use crate::metric::Metric;
use crate::objective::{Bound, Constraint, Objective, check};
use crate::replications;
use crate::setting::rebase_scenario;
use crate::space::{Grid, Space};

/// A search for deployments: what varies, what must hold, what is to be small or large, and how it is
/// looked for.
///
/// All candidates see the same load: the same seeds, hence the same arrivals, prompts and lengths.
///
/// ```
/// use foretoken_search::{Environment, Search, SearchSpec};
///
/// let spec: SearchSpec = serde_json::from_str(r#"{
///     "scenario": {
///         "deployment": { "model": "Qwen/Qwen2.5-7B-Instruct", "gpu": "H100-SXM-80GB" },
///         "workload": { "synthetic": {
///             "arrivals": { "poisson": { "rate-rps": 20 } }, "requests": 100,
///             "prompt-tokens": { "constant": { "tokens": 500 } },
///             "output-tokens": { "constant": { "tokens": 100 } }
///         } }
///     },
///     "space": { "tensor-parallel": [1, 2], "replicas": { "gpu-budget": 2 }, "max-num-seqs": [8, 256] },
///     "constraints": [ { "metric": "ttft-p99-ms", "at-most": 500 } ],
///     "objectives": [ { "minimise": "gpus" }, { "minimise": "itl-mean-ms" } ]
/// }"#)?;
/// let result = Search::new(&spec, &Environment::builtin())?.run()?;
/// assert_eq!(result.candidates.len(), 6);
/// let best = result.front().next().expect("one holds");
/// assert_eq!(best.label("replicas"), Some("1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SearchSpec {
    /// What all candidates have in common.
    pub scenario: Scenario,
    /// In what they differ.
    pub space: Space,
    /// What must hold; nothing by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
    /// What makes one better than another, at least one. The first decides which of several equals
    /// is named.
    pub objectives: Vec<Objective>,
    /// Which other numbers are told of each; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub report: Vec<Metric>,
    /// How candidates are chosen; `grid`, all of them, by default.
    #[serde(default)]
    pub method: Method,
    /// Runs of each candidate, by replication numbers from the scenario's on, 1 to 1000; numbers are means.
    /// 1 by default.
    #[serde(default = "one")]
    pub replications: u32,
    /// Of the method's draws; 0 by default. The scenario has its own.
    #[serde(default)]
    pub seed: u64,
}

const fn one() -> u32 {
    1
}

impl SearchSpec {
    /// All candidates of a space, without constraints.
    pub fn new(scenario: Scenario, space: Space, objectives: impl Into<Vec<Objective>>) -> Self {
        Self {
            scenario,
            space,
            constraints: Vec::new(),
            objectives: objectives.into(),
            report: Vec::new(),
            method: Method::default(),
            replications: 1,
            seed: 0,
        }
    }

    /// Takes relative paths, of traces and of routers' configurations, as paths from `folder`.
    pub fn rebase(&mut self, folder: &Path) {
        rebase_scenario(&mut self.scenario, folder);
        self.space.rebase(folder);
    }

    /// The numbers that are taken down of each run: objectives, constraints, others; each once.
    fn metrics(&self) -> Vec<Metric> {
        let objectives = self.objectives.iter().map(|objective| objective.metric);
        let constraints = self.constraints.iter().map(|constraint| constraint.metric);
        let mut metrics: Vec<Metric> = Vec::new();
        for metric in objectives
            .chain(constraints)
            .chain(self.report.iter().copied())
        {
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        metrics
    }
}

/// A search that was found to make sense.
#[derive(Debug)]
pub struct Search<'a> {
    spec: &'a SearchSpec,
    environment: &'a Environment,
    grid: Grid,
    metrics: Vec<Metric>,
    journal: Option<Journal>,
    progress: Option<String>,
}

impl<'a> Search<'a> {
    /// Checks everything that can be checked without a run.
    ///
    /// # Errors
    /// [`SearchError`] names the field: a space that is empty or has a level twice, a knob that no
    /// scenario has or that two names set, a level of the wrong type or of an unknown name,
    /// constraints that exclude each other or all candidates, no objective, a method without a budget.
    pub fn new(spec: &'a SearchSpec, environment: &'a Environment) -> Result<Self, SearchError> {
        check(&spec.constraints, &spec.objectives)?;
        let (field, first) = ("scenario.replication", spec.scenario.replication);
        replications::check(spec.replications.into(), field, first)?;
        spec.method.check()?;
        let grid = Grid::new(&spec.space, &spec.scenario, environment)?;
        spec.method.check_grid(&grid)?;
        if matches!(spec.method, Method::SuccessiveHalving { .. }) {
            whole_s(&spec.scenario)?;
        }
        let search = Self {
            spec,
            environment,
            grid,
            metrics: spec.metrics(),
            journal: None,
            progress: None,
        };
        search.some_candidate_is_small_enough()?;
        if !search.grid.sets("slos") {
            for metric in &search.metrics {
                metric.check("metric", &spec.scenario)?;
            }
        }
        Ok(search)
    }

    fn some_candidate_is_small_enough(&self) -> Result<(), SearchError> {
        let fewest = self.grid.fewest_gpus()?;
        for (index, constraint) in self.spec.constraints.iter().enumerate() {
            if let (Metric::Gpus, Bound::AtMost(most)) = (constraint.metric, constraint.bound)
                && most < fewest as f64
            {
                let field = format!("constraints[{index}]");
                let allowed =
                    format!("at least {fewest}, the accelerators of the smallest candidate");
                return Err(SearchError::out_of_range(field, constraint, allowed));
            }
        }
        Ok(())
    }

    /// How many candidates the space has.
    pub fn candidates(&self) -> u64 {
        self.grid.size()
    }

    /// Keeps evaluations in this file, and goes on from what it holds. Another space, method or
    /// objective may go on from it too, as long as scenario, metrics and replications are the same.
    ///
    /// # Errors
    /// If it cannot be read or written, or is the log of something else. Files that the scenario names
    /// are taken to stay as they are.
    pub fn with_log(mut self, path: &Path) -> Result<Self, SearchError> {
        let context = Context {
            scenario: &self.spec.scenario,
            replications: self.spec.replications,
        };
        let metrics = self.metrics.clone();
        self.journal = Some(Journal::open(path, metrics, &context, self.environment)?);
        Ok(self)
    }

    /// Shows a progress bar with this label on standard error, if that is a terminal.
    #[must_use]
    pub fn shown_as(mut self, label: impl Into<String>) -> Self {
        self.progress = Some(label.into());
        self
    }

    /// Runs the candidates that the method chooses, on all of rayon's threads. The result does not
    /// depend on their number, nor on what a log held already.
    ///
    /// # Errors
    /// If the log cannot be written, or a file that the scenario names can no longer be read. A candidate
    /// that cannot be run is part of the result.
    pub fn run(self) -> Result<SearchResult, SearchError> {
        let spec = self.spec;
        let journal = self.journal;
        let mut evaluator = Evaluator {
            grid: &self.grid,
            environment: self.environment,
            constraints: &spec.constraints,
            objectives: &spec.objectives,
            metrics: &self.metrics,
            replications: spec.replications,
            journal: journal.unwrap_or_else(|| Journal::new(self.metrics.clone())),
            progress: self.progress.map_or_else(Progress::hidden, |label| {
                Progress::bar(&label, spec.method.evaluations(&self.grid))
            }),
            outcomes: BTreeMap::new(),
        };
        spec.method.run(&mut evaluator, spec.seed)?;
        evaluator.progress.finish();
        Ok(SearchResult::new(spec, &evaluator))
    }
}

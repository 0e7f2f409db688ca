//! [`SearchResult`]: what a search found.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{Evaluator, SearchSpec, Share};
use crate::front::{Place, front, places};
use crate::journal::Outcome;
use crate::method::Method;
use crate::metric::Metric;
use crate::objective::{Constraint, Judged, Objective};
use crate::setting::Setting;

/// What a search found: all that was run, and the front.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct SearchResult {
    /// What is small or large.
    pub objectives: Vec<Objective>,
    /// What holds.
    pub constraints: Vec<Constraint>,
    /// How candidates were chosen.
    pub method: Method,
    /// How many candidates the space has, whether they were run or not.
    pub space: u64,
    /// How many there are of each kind.
    pub counts: Counts,
    /// Numbers of the candidates on the Pareto front, the best in the first objective first.
    pub front: Vec<usize>,
    /// All that were run, in the order of the space: the last knob turns fastest.
    pub candidates: Vec<Candidate>,
}

/// How many candidates there are of each kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Counts {
    /// All that were run, at least in part.
    pub candidates: usize,
    /// Those that meet all constraints.
    pub feasible: usize,
    /// Those that violate any.
    pub infeasible: usize,
    /// Those that could not be run.
    pub failed: usize,
    /// Those that were stopped before the whole load.
    pub stopped: usize,
    /// The infeasible by constraint; one may violate several.
    pub violated: BTreeMap<String, usize>,
    /// The failed by reason.
    pub failures: BTreeMap<String, usize>,
}

/// A candidate that was run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Candidate {
    /// Its number in this result, from 1.
    pub number: usize,
    /// The names of knobs and of their levels.
    #[serde(serialize_with = "as_map")]
    pub knobs: Vec<(String, String)>,
    /// What it sets in the scenario.
    pub settings: Vec<Setting>,
    /// Its numbers, means over replications; `None` where a run had none.
    #[serde(serialize_with = "as_map")]
    pub metrics: Vec<(Metric, Option<f64>)>,
    /// Where it stands.
    pub standing: Standing,
}

/// Where a candidate stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Standing {
    /// On the front: nobody is at least as good in all objectives and better in one.
    Front,
    /// As good in all objectives as that one on the front, which is named in place of all of them: its exact
    /// values are best, the first objective deciding first, or else it comes first in the space.
    EqualTo(usize),
    /// That one on the front is at least as good in all objectives, and better in one.
    DominatedBy(usize),
    /// It violates these constraints.
    Infeasible(Vec<Constraint>),
    /// It could not be run, or lacks a number that counts.
    Failed(String),
    /// It was stopped after this share of the load, since others were better by then.
    Stopped(f64),
}

impl SearchResult {
    pub(super) fn new(spec: &SearchSpec, evaluator: &Evaluator<'_>) -> Self {
        // The whole load comes last.
        let last = evaluator.outcomes.iter().filter_map(|(digits, runs)| {
            let (share, outcome) = runs.last_key_value()?;
            Some((digits, *share, outcome))
        });
        let runs: Vec<_> = last.collect();
        let judged: Vec<Judged> = runs
            .iter()
            .map(|&(_, share, outcome)| match share {
                Share::WHOLE => evaluator.judge(outcome),
                _ => Judged::failed(),
            })
            .collect();
        let places = places(&judged);
        let candidates: Vec<Candidate> = runs
            .iter()
            .zip(places)
            .enumerate()
            .map(|(index, (&(digits, share, outcome), place))| {
                let metrics = numbers(evaluator.metrics, outcome);
                let standing = match outcome {
                    Err(reason) => Standing::Failed(reason.clone()),
                    Ok(_) if share != Share::WHOLE => Standing::Stopped(share.get()),
                    Ok(_) => standing(place, spec, &metrics),
                };
                let labels = evaluator.grid.labels(digits);
                Candidate {
                    number: index + 1,
                    knobs: evaluator.grid.names().into_iter().zip(labels).collect(),
                    settings: evaluator.grid.settings(digits),
                    metrics,
                    standing,
                }
            })
            .collect();
        Self {
            objectives: spec.objectives.clone(),
            constraints: spec.constraints.clone(),
            method: spec.method,
            space: evaluator.grid.size(),
            counts: Counts::of(&candidates),
            front: front(&judged).into_iter().map(|index| index + 1).collect(),
            candidates,
        }
    }

    /// The candidates on the Pareto front, the best in the first objective first.
    pub fn front(&self) -> impl Iterator<Item = &Candidate> {
        let numbers = self.front.iter();
        numbers.filter_map(|&number| self.candidates.get(number - 1))
    }

    /// All candidates as CSV: knobs, numbers, standing.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let Some(first) = self.candidates.first() else {
            return String::new();
        };
        let knobs = first.knobs.iter().map(|(name, _)| name.clone());
        let metrics = first.metrics.iter().map(|(metric, _)| metric.to_string());
        let header = core::iter::once("number".to_owned())
            .chain(knobs)
            .chain(metrics);
        let rows = self.candidates.iter().map(Candidate::row);
        let header = header.chain(["standing".to_owned(), "detail".to_owned()]);
        for row in core::iter::once(header.collect()).chain(rows) {
            let row: Vec<String> = row;
            writer
                .write_record(&row)
                .expect("memory can be written, and all rows are as long");
        }
        let bytes = writer.into_inner().expect("memory can be written");
        String::from_utf8(bytes).expect("all fields are text")
    }
}

impl Candidate {
    /// The level of a knob.
    pub fn label(&self, knob: &str) -> Option<&str> {
        let found = self.knobs.iter().find(|(name, _)| name == knob);
        found.map(|(_, label)| label.as_str())
    }

    /// One of its numbers.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let found = self.metrics.iter().find(|(known, _)| *known == metric);
        found.and_then(|(_, value)| *value)
    }

    /// Whether it meets all constraints.
    pub const fn is_feasible(&self) -> bool {
        matches!(
            self.standing,
            Standing::Front | Standing::EqualTo(_) | Standing::DominatedBy(_)
        )
    }

    fn row(&self) -> Vec<String> {
        let labels = self.knobs.iter().map(|(_, label)| label.clone());
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let values = self.metrics.iter().map(|(_, value)| number(*value));
        let (standing, detail) = self.standing.in_words();
        core::iter::once(self.number.to_string())
            .chain(labels)
            .chain(values)
            .chain([standing.to_owned(), detail])
            .collect()
    }
}

impl Standing {
    fn in_words(&self) -> (&'static str, String) {
        match self {
            Self::Front => ("front", String::new()),
            Self::EqualTo(number) => ("equal to", number.to_string()),
            Self::DominatedBy(number) => ("dominated by", number.to_string()),
            Self::Infeasible(violated) => {
                let violated: Vec<String> = violated.iter().map(Constraint::to_string).collect();
                ("infeasible", violated.join(", "))
            }
            Self::Failed(reason) => ("failed", reason.clone()),
            Self::Stopped(share) => ("stopped", share.to_string()),
        }
    }
}

impl Counts {
    fn of(candidates: &[Candidate]) -> Self {
        let mut counts = Self {
            candidates: candidates.len(),
            ..Self::default()
        };
        for candidate in candidates {
            match &candidate.standing {
                Standing::Front | Standing::EqualTo(_) | Standing::DominatedBy(_) => {
                    counts.feasible += 1;
                }
                Standing::Infeasible(violated) => {
                    counts.infeasible += 1;
                    for constraint in violated {
                        *counts.violated.entry(constraint.to_string()).or_default() += 1;
                    }
                }
                Standing::Failed(reason) => {
                    counts.failed += 1;
                    *counts.failures.entry(reason.clone()).or_default() += 1;
                }
                Standing::Stopped(_) => counts.stopped += 1,
            }
        }
        counts
    }
}

fn numbers(metrics: &[Metric], outcome: &Outcome) -> Vec<(Metric, Option<f64>)> {
    let value = |at: usize| outcome.as_ref().ok().and_then(|values| values[at]);
    let metrics = metrics.iter().enumerate();
    metrics.map(|(at, &metric)| (metric, value(at))).collect()
}

/// Of a candidate that was run with the whole load.
fn standing(place: Place, spec: &SearchSpec, metrics: &[(Metric, Option<f64>)]) -> Standing {
    let value = |metric: Metric| {
        let found = metrics.iter().find(|(known, _)| *known == metric);
        found.and_then(|(_, value)| *value)
    };
    let is_violated =
        |constraint: &&Constraint| constraint.violation(value(constraint.metric)) > 0.0;
    match place {
        Place::Front => Standing::Front,
        Place::EqualTo(index) => Standing::EqualTo(index + 1),
        Place::DominatedBy(index) => Standing::DominatedBy(index + 1),
        Place::Infeasible => {
            let violated = spec.constraints.iter().filter(is_violated);
            let violated: Vec<Constraint> = violated.copied().collect();
            let mut metrics = spec.objectives.iter().map(|objective| objective.metric);
            match metrics.find(|&metric| value(metric).is_none()) {
                Some(metric) if violated.is_empty() => {
                    Standing::Failed(format!("the run has no {metric}"))
                }
                _ => Standing::Infeasible(violated),
            }
        }
    }
}

fn as_map<S: Serializer, K: Serialize, V: Serialize>(
    pairs: &[(K, V)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

//! [`Compared`]: what a comparison came to.

use std::collections::BTreeSet;

use foretoken::metrics::{Estimate, Summary};
use foretoken::workload::SloClass;
use serde::Serialize;

use crate::compare::{Measure, Observed};
use crate::judgement::Judgement;
use crate::metric::{Direction, LatencyKind, Statistic};

/// What a comparison came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Compared {
    /// The variants; the others are compared with the first.
    pub variants: Vec<String>,
    /// The workloads.
    pub workloads: Vec<String>,
    /// How often each variant met each workload.
    pub replications: u64,
    /// The number of the first replication; the others follow.
    pub first_replication: u64,
    /// Names the experiment.
    pub seed: u64,
    /// What was compared, without what no run has.
    pub rows: Vec<Row>,
    /// The classes of service one by one, the most important first; empty if all requests are of the default one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassComparison>,
}

/// One class of service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassComparison {
    /// The class.
    pub class: SloClass,
    /// Its latencies in ms, and the shares of its requests that were answered and that met their objectives.
    pub rows: Vec<Row>,
}

/// One number of all variants.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The name of the [`Measure`].
    pub measure: String,
    /// Which way is better.
    pub direction: Direction,
    /// One for each variant.
    pub cells: Vec<Cell>,
}

/// One number of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Cell {
    /// Its value in each trial: all replications of the first workload come first.
    pub values: Vec<Option<f64>>,
    /// Its mean over those that have one.
    pub mean: Option<Estimate>,
    /// By how much it is above the first variant, over the pairs where both have one; `None` for the first.
    pub difference: Option<Estimate>,
    /// What that says; `None` for the first variant, and without pairs.
    pub judgement: Option<Judgement>,
}

impl Cell {
    /// The difference as a share of the mean of the first variant.
    pub fn relative(&self, first: &Self) -> Option<f64> {
        let (difference, first) = (self.difference?, first.mean?);
        (first.mean != 0.0).then(|| difference.mean / first.mean)
    }

    fn new(values: Vec<Option<f64>>, first: Option<&[Option<f64>]>, direction: Direction) -> Self {
        let known: Vec<f64> = values.iter().copied().flatten().collect();
        let difference = first.and_then(|first| {
            let pairs = first.iter().zip(&values);
            let (before, after): (Vec<f64>, Vec<f64>) = pairs
                .filter_map(|(before, after)| before.zip(*after))
                .unzip();
            Estimate::of_differences(&before, &after)
        });
        Self {
            mean: Estimate::of(&known),
            judgement: difference.map(|difference| Judgement::of(&difference, direction)),
            difference,
            values,
        }
    }
}

/// What the runs of each variant have for each measure, but for those that no run has.
pub(super) fn rows(measures: &[Measure], by_variant: &[&[Observed]]) -> Vec<Row> {
    let rows = measures.iter().map(|measure| {
        let values = |runs: &[Observed]| runs.iter().map(|run| measure.of(run)).collect();
        let values: Vec<Vec<Option<f64>>> = by_variant.iter().map(|runs| values(runs)).collect();
        let first = values.first().cloned().unwrap_or_default();
        let cells = values.into_iter().enumerate().map(|(index, values)| {
            let first = (index > 0).then_some(&first[..]);
            Cell::new(values, first, measure.direction())
        });
        Row {
            measure: measure.name().to_owned(),
            direction: measure.direction(),
            cells: cells.collect(),
        }
    });
    rows.filter(|row| row.cells.iter().any(|cell| cell.mean.is_some()))
        .collect()
}

/// The classes that any run tells apart.
pub(super) fn classes(by_variant: &[&[Observed]]) -> Vec<ClassComparison> {
    let runs = by_variant.iter().copied().flatten();
    let classes: BTreeSet<SloClass> = runs
        .flat_map(|run| run.report.classes.iter().map(|part| part.class))
        .collect();
    let comparison = |class| ClassComparison {
        class,
        rows: rows(&of_class(class), by_variant),
    };
    classes.into_iter().map(comparison).collect()
}

fn of_class(class: SloClass) -> Vec<Measure> {
    let summary = move |observed: &Observed| -> Option<Summary> {
        let mut classes = observed.report.classes.iter();
        let part = classes.find(|part| part.class == class)?;
        Some(part.summary.clone())
    };
    let latency = |kind: LatencyKind, statistic: Statistic| {
        let name = crate::Metric::Latency(kind, statistic).to_string();
        Measure::new(name, Direction::Minimise, move |observed| {
            let latency = kind.of(&summary(observed)?)?;
            Some(statistic.of(&latency))
        })
    };
    vec![
        latency(LatencyKind::Ttft, Statistic::Mean),
        latency(LatencyKind::Ttft, Statistic::P99),
        latency(LatencyKind::Tpot, Statistic::Mean),
        latency(LatencyKind::E2e, Statistic::Mean),
        Measure::new("completed-share", Direction::Maximise, move |observed| {
            let counts = summary(observed)?.counts;
            (counts.arrived > 0).then(|| counts.finished as f64 / counts.arrived as f64)
        }),
        Measure::new("slo-attainment", Direction::Maximise, move |observed| {
            let mut judged = observed.report.slo.iter();
            judged.find(|part| part.class == class)?.goodput.share
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[f64], first: &[f64], direction: Direction) -> Cell {
        let some =
            |values: &[f64]| -> Vec<Option<f64>> { values.iter().copied().map(Some).collect() };
        Cell::new(some(values), Some(&some(first)), direction)
    }

    #[test]
    fn what_is_better_depends_on_the_direction() {
        let judged = |direction| cell(&[2.0, 3.1, 4.0], &[1.0, 2.0, 3.0], direction).judgement;
        assert_eq!(judged(Direction::Maximise), Some(Judgement::Better));
        assert_eq!(judged(Direction::Minimise), Some(Judgement::Worse));
    }

    #[test]
    fn a_difference_within_the_noise_or_of_one_pair_says_nothing() {
        let lower = Direction::Minimise;
        let within = cell(&[1.0, 2.0, 3.0], &[1.1, 1.9, 3.05], lower);
        assert_eq!(within.judgement, Some(Judgement::NotDistinguishable));
        let single = cell(&[1.0], &[9.0], lower);
        assert_eq!(single.judgement, Some(Judgement::NotDistinguishable));
        assert_eq!(single.difference.map(|it| it.half_width), Some(None));
        assert!(cell(&[], &[], lower).judgement.is_none());
    }

    #[test]
    fn pairs_hide_no_difference_in_the_spread_between_them() {
        let cell = cell(
            &[11.0, 101.0, 51.1],
            &[10.0, 100.0, 50.0],
            Direction::Minimise,
        );
        assert_eq!(cell.judgement, Some(Judgement::Worse));
        assert!(
            cell.mean
                .and_then(|it| it.half_width)
                .is_some_and(|it| it > 50.0)
        );
    }

    #[test]
    fn a_run_without_the_number_takes_its_pair_with_it() {
        let first = [Some(1.0), None, Some(3.0)];
        let values = vec![Some(2.0), Some(9.0), Some(4.0)];
        let cell = Cell::new(values, Some(&first), Direction::Minimise);
        assert_eq!(cell.difference.map(|it| (it.mean, it.n)), Some((1.0, 2)));
        assert_eq!(cell.mean.map(|it| it.n), Some(3));
    }
}

//! [`Study`]: features over any value of theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use foretoken::metrics::Estimate;
use foretoken::sweep;

use super::coalition::Coalition;
use super::report::{AblationReport, Gain, Share, Step};
use super::shapley::{Orders, ShapleyMethod};
use super::spec::AblationValue;
use crate::error::SearchError;

/// Features over any value of theirs.
#[derive(Debug, Clone)]
pub(super) struct Study {
    names: Vec<String>,
    value: AblationValue,
    replications: u32,
    method: ShapleyMethod,
    orders: Orders,
}

/// The value of each coalition in each replication, signed such that more is better.
struct Table {
    values: BTreeMap<Coalition, Vec<f64>>,
    sign: f64,
}

impl Table {
    fn of(&self, coalition: Coalition) -> &[f64] {
        &self.values[&coalition]
    }

    /// What a coalition is worth, as it was measured.
    fn worth(&self, coalition: Coalition) -> Estimate {
        let values: Vec<f64> = self.of(coalition).iter().map(|v| self.sign * v).collect();
        Estimate::of(&values).expect("there is a replication at least")
    }

    /// What `with` has over `without`.
    fn gain(&self, without: Coalition, with: Coalition) -> Gain {
        let pairs = self.of(without).iter().zip(self.of(with));
        let differences: Vec<f64> = pairs.map(|(without, with)| with - without).collect();
        Gain::of(&differences, None)
    }

    /// The smallest and the largest mean gain of a feature on top of any coalition that was evaluated.
    fn extremes(&self, feature: usize) -> (f64, f64) {
        let without = self.values.keys().filter(|on| !on.contains(feature));
        let both = without.filter(|on| self.values.contains_key(&on.with(feature)));
        let gains = both.map(|on| self.gain(*on, on.with(feature)).estimate.mean);
        gains.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), gain| {
            (least.min(gain), most.max(gain))
        })
    }
}

impl Study {
    /// So many features by their names.
    ///
    /// # Errors
    /// [`SearchError::OutOfRange`] for a method that these features are too many for.
    pub(super) fn new(
        names: impl Iterator<Item = String>,
        value: AblationValue,
        replications: u32,
        method: ShapleyMethod,
    ) -> Result<Self, SearchError> {
        let names: Vec<String> = names.collect();
        let orders = method.plan(names.len())?;
        Ok(Self {
            names,
            value,
            replications,
            method,
            orders,
        })
    }

    /// Those that have to be evaluated, in a fixed order.
    pub(super) fn coalitions(&self) -> BTreeSet<Coalition> {
        let features = self.names.len();
        let order: Vec<usize> = (0..features).collect();
        let all = Coalition::all(features);
        let mut coalitions = self.orders.coalitions();
        coalitions.extend(Coalition::prefixes(&order));
        coalitions.extend(order.iter().map(|&feature| all.without(feature)));
        coalitions
    }

    /// An error of a coalition, with its name.
    pub(super) fn failed(&self, coalition: Coalition, source: SearchError) -> SearchError {
        SearchError::Coalition {
            features: coalition.describe(self.names.iter().map(String::as_str)),
            source: Box::new(source),
        }
    }

    /// Evaluates every coalition once in each replication, and answers all questions.
    pub(super) fn run(
        &self,
        value: impl Fn(Coalition, u32) -> Result<f64, SearchError> + Sync,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<AblationReport, SearchError> {
        let sign = if self.value.is_cost() { -1.0 } else { 1.0 };
        let coalitions = self.coalitions();
        let replications = 0..self.replications;
        let runs: Vec<(Coalition, u32)> = coalitions
            .iter()
            .flat_map(|&coalition| replications.clone().map(move |number| (coalition, number)))
            .collect();
        let done = AtomicUsize::new(0);
        let results = sweep(&runs, |&(coalition, replication)| {
            let result = value(coalition, replication);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, runs.len());
            result
        });
        let mut values: BTreeMap<Coalition, Vec<f64>> = BTreeMap::new();
        for (&(coalition, _), result) in runs.iter().zip(results) {
            let value = result.map_err(|error| self.failed(coalition, error))?;
            values.entry(coalition).or_default().push(sign * value);
        }
        Ok(self.report(&Table { values, sign }))
    }

    fn report(&self, table: &Table) -> AblationReport {
        let features = self.names.len();
        let order: Vec<usize> = (0..features).collect();
        let all = Coalition::all(features);
        let steps: Vec<Coalition> = Coalition::prefixes(&order).collect();
        let ladder = order.iter().map(|&feature| Step {
            feature: self.names[feature].clone(),
            worth: table.worth(steps[feature + 1]),
            gain: table.gain(steps[feature], steps[feature + 1]),
        });
        let leave_one_out = order.iter().map(|&feature| Step {
            feature: self.names[feature].clone(),
            worth: table.worth(all.without(feature)),
            gain: table.gain(all.without(feature), all),
        });
        AblationReport {
            value: self.value.clone(),
            replications: self.replications,
            coalitions: table.values.len(),
            baseline: table.worth(Coalition::NONE),
            full: table.worth(all),
            total: table.gain(Coalition::NONE, all),
            ladder: ladder.collect(),
            leave_one_out: leave_one_out.collect(),
            method: self.method,
            shapley: self.shapley(table),
        }
    }

    fn shapley(&self, table: &Table) -> Vec<Share> {
        // By replication, then by part of the method, then by feature.
        let by_replication: Vec<Vec<Vec<f64>>> = (0..self.replications as usize)
            .map(|number| self.orders.parts(|coalition| table.of(coalition)[number]))
            .collect();
        let parts = by_replication[0].len();
        let mean = |values: &mut dyn ExactSizeIterator<Item = f64>| {
            let count = values.len() as f64;
            values.sum::<f64>() / count
        };
        let share = |feature: usize| {
            let over_parts = by_replication
                .iter()
                .map(|parts| mean(&mut parts.iter().map(|part| part[feature])));
            let over_replications = (0..parts)
                .map(|part| mean(&mut by_replication.iter().map(|parts| parts[part][feature])));
            let sampled = (parts > 1).then(|| over_replications.collect::<Vec<f64>>());
            let (least, most) = table.extremes(feature);
            Share {
                feature: self.names[feature].clone(),
                gain: Gain::of(&over_parts.collect::<Vec<f64>>(), sampled.as_deref()),
                least,
                most,
            }
        };
        (0..self.names.len()).map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use foretoken::des_kernel::RngStreams;

    use super::*;
    use crate::judgement::Judgement;

    /// Noise of a replication that all coalitions share, and a little of their own.
    fn noisy(on: Coalition, replication: u32, value: f64) -> f64 {
        let shared = f64::from(replication * 7 % 5) * 100.0;
        let stream = RngStreams::new(1, replication.into()).stream("noise", on.index() as u64);
        value + shared + 0.1 * { stream }.unit()
    }

    fn study(features: usize, method: ShapleyMethod, value: AblationValue) -> Study {
        let names = (0..features).map(|number| format!("feature {number}"));
        Study::new(names, value, 5, method).expect("it can be done")
    }

    fn throughput() -> AblationValue {
        AblationValue::Maximise(crate::Metric::RequestsPerS)
    }

    /// Feature 0 gives 10, 1 doubles what is there beside it, 2 nothing, 3 takes 3 away.
    fn game(on: Coalition) -> f64 {
        let base = 5.0 + if on.contains(0) { 10.0 } else { 0.0 };
        let doubled = if on.contains(1) { 2.0 * base } else { base };
        doubled - if on.contains(3) { 3.0 } else { 0.0 }
    }

    fn run(study: &Study) -> AblationReport {
        let value = |on: Coalition, replication| Ok(noisy(on, replication, game(on)));
        study.run(value, &|_, _| ()).expect("nothing fails")
    }

    fn near(estimate: &Estimate, expected: f64) {
        assert!(
            (estimate.mean - expected).abs() < 0.1,
            "{estimate:?} is not {expected}"
        );
    }

    #[test]
    fn gains_depend_on_what_else_is_on_and_shapley_values_lie_between() {
        let report = run(&study(4, ShapleyMethod::Exact {}, throughput()));
        let gains: Vec<Gain> = report.ladder.iter().map(|step| step.gain).collect();
        for (gain, expected) in gains.iter().zip([10.0, 15.0, 0.0, -3.0]) {
            near(&gain.estimate, expected);
        }
        let losses = report.leave_one_out.iter().map(|step| step.gain);
        for (loss, expected) in losses.zip([20.0, 15.0, 0.0, -3.0]) {
            near(&loss.estimate, expected);
        }
        for (share, expected) in report.shapley.iter().zip([15.0, 10.0, 0.0, -3.0]) {
            near(&share.gain.estimate, expected);
        }
        assert!((report.shapley[0].least - 10.0).abs() < 0.1);
        assert!((report.shapley[0].most - 20.0).abs() < 0.1);
        let effects: Vec<Judgement> = report
            .shapley
            .iter()
            .map(|share| share.gain.judgement)
            .collect();
        let expected = [
            Judgement::Better,
            Judgement::Better,
            Judgement::NotDistinguishable,
            Judgement::Worse,
        ];
        assert_eq!(effects, expected);
        assert_eq!(report.coalitions, 16);
    }

    #[test]
    fn of_a_cost_less_is_better() {
        let cost = AblationValue::Minimise("ttft-mean-ms".parse().expect("a metric"));
        let report = run(&study(4, ShapleyMethod::Exact {}, cost));
        assert_eq!(report.shapley[0].gain.judgement, Judgement::Worse);
        assert_eq!(report.shapley[3].gain.judgement, Judgement::Better);
        near(&report.total.estimate, -22.0);
        assert!(report.full.mean > report.baseline.mean);
    }

    #[test]
    fn shares_sum_to_the_total_and_samples_hold_the_exact_values() {
        let exact = run(&study(4, ShapleyMethod::Exact {}, throughput()));
        let sampled = run(&study(
            4,
            ShapleyMethod::Sampled { pairs: 20 },
            throughput(),
        ));
        for report in [&exact, &sampled] {
            let sum: f64 = report
                .shapley
                .iter()
                .map(|share| share.gain.estimate.mean)
                .sum();
            let total = report.total.estimate.mean;
            assert!(
                (sum - total).abs() < 1e-9 * total.abs(),
                "{sum} is not {total}"
            );
        }
        for (exact, sampled) in exact.shapley.iter().zip(&sampled.shapley) {
            let error = (exact.gain.estimate.mean - sampled.gain.estimate.mean).abs();
            let bound = sampled.gain.sampling_half_width.expect("it is sampled");
            assert!(error <= bound + 0.05, "{error} is beyond {bound}");
        }
    }

    #[test]
    fn one_replication_tells_nothing_apart() {
        let mut study = study(4, ShapleyMethod::Exact {}, throughput());
        study.replications = 1;
        let effects = run(&study)
            .shapley
            .into_iter()
            .map(|share| share.gain.judgement);
        assert!(
            effects
                .into_iter()
                .all(|effect| effect == Judgement::NotDistinguishable)
        );
    }

    #[test]
    fn every_coalition_is_evaluated_once_in_each_replication() {
        let seen = std::sync::Mutex::new(BTreeMap::new());
        let study = study(11, ShapleyMethod::Sampled { pairs: 3 }, throughput());
        let value = |on: Coalition, replication| {
            *seen
                .lock()
                .expect("nobody panics")
                .entry((on, replication))
                .or_insert(0) += 1;
            Ok(game(on))
        };
        let report = study.run(value, &|_, _| ()).expect("nothing fails");
        let seen = seen.into_inner().expect("nobody panics");
        assert!(seen.values().all(|&times| times == 1));
        assert_eq!(seen.len(), 5 * report.coalitions);
    }

    #[test]
    fn the_first_coalition_that_fails_is_named() {
        let study = study(3, ShapleyMethod::Exact {}, throughput());
        let value = |on: Coalition, _| match on.len() {
            2 => Err(SearchError::out_of_range("value", &"none", "one")),
            _ => Ok(1.0),
        };
        let error = study.run(value, &|_, _| ()).expect_err("pairs fail");
        let message = error.to_string();
        assert!(
            message.starts_with("with feature 0 + feature 1: value is none"),
            "{message}"
        );
    }
}

//! Tree-structured Parzen estimators (Bergstra et al. 2011) over the levels of knobs.
//!
//! The first candidates are drawn all alike. After that each batch weighs the objectives anew (Knowles
//! 2006: the augmented Chebyshev norm with random weights), so that batches look at different parts
//! of the front, and the estimators learn all that is known under these weights.

use foretoken::des_kernel::{RngStreams, SimRng};
use foretoken_calibrate::optimizer::Bits;
use tpe::{TpeOptimizer, categorical_range, histogram_estimator};

use crate::error::SearchError;
use crate::objective::Judged;
use crate::search::{Evaluator, Share};
use crate::space::{Digits, Grid, below};

/// Candidates between two looks at what they gave. It does not depend on the number of threads.
const BATCH: usize = 8;

/// Draws of a candidate that is not known yet; then it is drawn all alike.
const RETRIES: usize = 16;

/// How much the sum of objectives counts beside the worst of them.
const AUGMENTATION: f64 = 0.05;

pub(super) fn run(
    evaluator: &mut Evaluator<'_>,
    candidates: usize,
    streams: &RngStreams,
) -> Result<(), SearchError> {
    let grid = evaluator.grid;
    let candidates = candidates.min(usize::try_from(grid.size()).unwrap_or(usize::MAX));
    let blind = (2 * grid.lens().len()).max(2 * BATCH).min(candidates);
    let mut draws = Bits(streams.stream("tpe", 0));
    let mut known = grid.draw_different(blind, &mut draws.0);
    let mut judged = evaluator.evaluate(&known, Share::WHOLE)?;
    let mut number = 0;
    while known.len() < candidates {
        let weights = weights(
            evaluator.objectives.len(),
            &mut streams.stream("weights", number),
        );
        number += 1;
        let mut estimators = taught(grid, &known, &losses(&judged, &weights));
        let size = BATCH.min(candidates - known.len());
        let mut batch: Vec<Digits> = Vec::with_capacity(size);
        while batch.len() < size {
            let is_new = |digits: &Digits| !evaluator.knows(digits) && !batch.contains(digits);
            let asked = (0..RETRIES)
                .map(|_| grid.nearest(ask(&mut estimators, &mut draws)))
                .find(is_new);
            let digits = asked.unwrap_or_else(|| unseen(grid, &mut draws.0, is_new));
            batch.push(digits);
        }
        judged.extend(evaluator.evaluate(&batch, Share::WHOLE)?);
        known.extend(batch);
    }
    Ok(())
}

/// One estimator for each knob that has a choice, with all that is known.
fn taught(grid: &Grid, known: &[Digits], losses: &[f64]) -> Vec<Option<TpeOptimizer>> {
    let estimator = |(knob, len): (usize, usize)| {
        let range = categorical_range(len).ok().filter(|_| len > 1)?;
        let mut estimator = TpeOptimizer::new(histogram_estimator(), range);
        for (digits, &loss) in known.iter().zip(losses) {
            let told = estimator.tell(digits[knob] as f64, loss);
            debug_assert!(told.is_ok(), "a level is in range and a loss is a number");
        }
        Some(estimator)
    };
    grid.lens().into_iter().enumerate().map(estimator).collect()
}

fn ask(estimators: &mut [Option<TpeOptimizer>], draws: &mut Bits) -> Digits {
    let level = |estimator: &mut Option<TpeOptimizer>| {
        let asked = estimator.as_mut().and_then(|e| e.ask(draws).ok());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "levels come back as the whole numbers that they are"
        )]
        asked.map_or(0, |level| level as usize)
    };
    estimators.iter_mut().map(level).collect()
}

/// A candidate that is not known yet; there is one.
fn unseen(grid: &Grid, rng: &mut SimRng, is_new: impl Fn(&Digits) -> bool) -> Digits {
    for _ in 0..1000 {
        let digits = grid.draw(rng);
        if is_new(&digits) {
            return digits;
        }
    }
    // Nearly all are known, so that there are not many.
    let left: Vec<Digits> = grid.all().filter(|digits| is_new(digits)).collect();
    left[below(rng, left.len())].clone()
}

/// Weights that sum to 1, uniform over all of them.
fn weights(count: usize, rng: &mut SimRng) -> Vec<f64> {
    let parts: Vec<f64> = (0..count).map(|_| -libm::log(1.0 - rng.unit())).collect();
    let sum: f64 = parts.iter().sum();
    parts
        .into_iter()
        .map(|part| part / sum.max(1e-300))
        .collect()
}

/// One number for each candidate: up to about 1 if it is feasible, up to 3 by what it violates, 4 if it
/// has no numbers.
fn losses(judged: &[Judged], weights: &[f64]) -> Vec<f64> {
    let costs = |objective: usize| {
        let with_costs = judged.iter().filter(|j| j.is_feasible());
        with_costs.map(move |j| j.costs[objective])
    };
    let ranges: Vec<(f64, f64)> = (0..weights.len())
        .map(|objective| {
            let least = costs(objective).fold(f64::INFINITY, f64::min);
            let most = costs(objective).fold(f64::NEG_INFINITY, f64::max);
            (least, most - least)
        })
        .collect();
    let loss = |judged: &Judged| {
        if judged.violation.is_infinite() {
            return 4.0;
        }
        if !judged.is_feasible() {
            return 2.0 + judged.violation / (1.0 + judged.violation);
        }
        let shares = judged.costs.iter().zip(&ranges).zip(weights);
        let shares: Vec<f64> = shares
            .map(|((cost, (least, width)), weight)| {
                let share = if *width > 0.0 {
                    (cost - least) / width
                } else {
                    0.0
                };
                weight * share
            })
            .collect();
        let worst = shares.iter().copied().fold(0.0, f64::max);
        worst + AUGMENTATION * shares.iter().sum::<f64>()
    };
    judged.iter().map(loss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feasible_candidates_are_better_than_infeasible_ones_and_failures_are_worst() {
        let judged = |violation: f64, cost: f64| Judged {
            violation,
            costs: vec![cost, 1.0],
            exact: vec![cost, 1.0],
        };
        let all = [
            judged(0.0, 5.0),
            judged(0.0, 9.0),
            judged(0.2, 0.0),
            judged(3.0, 0.0),
            Judged::failed(),
        ];
        let losses = losses(&all, &[0.5, 0.5]);
        assert!(losses.is_sorted_by(|one, other| one < other), "{losses:?}");
    }
}

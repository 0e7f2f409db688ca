//! Successive halving (Jamieson and Talwalkar 2016): hopeless candidates are stopped early.
//!
//! A short run flatters whoever cannot keep up: queues have had no time to grow, so an overloaded
//! candidate looks better than it is. It hardly does the opposite, but for what has to warm up first (a
//! prefix cache). Hence nobody is dropped for violating a constraint as such, only for being worse than
//! others in the same part of the load; nobody counts as feasible before the whole load was run; and who
//! was stopped early is said to be so, not to be infeasible.

use crate::error::SearchError;
use crate::front::sorted;
use crate::search::{Evaluator, Share};
use crate::space::Digits;

pub(super) fn run(
    evaluator: &mut Evaluator<'_>,
    mut candidates: Vec<Digits>,
    first_share: f64,
    factor: u32,
) -> Result<(), SearchError> {
    for (count, share) in rounds(candidates.len(), first_share, factor) {
        candidates.truncate(count);
        let judged = evaluator.evaluate(&candidates, share)?;
        let order = sorted(&judged);
        candidates = order.into_iter().map(|at| candidates[at].clone()).collect();
    }
    Ok(())
}

/// How many candidates each round has, and which part of the load. The last one has the whole.
pub(super) fn rounds(candidates: usize, first_share: f64, factor: u32) -> Vec<(usize, Share)> {
    let mut rounds = Vec::new();
    let (mut count, mut times) = (candidates, 1.0);
    while first_share * times < 1.0 {
        rounds.push((count, Share::new(first_share * times)));
        count = count.div_ceil(factor as usize);
        times *= f64::from(factor);
    }
    rounds.push((count, Share::WHOLE));
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_fewer_candidates_and_more_of_the_load_up_to_the_whole() {
        let rounds = rounds(50, 0.1, 3);
        let plain: Vec<(usize, f64)> = rounds.into_iter().map(|(n, s)| (n, s.get())).collect();
        assert_eq!(plain, [(50, 0.1), (17, 0.1 * 3.0), (6, 0.9), (2, 1.0)]);
    }
}

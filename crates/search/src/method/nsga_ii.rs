//! NSGA-II (Deb et al. 2002) over the levels of knobs.
//!
//! Parents win a tournament of two, children take each knob from either parent, and a knob in expectation
//! is changed: half the time to a neighbouring level, since levels are mostly in an order, else to any.
//! A child that was run before is changed again, a few times: what is known needs no run.

use foretoken::des_kernel::{RngStreams, SimRng};

use crate::error::SearchError;
use crate::front::{crowding, ranks, sorted};
use crate::search::{Evaluator, Share};
use crate::space::{Digits, Grid, below};

/// How often a child that is known already is changed once more.
const RETRIES: usize = 16;

pub(super) fn run(
    evaluator: &mut Evaluator<'_>,
    size: usize,
    generations: u32,
    streams: &RngStreams,
) -> Result<(), SearchError> {
    let grid = evaluator.grid;
    let mut rng = streams.stream("nsga-ii", 0);
    let mut population = grid.draw_different(size, &mut rng);
    let mut judged = evaluator.evaluate(&population, Share::WHOLE)?;
    for _ in 0..generations {
        let ranks = ranks(&judged);
        let crowding = crowding(&judged, &ranks);
        let mut children: Vec<Digits> = Vec::with_capacity(size);
        while children.len() < size {
            let mut parent = || {
                let (one, other) = (below(&mut rng, ranks.len()), below(&mut rng, ranks.len()));
                let order = ranks[one]
                    .cmp(&ranks[other])
                    .then(crowding[other].total_cmp(&crowding[one]));
                &population[if order.is_le() { one } else { other }]
            };
            let (mother, father) = (parent(), parent());
            let mut child = mixed(mother, father, &mut rng);
            mutate(&mut child, grid, &mut rng);
            child = grid.nearest(child);
            for _ in 0..RETRIES {
                if !evaluator.knows(&child) && !children.contains(&child) {
                    break;
                }
                mutate(&mut child, grid, &mut rng);
                child = grid.nearest(child);
            }
            children.push(child);
        }
        judged.extend(evaluator.evaluate(&children, Share::WHOLE)?);
        population.extend(children);
        // The best of both generations live on, each once.
        let order = sorted(&judged);
        let mut next: Vec<usize> = Vec::with_capacity(size);
        for at in order {
            let is_new = next
                .iter()
                .all(|&other| population[other] != population[at]);
            if is_new && next.len() < size {
                next.push(at);
            }
        }
        population = next.iter().map(|&at| population[at].clone()).collect();
        judged = next.iter().map(|&at| judged[at].clone()).collect();
    }
    Ok(())
}

/// Each knob as one of the parents has it.
fn mixed(mother: &[usize], father: &[usize], rng: &mut SimRng) -> Digits {
    let both = mother.iter().zip(father);
    both.map(|(&mother, &father)| if rng.unit() < 0.5 { mother } else { father })
        .collect()
}

/// Changes each knob with a probability that makes one change in expectation.
fn mutate(digits: &mut [usize], grid: &Grid, rng: &mut SimRng) {
    let lens = grid.lens();
    let chance = 1.0 / lens.len() as f64;
    for (digit, len) in digits.iter_mut().zip(lens) {
        if rng.unit() >= chance {
            continue;
        }
        *digit = match below(rng, 4) {
            0 => (*digit + 1).min(len - 1),
            1 => digit.saturating_sub(1),
            _ => below(rng, len),
        };
    }
}

//! Pareto fronts: who dominates whom.

use core::cmp::Ordering;

use crate::objective::Judged;

/// Where a candidate stands among all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody is at least as good in everything.
    Front,
    /// As good as this one, which is on the front, in all objectives.
    EqualTo(usize),
    /// This one on the front is at least as good in everything, and better in something.
    DominatedBy(usize),
    /// It violates constraints.
    Infeasible,
}

/// Whether `one` is at least as good as `other` in everything, and better in something.
pub(crate) fn dominates(one: &[f64], other: &[f64]) -> bool {
    let no_worse = one.iter().zip(other).all(|(one, other)| one <= other);
    no_worse && one.iter().zip(other).any(|(one, other)| one < other)
}

/// The same with constraints first (Deb et al. 2002): feasible before infeasible, and among the
/// infeasible whoever violates less.
fn precedes(one: &Judged, other: &Judged) -> bool {
    match (one.is_feasible(), other.is_feasible()) {
        (true, true) => dominates(&one.costs, &other.costs),
        (true, false) => true,
        (false, true) => false,
        (false, false) => one.violation < other.violation,
    }
}

/// The order in which equals are named, and in which a front is listed: the first objective first,
/// to the bit.
fn by_costs(one: &Judged, other: &Judged) -> Ordering {
    let key = |judged: &Judged| judged.costs.clone().into_iter().chain(judged.exact.clone());
    key(one)
        .zip(key(other))
        .map(|(one, other)| one.total_cmp(&other))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Where each candidate stands. Of several that are equal in all objectives, the one with the best
/// exact values is on the front, the first objective deciding first, then the first of them.
pub(crate) fn standings(judged: &[Judged]) -> Vec<Standing> {
    let front = front(judged);
    let standing = |(index, candidate): (usize, &Judged)| {
        if !candidate.is_feasible() {
            return Standing::Infeasible;
        }
        if front.contains(&index) {
            return Standing::Front;
        }
        let equal = front
            .iter()
            .find(|&&member| judged[member].costs == candidate.costs);
        let better = || {
            let mut members = front.iter();
            members.find(|&&member| dominates(&judged[member].costs, &candidate.costs))
        };
        match equal {
            Some(&member) => Standing::EqualTo(member),
            None => better().map_or(Standing::Front, |&member| Standing::DominatedBy(member)),
        }
    };
    judged.iter().enumerate().map(standing).collect()
}

/// The members of the front, the best in the first objective first.
pub(crate) fn front(judged: &[Judged]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..judged.len())
        .filter(|&index| judged[index].is_feasible())
        .collect();
    sorted.sort_by(|&one, &other| by_costs(&judged[one], &judged[other]));
    // Whoever comes later in this order dominates nobody before.
    let mut front: Vec<usize> = Vec::new();
    for index in sorted {
        let costs = &judged[index].costs;
        let beaten = |&member: &usize| {
            let member = &judged[member].costs;
            member == costs || dominates(member, costs)
        };
        if !front.iter().any(beaten) {
            front.push(index);
        }
    }
    front
}

/// The rank of each candidate: 0 if nobody precedes it, 1 if only those of rank 0 do, and so on.
pub(crate) fn ranks(judged: &[Judged]) -> Vec<usize> {
    let mut ranks: Vec<Option<usize>> = vec![None; judged.len()];
    let mut left: Vec<usize> = (0..judged.len()).collect();
    let mut rank = 0;
    while !left.is_empty() {
        let is_first = |&&one: &&usize| {
            let mut others = left.iter();
            !others.any(|&other| precedes(&judged[other], &judged[one]))
        };
        let first: Vec<usize> = left.iter().filter(is_first).copied().collect();
        for &index in &first {
            ranks[index] = Some(rank);
        }
        left.retain(|&index| ranks[index].is_none());
        rank += 1;
    }
    ranks.into_iter().flatten().collect()
}

/// How far each candidate is from its neighbours of the same rank, summed over objectives (Deb et al.
/// 2002); infinite at the ends.
pub(crate) fn crowding(judged: &[Judged], ranks: &[usize]) -> Vec<f64> {
    let mut distances = vec![0.0; judged.len()];
    let worst = ranks.iter().copied().max().unwrap_or(0);
    for rank in 0..=worst {
        let mut members: Vec<usize> = (0..judged.len())
            .filter(|&index| ranks[index] == rank && !judged[index].costs.is_empty())
            .collect();
        let objectives = members
            .first()
            .map_or(0, |&index| judged[index].costs.len());
        for objective in 0..objectives {
            let cost = |index: usize| judged[index].costs[objective];
            members.sort_by(|&one, &other| cost(one).total_cmp(&cost(other)).then(one.cmp(&other)));
            let (Some(&first), Some(&last)) = (members.first(), members.last()) else {
                continue;
            };
            let width = cost(last) - cost(first);
            distances[first] = f64::INFINITY;
            distances[last] = f64::INFINITY;
            if width > 0.0 {
                for three in members.windows(3) {
                    distances[three[1]] += (cost(three[2]) - cost(three[0])) / width;
                }
            }
        }
    }
    distances
}

/// All candidates, the best first: by rank, then those with the most room around them, then in their order.
pub(crate) fn sorted(judged: &[Judged]) -> Vec<usize> {
    let ranks = ranks(judged);
    let crowding = crowding(judged, &ranks);
    let mut order: Vec<usize> = (0..judged.len()).collect();
    order.sort_by(|&one, &other| {
        ranks[one]
            .cmp(&ranks[other])
            .then(crowding[other].total_cmp(&crowding[one]))
    });
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judged(violation: f64, costs: &[f64]) -> Judged {
        Judged {
            violation,
            costs: costs.to_vec(),
            exact: costs.to_vec(),
        }
    }

    #[test]
    fn of_equals_the_first_is_on_the_front_and_others_say_so() {
        let all = [
            judged(0.0, &[1.0, 3.0]),
            judged(0.0, &[2.0, 2.0]),
            judged(0.0, &[1.0, 3.0]),
            judged(0.0, &[2.0, 3.0]),
            judged(0.5, &[0.0, 0.0]),
        ];
        let expected = [
            Standing::Front,
            Standing::Front,
            Standing::EqualTo(0),
            Standing::DominatedBy(0),
            Standing::Infeasible,
        ];
        assert_eq!(standings(&all), expected);
        assert_eq!(ranks(&all), [0, 0, 0, 1, 2]);
    }

    #[test]
    fn the_ends_of_a_rank_have_the_most_room() {
        let all = [[0.0, 4.0], [1.0, 1.0], [1.5, 0.9], [4.0, 0.0]];
        let all = all.map(|costs| judged(0.0, &costs));
        let order = sorted(&all);
        assert_eq!(order, [0, 3, 1, 2]);
    }

    #[test]
    fn the_infeasible_are_ranked_by_violation_and_failures_come_last() {
        let all = [
            Judged::failed(),
            judged(0.5, &[0.0]),
            judged(0.1, &[9.0]),
            judged(0.0, &[8.0]),
        ];
        assert_eq!(ranks(&all), [3, 2, 1, 0]);
    }

    fn candidates() -> impl Strategy<Value = Vec<Judged>> {
        // Few values, so that ties occur.
        let one = (0..3_u8, 0..5_u8, 0..5_u8, 0..5_u8);
        let one = one.prop_map(|(violation, a, b, c)| {
            judged(
                f64::from(violation.saturating_sub(1)),
                &[a.into(), b.into(), c.into()],
            )
        });
        prop::collection::vec(one, 1..40)
    }

    proptest! {
        #[test]
        fn no_member_is_dominated_and_all_others_say_by_whom(all in candidates()) {
            for (index, standing) in standings(&all).into_iter().enumerate() {
                let costs = &all[index].costs;
                let beaten = all.iter().any(|c| c.is_feasible() && dominates(&c.costs, costs));
                match standing {
                    Standing::Front => prop_assert!(all[index].is_feasible() && !beaten),
                    Standing::EqualTo(member) => {
                        prop_assert!(member != index && all[member].costs == *costs && !beaten);
                    }
                    Standing::DominatedBy(member) => {
                        prop_assert!(all[member].is_feasible() && dominates(&all[member].costs, costs));
                    }
                    Standing::Infeasible => prop_assert!(!all[index].is_feasible()),
                }
            }
        }

        #[test]
        fn the_front_does_not_depend_on_the_order(all in candidates(), turn in 0..40_usize) {
            let points = |all: &[Judged]| -> Vec<Vec<f64>> {
                front(all).into_iter().map(|index| all[index].costs.clone()).collect()
            };
            let mut turned = all.clone();
            turned.rotate_left(turn % all.len());
            turned.reverse();
            prop_assert_eq!(points(&all), points(&turned));
        }

        #[test]
        fn ranks_begin_with_the_front(all in candidates()) {
            let ranks = ranks(&all);
            let best: Vec<usize> = (0..all.len()).filter(|&index| ranks[index] == 0).collect();
            if all.iter().any(Judged::is_feasible) {
                for index in best {
                    prop_assert!(!matches!(standings(&all)[index], Standing::DominatedBy(_) | Standing::Infeasible));
                }
            }
        }
    }
}

//! Pareto fronts: who dominates whom.

use core::cmp::Ordering;

use crate::objective::Judged;

/// Where a candidate stands among all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
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
pub(crate) fn places(judged: &[Judged]) -> Vec<Place> {
    let front = front(judged);
    let place = |(index, candidate): (usize, &Judged)| {
        if !candidate.is_feasible() {
            return Place::Infeasible;
        }
        if front.contains(&index) {
            return Place::Front;
        }
        let equal = front
            .iter()
            .find(|&&member| judged[member].costs == candidate.costs);
        let better = || {
            let mut members = front.iter();
            members.find(|&&member| dominates(&judged[member].costs, &candidate.costs))
        };
        match equal {
            Some(&member) => Place::EqualTo(member),
            None => better().map_or(Place::Front, |&member| Place::DominatedBy(member)),
        }
    };
    judged.iter().enumerate().map(place).collect()
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

/// The rank of each candidate, with constraints first (Deb et al. 2002): 0 if nobody precedes it, 1 if only
/// those of rank 0 do, and so on. The feasible come before the infeasible, and of these whoever violates
/// less before who violates more.
pub(crate) fn ranks(judged: &[Judged]) -> Vec<usize> {
    let (mut feasible, mut others): (Vec<usize>, Vec<usize>) =
        (0..judged.len()).partition(|&index| judged[index].is_feasible());
    let mut ranks = vec![0; judged.len()];
    feasible.sort_by(|&one, &other| by_costs(&judged[one], &judged[other]));
    // Whoever comes later in this order dominates nobody before, and who is dominated by one of a front is
    // so by one of each front before it (Zhang et al. 2015).
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    for index in feasible {
        let costs = &judged[index].costs;
        let rank = fronts.partition_point(|front| {
            let mut members = front.iter().rev();
            members.any(|&member| dominates(&judged[member].costs, costs))
        });
        ranks[index] = rank;
        match fronts.get_mut(rank) {
            // One of several equals speaks for all.
            Some(front)
                if front
                    .last()
                    .is_some_and(|&last| judged[last].costs == *costs) => {}
            Some(front) => front.push(index),
            None => fronts.push(vec![index]),
        }
    }
    let by_violation =
        |&one: &usize, &other: &usize| judged[one].violation.total_cmp(&judged[other].violation);
    others.sort_by(by_violation);
    let alike = others.chunk_by(|one, other| by_violation(one, other).is_eq());
    for (rank, members) in (fronts.len()..).zip(alike) {
        for &index in members {
            ranks[index] = rank;
        }
    }
    ranks
}

/// How far each candidate is from its neighbours of the same rank, summed over objectives (Deb et al.
/// 2002); infinite at the ends.
pub(crate) fn crowding(judged: &[Judged], ranks: &[usize]) -> Vec<f64> {
    let mut distances = vec![0.0; judged.len()];
    let mut by_rank: Vec<usize> = (0..judged.len())
        .filter(|&index| !judged[index].costs.is_empty())
        .collect();
    by_rank.sort_by_key(|&index| ranks[index]);
    for members in by_rank.chunk_by_mut(|&one, &other| ranks[one] == ranks[other]) {
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
            Place::Front,
            Place::Front,
            Place::EqualTo(0),
            Place::DominatedBy(0),
            Place::Infeasible,
        ];
        assert_eq!(places(&all), expected);
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

    fn precedes(one: &Judged, other: &Judged) -> bool {
        match (one.is_feasible(), other.is_feasible()) {
            (true, true) => dominates(&one.costs, &other.costs),
            (true, false) => true,
            (false, true) => false,
            (false, false) => one.violation < other.violation,
        }
    }

    #[test]
    fn a_hundred_thousand_infeasible_ones_are_sorted_at_once() {
        let all: Vec<Judged> = (0..100_000_u32)
            .map(|number| judged(f64::from(100_000 - number), &[f64::from(number)]))
            .collect();
        let order = sorted(&all);
        assert!(order.is_sorted_by(|one, other| one > other));
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
            for (index, place) in places(&all).into_iter().enumerate() {
                let costs = &all[index].costs;
                let beaten = all.iter().any(|c| c.is_feasible() && dominates(&c.costs, costs));
                match place {
                    Place::Front => prop_assert!(all[index].is_feasible() && !beaten),
                    Place::EqualTo(member) => {
                        prop_assert!(member != index && all[member].costs == *costs && !beaten);
                    }
                    Place::DominatedBy(member) => {
                        prop_assert!(all[member].is_feasible() && dominates(&all[member].costs, costs));
                    }
                    Place::Infeasible => prop_assert!(!all[index].is_feasible()),
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
        fn a_rank_is_whom_nobody_that_is_left_precedes(all in candidates()) {
            let ranks = ranks(&all);
            let mut left: Vec<usize> = (0..all.len()).collect();
            let mut rank = 0;
            while !left.is_empty() {
                let beaten = |one: usize| left.iter().any(|&other| precedes(&all[other], &all[one]));
                let first: Vec<usize> = left.iter().copied().filter(|&one| !beaten(one)).collect();
                prop_assert!(first.iter().all(|&one| ranks[one] == rank));
                left.retain(|one| !first.contains(one));
                rank += 1;
            }
        }

        #[test]
        fn ranks_begin_with_the_front(all in candidates()) {
            let ranks = ranks(&all);
            let best: Vec<usize> = (0..all.len()).filter(|&index| ranks[index] == 0).collect();
            if all.iter().any(Judged::is_feasible) {
                for index in best {
                    prop_assert!(!matches!(places(&all)[index], Place::DominatedBy(_) | Place::Infeasible));
                }
            }
        }
    }
}

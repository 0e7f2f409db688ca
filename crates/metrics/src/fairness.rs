//! How evenly tenants were served.

use serde::{Deserialize, Serialize};

use crate::round::significant;

/// How evenly tenants were served: [Jain's index](jain) over them.
///
/// Tokens are those of prompts and outputs; served are those of complete requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fairness {
    /// Of the tokens that were served to each: whether all got the same.
    pub served_tokens: f64,
    /// Of the share of its demand that was served to each: whether all got as much of what they
    /// asked for. Demand is what all requests that arrived would have had as prompt and output.
    pub served_share: f64,
}

impl Fairness {
    /// From the tokens (served, demanded) of each tenant, in a fixed order; `None` for fewer than two
    /// tenants, and if nothing was served at all.
    pub(crate) fn of(tenants: &[(u64, u64)]) -> Option<Self> {
        if tenants.len() < 2 {
            return None;
        }
        let tokens = tenants.iter().map(|&(served, _)| served as f64);
        let shares = tenants
            .iter()
            .map(|&(served, demanded)| served_share(served, demanded));
        Some(Self {
            served_tokens: significant(jain(tokens)?),
            served_share: significant(jain(shares)?),
        })
    }
}

/// The share of a demand that was served, in tokens; 0 of nothing.
pub(crate) fn served_share(served: u64, demanded: u64) -> f64 {
    crate::round::share(served.into(), demanded.into())
}

/// Jain's fairness index of what each of `n` gets: `(Σx)² / (n·Σx²)`, from 1/n, if one gets all, to 1,
/// if all get the same. `None` if nobody gets anything.
///
/// R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
/// Allocation in Shared Computer Systems", DEC-TR-301, 1984.
///
/// ```
/// use foretoken_metrics::jain;
///
/// assert_eq!(jain([5.0, 5.0, 5.0, 5.0]), Some(1.0));
/// assert_eq!(jain([20.0, 0.0, 0.0, 0.0]), Some(0.25));
/// assert_eq!(jain([0.0]), None);
/// ```
pub fn jain(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the expected values are exact")]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_are_wholly_fair() {
        for tenants in [2, 3, 7, 100] {
            let fairness = Fairness::of(&vec![(700, 1_000); tenants]).expect("two or more");
            assert_eq!((fairness.served_tokens, fairness.served_share), (1.0, 1.0));
        }
    }

    #[test]
    fn one_who_takes_all_leaves_one_over_the_number_of_tenants() {
        for tenants in [2_u32, 4, 5, 10] {
            let mut each = vec![(0, 1_000); tenants as usize];
            each[1].0 = 900;
            let fairness = Fairness::of(&each).expect("two or more");
            let expected = significant(1.0 / f64::from(tenants));
            assert_eq!(fairness.served_tokens, expected);
            assert_eq!(fairness.served_share, expected);
        }
    }

    #[test]
    fn a_part_of_the_tenants_served_equally_is_the_index() {
        // k of n get the same, the others nothing: k/n.
        let each = [(50, 100), (50, 100), (50, 100), (0, 100)];
        assert_eq!(Fairness::of(&each).map(|it| it.served_tokens), Some(0.75));
    }

    #[test]
    fn who_asks_for_more_may_get_more() {
        let fairness = Fairness::of(&[(100, 200), (300, 600)]).expect("two tenants");
        assert_eq!(fairness.served_share, 1.0);
        assert_eq!(fairness.served_tokens, 0.8); // 400² / (2 · (100² + 300²))
    }

    #[test]
    fn there_is_no_fairness_of_one_or_of_nothing() {
        assert_eq!(Fairness::of(&[(5, 5)]), None);
        assert_eq!(Fairness::of(&[(0, 5), (0, 5)]), None);
    }
}

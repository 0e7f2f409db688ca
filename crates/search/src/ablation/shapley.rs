//! Shapley values: what a feature adds to those that are on before it, on average over all orders.

use std::collections::BTreeSet;

use foretoken::des_kernel::RngStreams;
use serde::{Deserialize, Serialize};

use super::coalition::Coalition;
use crate::error::SearchError;

/// How Shapley values are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ShapleyMethod {
    /// From all 2ⁿ coalitions of at most 12 features.
    Exact {},
    /// From random orders, each with its reverse: the error of the mean over these pairs is reported.
    #[serde(rename_all = "kebab-case")]
    Sampled {
        /// Pairs of orders, 2 to 10000.
        pairs: u32,
    },
}

/// Features whose coalitions are all evaluated unless it is said otherwise.
const EXACT_BY_DEFAULT: usize = 10;

/// Features whose coalitions can all be evaluated.
const EXACT_AT_MOST: usize = 12;

impl ShapleyMethod {
    /// Exact for at most 10 features, else 32 pairs of orders.
    pub const fn of(features: usize) -> Self {
        if features <= EXACT_BY_DEFAULT {
            Self::Exact {}
        } else {
            Self::Sampled { pairs: 32 }
        }
    }

    /// The plan for so many features.
    pub(super) fn plan(self, features: usize) -> Result<Orders, SearchError> {
        match self {
            Self::Exact {} if features > EXACT_AT_MOST => Err(SearchError::out_of_range(
                "method",
                &format!("exact for {features} features"),
                format!("exact for at most {EXACT_AT_MOST} features, or sampled"),
            )),
            Self::Exact {} => Ok(Orders::All { features }),
            Self::Sampled { pairs } if !(2..=10_000).contains(&pairs) => Err(
                SearchError::out_of_range("method.sampled.pairs", &pairs, "2 to 10000"),
            ),
            Self::Sampled { pairs } => Ok(Orders::Drawn(drawn(features, pairs))),
        }
    }
}

/// Orders in which features are switched on.
#[derive(Debug, Clone)]
pub(super) enum Orders {
    /// All of them.
    All { features: usize },
    /// Some, each of which goes with its reverse.
    Drawn(Vec<Vec<usize>>),
}

fn drawn(features: usize, pairs: u32) -> Vec<Vec<usize>> {
    // The draws describe the method and not the experiment: they are the same for all seeds.
    let mut stream = RngStreams::new(0, 0).stream("ablation.orders", 0);
    let mut order: Vec<usize> = (0..features).collect();
    let pairs = (0..pairs).map(|_| {
        stream.shuffle(&mut order);
        order.clone()
    });
    pairs.collect()
}

fn reversed(order: &[usize]) -> Vec<usize> {
    order.iter().rev().copied().collect()
}

impl Orders {
    /// The coalitions whose values are needed.
    pub(super) fn coalitions(&self) -> BTreeSet<Coalition> {
        match self {
            Self::All { features } => Coalition::subsets(*features).collect(),
            Self::Drawn(orders) => {
                let both = orders
                    .iter()
                    .flat_map(|order| [order.clone(), reversed(order)]);
                both.flat_map(|order| Coalition::prefixes(&order).collect::<Vec<_>>())
                    .collect()
            }
        }
    }

    /// Each feature's mean gain, by the independent parts of the method: one part if it is exact, else
    /// one for each pair of orders. The mean over the parts is the value; in each part the values sum to
    /// the gain of all features.
    pub(super) fn parts(&self, value: impl Fn(Coalition) -> f64) -> Vec<Vec<f64>> {
        match self {
            Self::All { features } => vec![exact(*features, value)],
            Self::Drawn(orders) => {
                let pair = |order: &Vec<usize>| {
                    let there = along(order, &value);
                    let back = along(&reversed(order), &value);
                    let both = there.iter().zip(&back);
                    both.map(|(there, back)| f64::midpoint(*there, *back))
                        .collect()
                };
                orders.iter().map(pair).collect()
            }
        }
    }
}

/// What each feature adds if they are switched on in this order.
fn along(order: &[usize], value: impl Fn(Coalition) -> f64) -> Vec<f64> {
    let values: Vec<f64> = Coalition::prefixes(order).map(value).collect();
    let mut gains = vec![0.0; order.len()];
    for (&feature, step) in order.iter().zip(values.windows(2)) {
        gains[feature] = step[1] - step[0];
    }
    gains
}

/// The sum over all coalitions without the feature, each with the share of orders in which it is what
/// comes before.
fn exact(features: usize, value: impl Fn(Coalition) -> f64) -> Vec<f64> {
    let values: Vec<f64> = Coalition::subsets(features).map(value).collect();
    let of = |coalition: Coalition| values[coalition.index()];
    let shares: Vec<f64> = (0..features)
        .map(|before| share(features, before))
        .collect();
    let gain = |feature: usize| {
        let others = Coalition::subsets(features).filter(|others| !others.contains(feature));
        let gains = others
            .map(|others| shares[others.len() as usize] * (of(others.with(feature)) - of(others)));
        gains.sum()
    };
    (0..features).map(gain).collect()
}

/// 1 / (n × (n−1 over `before`)): the share of orders in which certain features, so many, come before
/// a certain other one, and the rest after it.
fn share(features: usize, before: usize) -> f64 {
    let choices = (0..before).fold(1.0, |choices, taken| {
        choices * (features - 1 - taken) as f64 / (taken + 1) as f64
    });
    1.0 / (features as f64 * choices)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mean(parts: &[Vec<f64>]) -> Vec<f64> {
        let count = parts.len() as f64;
        let of = |feature| parts.iter().map(|part| part[feature]).sum::<f64>() / count;
        (0..parts[0].len()).map(of).collect()
    }

    fn values(
        method: ShapleyMethod,
        features: usize,
        value: impl Fn(Coalition) -> f64,
    ) -> Vec<f64> {
        let orders = method.plan(features).expect("it can be done");
        mean(&orders.parts(value))
    }

    /// The glove game: feature 0 is a left glove, 1 and 2 are right ones; a pair is worth 1.
    #[test]
    fn gloves_have_their_textbook_values() {
        let pair = |on: Coalition| {
            f64::from(u8::from(
                on.contains(0) && (on.contains(1) || on.contains(2)),
            ))
        };
        let values = values(ShapleyMethod::Exact {}, 3, pair);
        for (value, expected) in values.iter().zip([2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]) {
            assert!((value - expected).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn methods_that_cannot_be_followed_are_refused() {
        for (method, features, field) in [
            (ShapleyMethod::Exact {}, 13, "method"),
            (
                ShapleyMethod::Sampled { pairs: 1 },
                3,
                "method.sampled.pairs",
            ),
        ] {
            let error = method.plan(features).expect_err("it cannot be done");
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }

    /// A value for each coalition.
    fn games(features: usize) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-1e6_f64..1e6, 1 << features)
    }

    fn games_of_all_sizes() -> impl Strategy<Value = (usize, Vec<f64>)> {
        (1_usize..7).prop_flat_map(|features| (Just(features), games(features)))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn values_sum_to_the_gain_of_all((features, game) in games_of_all_sizes()) {
            let value = |on: Coalition| game[on.index()];
            let total = value(Coalition::all(features)) - value(Coalition::NONE);
            for method in [ShapleyMethod::Exact {}, ShapleyMethod::Sampled { pairs: 5 }] {
                let sum: f64 = values(method, features, value).iter().sum();
                prop_assert!((sum - total).abs() <= 1e-9 * 1e6, "{sum} is not {total}");
            }
        }

        #[test]
        fn a_feature_that_does_nothing_is_worth_nothing((features, game) in games_of_all_sizes()) {
            let idle = features;
            let value = |on: Coalition| game[on.without(idle).index()];
            for method in [ShapleyMethod::Exact {}, ShapleyMethod::Sampled { pairs: 5 }] {
                let values = values(method, features + 1, value);
                prop_assert!(values[idle].abs() == 0.0);
            }
        }

        #[test]
        fn features_that_do_the_same_are_worth_the_same(game in games(4)) {
            // Features 0 and 1 count alike: only how many of them are on matters.
            let value = |on: Coalition| {
                let twins = usize::from(on.contains(0)) + usize::from(on.contains(1));
                game[twins + 3 * (on.index() >> 2)]
            };
            let values = values(ShapleyMethod::Exact {}, 4, value);
            prop_assert!((values[0] - values[1]).abs() < 1e-9 * 1e6);
        }

        /// By the definition: the mean over all orders.
        #[test]
        fn exact_values_are_the_mean_over_all_orders(game in games(3)) {
            let value = |on: Coalition| game[on.index()];
            let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
            let all: Vec<Vec<f64>> = orders.iter().map(|order| along(order, value)).collect();
            for (exact, mean) in exact(3, value).iter().zip(mean(&all)) {
                prop_assert!((exact - mean).abs() < 1e-9 * 1e6);
            }
        }

        /// Pairs of features are all that interact: an order and its reverse together are exact.
        #[test]
        fn an_order_and_its_reverse_are_exact_for_pairs(weights in games(5)) {
            let value = |on: Coalition| {
                let mut sum = 0.0;
                for one in 0..5 {
                    for two in 0..=one {
                        if on.contains(one) && on.contains(two) {
                            sum += weights[one * 5 + two];
                        }
                    }
                }
                sum
            };
            let sampled = values(ShapleyMethod::Sampled { pairs: 2 }, 5, value);
            for (one, other) in sampled.iter().zip(exact(5, value)) {
                prop_assert!((one - other).abs() < 1e-9 * 1e7);
            }
        }
    }
}

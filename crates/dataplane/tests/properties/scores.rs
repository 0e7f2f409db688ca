//! Scores and totals.

use foretoken_dataplane::pipeline::handlers::SingleProfileHandler;
use foretoken_dataplane::pipeline::pickers::{MaxScorePicker, Ties};
use foretoken_dataplane::pipeline::{Plugins, Profile};
use foretoken_dataplane::{GatewayContext, Pipeline, Router, Scorer};
use foretoken_des_kernel::{RngStreams, SimTime};
use proptest::prelude::*;

use crate::setting::{Known, all_scorers, order_free_scorers, pool, request, views};

/// What a scorer gives all endpoints.
fn scores(plugin: &mut dyn Scorer, pool: &[Known], tokens: u32) -> Vec<f64> {
    let (endpoints, signals) = views(pool);
    let mut rng = RngStreams::new(1, 0).stream("scores", 0);
    let mut cx = GatewayContext::with_signals(SimTime::ZERO, &endpoints, &signals, &mut rng);
    let everyone = cx.everyone();
    let mut scores = vec![0.0; endpoints.len()];
    plugin.score(&request(tokens).view(), &everyone, &mut cx, &mut scores);
    scores
}

proptest! {
    #[test]
    fn scores_are_numbers_and_totals_are_within_the_sum_of_weights(
        pool in pool(),
        tokens in 1..10_000_u32,
        weights in proptest::collection::vec(0.0..10.0, 19),
    ) {
        let mut plugins = Plugins::default();
        let picker = plugins.add_picker(Box::new(MaxScorePicker::new(3, Ties::Random)));
        let mut profile = Profile::new("default", picker);
        let scorers = all_scorers();
        prop_assert_eq!(scorers.len(), weights.len());
        for (scorer, &weight) in scorers.into_iter().zip(&weights) {
            let id = plugins.add_scorer(scorer);
            profile.add_scorer(weight, id);
        }
        let handler = Box::new(SingleProfileHandler);
        let mut pipeline = Pipeline::from_parts(plugins, vec![profile], handler);

        let (endpoints, signals) = views(&pool);
        let mut rng = RngStreams::new(1, 0).stream("scores", 0);
        let mut cx = GatewayContext::with_signals(SimTime::ZERO, &endpoints, &signals, &mut rng);
        let placement = pipeline.route(&request(tokens).view(), &mut cx);

        let run = pipeline.run("default").expect("the profile");
        let most: f64 = weights.iter().sum();
        prop_assert!(run.totals().iter().all(|total| (0.0..=most + 1e-9).contains(total)));
        let finite = |scorer| run.scores(scorer).iter().all(|score| score.is_finite());
        prop_assert!((0..weights.len()).all(finite));
        prop_assert!(run.picks().iter().all(|pick| run.candidates().contains(pick)));
        prop_assert_eq!(run.picks().len(), pool.len().min(3));
        let best = run.totals().iter().copied().fold(f64::MIN, f64::max);
        prop_assert!(run.totals()[run.picks()[0]] >= best);
        prop_assert_eq!(placement.map(|p| p.endpoint.index()), run.best());
    }

    #[test]
    fn reordered_endpoints_get_the_same_scores(
        (pool, order) in pool().prop_flat_map(|pool| {
            let order: Vec<_> = (0..pool.len()).collect();
            (Just(pool), Just(order).prop_shuffle())
        }),
        tokens in 1..10_000_u32,
    ) {
        let reordered: Vec<_> = order.iter().map(|&position| pool[position].clone()).collect();
        for (number, mut plugin) in order_free_scorers().into_iter().enumerate() {
            let before = scores(&mut *plugin, &pool, tokens);
            let after = scores(&mut *plugin, &reordered, tokens);
            let expected: Vec<_> = order.iter().map(|&position| before[position]).collect();
            prop_assert_eq!(expected, after, "scorer {}", number);
        }
    }
}

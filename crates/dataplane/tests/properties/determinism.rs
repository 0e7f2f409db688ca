//! The same stream gives the same decisions.

use foretoken_dataplane::pipeline::pickers::WeightedRandomPicker;
use foretoken_dataplane::pipeline::scorers::{NoHitLruScorer, QueueScorer};
use foretoken_dataplane::{GatewayContext, Pipeline, Placement, Router};
use foretoken_des_kernel::{RngStreams, SimTime};
use proptest::prelude::*;

use crate::setting::{Known, pool, request, views};

fn decisions(pool: &[Known], seed: u64) -> Vec<Option<Placement>> {
    let (endpoints, signals) = views(pool);
    let mut pipeline = Pipeline::new()
        .scorer(1.0, QueueScorer)
        .scorer(2.0, NoHitLruScorer::default())
        .picker(WeightedRandomPicker::default());
    let mut rng = RngStreams::new(seed, 0).stream("decisions", 0);
    let mut decide = || {
        let request = request(100);
        let mut cx = GatewayContext::with_signals(SimTime::ZERO, &endpoints, &signals, &mut rng);
        let placement = pipeline.route(&request.view(), &mut cx);
        if let Some(placement) = &placement {
            pipeline.placed(&request.view(), placement, &cx);
        }
        placement
    };
    (0..20).map(|_| decide()).collect()
}

proptest! {
    #[test]
    fn decisions_repeat_with_their_stream(pool in pool(), seed in any::<u64>()) {
        prop_assert_eq!(decisions(&pool, seed), decisions(&pool, seed));
    }
}

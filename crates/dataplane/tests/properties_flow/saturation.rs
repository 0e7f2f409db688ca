//! Properties of saturation.

use foretoken_dataplane::saturation::Aggregate;
use proptest::prelude::*;

use crate::cases;

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn aggregates_lie_among_the_loads(
        loads in prop::collection::vec(0.0..5.0f64, 1..20),
        share in 0.0..1.0f64,
    ) {
        let smallest = loads.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = Aggregate::Max.of(loads.iter().copied());
        let mean = Aggregate::Mean.of(loads.iter().copied());
        let quantile = Aggregate::Quantile(share).of(loads.iter().copied());
        prop_assert!(mean >= smallest - 1e-12 && mean <= largest + 1e-12);
        prop_assert!(loads.contains(&largest) && loads.contains(&quantile));
        let below = loads.iter().filter(|&&load| load <= quantile).count();
        prop_assert!(below as f64 >= share * loads.len() as f64 - 1e-9);
        let whole = Aggregate::Quantile(1.0).of(loads.iter().copied());
        prop_assert!(whole.total_cmp(&largest).is_eq());
    }
}

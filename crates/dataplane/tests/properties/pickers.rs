//! Picks.

use foretoken_dataplane::Picker;
use foretoken_dataplane::pipeline::pickers::{
    MaxScorePicker, RandomPicker, Ties, WeightedRandomPicker,
};
use foretoken_des_kernel::RngStreams;
use proptest::collection::vec;
use proptest::prelude::*;

fn pickers(count: i64) -> Vec<Box<dyn Picker>> {
    vec![
        Box::new(MaxScorePicker::new(count, Ties::Random)),
        Box::new(MaxScorePicker::new(count, Ties::First)),
        Box::new(RandomPicker {
            max_endpoints: count,
        }),
        Box::new(WeightedRandomPicker::new(count)),
    ]
}

proptest! {
    #[test]
    fn the_largest_total_is_picked_as_if_all_were_shuffled_and_sorted(
        totals in vec(prop_oneof![Just(0.0), Just(1.0), -2.0..8.0], 1..12),
        seed in any::<u64>(),
    ) {
        let stream = RngStreams::new(seed, 0).stream("picks", 0);
        let (mut rng, mut other, mut picks) = (stream.clone(), stream, Vec::new());
        MaxScorePicker::default().pick(&totals, &mut rng, &mut picks);
        let mut order: Vec<usize> = (0..totals.len()).collect();
        other.shuffle(&mut order);
        order.sort_by(|&one, &two| totals[two].total_cmp(&totals[one]));
        prop_assert_eq!(picks, [order[0]]);
        prop_assert_eq!(rng, other);
    }

    #[test]
    fn picks_are_different_candidates_and_as_many_as_wanted(
        totals in vec(prop_oneof![Just(0.0), Just(1.0), -2.0..8.0], 1..12),
        count in -2..15_i64,
        seed in any::<u64>(),
    ) {
        let mut rng = RngStreams::new(seed, 0).stream("picks", 0);
        for mut picker in pickers(count) {
            let mut picks = Vec::new();
            picker.pick(&totals, &mut rng, &mut picks);
            let wanted = usize::try_from(count.max(1)).expect("a small count");
            prop_assert_eq!(picks.len(), wanted.min(totals.len()));
            picks.sort_unstable();
            picks.dedup();
            prop_assert_eq!(picks.len(), wanted.min(totals.len()));
            prop_assert!(picks.iter().all(|&pick| pick < totals.len()));
        }
    }
}

/// How often each place is the first pick.
fn counts(picker: &mut dyn Picker, totals: &[f64], draws: u32) -> Vec<u32> {
    let mut rng = RngStreams::new(20_260_822, 0).stream("picks", 0);
    let mut counts = vec![0; totals.len()];
    let mut picks = Vec::new();
    for _ in 0..draws {
        picks.clear();
        picker.pick(totals, &mut rng, &mut picks);
        counts[picks[0]] += 1;
    }
    counts
}

/// Pearson's statistic of counts whose expectations are positive.
fn chi_square(counts: &[u32], probabilities: &[f64]) -> f64 {
    let draws = f64::from(counts.iter().sum::<u32>());
    let terms = counts.iter().zip(probabilities).map(|(&count, p)| {
        let expected = draws * p;
        (f64::from(count) - expected) * (f64::from(count) - expected) / expected
    });
    terms.sum()
}

#[test]
fn weighted_random_picks_in_proportion_to_totals() {
    let totals = [0.1, 0.4, 0.5, 2.0, 1.0];
    let probabilities = totals.map(|total| total / 4.0);
    let counts = counts(&mut WeightedRandomPicker::default(), &totals, 50_000);
    // Four degrees of freedom: 18.5 is exceeded once in a thousand seeds.
    assert!(chi_square(&counts, &probabilities) < 18.5, "{counts:?}");
}

#[test]
fn tiny_totals_keep_their_proportions() {
    let counts = counts(&mut WeightedRandomPicker::default(), &[1e-6, 3e-6], 20_000);
    // One degree of freedom: 10.8 is exceeded once in a thousand seeds.
    assert!(chi_square(&counts, &[0.25, 0.75]) < 10.8, "{counts:?}");
}

#[test]
fn candidates_without_a_positive_total_are_not_drawn_first() {
    let counts = counts(
        &mut WeightedRandomPicker::default(),
        &[0.0, 0.2, -1.0],
        1000,
    );
    assert_eq!(counts, [0, 1000, 0]);
}

#[test]
fn ties_are_broken_uniformly() {
    let totals = [3.0, 1.0, 3.0, 3.0, 3.0];
    let taken = counts(&mut MaxScorePicker::default(), &totals, 40_000);
    assert_eq!(taken[1], 0);
    let tied = [taken[0], taken[2], taken[3], taken[4]];
    // Three degrees of freedom: 16.3 is exceeded once in a thousand seeds.
    assert!(chi_square(&tied, &[0.25; 4]) < 16.3, "{taken:?}");
    let uniform = counts(&mut RandomPicker::default(), &totals, 40_000);
    assert!(chi_square(&uniform, &[0.2; 5]) < 18.5, "{uniform:?}");
}

//! Tests of exact quantiles.

use super::*;

#[test]
fn nothing_has_no_quantiles() {
    let mut empty = Quantiles::new();
    empty.record_n(3, 0);
    assert_eq!((empty.quantile(0.5), empty.mean()), (None, None));
    assert_eq!(empty.fraction_at_most(3), None);
}

#[test]
fn impossible_quantiles_are_refused() {
    let mut one = Quantiles::from_iter([1]);
    assert_eq!((one.quantile(-0.01), one.quantile(1.01)), (None, None));
    assert_eq!(one.quantile(f64::NAN), None);
}

#[test]
fn a_lone_value_is_every_quantile() {
    let mut one = Quantiles::from_iter([42]);
    for q in [0.0, 0.3, 1.0] {
        assert_eq!(one.quantile(q), Some(42.0));
    }
}

#[test]
fn quantiles_equal_those_of_numpy() {
    // numpy.quantile([3, 1, 4, 1, 5, 9, 2, 6], [0, .1, .25, .5, .77, .99, 1])
    let mut digits = Quantiles::from_iter([3, 1, 4, 1, 5, 9, 2, 6]);
    let expected = [
        (0.0, 1.0),
        (0.1, 1.0),
        (0.25, 1.75),
        (0.5, 3.5),
        (0.77, 5.39),
        (0.99, 8.79),
    ];
    for (q, value) in expected {
        let got = digits.quantile(q).expect("there are values");
        assert!(
            (got - value).abs() < 1e-12,
            "quantile {q} is {got}, expected {value}"
        );
    }
    assert_eq!(digits.quantile(1.0), Some(9.0));
}

#[test]
fn recording_goes_on_after_a_question() {
    let mut values = Quantiles::from_iter([5, 3]);
    assert_eq!(values.quantile(1.0), Some(5.0));
    values.record(1);
    values.record(5);
    assert_eq!(values.quantile(0.0), Some(1.0));
    assert_eq!(values.runs().collect::<Vec<_>>(), [(1, 1), (3, 1), (5, 2)]);
}

#[test]
fn memory_follows_the_distinct_values() {
    let mut values = Quantiles::new();
    for number in 0..1_000_000_u64 {
        values.record(number * 7_919 % 1_000);
    }
    let entries = values.sorted.len() + values.recent.len();
    assert!(entries <= SMALL + 1_000, "{entries} entries");
    assert_eq!(values.quantile(0.5), Some(499.5));
    assert_eq!(values.sorted.len(), 1_000);
}

/// Many values, most of them close together, each as often as its number says.
fn many() -> impl Iterator<Item = (u64, u64)> {
    (0..1_500_000_u64).map(|number| {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let value = match number % 97 {
            0 => mixed * 1_000,
            _ => 7_000_000 + mixed % 300_000,
        };
        (value, 1 + number % 3)
    })
}

fn told(runs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut times = std::collections::BTreeMap::new();
    for (value, count) in runs {
        *times.entry(value).or_default() += count;
    }
    times.into_iter().collect()
}

#[test]
fn counting_what_lies_close_together_changes_nothing() {
    let mut values = Quantiles::new();
    let (mut counted, mut copies) = (false, Vec::new());
    for (number, (value, times)) in many().enumerate() {
        values.record_each([value], times);
        counted |= values.window.is_open();
        if number % 500_000 == 499_999 {
            copies.push(values.clone());
        }
    }
    assert!(counted);
    let mut merged = Quantiles::from_iter([1]);
    merged.merge(&copies[1]);
    let mut two = told(many().take(1_000_000).chain([(1, 1)]));
    assert!(merged.runs().eq(two.iter().copied()));
    assert_eq!(copies[0].quantile(0.3), copies[0].clone().quantile(0.3));
    merged.merge(&copies[0]);
    two = told(two.into_iter().chain(many().take(500_000)));
    assert!(merged.runs().eq(two.iter().copied()));

    let all = told(many());
    let count: u64 = all.iter().map(|run| run.1).sum();
    assert_eq!(values.count(), count);
    assert!(values.runs().eq(all.iter().copied()));
    let mut tally = Tally::new();
    for &(value, times) in &all {
        tally.record_n(value, times);
    }
    assert_eq!(values.tally(), tally);
}

#[test]
fn a_value_that_comes_more_often_than_a_counter_counts_is_not_lost() {
    let mut values: Quantiles = (0..3).flat_map(|_| 0..100_000).collect();
    assert!(values.window.is_open());
    let often = (1 << 20) - 1;
    for _ in 0..400_000 {
        values.record_n(7, often);
        values.record_n(9, often);
    }
    let seldom = values.runs().filter(|run| run.1 == 3).count();
    assert_eq!(seldom, 100_000 - 2);
    let most: Vec<_> = values.runs().filter(|run| run.1 > 3).collect();
    let times = 400_000 * often + 3;
    assert_eq!(most, [(7, times), (9, times)]);
}

#[test]
fn what_is_recorded_together_is_recorded_one_by_one() {
    let rows: [&[u64]; 5] = [&[5, 5, 6, 5], &[], &[5, u64::MAX, 5], &[5], &[1 << 50]];
    for times in [0, 1, 3, 1 << 20, 1 << 40] {
        let (mut together, mut alone) = (Quantiles::new(), Quantiles::new());
        for row in rows {
            together.record_each(row.iter().copied(), times);
            for &value in row {
                alone.record_n(value, times);
            }
        }
        assert_eq!(together.tally(), alone.tally());
        assert!(together.runs().eq(alone.runs()), "{times} times");
    }
}

#[test]
fn merging_decides_nothing_for_who_is_merged() {
    let mut limited = Quantiles::limited(500);
    limited.extend((0..=SMALL as u64).map(|number| number % 400));
    limited.extend(1_000..1_300);
    let mut all = Quantiles::from_iter([2_000]);
    all.merge(&limited);
    assert!(all.is_exact() && !limited.is_exact());
    assert_eq!(all.runs().count(), 701);
}

#[test]
fn large_and_small_collections_merge_alike() {
    let sizes = [0, 1, 100, 5_000, 300_000];
    let of = |size: u64, from: u64| (0..size).map(|n| from + n * 3).collect::<Quantiles>();
    for (left, right) in sizes.into_iter().flat_map(|l| sizes.map(|r| (l, r))) {
        let mut merged = of(left, 0);
        merged.merge(&of(right, 3));
        let both = (0..left)
            .map(|n| (n * 3, 1))
            .chain((0..right).map(|n| (3 + n * 3, 1)));
        assert!(merged.runs().eq(told(both)), "{left} and {right}");
    }
}

#[test]
fn values_are_rounded_if_they_are_too_many_counted_or_not() {
    let all = told(many());
    for (limit, is_exact) in [(all.len(), true), (all.len() - 1, false)] {
        let mut values = Quantiles::limited(limit);
        many().for_each(|(value, times)| values.record_n(value, times));
        assert_eq!(values.is_exact(), is_exact);
        if !is_exact {
            let close = told(all.iter().map(|run| (rounded(run.0), run.1)));
            assert!(values.runs().eq(close));
        }
    }
}

#[test]
fn a_merge_equals_recording_everything() {
    let mut left = Quantiles::from_iter([5, 1, 1]);
    let right = Quantiles::from_iter([1, 9]);
    left.merge(&right);
    assert_eq!(left.runs().collect::<Vec<_>>(), [(1, 3), (5, 1), (9, 1)]);
    assert_eq!(left.tally(), Tally::from_iter([1, 1, 1, 5, 9]));
}

/// Values of any size, without an order.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(|number| {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> (number % 50)
    })
}

#[test]
fn no_value_and_no_multiplicity_is_too_large() {
    let mut values = Quantiles::from_iter([7, u64::MAX, 3]);
    values.record_n(5, 1 << 40);
    values.record_n(1 << 44, 2);
    values.record((1 << 44) - 1);
    values.record_n(5, 1);
    values.record(u64::MAX);
    let expected = [
        (3, 1),
        (5, (1 << 40) + 1),
        (7, 1),
        ((1 << 44) - 1, 1),
        (1 << 44, 2),
        (u64::MAX, 2),
    ];
    assert_eq!(values.runs().collect::<Vec<_>>(), expected);
}

#[test]
fn many_values_are_found_by_rank() {
    let mut expected: Vec<_> = scattered(50_000).chain(scattered(20_000)).collect();
    let mut values: Quantiles = expected.iter().copied().collect();
    expected.sort_unstable();
    let last = expected.len() - 1;
    for rank in [0, 1, 255, 256, 4_095, 4_096, 30_000, 65_535, last - 1, last] {
        let q = rank as f64 / last as f64;
        let got = values.quantile(q).expect("there are values");
        let expected = expected[rank] as f64;
        assert!((got - expected).abs() <= expected * 1e-6);
    }
    assert!(values.is_exact());
}

#[test]
fn beyond_the_limit_values_are_rounded_whatever_their_order() {
    let all: Vec<_> = scattered(50_000).collect();
    let mut exact: Quantiles = all.iter().copied().collect();
    let fill = |values: &mut dyn Iterator<Item = u64>| {
        let mut limited = Quantiles::limited(20_000);
        limited.extend(values);
        limited
    };
    let mut forth = fill(&mut all.iter().copied());
    let mut back = fill(&mut all.iter().copied().rev());
    assert!(!forth.is_exact() && !back.is_exact());
    assert!(forth.runs().eq(back.runs()));
    assert_eq!(forth.tally(), exact.tally());
    for percent in 0..=100_u32 {
        let q = f64::from(percent) / 100.0;
        let (close, exact) = (forth.quantile(q), exact.quantile(q));
        let (close, exact) = close.zip(exact).expect("there are values");
        assert!((close - exact).abs() <= exact * Quantiles::ROUNDING_ERROR);
    }
    assert_eq!(forth.quantile(0.0), exact.quantile(0.0));
    assert_eq!(forth.quantile(1.0), exact.quantile(1.0));
    let mut whole = Quantiles::new();
    whole.merge(&exact);
    whole.merge(&forth);
    assert!(!whole.is_exact());
    assert_eq!(whole.count(), 100_000);
}

#[test]
fn at_the_limit_values_are_exact() {
    for numbers in [20_000, 20_001] {
        for ascending in [true, false] {
            let mut limited = Quantiles::limited(20_000);
            limited.extend((0..numbers).map(
                |number| {
                    if ascending { number } else { numbers - number }
                },
            ));
            limited.extend(0..10);
            assert_eq!(
                limited.is_exact(),
                numbers + u64::from(!ascending) <= 20_000
            );
        }
    }
}

#[test]
fn rounding_twice_is_rounding_once() {
    for value in scattered(10_000).chain([0, 1, 2_047, 2_048, 2_049, u64::MAX]) {
        let once = rounded(value);
        assert_eq!(rounded(once), once);
        assert!(once.abs_diff(value) as f64 <= value as f64 * Quantiles::ROUNDING_ERROR);
    }
}

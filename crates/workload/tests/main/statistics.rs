//! What the tests of distributions share. Seeds are fixed, so nothing here fails by chance; all tests
//! are at a significance of 0.1 %.

/// The largest distance between a sample and a distribution function (Kolmogorov and Smirnov), times
/// the root of the sample's size: above 1.95 once in a thousand. Of whole numbers give the
/// distribution function of what was rounded, half a unit above them: the test is then milder, not
/// wrong.
pub(crate) fn distance_to(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let size = sample.len() as f64;
    let mut seen = 0;
    let mut largest: f64 = 0.0;
    for equal in sample.chunk_by(|a, b| a.total_cmp(b).is_eq()) {
        let expected = cdf(equal[0]);
        // Just below a value the sample's distribution function is one step of 1/size lower. That
        // matters to the test by a thousandth of its limit, and for whole numbers it would be wrong.
        seen += equal.len();
        largest = largest.max((seen as f64 / size - expected).abs());
    }
    largest * size.sqrt()
}

/// Asserts that a sample may come from a distribution.
pub(crate) fn assert_law(name: &str, sample: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    assert!(sample.len() >= 1_000, "{name}: {} draws", sample.len());
    let distance = distance_to(sample, cdf);
    assert!(distance < 1.95, "{name}: {distance}");
}

/// Asserts by chi-squared that counts may have these shares. Cells of which fewer than five are
/// expected are taken together.
pub(crate) fn assert_shares(name: &str, counts: &[u64], weights: &[f64]) {
    assert_eq!(counts.len(), weights.len(), "{name}");
    let all: u64 = counts.iter().sum();
    let sum: f64 = weights.iter().sum();
    let (mut cells, mut rest) = (Vec::new(), (0.0, 0.0));
    for (&count, weight) in counts.iter().zip(weights) {
        let expected = all as f64 * weight / sum;
        if expected >= 5.0 {
            cells.push((count as f64, expected));
        } else {
            assert!(
                expected > 0.0 || count == 0,
                "{name}: {count} of what has no weight"
            );
            rest = (rest.0 + count as f64, rest.1 + expected);
        }
    }
    if rest.1 >= 5.0 {
        cells.push(rest);
    }
    let chi_squared: f64 = cells
        .iter()
        .map(|(seen, expected)| (seen - expected) * (seen - expected) / expected)
        .sum();
    let limit = chi_squared_limit(cells.len() as f64 - 1.0);
    assert!(
        chi_squared < limit,
        "{name}: chi-squared {chi_squared} above {limit}: {counts:?}"
    );
}

/// What chi-squared with so many degrees of freedom exceeds once in a thousand (Wilson and Hilferty).
fn chi_squared_limit(freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    let root = 1.0 - spread + 3.090_232 * spread.sqrt();
    freedom * root * root * root
}

pub(crate) fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

pub(crate) fn variance(sample: &[f64]) -> f64 {
    let mean = mean(sample);
    let squares = sample.iter().map(|x| (x - mean) * (x - mean));
    squares.sum::<f64>() / (sample.len() as f64 - 1.0)
}

/// Spearman's rank correlation; equal values share their mean rank.
pub(crate) fn rank_correlation(left: &[f64], right: &[f64]) -> f64 {
    let (left, right) = (ranks(left), ranks(right));
    let (left_mean, right_mean) = (mean(&left), mean(&right));
    let products = left
        .iter()
        .zip(&right)
        .map(|(l, r)| (l - left_mean) * (r - right_mean));
    let covariance = products.sum::<f64>() / (left.len() as f64 - 1.0);
    covariance / (variance(&left) * variance(&right)).sqrt()
}

fn ranks(sample: &[f64]) -> Vec<f64> {
    let mut order: Vec<_> = (0..sample.len()).collect();
    order.sort_by(|&a, &b| sample[a].total_cmp(&sample[b]));
    let mut ranks = vec![0.0; sample.len()];
    let mut first = 0;
    for group in order.chunk_by(|&a, &b| sample[a].total_cmp(&sample[b]).is_eq()) {
        let rank = first as f64 + 0.5 * (group.len() as f64 - 1.0);
        for &index in group {
            ranks[index] = rank;
        }
        first += group.len();
    }
    ranks
}

#[test]
fn the_tests_of_distributions_tell_them_apart() {
    let grid = |n: u32| (0..n).map(move |k| (f64::from(k) + 0.5) / f64::from(n));
    assert!(distance_to(grid(10_000).collect(), |x| x) < 0.1);
    assert!(distance_to(grid(10_000).map(|x| x * 0.97).collect(), |x| x) > 1.95);
    let dice: Vec<_> = (0..6_000).map(|k| f64::from(k % 6 + 1)).collect();
    let fair = |x: f64| (x.floor() / 6.0).clamp(0.0, 1.0);
    assert!(distance_to(dice.clone(), fair) < 0.1);
    assert!(distance_to(dice, |x| fair(x) * fair(x)) > 1.95);
    assert_shares("even", &[500, 510, 490], &[1.0, 1.0, 1.0]);
    assert!((chi_squared_limit(9.0) - 27.877).abs() < 0.3);
    let up: Vec<_> = grid(100).collect();
    let down: Vec<_> = up.iter().map(|x| -x).collect();
    assert!((rank_correlation(&up, &up) - 1.0).abs() < 1e-12);
    assert!((rank_correlation(&up, &down) + 1.0).abs() < 1e-12);
}

#[test]
#[should_panic(expected = "uneven")]
fn uneven_counts_are_noticed() {
    assert_shares("uneven", &[400, 500, 600], &[1.0, 1.0, 1.0]);
}

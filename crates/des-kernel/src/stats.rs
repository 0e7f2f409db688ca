//! What is counted while time passes.
//!
//! | Question | Type | Memory |
//! |---|---|---|
//! | How many, how much on average, how spread? | [`Tally`] | constant |
//! | How high was the gauge over time? | [`Level`], [`LevelTimes`] | constant; one entry per level |
//! | Which value do 99 % stay below, exactly? | [`Quantiles`] | one entry per distinct value, and counters |
//! | The same within 0.4 %, for any number of values? | [`Sketch`] | constant (60 kB at most) |
//!
//! All of them keep integers and divide when asked: the result does not depend on the order in
//! which values came, nor on how a run was split before its parts were merged.

mod level;
mod quantile;
mod ranks;
mod run;
mod sketch;
mod tally;
mod wide;
mod window;

pub use level::{Level, LevelTimes};
pub use quantile::Quantiles;
pub use sketch::Sketch;
pub use tally::Tally;

/// The two order statistics around quantile `q` of `count` sorted values, as zero-based ranks, and
/// how far to go from the first to the second.
///
/// This is the "linear" definition, number 7 of Hyndman and Fan (1996), and the default of `NumPy`.
/// `None` without values and for `q` outside `[0, 1]`.
fn closest_ranks(q: f64, count: u64) -> Option<(u64, u64, f64)> {
    if count == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let last = count - 1;
    let position = q * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the position lies between zero and the last rank"
    )]
    let below = (position.floor() as u64).min(last);
    // Beyond 2^53 values the position has no fraction and may be rounded beyond the last rank.
    let fraction = (position - below as f64).clamp(0.0, 1.0);
    Some((below, (below + 1).min(last), fraction))
}

/// Goes from `low` to `high` by `fraction`, from the nearer end, so that both ends are exact.
fn interpolate(low: f64, high: f64, fraction: f64) -> f64 {
    let width = high - low;
    if fraction < 0.5 {
        low + width * fraction
    } else {
        high - width * (1.0 - fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_ranks_are_those_of_the_linear_definition() {
        assert_eq!(closest_ranks(0.0, 4), Some((0, 1, 0.0)));
        assert_eq!(closest_ranks(0.5, 4), Some((1, 2, 0.5)));
        assert_eq!(closest_ranks(1.0, 4), Some((3, 3, 0.0)));
        assert_eq!(closest_ranks(0.7, 1), Some((0, 0, 0.0)));
    }

    #[test]
    fn no_values_and_impossible_quantiles_have_no_ranks() {
        assert_eq!(closest_ranks(0.5, 0), None);
        for q in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(closest_ranks(q, 10), None);
        }
    }

    #[test]
    fn ranks_stay_in_range_for_huge_counts() {
        let (below, above, fraction) = closest_ranks(1.0, u64::MAX).expect("there are values");
        assert_eq!((below, above), (u64::MAX - 1, u64::MAX - 1));
        assert!((0.0..=1.0).contains(&fraction));
    }
}

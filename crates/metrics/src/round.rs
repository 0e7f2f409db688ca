//! Numbers as reports print them.

use foretoken_des_kernel::SimDuration;

/// `part / whole` of integers, divided once; 0 of nothing.
pub(crate) fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The [`share`] as reports print it; none of nothing.
pub(crate) fn share_of_some(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| significant(share(part.into(), whole.into())))
}

/// `count` per second of `span`; 0 if that is empty.
pub(crate) fn per_second(count: u64, span: SimDuration) -> f64 {
    significant(share(
        u128::from(count) * 1_000_000_000,
        span.as_nanos().into(),
    ))
}

/// Rounds to 12 significant decimal digits: beyond any accuracy that a number in a report has, and
/// few enough that printing it as JSON and parsing it again gives the same bits with any parser.
pub(crate) fn significant(value: f64) -> f64 {
    decimal::<12>(value)
}

/// Rounds to 5 significant decimal digits, for curves.
pub(crate) fn rough(value: f64) -> f64 {
    decimal::<5>(value)
}

/// Goes through text, since printing and parsing are exact and the same everywhere, which scaling
/// by powers of ten is not.
fn decimal<const DIGITS: usize>(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1)
        .parse()
        .expect("a printed number can be parsed")
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "rounding is exact")]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_the_leading_digits() {
        assert_eq!(significant(1.0 / 3.0), 0.333_333_333_333);
        assert_eq!(significant(123_456_789_012_345.0), 123_456_789_012_000.0);
        assert_eq!(rough(2.0 / 3.0), 0.666_67);
        assert_eq!(rough(0.0), 0.0);
    }

    #[test]
    fn a_share_of_nothing_is_zero() {
        assert_eq!(share(5, 0), 0.0);
        assert_eq!(share(1, 4), 0.25);
    }
}

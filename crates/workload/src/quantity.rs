//! Checked numbers: a value that exists is valid.

use core::fmt;

use foretoken_des_kernel::SimDuration;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;

/// The longest [`Seconds`]: what 64-bit nanoseconds hold, rounded down.
const MAX_SECONDS: f64 = 1.8e10;

/// The highest [`Rate`]: a million requests per second, beyond any deployment.
const MAX_RATE: f64 = 1e6;

/// Defines a newtype of `f64` for finite numbers above 0 and up to `$max`.
macro_rules! positive_number {
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:expr, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[derive(schemars::JsonSchema)]
        #[schemars(extend("exclusiveMinimum" = 0))]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// The checked number.
            ///
            /// # Errors
            #[doc = concat!("[`WorkloadError::OutOfRange`] unless `value` is ", $allowed, ".")]
            pub fn new(value: f64) -> Result<Self, WorkloadError> {
                // The comparisons are false for NaN.
                if value > 0.0 && value <= $max {
                    Ok(Self(value))
                } else {
                    Err(WorkloadError::out_of_range($field, value, $allowed))
                }
            }

            /// The number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = WorkloadError;
            fn try_from(value: f64) -> Result<Self, WorkloadError> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> Self {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

positive_number! {
    /// A rate, per second: above 0, at most a million.
    ///
    /// ```
    /// use foretoken_workload::Rate;
    ///
    /// let rate = Rate::new(2.5)?;
    /// assert_eq!(rate.to_string(), "2.5");
    /// let error = Rate::new(-1.0).unwrap_err();
    /// assert_eq!(error.to_string(), "rate is -1: allowed is above 0 and at most 1e6");
    /// # Ok::<(), foretoken_workload::WorkloadError>(())
    /// ```
    Rate, "rate", MAX_RATE, "above 0 and at most 1e6"
}

positive_number! {
    /// A span in seconds, as configurations give it: above 0, at most 1.8e10 (about 570 years).
    Seconds, "duration", MAX_SECONDS, "above 0 and at most 1.8e10 seconds"
}

positive_number! {
    /// A finite number above 0: a shape, a scale, a coefficient of variation.
    Positive, "value", f64::MAX, "a finite number above 0"
}

impl Positive {
    /// 1.
    pub const ONE: Self = Self(1.0);
}

impl Seconds {
    /// The span, to the nearest nanosecond.
    #[expect(
        clippy::missing_panics_doc,
        reason = "the constructor checked the range"
    )]
    pub fn to_duration(self) -> SimDuration {
        SimDuration::try_from_secs_f64(self.0).expect("the range was checked when it was made")
    }
}

/// The nearest integer; what lies outside of `u64` becomes its nearest end, NaN 0.
pub(crate) fn round_u64(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, which is what is wanted"
    )]
    let whole = value as u64;
    // Exact: a number that has a fraction differs from its whole part by that. Cheaper than
    // `f64::round`, which is a call.
    if value - whole as f64 >= 0.5 {
        whole.saturating_add(1)
    } else {
        whole
    }
}

/// The nearest integer; what lies outside of `u32` becomes its nearest end, NaN 0.
pub(crate) fn round_u32(value: f64) -> u32 {
    u32::try_from(round_u64(value)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_floats_and_saturates() {
        let mut values = vec![
            0.499_999_999_999_999_94,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        values.extend([
            4_503_599_627_370_495.5,
            4_503_599_627_370_497.0,
            1.8e19,
            1.9e19,
        ]);
        values.extend((0..2_000).map(|n| f64::from(n) * 0.25));
        for value in values.into_iter().flat_map(|value| [value, -value]) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            let expected = value.round() as u64;
            assert_eq!(round_u64(value), expected, "{value}");
        }
    }

    #[test]
    fn a_rate_is_finite_and_above_zero() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Rate::new(wrong).is_err(), "{wrong}");
        }
        assert!(Rate::new(1e-9).is_ok());
    }

    #[test]
    fn seconds_fit_in_nanoseconds_up_to_their_end() {
        let longest = Seconds::new(1.8e10).expect("the end is allowed");
        assert_eq!(
            longest.to_duration(),
            SimDuration::from_secs(18_000_000_000)
        );
        assert!(Seconds::new(1.9e10).is_err());
    }

    #[test]
    fn a_wrong_rate_in_a_file_is_refused_with_its_value() {
        let error = serde_json::from_str::<Rate>("-2.0").expect_err("negative");
        assert!(error.to_string().contains("rate is -2"), "{error}");
        let rate: Rate = serde_json::from_str("2.5").expect("positive");
        assert_eq!(serde_json::to_string(&rate).expect("a number"), "2.5");
    }

    #[test]
    fn rounding_saturates() {
        assert_eq!(round_u32(2.5), 3);
        assert_eq!(round_u32(-7.0), 0);
        assert_eq!(round_u32(f64::NAN), 0);
        assert_eq!(round_u32(1e300), u32::MAX);
    }
}

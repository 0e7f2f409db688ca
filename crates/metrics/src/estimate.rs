//! [`Estimate`]: a mean, and how far it may be off.

use core::fmt;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::round::significant;

/// The mean of some independent values with its confidence interval, `mean ± half_width`, by
/// Student's t distribution.
///
/// Repetitions of a run are independent; parts of one run are not, but means over long parts of it
/// nearly are: [`of_batch_means`](Self::of_batch_means).
///
/// ```
/// use foretoken_metrics::{Estimate, Verdict};
///
/// // Throughput of two policies in five repetitions each, with the same seeds.
/// let (one, other) = ([9.8, 10.4, 10.1, 9.9, 10.3], [10.0, 10.5, 10.4, 10.0, 10.6]);
/// let gain = Estimate::of_differences(&one, &other).expect("five pairs");
/// assert_eq!(gain.to_string(), "0.20 ± 0.12");
/// assert_eq!(gain.verdict(), Verdict::Above);
/// // Without pairs the repetitions hide what the policies differ by.
/// let apart = [one, other].map(|values| Estimate::of(&values).expect("five values"));
/// assert!(apart[0].high() > apart[1].low());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the confidence interval; `None` of a single value, which says nothing of how
    /// far it may be off.
    pub half_width: Option<f64>,
    /// The share of such intervals that hold the true mean: 0.95, unless another was asked for.
    pub confidence: f64,
    /// How many values, or batches.
    pub n: usize,
}

/// How an [`Estimate`] compares with 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// The whole interval is above 0.
    Above,
    /// The whole interval is below 0.
    Below,
    /// The interval holds 0, or there is none.
    NotDistinguishable,
}

const CONFIDENCE: f64 = 0.95;

impl Estimate {
    /// The mean of independent values, with 95 % confidence; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::at(CONFIDENCE, values)
    }

    /// The mean of independent values; `None` of none, or unless `confidence` lies between 0 and 1.
    pub fn at(confidence: f64, values: &[f64]) -> Option<Self> {
        if values.is_empty() || !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let (n, count) = (values.len(), values.len() as f64);
        let mean = values.iter().sum::<f64>() / count;
        let half_width = (n > 1).then(|| {
            let squares = values.iter().map(|value| (value - mean) * (value - mean));
            let variance = squares.sum::<f64>() / (count - 1.0);
            significant(student_t(count - 1.0, confidence) * (variance / count).sqrt())
        });
        Some(Self {
            mean: significant(mean),
            half_width,
            confidence,
            n,
        })
    }

    /// The mean of values of one run, in their order, by the means of so many batches of equal length,
    /// with 95 % confidence. Values that are near each other depend on each other; the means of batches
    /// much longer than that do not.
    ///
    /// What does not divide is left out at the front, where a run is least settled. `None` with fewer
    /// values than batches, or without batches.
    ///
    /// ```
    /// use foretoken_metrics::Estimate;
    ///
    /// // Ten values that repeat each other five times each say no more than ten.
    /// let values: Vec<f64> = (0..50).map(|i| f64::from(i / 5 % 2)).collect();
    /// let (all, batches) = (Estimate::of(&values), Estimate::of_batch_means(&values, 10));
    /// assert!(batches.and_then(|b| b.half_width) > all.and_then(|a| a.half_width));
    /// ```
    pub fn of_batch_means(values: &[f64], batches: usize) -> Option<Self> {
        let length = values
            .len()
            .checked_div(batches)
            .filter(|&length| length > 0)?;
        let means: Vec<f64> = values[values.len() - batches * length..]
            .chunks_exact(length)
            .map(|batch| batch.iter().sum::<f64>() / length as f64)
            .collect();
        Self::of(&means)
    }

    /// By how much `after` is above `before`, pair by pair, with 95 % confidence: what two candidates
    /// with the same seeds differ by. `None` without pairs, or if one has more values than the other.
    pub fn of_differences(before: &[f64], after: &[f64]) -> Option<Self> {
        if before.len() != after.len() {
            return None;
        }
        let pairs = before.iter().zip(after);
        let differences: Vec<f64> = pairs.map(|(before, after)| after - before).collect();
        Self::of(&differences)
    }

    /// The lower end of the interval; the mean if there is none.
    pub fn low(&self) -> f64 {
        self.mean - self.half_width.unwrap_or(0.0)
    }

    /// The upper end of the interval; the mean if there is none.
    pub fn high(&self) -> f64 {
        self.mean + self.half_width.unwrap_or(0.0)
    }

    /// How it compares with 0. Values that are all alike and not 0 leave no doubt.
    pub fn verdict(&self) -> Verdict {
        match self.half_width {
            Some(_) if self.low() > 0.0 => Verdict::Above,
            Some(_) if self.high() < 0.0 => Verdict::Below,
            _ => Verdict::NotDistinguishable,
        }
    }
}

/// `mean ± half width`, with two digits after the point unless another precision is asked for.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$}", self.mean)?;
        match self.half_width {
            Some(half_width) => write!(f, " ± {half_width:.digits$}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Above => "above",
            Self::Below => "below",
            Self::NotDistinguishable => "not distinguishable",
        })
    }
}

/// What a variate of Student's t distribution stays within, on either side of 0, with that probability.
fn student_t(freedom: f64, confidence: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, freedom).expect("there are two values at least");
    distribution.inverse_cdf(0.5 + confidence / 2.0)
}

#[cfg(test)]
mod tests {
    use foretoken_des_kernel::RngStreams;

    use super::*;

    fn close(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-3 * expected.abs()
    }

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        for (freedom, confidence, expected) in [
            (1.0, 0.95, 12.706),
            (2.0, 0.95, 4.303),
            (4.0, 0.95, 2.776),
            (9.0, 0.95, 2.262),
            (9.0, 0.99, 3.250),
            (29.0, 0.95, 2.045),
            (120.0, 0.95, 1.980),
            (5.0, 0.90, 2.015),
            (1e4, 0.95, 1.960),
        ] {
            let t = student_t(freedom, confidence);
            assert!(close(t, expected), "{freedom} {confidence}: {t}");
        }
    }

    #[test]
    fn an_interval_is_as_wide_as_textbooks_say() {
        // Standard deviation 1, so that the half width is 2.776 / sqrt 5, for an interval of 95 %.
        let root = 2.5_f64.sqrt();
        let values = [-2.0, -1.0, 0.0, 1.0, 2.0].map(|value| 7.0 + value / root);
        let estimate = Estimate::of(&values).expect("five values");
        let half_width = estimate.half_width.expect("more than one value");
        assert!(close(estimate.mean, 7.0) && close(half_width, 1.2416));
        assert!(close(estimate.low(), 5.7584) && close(estimate.high(), 8.2416));
        let wider = Estimate::at(0.99, &values).expect("five values");
        assert!(wider.half_width > estimate.half_width);
    }

    #[test]
    fn what_cannot_be_estimated_is_not() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::at(1.0, &[1.0, 2.0]), None);
        assert_eq!(Estimate::at(f64::NAN, &[1.0, 2.0]), None);
        assert_eq!(Estimate::of_batch_means(&[1.0, 2.0], 3), None);
        assert_eq!(Estimate::of_batch_means(&[1.0, 2.0], 0), None);
        assert_eq!(Estimate::of_differences(&[1.0], &[1.0, 2.0]), None);
        let single = Estimate::of(&[3.0]).expect("one value");
        assert_eq!((single.half_width, single.n), (None, 1));
        assert_eq!(single.verdict(), Verdict::NotDistinguishable);
        assert_eq!(single.to_string(), "3.00");
    }

    #[test]
    fn a_verdict_needs_the_whole_interval_on_one_side() {
        let verdict = |values: &[f64]| Estimate::of(values).expect("values").verdict();
        assert_eq!(verdict(&[1.0, 1.1, 0.9]), Verdict::Above);
        assert_eq!(verdict(&[-1.0, -1.1, -0.9]), Verdict::Below);
        assert_eq!(verdict(&[1.0, -0.9, 0.1]), Verdict::NotDistinguishable);
        // No doubt where all are alike, and no difference where all are 0.
        assert_eq!(verdict(&[2.0, 2.0]), Verdict::Above);
        assert_eq!(verdict(&[0.0, 0.0]), Verdict::NotDistinguishable);
    }

    #[test]
    fn batches_leave_out_what_does_not_divide_at_the_front() {
        let estimate = Estimate::of_batch_means(&[100.0, 1.0, 2.0, 3.0, 4.0], 2).expect("batches");
        assert!(close(estimate.mean, 2.5));
        assert_eq!(estimate.n, 2);
    }

    #[test]
    fn ninety_five_of_a_hundred_intervals_hold_the_mean() {
        let mut rng = RngStreams::new(1, 0).stream("estimates", 0);
        let held = (0..2_000).filter(|_| {
            let values: Vec<f64> = (0..6).map(|_| rng.unit() + rng.unit() - 1.0).collect();
            let estimate = Estimate::of(&values).expect("six values");
            estimate.verdict() == Verdict::NotDistinguishable
        });
        let share = held.count() as f64 / 2_000.0;
        assert!((0.94..0.965).contains(&share), "{share}");
    }
}

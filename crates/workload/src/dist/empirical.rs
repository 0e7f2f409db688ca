//! [`Empirical`]: given values with weights.

use foretoken_des_kernel::SimRng;

use crate::error::WorkloadError;
use crate::quantity::round_u64;

/// What weights that are not integers sum to.
const WHOLE: f64 = 4_503_599_627_370_496.0;

/// Given values with integer weights, drawn without rounding.
///
/// ```
/// use foretoken_des_kernel::RngStreams;
/// use foretoken_workload::dist::Empirical;
///
/// let lengths = Empirical::new([(128, 3), (4096, 1)])?;
/// let mut rng = RngStreams::new(1, 0).stream("example", 0);
/// assert!([128, 4096].contains(lengths.sample(&mut rng)));
/// # Ok::<(), foretoken_workload::WorkloadError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Empirical<T> {
    values: Vec<T>,
    /// Sum of the weights up to and with each value; strictly increasing.
    cumulative: Vec<u64>,
}

impl<T> Empirical<T> {
    /// Values with their weights; those of weight 0 are dropped.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] if no weight is above 0, [`WorkloadError::OutOfRange`] if the
    /// weights sum to more than 64 bits hold.
    pub fn new(weighted: impl IntoIterator<Item = (T, u64)>) -> Result<Self, WorkloadError> {
        let mut values = Vec::new();
        let mut cumulative = Vec::new();
        let mut sum = 0_u64;
        for (value, weight) in weighted.into_iter().filter(|&(_, weight)| weight > 0) {
            sum = sum.checked_add(weight).ok_or_else(|| {
                let total = sum as f64 + weight as f64;
                WorkloadError::out_of_range("weights", total, "a sum below 2^64")
            })?;
            values.push(value);
            cumulative.push(sum);
        }
        if values.is_empty() {
            return Err(WorkloadError::missing(
                "weights",
                "at least one weight above 0",
            ));
        }
        Ok(Self { values, cumulative })
    }

    /// Values with weights of any size, as configurations give them. They become integers with a sum
    /// of about 2^52, so that shares are exact to 16 digits.
    ///
    /// # Errors
    /// [`WorkloadError`] naming `weights` if one is negative, infinite or NaN, or if none is above 0.
    pub fn weighted(weighted: impl IntoIterator<Item = (T, f64)>) -> Result<Self, WorkloadError> {
        let weighted: Vec<_> = weighted.into_iter().collect();
        let sum = weighted.iter().map(|&(_, weight)| weight).sum::<f64>();
        let wrong = |&weight: &f64| !(weight >= 0.0 && weight.is_finite());
        let wrong = weighted.iter().map(|&(_, weight)| weight).find(wrong);
        // The sum of finite weights may still be infinite.
        if let Some(weight) = wrong.or((sum == f64::INFINITY).then_some(sum)) {
            return Err(WorkloadError::out_of_range(
                "weights",
                weight,
                "finite numbers from 0 with a finite sum",
            ));
        }
        let share = |weight: f64| round_u64(weight / sum * WHOLE);
        Self::new(
            weighted
                .into_iter()
                .map(|(value, weight)| (value, share(weight))),
        )
    }

    /// One of the values.
    pub fn sample(&self, rng: &mut SimRng) -> &T {
        let total = self.cumulative[self.cumulative.len() - 1];
        let draw = rng.below(total);
        &self.values[self.cumulative.partition_point(|&sum| sum <= draw)]
    }

    /// The values that can be drawn, each with its share of all draws.
    pub fn shares(&self) -> impl Iterator<Item = (&T, f64)> {
        let total = self.cumulative[self.cumulative.len() - 1] as f64;
        let before = core::iter::once(&0).chain(&self.cumulative);
        let weights = self
            .cumulative
            .iter()
            .zip(before)
            .map(|(to, from)| to - from);
        self.values
            .iter()
            .zip(weights.map(move |weight| weight as f64 / total))
    }
}

//! [`Space`]: which parameters are searched, and within which bounds.

use serde::Serialize;

use crate::error::CalibrateError;

/// A parameter that a fit may move.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The least value that physics allows.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// Where the search starts.
    pub start: f64,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// How steps of the search are measured.
    pub scale: Scale,
}

/// How a parameter's range is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Scale {
    /// By differences.
    #[default]
    Linear,
    /// By ratios: for what may lie anywhere in several orders of magnitude.
    Logarithmic,
}

impl Parameter {
    /// A parameter between `low` and `high`, walked by differences.
    ///
    /// # Errors
    /// [`CalibrateError::OutOfRange`] unless `low < high`, both finite, and `start` is between them.
    pub fn new(
        name: impl Into<String>,
        low: f64,
        high: f64,
        start: f64,
        unit: impl Into<String>,
    ) -> Result<Self, CalibrateError> {
        let name = name.into();
        if !(low.is_finite() && high.is_finite() && low < high) {
            return Err(CalibrateError::out_of_range(
                format!("{name}: low"),
                &low,
                format!("finite and below high, which is {high}"),
            ));
        }
        if !(low..=high).contains(&start) {
            return Err(CalibrateError::out_of_range(
                format!("{name}: start"),
                &start,
                format!("{low} to {high}"),
            ));
        }
        Ok(Self {
            name,
            low,
            high,
            start,
            unit: unit.into(),
            scale: Scale::Linear,
        })
    }

    /// The same, walked by ratios.
    ///
    /// # Errors
    /// [`CalibrateError::OutOfRange`] unless `low` is above 0.
    pub fn logarithmic(mut self) -> Result<Self, CalibrateError> {
        if self.low <= 0.0 {
            return Err(CalibrateError::out_of_range(
                format!("{}: low", self.name),
                &self.low,
                "above 0 for a parameter that is walked by ratios",
            ));
        }
        self.scale = Scale::Logarithmic;
        Ok(self)
    }

    /// The value at a share of the range.
    fn at(&self, share: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => self.low + share * (self.high - self.low),
            Scale::Logarithmic => self.low * libm::pow(self.high / self.low, share),
        };
        value.clamp(self.low, self.high)
    }

    fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => libm::log(value / self.low) / libm::log(self.high / self.low),
        };
        share.clamp(0.0, 1.0)
    }
}

/// The box of all candidates. Optimizers walk the unit cube and translate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Space {
    parameters: Vec<Parameter>,
    #[serde(skip)]
    digits: Option<u32>,
}

impl Space {
    /// The space of these parameters.
    ///
    /// # Errors
    /// [`CalibrateError::OutOfRange`] if there is none, or if two have one name.
    pub fn new(parameters: Vec<Parameter>) -> Result<Self, CalibrateError> {
        if parameters.is_empty() {
            return Err(CalibrateError::out_of_range(
                "parameters",
                &"empty",
                "at least one",
            ));
        }
        for (index, parameter) in parameters.iter().enumerate() {
            if parameters[..index].iter().any(|p| p.name == parameter.name) {
                return Err(CalibrateError::out_of_range(
                    "parameters",
                    &format!("{} twice", parameter.name),
                    "each name once",
                ));
            }
        }
        Ok(Self {
            parameters,
            digits: None,
        })
    }

    /// The same space with all candidates rounded to so many significant digits, at most 15: what is
    /// written to a file is then exactly what was measured.
    #[must_use]
    pub fn rounded(mut self, digits: u32) -> Self {
        self.digits = Some(digits.clamp(1, 15));
        self
    }

    /// The same space with another start; values beyond the bounds are moved to them.
    ///
    /// # Errors
    /// [`CalibrateError::OutOfRange`] unless there is one number for each parameter.
    pub fn starting_at(mut self, values: &[f64]) -> Result<Self, CalibrateError> {
        if values.len() != self.len() || values.iter().any(|v| v.is_nan()) {
            return Err(CalibrateError::out_of_range(
                "start",
                &format!("{values:?}"),
                format!("{} numbers", self.len()),
            ));
        }
        for (parameter, value) in self.parameters.iter_mut().zip(values) {
            parameter.start = value.clamp(parameter.low, parameter.high);
        }
        Ok(self)
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// How many parameters.
    pub fn len(&self) -> usize {
        self.parameters.len()
    }

    /// Never: a space has at least one parameter.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Where the search starts.
    pub fn start(&self) -> Vec<f64> {
        self.values(&self.start_shares())
    }

    /// Where the search starts, in the unit cube.
    pub(super) fn start_shares(&self) -> Vec<f64> {
        self.parameters.iter().map(|p| p.share(p.start)).collect()
    }

    /// The point of the unit cube that a candidate is at.
    pub(super) fn shares(&self, values: &[f64]) -> Vec<f64> {
        let share = |(parameter, value): (&Parameter, &f64)| parameter.share(*value);
        self.parameters.iter().zip(values).map(share).collect()
    }

    /// How far a candidate is from the start, for each parameter, as a share of its range.
    pub(crate) fn distances(&self, values: &[f64]) -> impl Iterator<Item = f64> {
        let shares = self.shares(values).into_iter().zip(self.start_shares());
        shares.map(|(at, start)| at - start)
    }

    /// The candidate at a point of the unit cube.
    pub(super) fn values(&self, shares: &[f64]) -> Vec<f64> {
        let value = |(parameter, share): (&Parameter, &f64)| {
            let value = parameter.at(*share);
            self.digits.map_or(value, |digits| {
                round(value, digits).clamp(parameter.low, parameter.high)
            })
        };
        self.parameters.iter().zip(shares).map(value).collect()
    }
}

/// `value` to so many significant digits.
fn round(value: f64, digits: u32) -> f64 {
    // Through decimal text: multiplying by powers of ten would leave the last bits to chance.
    let places = digits.saturating_sub(1) as usize;
    format!("{value:.places$e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(low: f64, high: f64, start: f64) -> Parameter {
        Parameter::new("x", low, high, start, "us").expect("a valid range")
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        for (low, high, start) in [
            (1.0, 1.0, 1.0),
            (2.0, 1.0, 1.5),
            (0.0, f64::INFINITY, 1.0),
            (f64::NAN, 1.0, 0.5),
            (0.0, 1.0, 1.5),
            (0.0, 1.0, f64::NAN),
        ] {
            let error = Parameter::new("x", low, high, start, "us").expect_err("refused");
            assert!(error.to_string().contains('x'), "{error}");
        }
        let error = parameter(0.0, 1.0, 0.5).logarithmic().expect_err("refused");
        assert!(error.to_string().contains("above 0"), "{error}");
    }

    #[test]
    fn a_space_needs_parameters_with_names_of_their_own() {
        assert!(Space::new(Vec::new()).is_err());
        let twice = vec![parameter(0.0, 1.0, 0.5), parameter(0.0, 2.0, 0.5)];
        let error = Space::new(twice).expect_err("refused");
        assert!(error.to_string().contains("x twice"), "{error}");
    }

    #[test]
    fn a_logarithmic_range_has_its_geometric_mean_in_the_middle() {
        let space = Space::new(vec![
            parameter(1.0, 100.0, 10.0)
                .logarithmic()
                .expect("low is above 0"),
        ])
        .expect("one parameter");
        assert!((space.start_shares()[0] - 0.5).abs() < 1e-12);
        assert!((space.values(&[0.5])[0] - 10.0).abs() < 1e-12);
        assert_eq!(space.values(&[1.0]), [100.0]);
    }

    #[test]
    fn rounded_candidates_have_their_shortest_text() {
        let space = Space::new(vec![parameter(0.0, 10.0, 1.234_56)]).expect("one parameter");
        assert_eq!(space.rounded(3).start(), [1.23]);
        for (value, text) in [(0.000_123_456, "0.000123"), (5_237.0, "5240"), (0.0, "0")] {
            assert_eq!(round(value, 3).to_string(), text);
        }
    }

    #[test]
    fn rounding_stays_within_the_bounds() {
        let space = Space::new(vec![parameter(0.0, 1.2345, 1.0)]).expect("one parameter");
        assert_eq!(space.clone().rounded(2).values(&[1.0]), [1.2]);
        let above = Space::new(vec![parameter(0.0, 1.267, 1.0)]).expect("one parameter");
        assert_eq!(above.rounded(2).values(&[1.0]), [1.267]);
    }

    #[test]
    fn a_start_outside_the_bounds_is_moved_to_them() {
        let space = Space::new(vec![parameter(0.0, 1.0, 0.5)]).expect("one parameter");
        let moved = space.clone().starting_at(&[7.0]).expect("one number");
        assert_eq!(moved.start(), [1.0]);
        assert!(space.starting_at(&[1.0, 2.0]).is_err());
    }
}

//! [`Environment`]: what candidates are looked up in, and what one run of a candidate gave.

use foretoken::hwspec::Catalog;
use foretoken::{Fleet, Physics, Prediction, Prices, Scenario};

use crate::error::SearchError;

/// What names mean and what things cost: the same for all candidates.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Accelerators and models.
    pub catalog: Catalog,
    /// The parameters of the latency models.
    pub physics: Physics,
    /// What accelerators cost.
    pub prices: Prices,
}

/// What one run of a scenario gave.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The run in numbers.
    pub prediction: Prediction,
    /// What served.
    pub fleet: Fleet,
}

impl Environment {
    /// The built-in catalog, coefficients and list prices.
    pub fn builtin() -> Self {
        Self {
            catalog: Catalog::builtin(),
            physics: Physics::default(),
            prices: Prices::default(),
        }
    }

    /// Runs a scenario.
    ///
    /// # Errors
    /// As [`Scenario::predict`].
    pub fn measure(&self, scenario: &Scenario) -> Result<Measured, SearchError> {
        let resolved = scenario.resolve(&self.catalog, &self.physics)?;
        let prediction = scenario.predict_with(&resolved)?;
        let fleet = Fleet::of(&resolved, &self.prices);
        Ok(Measured { prediction, fleet })
    }
}

//! [`Measure`]: a number of a run, and which way is better.

use core::fmt;
use std::sync::Arc;

use crate::compare::Observed;
use crate::metric::{Direction, Metric};

type Read = dyn Fn(&Observed) -> Option<f64> + Send + Sync;

/// A number of a run, and which way is better: a [`Metric`], or anything else that can be read of a report.
///
/// ```
/// use foretoken_search::Direction;
/// use foretoken_search::compare::Measure;
///
/// let shed = Measure::new("shed", Direction::Minimise, |observed| {
///     Some(observed.report.overall.counts.rejected_total() as f64)
/// });
/// assert_eq!(shed.name(), "shed");
/// ```
#[derive(Clone)]
pub struct Measure {
    name: String,
    direction: Direction,
    read: Arc<Read>,
}

impl fmt::Debug for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measure")
            .field("name", &self.name)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}

impl Measure {
    /// A number of one's own.
    pub fn new(
        name: impl Into<String>,
        direction: Direction,
        read: impl Fn(&Observed) -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            direction,
            read: Arc::new(read),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which way is better.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The number; `None` if the run has none.
    pub fn of(&self, observed: &Observed) -> Option<f64> {
        (self.read)(observed)
    }
}

impl From<Metric> for Measure {
    fn from(metric: Metric) -> Self {
        Self::new(metric.to_string(), metric.direction(), move |observed| {
            let Observed {
                report,
                fleet,
                energy,
            } = observed;
            metric.read(report, fleet.as_ref(), energy.as_ref())
        })
    }
}

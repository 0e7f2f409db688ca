//! [`Objective`]s and [`Constraint`]s: what makes one candidate better than another.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::error::SearchError;
use crate::metric::{Direction, Metric};

/// A number that is to be small, or large. In files `{ minimise: METRIC }` or `{ maximise: METRIC }`.
///
/// ```
/// use foretoken_search::Objective;
///
/// let objective: Objective = serde_json::from_str(r#"{ "minimise": "ttft-p99-ms", "resolution": 10 }"#)?;
/// assert_eq!(objective.to_string(), "minimise ttft-p99-ms");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawObjective", into = "RawObjective")]
pub struct Objective {
    /// Which number.
    pub metric: Metric,
    /// Where to.
    pub direction: Direction,
    /// Values count as multiples of this, to the nearest: what rounds to the same multiple is equally good.
    /// By default every difference counts.
    pub resolution: Option<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawObjective {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minimise: Option<Metric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maximise: Option<Metric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolution: Option<f64>,
}

impl TryFrom<RawObjective> for Objective {
    type Error = &'static str;

    fn try_from(raw: RawObjective) -> Result<Self, Self::Error> {
        let (metric, direction) = match (raw.minimise, raw.maximise) {
            (Some(metric), None) => (metric, Direction::Minimise),
            (None, Some(metric)) => (metric, Direction::Maximise),
            _ => return Err("an objective has one of minimise and maximise"),
        };
        Ok(Self {
            metric,
            direction,
            resolution: raw.resolution,
        })
    }
}

impl From<Objective> for RawObjective {
    fn from(objective: Objective) -> Self {
        let metric = |direction| (objective.direction == direction).then_some(objective.metric);
        Self {
            minimise: metric(Direction::Minimise),
            maximise: metric(Direction::Maximise),
            resolution: objective.resolution,
        }
    }
}

impl Objective {
    /// The number is to be small.
    pub const fn minimise(metric: Metric) -> Self {
        Self {
            metric,
            direction: Direction::Minimise,
            resolution: None,
        }
    }

    /// The number is to be large.
    pub const fn maximise(metric: Metric) -> Self {
        Self {
            direction: Direction::Maximise,
            ..Self::minimise(metric)
        }
    }

    /// The same with values that count as multiples of `resolution`.
    #[must_use]
    pub const fn with_resolution(self, resolution: f64) -> Self {
        Self {
            resolution: Some(resolution),
            ..self
        }
    }

    /// A value with its sign such that less is better.
    const fn cost(self, value: f64) -> f64 {
        // There is one zero only.
        match self.direction {
            Direction::Minimise => 0.0 + value,
            Direction::Maximise => 0.0 - value,
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.direction {
            Direction::Minimise => "minimise",
            Direction::Maximise => "maximise",
        };
        write!(f, "{verb} {}", self.metric)
    }
}

/// A bound of a number. In files `{ metric: METRIC, at-most: 300 }`, or `at-least`.
///
/// ```
/// use foretoken_search::Constraint;
///
/// let constraint: Constraint = serde_json::from_str(r#"{ "metric": "ttft-mean-ms", "at-most": 300 }"#)?;
/// assert_eq!(constraint.to_string(), "ttft-mean-ms <= 300");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawConstraint", into = "RawConstraint")]
pub struct Constraint {
    /// Which number.
    pub metric: Metric,
    /// Its bound.
    pub bound: Bound,
}

/// What a number may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawConstraint {
    metric: Metric,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
}

impl TryFrom<RawConstraint> for Constraint {
    type Error = &'static str;

    fn try_from(raw: RawConstraint) -> Result<Self, Self::Error> {
        let bound = match (raw.at_most, raw.at_least) {
            (Some(most), None) => Bound::AtMost(most),
            (None, Some(least)) => Bound::AtLeast(least),
            _ => return Err("a constraint has one of at-most and at-least"),
        };
        let metric = raw.metric;
        Ok(Self { metric, bound })
    }
}

impl From<Constraint> for RawConstraint {
    fn from(constraint: Constraint) -> Self {
        let (at_most, at_least) = match constraint.bound {
            Bound::AtMost(most) => (Some(most), None),
            Bound::AtLeast(least) => (None, Some(least)),
        };
        Self {
            metric: constraint.metric,
            at_most,
            at_least,
        }
    }
}

impl Constraint {
    /// The number may be so much at most.
    pub const fn at_most(metric: Metric, most: f64) -> Self {
        let bound = Bound::AtMost(most);
        Self { metric, bound }
    }

    /// The number has to be so much at least.
    pub const fn at_least(metric: Metric, least: f64) -> Self {
        let bound = Bound::AtLeast(least);
        Self { metric, bound }
    }

    const fn limit(&self) -> f64 {
        match self.bound {
            Bound::AtMost(limit) | Bound::AtLeast(limit) => limit,
        }
    }

    /// By how much a value is beyond the bound, as a share of it; 0 within. No value is infinitely far off.
    pub fn violation(&self, value: Option<f64>) -> f64 {
        let Some(value) = value else {
            return f64::INFINITY;
        };
        let beyond = match self.bound {
            Bound::AtMost(most) => value - most,
            Bound::AtLeast(least) => least - value,
        };
        if beyond > 0.0 {
            beyond / self.limit().abs().max(1e-9)
        } else {
            0.0
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, bound } = self;
        match bound {
            Bound::AtMost(most) => write!(f, "{metric} <= {most}"),
            Bound::AtLeast(least) => write!(f, "{metric} >= {least}"),
        }
    }
}

/// How good a candidate is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judged {
    /// By how much constraints are violated in all; 0 is feasible. Infinite where a number is missing.
    pub(crate) violation: f64,
    /// What counts: the objectives at their resolution, less is better.
    pub(crate) costs: Vec<f64>,
    /// The same to the bit, to decide among equals.
    pub(crate) exact: Vec<f64>,
}

impl Judged {
    /// A candidate that could not be run.
    pub(crate) const fn failed() -> Self {
        Self {
            violation: f64::INFINITY,
            costs: Vec::new(),
            exact: Vec::new(),
        }
    }

    pub(crate) const fn is_feasible(&self) -> bool {
        self.violation <= 0.0
    }
}

/// Judges a candidate by its numbers.
pub(crate) fn judge(
    constraints: &[Constraint],
    objectives: &[Objective],
    value: impl Fn(Metric) -> Option<f64>,
) -> Judged {
    let violations = constraints.iter().map(|c| c.violation(value(c.metric)));
    let violation: f64 = violations.sum();
    let exact: Option<Vec<f64>> = objectives
        .iter()
        .map(|objective| value(objective.metric).map(|value| objective.cost(value)))
        .collect();
    let Some(exact) = exact else {
        return Judged::failed();
    };
    let rounded = |(objective, &cost): (&Objective, &f64)| match objective.resolution {
        Some(resolution) => (cost / resolution).round() * resolution + 0.0,
        None => cost,
    };
    let costs = objectives.iter().zip(&exact).map(rounded).collect();
    Judged {
        violation,
        costs,
        exact,
    }
}

/// Refuses objectives and constraints that make no sense together.
pub(crate) fn check(
    constraints: &[Constraint],
    objectives: &[Objective],
) -> Result<(), SearchError> {
    if objectives.is_empty() {
        let allowed = "at least one, as `{ minimise: usd-per-hour }`";
        return Err(SearchError::out_of_range("objectives", &"empty", allowed));
    }
    for (index, objective) in objectives.iter().enumerate() {
        let field = |key: &str| format!("objectives[{index}]{key}");
        let metric = objective.metric;
        if objectives[..index]
            .iter()
            .any(|other| other.metric == metric)
        {
            let allowed = "every metric once";
            return Err(SearchError::out_of_range(field(""), &metric, allowed));
        }
        if let Some(resolution) = objective.resolution
            && !(1e-12..=1e12).contains(&resolution)
        {
            let (field, allowed) = (field(".resolution"), "1e-12 to 1e12");
            return Err(SearchError::out_of_range(field, &resolution, allowed));
        }
    }
    for (index, constraint) in constraints.iter().enumerate() {
        let field = format!("constraints[{index}]");
        if !constraint.limit().is_finite() {
            let allowed = "a finite bound";
            return Err(SearchError::out_of_range(field, constraint, allowed));
        }
        let excludes = |other: &&Constraint| {
            other.metric == constraint.metric
                && match (other.bound, constraint.bound) {
                    (Bound::AtMost(most), Bound::AtLeast(least))
                    | (Bound::AtLeast(least), Bound::AtMost(most)) => least > most,
                    _ => true,
                }
        };
        if let Some(other) = constraints[..index].iter().find(excludes) {
            let allowed = format!("what goes together with {other}");
            return Err(SearchError::out_of_range(field, constraint, allowed));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_a_share_of_the_bound() {
        let most = Constraint::at_most(Metric::Gpus, 8.0);
        let least = Constraint::at_least(Metric::CompletedShare, 0.5);
        let is = |violation: f64, expected: f64| (violation - expected).abs() < 1e-12;
        assert!(is(most.violation(Some(8.0)), 0.0) && is(most.violation(Some(10.0)), 0.25));
        assert!(is(least.violation(Some(0.6)), 0.0) && is(least.violation(Some(0.25)), 0.5));
        assert!(most.violation(None).is_infinite());
    }

    #[test]
    fn values_that_round_to_the_same_multiple_are_equally_good() {
        let objectives = [
            Objective::maximise(Metric::RequestsPerS).with_resolution(0.1),
            Objective::minimise(Metric::Gpus),
        ];
        let judged = |rate: f64| {
            let value = |metric| Some(if metric == Metric::Gpus { 4.0 } else { rate });
            judge(&[], &objectives, value)
        };
        assert_eq!(judged(4.96).costs, judged(5.04).costs);
        assert_ne!(judged(4.96).costs, judged(4.94).costs);
        assert_eq!(judged(4.96).exact, [-4.96, 4.0]);
    }

    #[test]
    fn a_candidate_without_a_number_that_counts_is_worst() {
        let judged = judge(&[], &[Objective::minimise(Metric::UsdPerHour)], |_| None);
        assert_eq!(judged, Judged::failed());
    }
}

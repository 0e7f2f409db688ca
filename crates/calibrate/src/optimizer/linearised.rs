//! [`linearised`]: fits of many residuals that are nearly linear in the parameters.

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

use super::{Best, CmaEs, Parameter, Search, Space, minimise};
use crate::error::CalibrateError;
use crate::progress::Progress;

/// Steps of differences, as a share of each range: far above what rounding a candidate and the
/// grain of a simulation add.
const DIFFERENCE: f64 = 0.03;
/// How far the first step may go from the start, as a share of each range.
const RADIUS: f64 = 0.4;
/// The search ends once a step may go no farther than this.
const LEAST_RADIUS: f64 = 0.004;
/// The search ends once the linear model promises less than this share of the loss.
const LEAST_GAIN: f64 = 1e-3;
/// Evaluations of the linear model in search of its least loss.
const SURROGATE_EVALUATIONS: usize = 6_000;

/// What is to be made small, as many residuals, e.g. a relative error for each experiment, and a
/// loss that they amount to.
pub trait Residuals: Sync {
    /// The residuals of a candidate, always as many. A pure function, as
    /// [`Objective::evaluate`](super::Objective::evaluate).
    ///
    /// # Errors
    /// Whatever makes the whole search pointless.
    fn residuals(&self, values: &[f64]) -> Result<Vec<f64>, CalibrateError>;

    /// The loss of such residuals, at least 0; any such function, cheap.
    fn loss(&self, residuals: &[f64]) -> f64;
}

/// Where the search stands: a candidate with its residuals, as shares of the ranges.
struct Point {
    shares: Vec<f64>,
    values: Vec<f64>,
    residuals: Vec<f64>,
    loss: f64,
}

/// Slopes of all residuals along one parameter after the other.
struct Slopes {
    columns: Vec<Vec<f64>>,
    /// Whether they were measured at the present point.
    fresh: bool,
}

impl Slopes {
    /// The residuals that the slopes promise at `shares`.
    fn predict(&self, from: &Point, shares: &[f64]) -> Vec<f64> {
        let mut residuals = from.residuals.clone();
        for ((column, at), from) in self.columns.iter().zip(shares).zip(&from.shares) {
            for (residual, slope) in residuals.iter_mut().zip(column) {
                *residual += slope * (at - from);
            }
        }
        residuals
    }

    /// Corrects the slopes along the way from one point to another (Broyden's update).
    fn correct(&mut self, from: &Point, to: &Point) {
        let way: Vec<f64> = to
            .shares
            .iter()
            .zip(&from.shares)
            .map(|(a, b)| a - b)
            .collect();
        let length: f64 = way.iter().map(|d| d * d).sum();
        let promised = self.predict(from, &to.shares);
        for (column, step) in self.columns.iter_mut().zip(&way) {
            for ((slope, promised), found) in column.iter_mut().zip(&promised).zip(&to.residuals) {
                *slope += (found - promised) * step / length;
            }
        }
        self.fresh = false;
    }
}

/// Searches from the space's start for the candidate of least loss: measures the slopes of the
/// residuals, finds the least loss of the linear model nearby (by CMA-ES, with `seed`), goes there
/// if it is better, corrects the slopes by what was found, and measures them again when they no
/// longer help.
///
/// Far fewer evaluations than a search without slopes: one for each parameter, a few times over. It
/// finds the one valley that the start lies in.
///
/// # Errors
/// [`CalibrateError::OutOfRange`] if the budget does not hold the start, its slopes and one step;
/// what the objective says; what the log says.
pub fn linearised(
    space: &Space,
    objective: &dyn Residuals,
    seed: u64,
    search: &Search,
) -> Result<Best, CalibrateError> {
    let mut run = Run::begin(space, objective, search)?;
    let mut here = run.point(&space.start_shares())?;
    let (mut slopes, mut radius): (Option<Slopes>, f64) = (None, RADIUS);
    while radius > LEAST_RADIUS {
        let mut known = match slopes.take() {
            Some(slopes) => slopes,
            None if run.left() <= space.len() => break,
            None => run.slopes(&here)?,
        };
        let (next, promised) = run.least_promised(&known, &here, radius, seed)?;
        let gains = promised < here.loss * (1.0 - LEAST_GAIN);
        if !gains {
            if known.fresh {
                break;
            }
            continue;
        }
        if run.left() == 0 {
            break;
        }
        let there = run.point(&next)?;
        let kept = (here.loss - there.loss) / (here.loss - promised);
        if kept > 0.75 {
            radius = (radius * 1.5).min(RADIUS);
        } else if kept < 0.25 {
            radius /= 3.0;
        }
        if kept > 0.0 {
            run.progress.tell(format!("loss {:.5}", there.loss));
            known.correct(&here, &there);
            here = there;
            // Slopes that promised too much are measured again.
            slopes = (kept > 0.25).then_some(known);
        } else {
            // Those that were measured here cannot be better than they are.
            slopes = known.fresh.then_some(known);
        }
    }
    run.progress.finish();
    Ok(Best {
        values: here.values,
        loss: here.loss,
        evaluations: run.evaluations,
    })
}

/// A search under way.
struct Run<'a> {
    space: &'a Space,
    objective: &'a dyn Residuals,
    search: &'a Search,
    progress: Progress,
    evaluations: usize,
}

impl<'a> Run<'a> {
    fn begin(
        space: &'a Space,
        objective: &'a dyn Residuals,
        search: &'a Search,
    ) -> Result<Self, CalibrateError> {
        let needed = space.len() + 2;
        if search.evaluations < needed {
            let allowed = format!("{needed} or more for each search");
            return Err(CalibrateError::out_of_range(
                "evaluations",
                &search.evaluations,
                allowed,
            ));
        }
        Ok(Self {
            space,
            objective,
            search,
            progress: search.progress(),
            evaluations: 0,
        })
    }

    fn left(&self) -> usize {
        self.search.evaluations - self.evaluations
    }

    /// The candidates at these shares, in parallel.
    fn points(&mut self, all: &[Vec<f64>]) -> Result<Vec<Point>, CalibrateError> {
        self.evaluations += all.len();
        let point = |shares: &Vec<f64>| {
            let values = self.space.values(shares);
            let evaluate = || self.objective.residuals(&values);
            let residuals = self
                .search
                .log
                .remember(self.search.context, &values, evaluate)?;
            self.progress.advance();
            Ok(Point {
                // A candidate may have been rounded.
                shares: self.space.shares(&values),
                loss: self.objective.loss(&residuals),
                values,
                residuals,
            })
        };
        let points: Vec<_> = all.par_iter().with_max_len(1).map(point).collect();
        points.into_iter().collect()
    }

    fn point(&mut self, shares: &[f64]) -> Result<Point, CalibrateError> {
        let mut points = self.points(&[shares.to_vec()])?;
        Ok(points.swap_remove(0))
    }

    /// Differences along each parameter, away from the nearer bound.
    fn slopes(&mut self, here: &Point) -> Result<Slopes, CalibrateError> {
        let beside: Vec<Vec<f64>> = (0..self.space.len())
            .map(|index| {
                let mut shares = here.shares.clone();
                let up = shares[index] < 0.5;
                shares[index] += if up { DIFFERENCE } else { -DIFFERENCE };
                shares
            })
            .collect();
        let column = |(index, there): (usize, Point)| {
            let step = there.shares[index] - here.shares[index];
            let slope = |(there, here): (&f64, &f64)| {
                let slope = (there - here) / step;
                // Nothing is known of what could not be evaluated, nor of a step that was rounded away.
                if slope.is_finite() { slope } else { 0.0 }
            };
            there
                .residuals
                .iter()
                .zip(&here.residuals)
                .map(slope)
                .collect()
        };
        let points = self.points(&beside)?;
        Ok(Slopes {
            columns: points.into_iter().enumerate().map(column).collect(),
            fresh: true,
        })
    }

    /// Where the linear model has its least loss within `radius`, as shares, and that loss.
    fn least_promised(
        &self,
        slopes: &Slopes,
        here: &Point,
        radius: f64,
        seed: u64,
    ) -> Result<(Vec<f64>, f64), CalibrateError> {
        let parameter = |(parameter, &at): (&Parameter, &f64)| {
            let (low, high) = ((at - radius).max(0.0), (at + radius).min(1.0));
            Parameter::new(&parameter.name, low, high, at, "")
        };
        let parameters = self.space.parameters().iter().zip(&here.shares);
        let nearby = Space::new(parameters.map(parameter).collect::<Result<_, _>>()?)?;
        let loss = |shares: &[f64]| Ok(self.objective.loss(&slopes.predict(here, shares)));
        let mut explore = CmaEs::new(nearby, seed);
        let best = minimise(&mut explore, &loss, &Search::new(SURROGATE_EVALUATIONS))?;
        Ok((best.values, best.loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances from a curve, whose loss is a sum of two lengths.
    struct Curve;

    impl Residuals for Curve {
        fn residuals(&self, p: &[f64]) -> Result<Vec<f64>, CalibrateError> {
            let at = |x: f64| p[0] * x + 0.1 * p[1] * p[1] * x * x - (2.0 * x + 0.9 * x * x);
            Ok((1..=6).map(|x| at(f64::from(x) / 6.0)).collect())
        }

        fn loss(&self, residuals: &[f64]) -> f64 {
            let length = |part: &[f64]| part.iter().map(|r| r * r).sum::<f64>().sqrt();
            length(&residuals[..3]) + length(&residuals[3..])
        }
    }

    fn space() -> Space {
        let parameter = |name| Parameter::new(name, 0.0, 10.0, 8.0, "").expect("a valid range");
        Space::new(vec![parameter("a"), parameter("b")]).expect("two parameters")
    }

    #[test]
    fn a_curve_is_found_in_few_evaluations() {
        let best = linearised(&space(), &Curve, 1, &Search::new(60)).expect("enough");
        assert!((best.values[0] - 2.0).abs() < 0.05, "{best:?}");
        assert!((best.values[1] - 3.0).abs() < 0.05, "{best:?}");
        assert!(best.evaluations <= 60);
        let again = linearised(&space(), &Curve, 1, &Search::new(60)).expect("enough");
        assert_eq!(best, again);
    }

    #[test]
    fn a_bound_is_kept() {
        let bounded = Parameter::new("b", 0.0, 2.5, 1.0, "").expect("a valid range");
        let free = Parameter::new("a", 0.0, 10.0, 8.0, "").expect("a valid range");
        let space = Space::new(vec![free, bounded]).expect("two parameters");
        let best = linearised(&space, &Curve, 1, &Search::new(60)).expect("enough");
        assert!((best.values[1] - 2.5).abs() < 1e-6, "{best:?}");
    }

    #[test]
    fn a_start_that_is_right_and_the_least_budget_are_enough() {
        let right = space().starting_at(&[2.0, 3.0]).expect("two numbers");
        let best = linearised(&right, &Curve, 1, &Search::new(60)).expect("enough");
        assert_eq!((best.values, best.evaluations), (vec![2.0, 3.0], 3));
        let start = Curve.loss(&Curve.residuals(&[8.0, 8.0]).expect("any"));
        let best = linearised(&space(), &Curve, 1, &Search::new(4)).expect("enough");
        assert!(best.loss < start && best.evaluations == 4, "{best:?}");
    }

    #[test]
    fn what_cannot_be_evaluated_is_gone_around() {
        /// A curve that exists only beside its start.
        struct Torn;
        impl Residuals for Torn {
            fn residuals(&self, p: &[f64]) -> Result<Vec<f64>, CalibrateError> {
                let torn = p[1] > 8.0 || p[0] < 1.0;
                let residuals = Curve.residuals(p)?;
                Ok(residuals
                    .into_iter()
                    .map(|r| if torn { f64::INFINITY } else { r })
                    .collect())
            }

            fn loss(&self, residuals: &[f64]) -> f64 {
                Curve.loss(residuals)
            }
        }
        let best = linearised(&space(), &Torn, 1, &Search::new(100)).expect("enough");
        assert!((best.values[0] - 2.0).abs() < 0.1, "{best:?}");
    }

    #[test]
    fn a_range_that_is_rounded_to_one_value_does_not_move() {
        let coarse = Parameter::new("a", 0.0, 10.0, 2.0, "").expect("a valid range");
        let fine = Parameter::new("b", 2.96, 3.04, 3.04, "").expect("a valid range");
        let space = Space::new(vec![coarse, fine]).expect("two").rounded(1);
        let best = linearised(&space, &Curve, 1, &Search::new(60)).expect("enough");
        assert!(best.loss.is_finite(), "{best:?}");
    }

    #[test]
    fn too_small_a_budget_is_refused() {
        let error = linearised(&space(), &Curve, 1, &Search::new(3)).expect_err("refused");
        let error = error.to_string();
        assert!(
            error.contains("evaluations is 3") && error.contains("4 or more"),
            "{error}"
        );
    }
}

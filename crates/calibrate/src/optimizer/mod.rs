//! Searches for the parameters of least loss, where nobody has derivatives.
//!
//! A loss that comes from many residuals, nearly linear in the parameters, is fitted in the fewest
//! evaluations by [`linearised`]. For all others an [`Optimizer`] proposes candidates and is told their losses; it evaluates nothing itself, so
//! that whoever drives it decides how: [`minimise`] evaluates a batch in parallel and remembers
//! what a log already holds.
//!
//! ```
//! use foretoken_calibrate::optimizer::{CmaEs, Parameter, Search, Space, minimise};
//!
//! // A user's own model: a step costs a fixed time and a time per sequence.
//! let measured = [(1.0, 6.1), (8.0, 6.8), (64.0, 12.4)];
//! let loss = |p: &[f64]| {
//!     let error = |(batch, ms): &(f64, f64)| (p[0] + p[1] * batch) / ms - 1.0;
//!     Ok(measured.iter().map(|m| error(m) * error(m)).sum::<f64>())
//! };
//! let space = Space::new(vec![
//!     Parameter::new("fixed", 0.0, 20.0, 10.0, "ms")?,
//!     Parameter::new("per-sequence", 0.0, 1.0, 0.5, "ms")?,
//! ])?;
//! let best = minimise(&mut CmaEs::new(space, 1), &loss, &Search::new(400))?;
//! assert!((best.values[0] - 6.0).abs() < 0.05 && (best.values[1] - 0.1).abs() < 0.01);
//! # Ok::<(), foretoken_calibrate::CalibrateError>(())
//! ```

mod cma_es;
mod eigen;
mod golden_section;
mod linearised;
mod search;
mod space;
mod tpe;

pub use self::cma_es::CmaEs;
pub use self::golden_section::GoldenSection;
pub use self::linearised::{Residuals, linearised};
pub use self::search::{Best, Objective, Search, minimise};
pub use self::space::{Parameter, Scale, Space};
pub use self::tpe::{Bits, Tpe};

/// Proposes candidates, in batches, and learns from their losses.
///
/// The host alternates [`ask`](Self::ask) and [`tell`](Self::tell) until a batch is empty or its
/// budget is spent. Candidates are values of the parameters in the order of the space, always
/// within its bounds. All draws follow from the optimizer's own seed, so that the same losses lead
/// to the same candidates.
pub trait Optimizer: Send {
    /// What to evaluate next, in any order; empty once there is nothing left to try.
    fn ask(&mut self) -> Vec<Vec<f64>>;

    /// The losses of the last batch, in its order. Less is better; a candidate that could not be
    /// evaluated has an infinite loss.
    fn tell(&mut self, losses: &[f64]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimizers_are_object_safe() {
        let space = Space::new(vec![
            Parameter::new("x", 0.0, 1.0, 0.5, "").expect("a valid range"),
        ])
        .expect("one parameter");
        let all: [Box<dyn Optimizer>; 3] = [
            Box::new(CmaEs::new(space.clone(), 0)),
            Box::new(Tpe::new(space.clone(), 0)),
            Box::new(GoldenSection::new(space)),
        ];
        for mut optimizer in all {
            assert!(!optimizer.ask().is_empty());
        }
    }
}

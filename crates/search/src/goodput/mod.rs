//! Goodput: the highest rate at which the required share of requests meets every objective.
//!
//! A rate *holds* if, for each class of service with objectives, the share of its requests that meet all
//! of them is at least [`share`](GoodputSpec::share) among those that arrive within a measurement window,
//! and again among those that arrive within its last fifth: a system that is asked more than it can do has
//! a queue that grows, which a short window forgives.
//!
//! The search brackets the highest rate by doubling or halving, then bisects. Every rate has the same
//! requests in the same order, at times drawn from the same streams. Whether a rate holds is still a
//! matter of chance near the highest one, and need not change only once: bisection finds one such change,
//! and the longer the window, the narrower the range in which there are several. The window is therefore
//! doubled until the answer moves by less than a tolerance, twice in a row.

mod report;
mod search;
mod spec;
mod trial;

pub use report::{GoodputReport, LimitJudgement, Miss, Part, Trial};
pub use spec::GoodputSpec;
pub(crate) use trial::measurement_window;

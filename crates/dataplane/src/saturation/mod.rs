//! [`SaturationDetector`]: how full the pool is.
//!
//! The two detectors of llm-d are [`UtilizationDetector`], which goes by what the engines report, and
//! [`ConcurrencyDetector`], which goes by what the gateway itself has in flight. Both are also
//! [filters](crate::Filter) that keep full endpoints out of a profile. [`Stages`] says which endpoints
//! of a disaggregated pool are asked about together.

mod aggregate;
mod concurrency;
mod stages;
mod utilization;

use crate::error::DataplaneError;
use crate::view::GatewayContext;

pub use aggregate::Aggregate;
pub use concurrency::{ConcurrencyDetector, ConcurrencyMode};
pub use stages::Stages;
pub use utilization::{Unseen, UtilizationDetector};

pub(crate) use utilization::utilization;

/// Says how full some endpoints are: 0 is idle, 1 is full, and more measures the overload.
///
/// The host hands in positions in `cx.endpoints`. An answer that is no number or below zero ends the
/// run with an error.
///
/// ```
/// use foretoken_dataplane::{GatewayContext, SaturationDetector};
///
/// /// Full when any endpoint has more than 10 requests waiting.
/// struct LongestQueue;
///
/// impl SaturationDetector for LongestQueue {
///     fn saturation(&mut self, pool: &[usize], cx: &mut GatewayContext<'_>) -> f64 {
///         let queued = pool.iter().map(|&position| cx.endpoints[position].queued);
///         f64::from(queued.max().unwrap_or(0)) / 10.0
///     }
/// }
/// ```
pub trait SaturationDetector: Send {
    /// How full `pool` is.
    fn saturation(&mut self, pool: &[usize], cx: &mut GatewayContext<'_>) -> f64;
}

impl<D: SaturationDetector + ?Sized> SaturationDetector for Box<D> {
    fn saturation(&mut self, pool: &[usize], cx: &mut GatewayContext<'_>) -> f64 {
        (**self).saturation(pool, cx)
    }
}

/// A saturation that a host can act on.
pub(crate) fn checked(saturation: f64) -> Result<f64, DataplaneError> {
    // False for NaN.
    if saturation >= 0.0 {
        return Ok(saturation);
    }
    Err(DataplaneError::answer(
        "the saturation detector",
        saturation,
        "a number from 0 up",
    ))
}

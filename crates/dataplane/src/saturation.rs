//! [`SaturationDetector`]: how full the pool is.

use crate::view::GatewayContext;

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

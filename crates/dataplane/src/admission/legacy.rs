//! [`LegacyAdmission`]: admission without flow control.

use core::fmt;

use foretoken_workload::{RejectReason, RequestView};

use crate::error::DataplaneError;
use crate::saturation::{SaturationDetector, UtilizationDetector, checked};
use crate::view::GatewayContext;

/// Refuses requests that may be shed while their candidates are saturated: what llm-d does by default,
/// with flow control off. No [`Admitter`](super::Admitter), since it comes before them and the client
/// sees another answer.
///
/// A request of priority 0 or more always passes. One below passes while the detector's answer for
/// its candidates (all together, not by stage) is below 1. Without candidates the detectors of llm-d
/// answer 1, so it is refused here, while others fail in the next step for want of an endpoint.
pub struct LegacyAdmission {
    detector: Box<dyn SaturationDetector>,
}

impl LegacyAdmission {
    /// Admission by the saturation that `detector` sees.
    pub fn new(detector: impl SaturationDetector + 'static) -> Self {
        Self {
            detector: Box::new(detector),
        }
    }

    /// Why `request` is refused, if it is: [`RejectReason::Saturated`], by how full all endpoints are.
    ///
    /// # Errors
    /// [`DataplaneError::Answer`] if the detector answers anything but a number from 0 up.
    pub fn refusal(
        &mut self,
        request: &RequestView<'_>,
        cx: &mut GatewayContext<'_>,
    ) -> Result<Option<RejectReason>, DataplaneError> {
        if !request.objective.is_sheddable() {
            return Ok(None);
        }
        let saturation = checked(self.detector.saturation(&cx.everyone(), cx))?;
        Ok((saturation >= 1.0).then_some(RejectReason::Saturated))
    }
}

impl Default for LegacyAdmission {
    fn default() -> Self {
        Self::new(UtilizationDetector::default())
    }
}

impl fmt::Debug for LegacyAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacyAdmission").finish_non_exhaustive()
    }
}

//! [`Stages`]: which endpoints of a pool are full together.

use super::{SaturationDetector, checked};
use crate::error::DataplaneError;
use crate::view::GatewayContext;

/// Splits a pool into its prefill and decode stages by role label. The pool is as full as its fuller
/// stage: a request needs both.
///
/// Prefill: `prefill`, `encode-prefill` and the roles that combine prefill and decode. Decode:
/// `decode`, the combined roles, and endpoints without a label. Those that only encode, and unknown
/// roles, belong to neither.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    // Kept between cycles for their memory only.
    prefill: Vec<usize>,
    decode: Vec<usize>,
}

impl Stages {
    /// The larger of the detector's answers for the stages that have endpoints; with both empty, its
    /// answer for the whole pool.
    ///
    /// # Errors
    /// [`DataplaneError::Answer`] if the detector answers anything but a number from 0 up.
    pub fn saturation(
        &mut self,
        detector: &mut dyn SaturationDetector,
        cx: &mut GatewayContext<'_>,
    ) -> Result<f64, DataplaneError> {
        self.prefill.clear();
        self.decode.clear();
        for (position, endpoint) in cx.endpoints.iter().enumerate() {
            let role = endpoint.role();
            if role.prefills() {
                self.prefill.push(position);
            }
            if role.decodes() {
                self.decode.push(position);
            }
        }
        if self.prefill.is_empty() && self.decode.is_empty() {
            let everyone = cx.everyone();
            return checked(detector.saturation(&everyone, cx));
        }
        let mut fullest: f64 = 0.0;
        for stage in [&self.prefill, &self.decode] {
            if !stage.is_empty() {
                fullest = fullest.max(checked(detector.saturation(stage, cx))?);
            }
        }
        Ok(fullest)
    }
}

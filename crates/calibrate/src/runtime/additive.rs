//! The models that [`KernelTiming`](super::KernelTiming) is held against.

use std::sync::Arc;

use foretoken::deployment::Resolved;
use foretoken::hwspec::KvFormat;
use foretoken::latency_model::number::Amount;
use foretoken::latency_model::{
    AdditiveCoefficients, AdditivePhysics, HostCosts, LatencyError, LatencyModel, Roofline,
};

use super::Timing;
use crate::optimizer::{Parameter, Space};

/// The published ten-term form, its ten coefficients and the time of taking a request in to be
/// fitted, each within what physics allows: prefill FLOPs, weights and links not beyond their peaks.
#[derive(Debug, Clone)]
pub struct AdditiveTiming {
    space: Space,
}

/// Name, least, largest and first value, unit.
type Row = (&'static str, f64, f64, f64, &'static str);

const COEFFICIENTS: [Row; 11] = [
    ("b1a", 1.0, 5.0, 1.65, ""),
    ("b1b", 0.0, 5.0, 1.2, ""),
    ("b2a", 0.0, 3.0, 0.2, ""),
    ("b2b", 0.0, 5.0, 1.2, ""),
    ("b3", 1.0, 3.0, 1.25, ""),
    ("b4", 1.0, 20.0, 2.0, ""),
    ("b5-us", 0.0, 100.0, 25.0, "us"),
    ("b6-us", 0.0, 50.0, 3.0, "us"),
    ("b7-us", 0.0, 5_000.0, 300.0, "us"),
    ("b8-us", 0.0, 300.0, 40.0, "us"),
    ("a0-us", 500.0, 15_000.0, 3_000.0, "us"),
];

impl Default for AdditiveTiming {
    fn default() -> Self {
        let parameters = COEFFICIENTS.map(|(name, low, high, start, unit)| {
            Parameter::new(name, low, high, start, unit).expect("a test builds the default")
        });
        let space = Space::new(parameters.into()).expect("the names differ");
        Self {
            space: space.rounded(3),
        }
    }
}

impl AdditiveTiming {
    /// The coefficients at a candidate.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn coefficients(&self, values: &[f64]) -> Result<AdditiveCoefficients, LatencyError> {
        let mut all = AdditiveCoefficients::plausible();
        let fields = [
            &mut all.b1a,
            &mut all.b1b,
            &mut all.b2a,
            &mut all.b2b,
            &mut all.b3,
            &mut all.b4,
            &mut all.b5_us,
            &mut all.b6_us,
            &mut all.b7_us,
            &mut all.b8_us,
            &mut all.a0_us,
        ];
        for (field, value) in fields.into_iter().zip(values) {
            *field = Amount::new(*value)?;
        }
        Ok(all)
    }
}

impl Timing for AdditiveTiming {
    fn name(&self) -> &'static str {
        "AdditivePhysics"
    }

    fn space(&self) -> Option<&Space> {
        Some(&self.space)
    }

    fn fixed(&self) -> String {
        format!("{:?}", self.coefficients(&self.space.start()))
    }

    fn build(
        &self,
        values: &[f64],
        deployment: &Resolved,
        kv: KvFormat,
    ) -> Result<(Arc<dyn LatencyModel>, HostCosts), LatencyError> {
        let coefficients = self.coefficients(values)?;
        let (model, gpu, tp) = (
            &deployment.model,
            &deployment.gpu,
            deployment.tensor_parallel,
        );
        let physics = AdditivePhysics::with_coefficients(model, gpu, tp, kv, coefficients)?;
        Ok((Arc::new(physics), coefficients.host_costs()))
    }
}

/// Bounds with fixed utilisations, not fitted; its host costs are given, since a bound on the device
/// says nothing about the host.
#[derive(Debug, Clone, Copy)]
pub struct RooflineTiming {
    host: HostCosts,
}

impl RooflineTiming {
    /// With these host costs.
    pub const fn new(host: HostCosts) -> Self {
        Self { host }
    }
}

impl Timing for RooflineTiming {
    fn name(&self) -> &'static str {
        "Roofline"
    }

    fn fixed(&self) -> String {
        format!("{:?}", self.host)
    }

    fn build(
        &self,
        _values: &[f64],
        deployment: &Resolved,
        kv: KvFormat,
    ) -> Result<(Arc<dyn LatencyModel>, HostCosts), LatencyError> {
        let (model, gpu, tp) = (
            &deployment.model,
            &deployment.gpu,
            deployment.tensor_parallel,
        );
        Ok((Arc::new(Roofline::new(model, gpu, tp, kv)?), self.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_the_plausible_set() {
        let timing = AdditiveTiming::default();
        let start = timing
            .coefficients(&timing.space.start())
            .expect("in range");
        assert_eq!(start, AdditiveCoefficients::plausible());
    }
}

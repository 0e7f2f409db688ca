//! [`KernelTiming`]: the step as the sum of its kernels, with the software's costs to be fitted.

use std::sync::Arc;

use foretoken::deployment::Resolved;
use foretoken::hwspec::KvFormat;
use foretoken::latency_model::{
    HostCosts, KernelParameters, KernelPhysics, LatencyError, LatencyModel, RuntimeParameters,
};

use super::Timing;
use super::coefficients::fitted;
use crate::optimizer::{Parameter, Space};

/// [`KernelPhysics`] with given kernels; what moves are the costs of the serving software that
/// benchmarks show, within what physics allows.
#[derive(Debug, Clone)]
pub struct KernelTiming {
    kernels: KernelParameters,
    base: RuntimeParameters,
    space: Space,
}

impl Default for KernelTiming {
    fn default() -> Self {
        Self::new(
            KernelParameters::builtin().clone(),
            RuntimeParameters::builtin().clone(),
        )
    }
}

impl KernelTiming {
    /// With these kernels; `base` gives the costs that are not fitted.
    pub fn new(kernels: KernelParameters, base: RuntimeParameters) -> Self {
        let parameters = fitted().map(|(entry, range)| {
            Parameter::new(entry.key, range.low, range.high, range.start, entry.unit)
                .expect("a test reads the table of coefficients")
        });
        let space = Space::new(parameters.collect()).expect("keys of a table differ");
        // What is written to the file is what was measured.
        let space = space.rounded(3);
        Self {
            kernels,
            base,
            space,
        }
    }

    /// The costs at a candidate.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn parameters(&self, values: &[f64]) -> Result<RuntimeParameters, LatencyError> {
        let mut parameters = self.base.clone();
        for ((entry, _), value) in fitted().zip(values) {
            (entry.set)(&mut parameters, *value)?;
        }
        Ok(parameters)
    }
}

impl Timing for KernelTiming {
    fn name(&self) -> &'static str {
        "KernelPhysics"
    }

    fn space(&self) -> Option<&Space> {
        Some(&self.space)
    }

    fn fixed(&self) -> String {
        // What is fitted does not count: a new file of coefficients leaves a log as good as it was.
        let base = self.parameters(&self.space.start());
        format!("{:?}{base:?}", self.kernels)
    }

    fn build(
        &self,
        values: &[f64],
        deployment: &Resolved,
        kv: KvFormat,
    ) -> Result<(Arc<dyn LatencyModel>, HostCosts), LatencyError> {
        let runtime = self.parameters(values)?;
        let (model, gpu, tp) = (
            &deployment.model,
            &deployment.gpu,
            deployment.tensor_parallel,
        );
        let physics = KernelPhysics::with_parameters(model, gpu, tp, kv, &self.kernels, &runtime)?;
        Ok((Arc::new(physics), runtime.host))
    }
}

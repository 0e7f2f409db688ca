//! What kernels do not explain: gaps, launches and the host, as a few global parameters.

use std::sync::OnceLock;

use foretoken_hwspec::Sampling;
use serde::{Deserialize, Serialize};

use crate::error::LatencyError;
use crate::fine::Fine;
use crate::host::HostCosts;
use crate::number::{Amount, Share};
use crate::part::fine;
use crate::shape::{GraphMode, StepShape};

const BUILTIN: &str = include_str!("../../data/runtime.toml");

/// Global costs of the serving software: the contents of a `runtime.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RuntimeParameters {
    /// Costs of a step beside its kernels.
    pub step: StepOverheads,
    /// Costs on the host, which the engine applies.
    pub host: HostCosts,
    /// How uneven the routing of experts is: popularity falls with this power of the rank; 0 is
    /// balanced, 1 to 1.2 was seen in real traffic.
    #[serde(default)]
    pub routing_skew: Amount,
    /// What a decode pays for a token of context that another sequence of the batch has read
    /// before, as a share of reading it from memory: the price of the L2 cache.
    pub shared_context_cost: Share,
}

/// Costs of a step beside its kernels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StepOverheads {
    /// Any step: preparing inputs on the device, sampling, the gap to the next step.
    pub fixed_us: Amount,
    /// Each layer: gaps between its kernels, and kernels that are not modelled.
    pub per_layer_us: Amount,
    /// Each sequence: its part of inputs and sampling.
    pub per_sequence_us: Amount,
    /// A step that mixes prefill and decode, for each layer: its attention runs outside the captured
    /// graph, in kernels made for prefill.
    pub mixed_per_layer_us: Amount,
    /// Passes over the logits, as a multiple of reading and writing them once in 32 bits.
    pub logit_passes: Amount,
    /// The same, besides, for models that truncate by top-k or top-p: the vocabulary is sorted.
    pub truncation_passes: Amount,
    /// Summing up one entry of the sorted vocabulary, for such models: each sequence's row is one
    /// running sum of one thread block, and all rows are summed side by side.
    pub truncation_scan_ns: Amount,
    /// Passes over the logits, besides, for models with a repetition penalty: the tokens of the
    /// prompt and of the output are counted over the vocabulary, in 64 bits.
    pub penalty_passes: Amount,
    /// Any step of such a model, besides: some twenty kernels outside the captured graph, and the
    /// wait for the tokens of the step before, which the host must see to count them.
    pub penalty_us: Amount,
    /// Launching a layer whose attention is outside the captured graph. A step cannot be shorter
    /// than its launches, but they cost nothing while the device is behind.
    pub piecewise_launch_per_layer_us: Amount,
    /// Launching a layer kernel by kernel.
    pub eager_launch_per_layer_us: Amount,
}

impl RuntimeParameters {
    /// The parameters that come with the crate.
    ///
    /// # Panics
    ///
    /// Never: a test reads the file.
    pub fn builtin() -> &'static Self {
        static BUILT_IN: OnceLock<RuntimeParameters> = OnceLock::new();
        BUILT_IN.get_or_init(|| {
            Self::from_toml_str(BUILTIN).expect("a test reads the built-in runtime parameters")
        })
    }

    /// Reads a parameter file.
    ///
    /// # Errors
    ///
    /// [`LatencyError::Malformed`] with the position for anything but a valid file.
    pub fn from_toml_str(text: &str) -> Result<Self, LatencyError> {
        toml::from_str(text).map_err(|error| LatencyError::Malformed {
            reason: error.to_string(),
        })
    }
}

impl StepOverheads {
    /// The part that does not depend on the model's kernels.
    pub(super) fn fixed(&self, shape: &StepShape, depth: u32) -> Fine {
        let mixed = if shape.is_mixed() {
            self.mixed_per_layer_us.get() * f64::from(depth)
        } else {
            0.0
        };
        let micros = self.fixed_us.get()
            + self.per_layer_us.get() * f64::from(depth)
            + self.per_sequence_us.get() * f64::from(shape.sequences())
            + mixed;
        fine(micros * 1e3)
    }

    /// Passes over the logits of a model that asks to be sampled so.
    pub(super) fn passes(&self, sampling: Sampling) -> f64 {
        let if_so = |is: bool, passes: Amount| if is { passes.get() } else { 0.0 };
        self.logit_passes.get()
            + if_so(sampling.truncation, self.truncation_passes)
            + if_so(sampling.repetition_penalty, self.penalty_passes)
    }

    /// Nanoseconds for each entry of the vocabulary, whatever the number of sequences.
    pub(super) fn scan(&self, sampling: Sampling) -> f64 {
        if sampling.truncation {
            self.truncation_scan_ns.get()
        } else {
            0.0
        }
    }

    /// Nanoseconds for any step that samples.
    pub(super) fn penalty(&self, sampling: Sampling) -> f64 {
        if sampling.repetition_penalty {
            self.penalty_us.get() * 1e3
        } else {
            0.0
        }
    }

    /// How long the host is busy launching a step of `depth` layers.
    pub(super) fn launches(&self, depth: u32) -> Launches {
        let time = |per_layer: Amount| fine(per_layer.get() * 1e3) * u128::from(depth);
        Launches {
            piecewise: time(self.piecewise_launch_per_layer_us),
            eager: time(self.eager_launch_per_layer_us),
        }
    }
}

/// How long the host is busy launching a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launches {
    piecewise: Fine,
    eager: Fine,
}

impl Launches {
    /// A step that is launched so.
    pub(super) const fn of(self, graph: GraphMode) -> Fine {
        match graph {
            GraphMode::Full => Fine::ZERO,
            GraphMode::Piecewise => self.piecewise,
            GraphMode::Eager => self.eager,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_parameters_are_valid() {
        assert!(RuntimeParameters::from_toml_str(BUILTIN).is_ok());
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        let text = BUILTIN.replace("mixed-per-layer-us", "mixed-per-layer-su");
        let error = RuntimeParameters::from_toml_str(&text).expect_err("unknown key");
        assert!(error.to_string().contains("mixed-per-layer-su"), "{error}");
    }

    #[test]
    fn a_captured_graph_has_no_launches_to_wait_for() {
        let launches = RuntimeParameters::builtin().step.launches(32);
        assert_eq!(launches.of(GraphMode::Full), Fine::ZERO);
        assert!(launches.of(GraphMode::Piecewise) > Fine::ZERO);
        assert!(launches.of(GraphMode::Eager) > launches.of(GraphMode::Piecewise));
    }
}

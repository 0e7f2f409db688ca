//! What can be wrong with a latency model's inputs.

use foretoken_des_kernel::TimeError;
use foretoken_hwspec::HwspecError;
use thiserror::Error;

/// Why a latency model could not be built.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum LatencyError {
    /// The model cannot be split over the devices.
    #[error(transparent)]
    Shard(#[from] HwspecError),
    /// A layer of a kind that the physics does not know.
    #[error("`{model}` has layers whose cost is not modelled")]
    UnknownShape {
        /// The model.
        model: String,
    },
    /// More devices than the fast link of one box connects.
    #[error(
        "tensor parallelism over {degree} devices of `{gpu}` crosses the box: its link connects \
         {domain}, and transfers between boxes are not modelled"
    )]
    BeyondLink {
        /// The accelerator.
        gpu: String,
        /// The degree that was asked for.
        degree: u32,
        /// Devices on one link.
        domain: u32,
    },
    /// A datasheet rate that is no positive number.
    #[error("`{gpu}`: {field} = {value} is not a rate: it must be finite and positive")]
    Rate {
        /// The accelerator.
        gpu: String,
        /// The field of its specification.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// A number of a parameter file that is out of range.
    #[error("{value} is not {expected}")]
    Number {
        /// The value.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A parameter file that is not TOML or not of the expected layout.
    #[error("the parameter file is malformed: {reason}")]
    Malformed {
        /// What the parser says, with the position.
        reason: String,
    },
    /// No parameters for an accelerator, nor for a relative of it.
    #[error("the parameter file has no `{block}` for `{gpu}`, nor for what it is like: {path}")]
    NoParameters {
        /// The accelerator.
        gpu: String,
        /// The block of parameters that is missing.
        block: &'static str,
        /// The accelerators that were looked up, in order.
        path: String,
    },
    /// A setting that makes no sense, or does not go with another.
    #[error("{field} is {value}: allowed is {allowed}")]
    Setting {
        /// Path of the configuration key.
        field: &'static str,
        /// The offending value.
        value: String,
        /// What would be right.
        allowed: String,
    },
    /// A time that is too long or no number.
    #[error(transparent)]
    Time(#[from] TimeError),
}

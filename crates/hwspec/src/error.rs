//! What can be wrong with a name, a file or a plan.

use thiserror::Error;

use crate::memory::Shortage;

/// Why a specification could not be read or a deployment cannot exist.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum HwspecError {
    /// No accelerator of that name.
    #[error(
        "no accelerator is called `{name}`; the closest names are {}",
        list(closest)
    )]
    UnknownGpu {
        /// The name that was asked for.
        name: String,
        /// Names that exist, the most similar first.
        closest: Vec<String>,
    },
    /// No model of that name, or several.
    #[error(
        "no model is called `{name}`; the closest names are {}; the path of a `config.json` works too",
        list(closest)
    )]
    UnknownModel {
        /// The name that was asked for.
        name: String,
        /// Names that exist, the most similar first.
        closest: Vec<String>,
    },
    /// A file could not be read.
    #[error("cannot read `{path}`: {reason}")]
    File {
        /// Path of the file.
        path: String,
        /// What the operating system says.
        reason: String,
    },
    /// A file is not JSON or TOML, or not of the expected layout.
    #[error("`{source_name}` is malformed: {reason}")]
    Malformed {
        /// The file or model that was being read.
        source_name: String,
        /// What the parser says, with the position.
        reason: String,
    },
    /// A model of a family that cannot be described.
    #[error(
        "`{model}`: {field} = {value} is not supported; supported are {}",
        list(supported)
    )]
    Unsupported {
        /// The model that was being read.
        model: String,
        /// The field that decides, e.g. `architectures`.
        field: String,
        /// Its value.
        value: String,
        /// Values that are supported.
        supported: Vec<&'static str>,
    },
    /// A field without a default is absent.
    #[error("`{source_name}`: the field `{field}` is missing")]
    MissingField {
        /// The file or model that was being read.
        source_name: String,
        /// Path of the field, e.g. `text_config.hidden_size`.
        field: String,
    },
    /// A value of the wrong type or out of range.
    #[error("`{source_name}`: {field} = {value}, but must be {allowed}")]
    InvalidField {
        /// The file, model or options that were being read.
        source_name: String,
        /// Path of the field.
        field: String,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The model cannot be split over that many devices.
    #[error(
        "tensor-parallel is {degree}: `{model}` cannot be split so, {field} = {value} does not divide; \
         allowed is {}",
        list(allowed)
    )]
    NotDivisible {
        /// The model.
        model: String,
        /// The quantity that does not divide.
        field: &'static str,
        /// Its value.
        value: u32,
        /// The degree that was asked for.
        degree: u32,
        /// Degrees that work, ascending, up to 64.
        allowed: Vec<u32>,
    },
    /// The deployment does not fit into the accelerator's memory.
    #[error("{0}")]
    DoesNotFit(Box<Shortage>),
}

fn list<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        return "(none)".to_owned();
    }
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

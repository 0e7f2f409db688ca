//! [`WorkloadFile`]: a workload that stands in a file of its own.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::spec::WorkloadSpec;

/// A workload with the version of its layout, as files of workloads hold it.
///
/// ```
/// use foretoken_workload::WorkloadFile;
///
/// let text = r#"{ "version": 1, "name": "chat", "workload": { "synthetic": {
///     "arrivals": { "poisson": { "rate-rps": 4 } }, "requests": 100,
///     "prompt-tokens": { "constant": { "tokens": 500 } },
///     "output-tokens": { "constant": { "tokens": 100 } } } } }"#;
/// let file: WorkloadFile = serde_json::from_str(text)?;
/// assert_eq!(file.name.as_deref(), Some("chat"));
///
/// let newer = text.replace(r#""version": 1"#, r#""version": 7"#);
/// let error = serde_json::from_str::<WorkloadFile>(&newer).unwrap_err().to_string();
/// assert!(error.contains("version is 7: known is 1"), "{error}");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WorkloadFile {
    /// Version of the layout (default: the present one).
    #[serde(default)]
    pub version: FileVersion,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is asked.
    pub workload: WorkloadSpec,
}

impl WorkloadFile {
    /// The JSON Schema of such a file, for editors and checkers. What a schema cannot say, such as that a minimum is
    /// below a maximum, is checked when a workload is built.
    pub fn schema() -> Value {
        let mut schema = schemars::schema_for!(Self).to_value();
        without_examples(&mut schema);
        schema
    }

    /// A workload without a name, in the present layout.
    pub fn new(workload: impl Into<WorkloadSpec>) -> Self {
        Self {
            version: FileVersion::default(),
            name: None,
            workload: workload.into(),
        }
    }
}

/// Cuts descriptions in front of examples, which are in Rust.
fn without_examples(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            if let Some(Value::String(text)) = entries.get_mut("description")
                && let Some(end) = text.find("```")
            {
                text.truncate(text[..end].trim_end().len());
            }
            entries.values_mut().for_each(without_examples);
        }
        Value::Array(items) => items.iter_mut().for_each(without_examples),
        _ => {}
    }
}

/// A version of the layout of files that this crate reads: 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
#[schemars(extend("const" = 1))]
pub struct FileVersion(u32);

impl FileVersion {
    /// The present version.
    pub const PRESENT: Self = Self(1);
}

impl Default for FileVersion {
    fn default() -> Self {
        Self::PRESENT
    }
}

/// A version that this crate does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("version is {0}: known is 1")]
pub struct UnknownVersion(u32);

impl TryFrom<u32> for FileVersion {
    type Error = UnknownVersion;

    fn try_from(version: u32) -> Result<Self, UnknownVersion> {
        if version == Self::PRESENT.0 {
            Ok(Self(version))
        } else {
            Err(UnknownVersion(version))
        }
    }
}

impl From<FileVersion> for u32 {
    fn from(version: FileVersion) -> Self {
        version.0
    }
}

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::trace::TraceSpec;

    fn keys(value: &Value) -> BTreeSet<String> {
        value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect()
    }

    #[test]
    fn the_schema_of_a_trace_has_the_keys_of_a_trace() {
        let all = json!({
            "path": "a.csv", "format": "azure", "columns": { "sent": "t" }, "rate-factor": 2.0,
            "rate-rps": 5.0, "requests": 10, "turns": "after-answers", "models": "adapters",
        });
        let spec: TraceSpec = serde_json::from_value(all.clone()).expect("all keys are known");
        assert_eq!(
            keys(&serde_json::to_value(spec).expect("plain data")),
            keys(&all)
        );
        let schema = WorkloadFile::schema();
        assert_eq!(
            keys(&schema["$defs"]["TraceSpec"]["properties"]),
            keys(&all)
        );
    }

    #[test]
    fn the_schema_knows_every_kind_of_workload_and_refuses_other_keys() {
        let schema = WorkloadFile::schema();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(
            schema["properties"]["workload"]["$ref"],
            "#/$defs/WorkloadSpec"
        );
        assert!(!schema.to_string().contains("```"));
        let text = schema["$defs"]["WorkloadSpec"].to_string();
        for kind in [
            "synthetic",
            "shared-prefix",
            "closed-loop",
            "sessions",
            "agents",
            "clients",
            "preset",
            "trace",
            "mix",
        ] {
            assert!(text.contains(&format!("\"{kind}\"")), "{text}");
        }
        assert_eq!(schema["$defs"]["Rate"]["exclusiveMinimum"], 0);
        assert_eq!(schema["$defs"]["FileVersion"]["const"], 1);
    }
}

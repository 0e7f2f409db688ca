//! The JSON Schema of what reads itself from other types: [`TraceSpec`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::quantity::{Positive, Rate};
use crate::trace::{Format, TraceSpec};

/// The keys of a [`TraceSpec`], as files write them.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is of use")]
struct Keys {
    /// The file; a relative path is relative to the file that names it.
    path: String,
    /// Its format (default: told from the content).
    format: Option<FormatName>,
    /// Names of columns by field, and time-unit.
    columns: Option<BTreeMap<String, String>>,
    /// How many times faster requests come than in the trace (default 1).
    rate_factor: Option<Positive>,
    /// Requests per second, in equal gaps, instead of the times of the trace.
    rate_rps: Option<Rate>,
    /// How many requests at most, from the first (default: no limit).
    requests: Option<u32>,
    /// What the models of the trace are (default: base).
    models: Option<ModelsName>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is of use")]
enum ModelsName {
    /// The model that is served, whatever it was called.
    Base,
    /// Adapters of that model.
    Adapters,
}

struct FormatName;

impl JsonSchema for FormatName {
    fn schema_name() -> Cow<'static, str> {
        "Format".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

impl JsonSchema for TraceSpec {
    fn schema_name() -> Cow<'static, str> {
        "TraceSpec".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Keys::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use crate::file::WorkloadFile;
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
            "rate-rps": 5.0, "requests": 10, "models": "adapters",
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
        for kind in ["synthetic", "shared-prefix", "trace", "mix"] {
            assert!(text.contains(&format!("\"{kind}\"")), "{text}");
        }
        assert_eq!(schema["$defs"]["Rate"]["exclusiveMinimum"], 0);
        assert_eq!(schema["$defs"]["FileVersion"]["const"], 1);
    }
}

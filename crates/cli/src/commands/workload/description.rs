//! Files that describe a workload, in any of the forms in which people have one.

use std::path::Path;

use foretoken::Scenario;
use foretoken::prelude::WorkloadSpec;
use foretoken::workload::WorkloadFile;
use foretoken::workload::trace::inference_perf_config;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Failure, from_json, from_yaml, read};

/// Descriptions in JSON are smaller than this; larger files are traces.
const LARGEST: u64 = 1 << 20;

/// Keys of workloads that stand in a file without more around them.
const KINDS: [&str; 9] = [
    "synthetic",
    "shared-prefix",
    "clients",
    "preset",
    "sessions",
    "agents",
    "closed-loop",
    "trace",
    "mix",
];

/// What a description describes.
enum Form {
    /// A workload with a deployment: of that the workload.
    Scenario,
    /// A workload with nothing around it.
    Bare,
    InferencePerf,
    /// A workload file, or nothing that is known.
    File,
}

impl Form {
    fn of(value: &Value) -> Self {
        let has = |key: &str| value.get(key).is_some();
        if has("deployment") {
            Self::Scenario
        } else if has("load") && has("data") && !has("workload") {
            Self::InferencePerf
        } else if !has("workload") && KINDS.iter().any(|kind| has(kind)) {
            Self::Bare
        } else {
            Self::File
        }
    }
}

/// The workload that a file describes, with paths that are relative to it; `None` if the file describes none: YAML
/// does, JSON if it has a key of a description.
pub(crate) fn description(path: &Path) -> Result<Option<WorkloadSpec>, Failure> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let json = match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("yaml" | "yml") => false,
        Some("json") if std::fs::metadata(path).is_ok_and(|about| about.len() <= LARGEST) => true,
        _ => return Ok(None),
    };
    let text = read(path)?;
    let value = if json {
        serde_json::from_str(&text).ok()
    } else {
        serde_saphyr::from_str(&text).ok()
    };
    let form = Form::of(value.as_ref().unwrap_or(&Value::Null));
    let described = match &value {
        Some(value) => value.get("workload").is_some(),
        // What cannot be read is a description if it wants to be one: then the reason is told.
        None => text.contains("\"workload\""),
    };
    if json && matches!(form, Form::File) && !described {
        return Ok(None);
    }
    let mut workload = match form {
        Form::Scenario => parsed::<Scenario>(path, &text, json)?.workload,
        Form::Bare => parsed(path, &text, json)?,
        Form::InferencePerf => inference_perf_config(&text).map_err(|error| error.in_file(path))?,
        Form::File => parsed::<WorkloadFile>(path, &text, json)?.workload,
    };
    workload.rebase(path.parent().unwrap_or(Path::new("")));
    Ok(Some(workload))
}

fn parsed<T: DeserializeOwned>(path: &Path, text: &str, json: bool) -> Result<T, Failure> {
    if json {
        from_json(path, text)
    } else {
        from_yaml(path, text)
    }
}

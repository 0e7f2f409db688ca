//! The features of an engine under one load.

use foretoken::prelude::*;
use foretoken_search::ablation::{Ablation, AblationReport, AblationValue};
use foretoken_search::{Environment, Metric, SearchError};

/// Llama-3.1-8B on one H100 that is asked for more than it can do, by clients of ten long system
/// prompts. The ladder up to asynchronous scheduling.
pub(crate) fn ladder() -> Result<AblationReport, SearchError> {
    let mut deployment = Deployment::new("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", 1);
    deployment.engine.max_model_len = Some(8192);
    let load = serde_json::json!({ "shared-prefix": {
        "num-groups": 10,
        "prompts-per-group": 40,
        "system-prompt-tokens": 1500,
        "question-tokens": 300,
        "output-tokens": 200,
        "stages": [{ "rate-rps": 40, "duration-s": 10 }],
    }});
    let load: WorkloadSpec = serde_json::from_value(load).expect("a valid load");
    let environment = Environment::builtin();
    let value = AblationValue::of(Metric::OutputTokensPerS);
    let mut ablation = Ablation::of_engine(&Scenario::new(deployment, load), value, &environment)?;
    ablation.features.truncate(6);
    ablation.run(&environment, &|_, _| ())
}

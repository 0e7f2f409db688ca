//! The built-in ladder: what engines have learnt since request-level batching.

use foretoken::Scenario;
use serde_json::Value;

use super::spec::{Ablation, AblationValue, Feature};
use crate::environment::Environment;
use crate::error::SearchError;
use crate::setting::Setting;

/// A feature and what it is without.
struct Rung {
    name: &'static str,
    key: &'static str,
    off: &'static str,
    on: &'static str,
}

const RUNGS: [Rung; 6] = [
    Rung {
        name: "continuous batching",
        key: "batching",
        off: "static",
        on: "continuous",
    },
    Rung {
        name: "paged KV",
        key: "kv-allocation",
        off: "reserved",
        on: "paged",
    },
    Rung {
        name: "prefix caching",
        key: "enable-prefix-caching",
        off: "false",
        on: "true",
    },
    Rung {
        name: "longest prefix first",
        key: "scheduling-policy",
        off: "fcfs",
        on: "longest-prefix-match",
    },
    Rung {
        name: "chunked prefill",
        key: "enable-chunked-prefill",
        off: "false",
        on: "true",
    },
    Rung {
        name: "asynchronous scheduling",
        key: "async-scheduling",
        off: "false",
        on: "true",
    },
];

const MAX_BATCHED: &str = "max-num-batched-tokens";

impl Ablation {
    /// The built-in ladder of an engine's features, for a scenario with whatever settings: static
    /// batching, then continuous batching, paged KV, prefix caching, longest prefix first, chunked
    /// prefill, asynchronous scheduling, a KV cache in FP8 and weights in FP8.
    ///
    /// The first six are off in the scenario of the result, the last two if they are off in `scenario`;
    /// where the accelerator or the catalog does not have them, they are left out. All else stays, but
    /// that without chunked prefill a step is as large as vLLM makes it then.
    ///
    /// # Errors
    /// [`SearchError`] if the scenario cannot be built, or has more than one kind of engine.
    pub fn of_engine(
        scenario: &Scenario,
        value: AblationValue,
        environment: &Environment,
    ) -> Result<Self, SearchError> {
        if !scenario.other_deployments.is_empty() {
            return Err(SearchError::out_of_range(
                "other-deployments",
                &format!("a list of {}", scenario.other_deployments.len()),
                "one deployment for the built-in ladder; features of several have to be written down",
            ));
        }
        scenario.build(&environment.catalog, &environment.physics)?;
        let plain = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let off = RUNGS.map(|rung| Setting::new(rung.key, plain(rung.off)));
        let mut baseline = Setting::apply_all(&off, scenario)?;
        let mut features = RUNGS
            .map(|rung| Feature::new(rung.name, rung.key, plain(rung.on)))
            .to_vec();
        // A step of whole prompts has to hold the longest one.
        if let Some(tokens) = baseline.deployment.engine.max_num_batched_tokens.take() {
            let chunked = features.iter_mut();
            for feature in
                chunked.filter(|feature| feature.set.contains_key("enable-chunked-prefill"))
            {
                *feature = feature.clone().and(MAX_BATCHED, tokens);
            }
        }
        let cache = Feature::new("FP8 KV cache", "kv-cache-dtype", "fp8");
        let weights = fp8_model(&baseline.deployment.model, environment)
            .map(|model| Feature::new("FP8 weights", "model", model));
        for feature in [Some(cache), weights].into_iter().flatten() {
            if changes(&feature, &baseline, environment) {
                features.push(feature);
            }
        }
        Ok(Self {
            scenario: baseline,
            features,
            value,
            replications: 3,
            method: None,
        })
    }
}

/// The same model with weights in FP8, if the catalog has one.
fn fp8_model(model: &str, environment: &Environment) -> Option<String> {
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let wanted = format!("{}-fp8", last(model));
    let mut names = environment.catalog.model_names();
    names.find(|name| last(name) == wanted).map(str::to_owned)
}

/// Whether a feature is not on already, and the accelerator can do it.
fn changes(feature: &Feature, baseline: &Scenario, environment: &Environment) -> bool {
    let settings: Vec<Setting> = feature
        .set
        .iter()
        .map(|(key, value)| Setting::new(key.clone(), value.clone()))
        .collect();
    let with = Setting::apply_all(&settings, baseline);
    with.is_ok_and(|with| {
        with != *baseline
            && with
                .build(&environment.catalog, &environment.physics)
                .is_ok()
    })
}

#[cfg(test)]
mod tests {
    use foretoken::Deployment;
    use foretoken::engine::{Batching, KvAllocation};
    use foretoken::workload::{LengthSpec, Synthetic};

    use super::*;

    fn ladder(model: &str, gpu: &str) -> Ablation {
        let mut deployment = Deployment::new(model, gpu, 1);
        deployment.engine.max_model_len = Some(4096);
        deployment.engine.max_num_batched_tokens = Some(2048);
        let lengths = LengthSpec::constant(100);
        let load = Synthetic::poisson(2.0, 10, lengths.clone(), lengths).expect("a valid load");
        let value = AblationValue::of("ttft-mean-ms".parse().expect("a metric"));
        Ablation::of_engine(
            &Scenario::new(deployment, load),
            value,
            &Environment::builtin(),
        )
        .expect("it can be built")
    }

    fn names(ablation: &Ablation) -> Vec<&str> {
        let features = ablation.features.iter();
        features.map(|feature| feature.name.as_str()).collect()
    }

    #[test]
    fn the_ladder_begins_with_everything_off_and_ends_with_everything_on() {
        let ablation = ladder("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB");
        let engine = &ablation.scenario.deployment.engine;
        assert_eq!(engine.batching, Batching::Static);
        assert_eq!(engine.kv_allocation, KvAllocation::Reserved);
        assert!(!engine.enable_prefix_caching && !engine.async_scheduling);
        assert_eq!(engine.max_num_batched_tokens, None);
        assert_eq!(names(&ablation)[6..], ["FP8 KV cache", "FP8 weights"]);
        assert_eq!(ablation.features[4].set[MAX_BATCHED], 2048);
        assert_eq!(
            ablation.features[7].set["model"],
            "nvidia/Llama-3.1-8B-Instruct-FP8"
        );
    }

    #[test]
    fn a_model_without_a_variant_in_fp8_has_one_rung_less() {
        let ablation = ladder("Qwen/Qwen2.5-7B-Instruct", "H100-SXM-80GB");
        assert_eq!(names(&ablation).last(), Some(&"FP8 KV cache"));
    }
}

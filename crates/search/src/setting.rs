//! [`Setting`]: one key of a scenario and its value.

use std::path::Path;

use foretoken::Scenario;
use foretoken::dataplane::config::shipped_named;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::SearchError;

/// One key of a [`Scenario`] and its value, as files have them.
///
/// The key is a path through the scenario's file with dots between its parts, such as
/// `workload.synthetic.arrivals.poisson.rate-rps` or `other-deployments.0.replicas`. What stands under
/// `deployment`, `deployment.engine` or `gateway` may be named alone: `tensor-parallel`,
/// `max-num-seqs`, `router-config`.
///
/// ```
/// use foretoken::{Deployment, Scenario};
/// use foretoken::workload::{LengthSpec, Synthetic};
/// use foretoken_search::Setting;
///
/// let lengths = (LengthSpec::constant(300), LengthSpec::constant(50));
/// let load = Synthetic::poisson(2.0, 100, lengths.0, lengths.1)?;
/// let deployment = Deployment::new("Qwen/Qwen2.5-7B-Instruct", "H100-SXM-80GB", 1);
/// let scenario = Scenario::new(deployment, load);
/// let changed = Setting::new("max-num-seqs", 64).apply(&scenario)?;
/// assert_eq!(changed.deployment.engine.max_num_seqs, Some(64));
///
/// let error = Setting::new("max-num-sequences", 64).apply(&scenario).unwrap_err();
/// assert!(error.to_string().starts_with("max-num-sequences: "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Which key.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// Keys of a deployment that may stand alone.
const OF_DEPLOYMENT: [&str; 5] = [
    "model",
    "gpu",
    "tensor-parallel",
    "replicas",
    "latency-model",
];

/// Keys of a scenario itself.
const WHOLE: [&str; 8] = [
    "seed",
    "replication",
    "horizon-s",
    "deployment",
    "other-deployments",
    "gateway",
    "workload",
    "slos",
];

impl Setting {
    /// A key and its value.
    pub fn new(key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
        }
    }

    /// The scenario with this setting.
    ///
    /// # Errors
    /// [`SearchError::Setting`] if a scenario has no such key, or the key cannot have such a value.
    pub fn apply(&self, scenario: &Scenario) -> Result<Scenario, SearchError> {
        Self::apply_all(core::slice::from_ref(self), scenario)
    }

    /// The scenario with all these settings, a later one on top of those before it.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_all(settings: &[Self], scenario: &Scenario) -> Result<Scenario, SearchError> {
        let mut tree = serde_json::to_value(scenario).expect("scenarios are plain data");
        for setting in settings {
            setting.write_into(&mut tree)?;
        }
        let mut changed: Scenario = serde_path_to_error::deserialize(tree).map_err(|error| {
            let (at, problem) = (error.path().to_string(), error.inner().to_string());
            let culprit = settings.iter().rev().find(|setting| {
                let path = setting.path().unwrap_or_default().join(".");
                path.starts_with(&at) || at.starts_with(&path)
            });
            SearchError::Setting {
                setting: culprit.map_or(at, |setting| setting.key.clone()),
                problem,
            }
        })?;
        changed.step_by_step = scenario.step_by_step;
        Ok(changed)
    }

    /// The parts of the whole path.
    pub(crate) fn path(&self) -> Result<Vec<&str>, SearchError> {
        let key = self.key.as_str();
        if key.contains('.') {
            return Ok(key.split('.').collect());
        }
        let is_in = |keys: &[String]| keys.iter().any(|known| known == key);
        if OF_DEPLOYMENT.contains(&key) {
            Ok(vec!["deployment", key])
        } else if is_in(&keys_of(&foretoken::EngineOptions::default())) {
            Ok(vec!["deployment", "engine", key])
        } else if is_in(&gateway_keys()) {
            Ok(vec!["gateway", key])
        } else if WHOLE.contains(&key) {
            Ok(vec![key])
        } else {
            let allowed = self.likely();
            Err(SearchError::Setting {
                setting: key.to_owned(),
                problem: format!(
                    "no such setting; allowed is {allowed}, or a path through a scenario, as \
                     `workload.synthetic.arrivals.poisson.rate-rps`"
                ),
            })
        }
    }

    /// Whether the other sets the same key, or a part of what this one sets, or the other way round.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let paths = self.path().ok().zip(other.path().ok());
        paths.is_some_and(|(one, other)| one.starts_with(&other) || other.starts_with(&one))
    }

    /// The keys that may have been meant, else all.
    fn likely(&self) -> String {
        let mut known: Vec<String> = OF_DEPLOYMENT.map(str::to_owned).to_vec();
        known.extend(keys_of(&foretoken::EngineOptions::default()));
        known.extend(gateway_keys());
        let parts: Vec<&str> = self.key.split('-').filter(|part| part.len() > 2).collect();
        let alike = |name: &&String| parts.iter().any(|part| name.contains(part));
        let close: Vec<&str> = known
            .iter()
            .filter(alike)
            .map(String::as_str)
            .take(6)
            .collect();
        if close.is_empty() {
            known.join(", ")
        } else {
            close.join(", ")
        }
    }

    fn write_into(&self, tree: &mut Value) -> Result<(), SearchError> {
        let mut at = tree;
        for part in self.path()? {
            if at.is_null() {
                // A list that is left out while it is empty looks like any other key.
                *at = match part.parse::<usize>() {
                    Ok(_) => Value::Array(Vec::new()),
                    Err(_) => Value::Object(Map::new()),
                };
            }
            at = match at {
                Value::Object(keys) => keys.entry(part).or_insert(Value::Null),
                Value::Array(items) => {
                    let count = items.len();
                    let place = part.parse::<usize>().ok();
                    let item = place.and_then(|place| items.get_mut(place));
                    item.ok_or_else(|| SearchError::Setting {
                        setting: self.key.clone(),
                        problem: format!("there is no item `{part}` in a list of {count}"),
                    })?
                }
                _ => {
                    return Err(SearchError::Setting {
                        setting: self.key.clone(),
                        problem: format!("nothing stands below a plain value, such as `{part}`"),
                    });
                }
            };
        }
        *at = self.value.clone();
        Ok(())
    }
}

/// Takes relative paths, of traces and of routers' configurations, as paths from `folder`.
pub(crate) fn rebase_scenario(scenario: &mut Scenario, folder: &Path) {
    scenario.workload.rebase(folder);
    if let Some(gateway) = &mut scenario.gateway
        && let Some(config) = &mut gateway.router_config
        && config.to_str().and_then(shipped_named).is_none()
    {
        *config = folder.join(&*config);
    }
}

/// The same in what a key is set to.
pub(crate) fn rebase_value(key: &str, value: &mut Value, folder: &Path) {
    let setting = Setting::new(key, Value::Null);
    let path = setting.path().unwrap_or_default();
    let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
    rebase(&path, value, folder);
}

/// Names of files, as scenarios have them: routers' configurations that are not shipped, and traces.
fn rebase(path: &[String], value: &mut Value, folder: &Path) {
    let below = |key: &str| [path, &[key.to_owned()]].concat();
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                rebase(&below(key), value, folder);
            }
        }
        Value::Array(items) => {
            for (place, value) in items.iter_mut().enumerate() {
                rebase(&below(&place.to_string()), value, folder);
            }
        }
        Value::String(name) => {
            let is_file = match path {
                [.., last] if last == "router-config" => shipped_named(name).is_none(),
                [first, .., kind, last] => first == "workload" && kind == "trace" && last == "path",
                _ => false,
            };
            if is_file {
                *name = folder.join(&*name).to_string_lossy().into_owned();
            }
        }
        _ => {}
    }
}

fn keys_of(options: &impl Serialize) -> Vec<String> {
    match serde_json::to_value(options) {
        Ok(Value::Object(keys)) => keys.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

fn gateway_keys() -> Vec<String> {
    let mut keys = keys_of(&foretoken::GatewaySpec::default());
    // Those that are left out while they are empty, and that `deployment` does not have.
    keys.retain(|key| key != "replicas");
    keys.push("router-config".into());
    keys
}

impl core::fmt::Display for Setting {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.value {
            Value::String(text) => write!(f, "{}={text}", self.key),
            value => write!(f, "{}={value}", self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use foretoken::Deployment;
    use foretoken::workload::{LengthSpec, Synthetic};

    use super::*;

    fn scenario() -> Scenario {
        let lengths = LengthSpec::constant(100);
        let load = Synthetic::poisson(2.0, 10, lengths.clone(), lengths).expect("a valid load");
        Scenario::new(Deployment::new("m", "g", 1), load)
    }

    fn problem(key: &str, value: impl Into<Value>) -> String {
        let error = Setting::new(key, value).apply(&scenario());
        error.expect_err("it makes no sense").to_string()
    }

    #[test]
    fn settings_reach_every_part_of_a_scenario() {
        let rate = "workload.synthetic.arrivals.poisson.rate-rps";
        let settings = [
            Setting::new("replicas", 3),
            Setting::new("max-num-seqs", 8),
            Setting::new("router-config", "optimized-baseline"),
            Setting::new(rate, 9.5),
            Setting::new("seed", 4),
        ];
        let changed = Setting::apply_all(&settings, &scenario()).expect("they make sense");
        assert_eq!((changed.deployment.replicas, changed.seed), (3, 4));
        assert_eq!(changed.deployment.engine.max_num_seqs, Some(8));
        let gateway = changed.gateway.as_ref().expect("it has a router");
        assert_eq!(gateway.router_config, Some("optimized-baseline".into()));
        let expected = Synthetic::poisson(
            9.5,
            10,
            LengthSpec::constant(100),
            LengthSpec::constant(100),
        );
        assert_eq!(changed.workload, expected.expect("a valid load").into());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (key, value, expected) in [
            ("max-num-seq", Value::from(8), "max-num-seqs"),
            ("tensor-parallel", Value::from("two"), "invalid type"),
            ("deployment.engine.speed", Value::from(1), "unknown field"),
            ("workload.3.x", Value::from(1), "single key"),
            ("deployment.model.x", Value::from(1), "plain value"),
            ("other-deployments.0.replicas", Value::from(1), "item `0`"),
        ] {
            let problem = problem(key, value);
            assert!(
                problem.starts_with(&format!("{key}: ")) && problem.contains(expected),
                "{problem}"
            );
        }
    }

    #[test]
    fn files_are_looked_for_beside_the_file_that_names_them() {
        let rebased = |key: &str, mut value: Value| {
            rebase_value(key, &mut value, Path::new("studies"));
            value.to_string()
        };
        assert_eq!(
            rebased("router-config", "mine.yaml".into()),
            r#""studies/mine.yaml""#
        );
        assert_eq!(
            rebased("router-config", "optimized-baseline".into()),
            r#""optimized-baseline""#
        );
        let whole = serde_json::json!({ "router-config": "mine.yaml", "replicas": 2 });
        assert!(rebased("gateway", whole).contains("studies/mine.yaml"));
        assert_eq!(
            rebased("workload.trace.path", "a.csv".into()),
            r#""studies/a.csv""#
        );
        assert_eq!(rebased("model", "m".into()), r#""m""#);
    }

    #[test]
    fn a_setting_reads_as_a_flag() {
        assert_eq!(Setting::new("gpu", "H100").to_string(), "gpu=H100");
        assert_eq!(Setting::new("replicas", 2).to_string(), "replicas=2");
    }
}

//! [`Ablation`]: which features of what, and what they are to be good for.

use std::collections::BTreeMap;
use std::path::Path;

use foretoken::Scenario;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::coalition::{Coalition, MAX_FEATURES};
use super::report::AblationReport;
use super::shapley::ShapleyMethod;
use super::study::Study;
use crate::environment::Environment;
use crate::error::SearchError;
use crate::goodput::GoodputSpec;
use crate::metric::{Direction, LatencyKind, Metric};
use crate::replications;
use crate::setting::{Setting, rebase_scenario, rebase_value};

/// Which features of what, and what they are to be good for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Ablation {
    /// The deployment and its load, with all features off.
    pub scenario: Scenario,
    /// What can be switched on, in the order of the ladder; 1 to 32.
    pub features: Vec<Feature>,
    /// What a set of features is worth.
    pub value: AblationValue,
    /// Repetitions with other random numbers, 1 to 1000; 3 by default. One alone gives no intervals.
    #[serde(default = "three")]
    pub replications: u32,
    /// How Shapley values are computed; exact for at most 10 features by default, else sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<ShapleyMethod>,
}

const fn three() -> u32 {
    3
}

/// Something that can be switched on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// What people call it.
    pub name: String,
    /// The settings that switch it on: keys as [`Setting`] has them, no two features the same ones.
    pub set: BTreeMap<String, Value>,
}

impl Feature {
    /// A feature that is one setting.
    pub fn new(name: impl Into<String>, key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            name: name.into(),
            set: BTreeMap::from([(key.into(), value.into())]),
        }
    }

    /// The same with one more setting.
    #[must_use]
    pub fn and(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set.insert(key.into(), value.into());
        self
    }

    fn settings(&self) -> impl Iterator<Item = Setting> {
        let settings = self.set.iter();
        settings.map(|(key, value)| Setting::new(key.clone(), value.clone()))
    }
}

/// What a set of features is worth. In files `{ maximise: METRIC }`, `{ minimise: METRIC }` or
/// `{ goodput: SPEC }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AblationValue {
    /// A number of a run of which more is better.
    Maximise(Metric),
    /// A number of a run of which less is better.
    Minimise(Metric),
    /// The highest rate, in requests per second, at which objectives hold, one search for each replication of
    /// the ablation (its own replications do not count); 0 where no rate holds.
    Goodput(GoodputSpec),
}

impl AblationValue {
    /// A metric with the direction that is better.
    pub const fn of(metric: Metric) -> Self {
        match metric.direction() {
            Direction::Minimise => Self::Minimise(metric),
            Direction::Maximise => Self::Maximise(metric),
        }
    }

    /// The number of a scenario.
    fn measure(&self, environment: &Environment, scenario: &Scenario) -> Result<f64, SearchError> {
        match self {
            Self::Maximise(metric) | Self::Minimise(metric) => {
                let measured = environment.measure(scenario)?;
                let allowed = match metric {
                    Metric::Latency(LatencyKind::Itl | LatencyKind::Tpot, _) => {
                        "a metric that the run has: no request had two tokens"
                    }
                    _ => "a metric that the run has",
                };
                let number = metric.of(&measured);
                number.ok_or_else(|| SearchError::out_of_range("value", metric, allowed))
            }
            Self::Goodput(spec) => {
                let once = GoodputSpec {
                    replications: 1,
                    ..spec.clone()
                };
                let found = once.find_for(scenario, environment)?;
                Ok(found.rate.unwrap_or(0.0))
            }
        }
    }

    /// Whether less is better.
    pub(super) const fn is_cost(&self) -> bool {
        matches!(self, Self::Minimise(_))
    }
}

impl core::fmt::Display for AblationValue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Maximise(metric) | Self::Minimise(metric) => write!(f, "{metric}"),
            Self::Goodput(_) => f.write_str("goodput-rps"),
        }
    }
}

impl Ablation {
    /// Runs all coalitions that are needed, on as many threads as rayon has; `progress` is told how many
    /// runs there are and how many of them are done. The result does not depend on the threads.
    ///
    /// # Errors
    /// [`SearchError`] names the key that makes no sense, before the first run: also a coalition that
    /// cannot be built, such as one whose model does not fit. After it, a run that fails.
    pub fn run(
        &self,
        environment: &Environment,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<AblationReport, SearchError> {
        let study = self.study()?;
        self.check_value()?;
        for coalition in study.coalitions() {
            self.scenario_of(coalition)
                .and_then(|scenario| {
                    self.check_replications(&scenario)?;
                    Ok(scenario.build(&environment.catalog, &environment.physics)?)
                })
                .map_err(|error| study.failed(coalition, error))?;
        }
        study.run(
            |coalition, replication| {
                let mut scenario = self.scenario_of(coalition)?;
                scenario.replication += u64::from(replication);
                self.value.measure(environment, &scenario)
            },
            progress,
        )
    }

    /// Takes relative paths, of traces and of routers' configurations, as paths from `folder`.
    pub fn rebase(&mut self, folder: &Path) {
        rebase_scenario(&mut self.scenario, folder);
        let settings = self.features.iter_mut();
        for (key, value) in settings.flat_map(|feature| &mut feature.set) {
            rebase_value(key, value, folder);
        }
    }

    fn check_value(&self) -> Result<(), SearchError> {
        match &self.value {
            AblationValue::Maximise(metric) | AblationValue::Minimise(metric) => {
                metric.check("value", &self.scenario)
            }
            AblationValue::Goodput(spec) => {
                spec.with_slos_of(&self.scenario).check()?;
                let rate = self.scenario.workload.mean_rate();
                rate.map(drop)
                    .map_err(|error| foretoken::Error::from(error).into())
            }
        }
    }

    fn check_replications(&self, scenario: &Scenario) -> Result<(), SearchError> {
        let field = "scenario.replication";
        replications::check(self.replications.into(), field, scenario.replication)
    }

    /// The scenario with a coalition's features.
    fn scenario_of(&self, coalition: Coalition) -> Result<Scenario, SearchError> {
        let on = self.features.iter().enumerate();
        let on = on.filter(|(number, _)| coalition.contains(*number));
        let settings: Vec<Setting> = on.flat_map(|(_, feature)| feature.settings()).collect();
        Setting::apply_all(&settings, &self.scenario)
    }

    fn study(&self) -> Result<Study, SearchError> {
        let count = self.features.len();
        if !(1..=MAX_FEATURES).contains(&count) {
            let allowed = format!("a list of 1 to {MAX_FEATURES}");
            return Err(SearchError::out_of_range(
                "features",
                &format!("a list of {count}"),
                allowed,
            ));
        }
        for (number, feature) in self.features.iter().enumerate() {
            self.check_feature(number, feature)?;
        }
        self.check_replications(&self.scenario)?;
        Study::new(
            self.features.iter().map(|feature| feature.name.clone()),
            self.value.clone(),
            self.replications,
            self.method.unwrap_or(ShapleyMethod::of(count)),
        )
    }

    fn check_feature(&self, number: usize, feature: &Feature) -> Result<(), SearchError> {
        let field = |key: &str| format!("features[{number}].{key}");
        let before = &self.features[..number];
        if feature.name.is_empty() || before.iter().any(|other| other.name == feature.name) {
            let allowed = "a name that no other feature has";
            return Err(SearchError::out_of_range(
                field("name"),
                &format!("`{}`", feature.name),
                allowed,
            ));
        }
        if feature.set.is_empty() {
            return Err(SearchError::out_of_range(
                field("set"),
                &"empty",
                "one setting or more",
            ));
        }
        for (key, value) in &feature.set {
            let setting = Setting::new(key.clone(), value.clone());
            let same = |other: &&Feature| other.settings().any(|one| one.overlaps(&setting));
            if let Some(other) = before.iter().find(same) {
                let allowed = format!("a key that `{}` does not set", other.name);
                return Err(SearchError::out_of_range(field("set"), key, allowed));
            }
            if let Err(SearchError::Setting { setting, problem }) = setting.apply(&self.scenario) {
                return Err(SearchError::Setting {
                    setting: format!("{}: {setting}", field("set")),
                    problem,
                });
            }
        }
        Ok(())
    }
}

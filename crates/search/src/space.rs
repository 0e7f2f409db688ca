//! [`Space`]: what may be set, and to what.

mod grid;
mod ordered;

pub(crate) use grid::{Digits, Grid, below};

use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::error::SearchError;
use crate::setting::{Setting, rebase_value};
use ordered::Ordered;

/// A range has at most so many values.
const MAX_LEVELS: u32 = 10_000;

/// Knobs in order, each with its levels: a finite grid. In a file a map from names to [`Levels`].
///
/// ```
/// use foretoken_search::{Setting, Space};
///
/// let read: Space = serde_json::from_str(r#"{
///     "tensor-parallel": [2, 4, 8],
///     "replicas": { "gpu-budget": 8 },
///     "policy": { "choices": {
///         "fcfs": { "scheduling-policy": "fcfs" },
///         "short": { "scheduling-policy": "shortest-job-first", "long-prefill-token-threshold": 512 }
///     } }
/// }"#)?;
/// let fcfs = Setting::new("scheduling-policy", "fcfs");
/// let short = Setting::new("scheduling-policy", "shortest-job-first");
/// let chunks = Setting::new("long-prefill-token-threshold", 512);
/// let built = Space::default()
///     .values("tensor-parallel", [2, 4, 8])
///     .gpu_budget(8)
///     .choices("policy", [("fcfs", vec![fcfs]), ("short", vec![short, chunks])]);
/// assert_eq!(read, built);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Space {
    knobs: Vec<Knob>,
}

/// A knob: the key of a [`Setting`], or a free name where its levels are choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// What it may be set to.
    pub levels: Levels,
}

/// What a knob may be set to. In files a list, or a map with the keys of one of the other forms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "allowed is a list of values, { from, to, step }, { from, to, factor }, { gpu-budget: N } \
                 or { choices: { NAME: { KEY: VALUE, ... }, ... } }"
)]
#[non_exhaustive]
pub enum Levels {
    /// These values.
    Values(Vec<Value>),
    /// Values at equal distances or ratios.
    Range(Range),
    /// For `replicas`: every number of them that this many accelerators allow, by what a replica of the candidate
    /// takes.
    GpuBudget(GpuBudget),
    /// Named sets of several settings at once.
    Choices(Choices),
}

/// `from`, then on by `step` or by `factor`, up to `to`, which is among the values if it is hit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first value.
    pub from: Number,
    /// The last value at most.
    pub to: Number,
    /// From one value to the next; above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Number>,
    /// From one value to the next; above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<Number>,
}

/// How many accelerators there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GpuBudget {
    /// At most so many, of all deployments together.
    pub gpu_budget: u32,
}

/// Named sets of settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    choices: Ordered<Ordered<Value>>,
}

impl Space {
    /// One more knob with these values.
    #[must_use]
    pub fn values<V: Into<Value>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.with(key, Levels::Values(values))
    }

    /// `replicas` by what so many accelerators allow.
    #[must_use]
    pub fn gpu_budget(self, gpus: u32) -> Self {
        self.with(
            "replicas",
            Levels::GpuBudget(GpuBudget { gpu_budget: gpus }),
        )
    }

    /// One more knob with named sets of settings.
    #[must_use]
    pub fn choices<'a>(
        self,
        name: impl Into<String>,
        choices: impl IntoIterator<Item = (&'a str, Vec<Setting>)>,
    ) -> Self {
        let set = |settings: Vec<Setting>| {
            let pair = |setting: Setting| (setting.key, setting.value);
            Ordered(settings.into_iter().map(pair).collect())
        };
        let choices = choices
            .into_iter()
            .map(|(name, settings)| (name.to_owned(), set(settings)))
            .collect();
        let choices = Ordered(choices);
        self.with(name, Levels::Choices(Choices { choices }))
    }

    /// One more knob.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, levels: Levels) -> Self {
        let name = name.into();
        self.knobs.push(Knob { name, levels });
        self
    }

    /// Takes relative paths in levels as paths from `folder`.
    pub(crate) fn rebase(&mut self, folder: &Path) {
        let rebase = |key: &str, value: &mut Value| rebase_value(key, value, folder);
        for Knob { name, levels } in &mut self.knobs {
            match levels {
                Levels::Values(values) => values.iter_mut().for_each(|value| rebase(name, value)),
                Levels::Choices(Choices { choices }) => {
                    let settings = choices
                        .0
                        .iter_mut()
                        .flat_map(|(_, settings)| &mut settings.0);
                    settings.for_each(|(key, value)| rebase(key, value));
                }
                Levels::Range(_) | Levels::GpuBudget(_) => {}
            }
        }
    }

    /// The knobs in order.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }
}

/// A value of a knob: how it is called, and what it sets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    pub(crate) label: String,
    pub(crate) settings: Vec<Setting>,
}

impl Knob {
    fn budget(&self) -> Option<u32> {
        match &self.levels {
            Levels::GpuBudget(budget) => Some(budget.gpu_budget),
            _ => None,
        }
    }

    /// Its levels one by one; those of a budget are not known here.
    fn levels(&self) -> Result<Vec<Level>, SearchError> {
        let of_value = |value: &Value| Level {
            label: plain(value),
            settings: vec![Setting::new(self.name.as_str(), value.clone())],
        };
        let levels: Vec<Level> = match &self.levels {
            Levels::Values(values) => values.iter().map(of_value).collect(),
            Levels::Range(range) => range.values(&self.name)?.iter().map(of_value).collect(),
            Levels::GpuBudget(_) if self.name == "replicas" => return Ok(Vec::new()),
            Levels::GpuBudget(_) => {
                let (field, allowed) = (format!("space.{}", self.name), "for `replicas` only");
                return Err(SearchError::out_of_range(field, &"gpu-budget", allowed));
            }
            Levels::Choices(Choices { choices }) => {
                let set = |(name, settings): &(String, Ordered<Value>)| Level {
                    label: name.clone(),
                    settings: settings
                        .0
                        .iter()
                        .map(|(key, value)| Setting::new(key.as_str(), value.clone()))
                        .collect(),
                };
                choices.0.iter().map(set).collect()
            }
        };
        let field = || format!("space.{}", self.name);
        if levels.is_empty() {
            return Err(SearchError::out_of_range(
                field(),
                &"empty",
                "at least one value",
            ));
        }
        for (index, level) in levels.iter().enumerate() {
            if levels[..index]
                .iter()
                .any(|other| other.label == level.label)
            {
                let twice = format!("{} twice", level.label);
                return Err(SearchError::out_of_range(
                    field(),
                    &twice,
                    "every value once",
                ));
            }
        }
        Ok(levels)
    }
}

impl Range {
    fn values(&self, knob: &str) -> Result<Vec<Value>, SearchError> {
        let wrong = |key: &str, value: &dyn core::fmt::Display, allowed: &str| {
            SearchError::out_of_range(format!("space.{knob}.{key}"), &value.to_string(), allowed)
        };
        let number = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
        let (from, to) = (number(&self.from), number(&self.to));
        if to < from {
            return Err(wrong("to", &self.to, &format!("{from} or more")));
        }
        let value_at: Box<dyn Fn(u32) -> f64> = match (&self.step, &self.factor) {
            (Some(step), None) if number(step) > 0.0 => {
                let step = number(step);
                Box::new(move |place| from + step * f64::from(place))
            }
            (Some(step), None) => return Err(wrong("step", step, "above 0")),
            (None, Some(factor)) if from <= 0.0 => {
                let allowed = format!("above 0 with a factor ({factor})");
                return Err(wrong("from", &self.from, &allowed));
            }
            (None, Some(factor)) if number(factor) > 1.0 => {
                let factor = number(factor);
                Box::new(move |place| from * libm::pow(factor, f64::from(place)))
            }
            (None, Some(factor)) => return Err(wrong("factor", factor, "above 1")),
            (Some(_), Some(_)) => return Err(wrong("factor", &"given beside step", "one of both")),
            (None, None) => return Err(wrong("step", &"missing", "step or factor")),
        };
        // Sums and products of floats may miss the end by a rounding.
        let last = to + (to.abs() + from.abs()) * 1e-12;
        let values: Vec<Value> = (0..=MAX_LEVELS)
            .map(&*value_at)
            .take_while(|&value| value <= last)
            .map(|value| self.written(value))
            .collect();
        if values.len() > MAX_LEVELS as usize {
            return Err(wrong(
                "to",
                &self.to,
                &format!("at most {MAX_LEVELS} values"),
            ));
        }
        Ok(values)
    }

    /// Whole where the range is written in whole numbers: settings are often no floats.
    fn written(&self, value: f64) -> Value {
        let parts = [Some(&self.from), self.step.as_ref(), self.factor.as_ref()];
        if parts.into_iter().flatten().all(|part| !part.is_f64()) && value.abs() < 9e15 {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
            let whole = value.round() as i64;
            return Value::from(whole);
        }
        Value::from(value)
    }
}

/// A value without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

impl Serialize for Space {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.knobs.iter().map(|knob| (&knob.name, &knob.levels)))
    }
}

impl<'de> Deserialize<'de> for Space {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let knobs = Ordered::deserialize(deserializer)?.0;
        let knob = |(name, levels)| Knob { name, levels };
        Ok(Self {
            knobs: knobs.into_iter().map(knob).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(range: &str) -> Result<Vec<Value>, String> {
        let range: Range = serde_json::from_str(range).expect("a range");
        range.values("x").map_err(|error| error.to_string())
    }

    #[test]
    fn ranges_of_whole_numbers_are_whole_and_hold_their_end() {
        let of = |range| Value::from(values(range).expect("it makes sense")).to_string();
        assert_eq!(of(r#"{"from": 1, "to": 7, "step": 2}"#), "[1,3,5,7]");
        assert_eq!(
            of(r#"{"from": 16, "to": 200, "factor": 2}"#),
            "[16,32,64,128]"
        );
        assert_eq!(
            of(r#"{"from": 0.5, "to": 0.7, "step": 0.1}"#),
            "[0.5,0.6,0.7]"
        );
    }

    #[test]
    fn ranges_that_lead_nowhere_are_refused_by_name() {
        for (range, expected) in [
            (r#"{"from": 2, "to": 1, "step": 1}"#, "space.x.to is 1"),
            (r#"{"from": 1, "to": 2, "step": 0}"#, "space.x.step is 0"),
            (
                r#"{"from": 1, "to": 2, "factor": 1}"#,
                "space.x.factor is 1",
            ),
            (r#"{"from": 0, "to": 2, "factor": 2}"#, "space.x.from is 0"),
            (r#"{"from": 0, "to": 2}"#, "space.x.step is missing"),
            (
                r#"{"from": 0, "to": 1e9, "step": 1}"#,
                "at most 10000 values",
            ),
        ] {
            let problem = values(range).expect_err("it makes no sense");
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_space_is_read_in_order_and_written_as_it_was() {
        let text = r#"{"z":[1,2],"a":{"choices":{"y":{"seed":1},"b":{"seed":2}}},"replicas":{"gpu-budget":8}}"#;
        let space: Space = serde_json::from_str(text).expect("a space");
        assert_eq!(serde_json::to_string(&space).expect("plain data"), text);
    }

    #[test]
    fn a_knob_that_comes_twice_or_has_no_levels_is_refused() {
        let twice = serde_json::from_str::<Space>(r#"{"a":[1],"a":[2]}"#).expect_err("twice");
        assert!(twice.to_string().contains("`a` comes twice"), "{twice}");
        let plain = serde_json::from_str::<Space>(r#"{"a":{"values":[1]}}"#).expect_err("no form");
        assert!(plain.to_string().contains("gpu-budget"), "{plain}");
    }
}

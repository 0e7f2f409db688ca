//! [`Journal`]: what was evaluated, in memory and in a file that a later run continues.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use foretoken::Scenario;
use foretoken_calibrate::progress::{JsonLines, fingerprint, from_hex, hex};
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::SearchError;
use crate::metric::Metric;
use crate::setting::Setting;

/// What a candidate gave: the numbers of the journal's metrics in their order, or why it could not be run.
pub(crate) type Outcome = Result<Vec<Option<f64>>, String>;

/// Evaluations by what was set and how much of the load was run. In its file the first line says what
/// they belong to; each other line is one evaluation, added as soon as it ends.
#[derive(Debug)]
pub(crate) struct Journal {
    metrics: Vec<Metric>,
    known: Mutex<BTreeMap<Key, Outcome>>,
    file: Option<JsonLines>,
}

/// The share of the load and the settings, as text: that comes back from a file as it was.
type Key = (String, Vec<String>);

/// All that evaluations depend on beside settings and share.
#[derive(Serialize)]
pub(crate) struct Context<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) replications: u32,
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Header {
    /// Of the context, the environment and the version.
    search: String,
    metrics: Vec<Metric>,
}

/// The bits are what counts; the readable numbers are for people.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    share: String,
    settings: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metrics: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bits: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl Journal {
    /// A journal in memory.
    pub(crate) fn new(metrics: Vec<Metric>) -> Self {
        Self {
            metrics,
            known: Mutex::default(),
            file: None,
        }
    }

    /// Opens a file, or begins one.
    ///
    /// # Errors
    /// If it cannot be read or written, or belongs to something else.
    pub(crate) fn open(
        path: &Path,
        metrics: Vec<Metric>,
        context: &Context<'_>,
        environment: &Environment,
    ) -> Result<Self, SearchError> {
        let context = serde_json::to_string(context).expect("scenarios are plain data");
        let environment = format!("{} {environment:?}", env!("CARGO_PKG_VERSION"));
        let (context, environment) = (fingerprint(&context), fingerprint(&environment));
        let header = Header {
            search: format!("{context:016x}{environment:016x}"),
            metrics: metrics.clone(),
        };
        let mut known = BTreeMap::new();
        let mut is_new = true;
        let begin = serde_json::to_string(&header).expect("a header is plain text");
        let file = JsonLines::open(path, &begin, |index, line: serde_json::Value| {
            if index == 0 {
                is_new = false;
                return header.check(line);
            }
            let line: Line = serde_json::from_value(line).map_err(|error| error.to_string())?;
            let outcome = line.outcome(&metrics)?;
            known.insert((line.share, line.settings), outcome);
            Ok(())
        })?;
        if is_new {
            file.append(&header)?;
        }
        Ok(Self {
            metrics,
            known: Mutex::new(known),
            file: Some(file),
        })
    }

    /// The outcome of these settings with this share of the load: the known one, or that of `evaluate`,
    /// which is then kept.
    ///
    /// # Errors
    /// If the file cannot be written; that of `evaluate`, of which nothing is kept.
    pub(crate) fn remember(
        &self,
        share: f64,
        settings: &[Setting],
        evaluate: impl FnOnce() -> Result<Outcome, SearchError>,
    ) -> Result<Outcome, SearchError> {
        let settings: Vec<String> = settings.iter().map(Setting::to_string).collect();
        let key = (share.to_string(), settings);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = known().get(&key) {
            return Ok(outcome.clone());
        }
        let outcome = evaluate()?;
        if let Some(file) = &self.file {
            file.append(&self.line(&key, &outcome))?;
        }
        known().insert(key, outcome.clone());
        Ok(outcome)
    }

    fn line(&self, (share, settings): &Key, outcome: &Outcome) -> Line {
        let values = outcome.as_ref().ok();
        let named = values.map(|values| {
            let named = self.metrics.iter().zip(values);
            named
                .filter_map(|(metric, value)| Some((metric.to_string(), (*value)?)))
                .collect()
        });
        let bits = |values: &Vec<Option<f64>>| {
            let numbers: Vec<f64> = values.iter().map(|v| v.unwrap_or(f64::NAN)).collect();
            hex(&numbers)
        };
        Line {
            share: share.clone(),
            settings: settings.clone(),
            metrics: named.unwrap_or_default(),
            bits: values.map(bits),
            failure: outcome.as_ref().err().cloned(),
        }
    }
}

impl Header {
    fn check(&self, line: serde_json::Value) -> Result<(), String> {
        let Ok(found) = serde_json::from_value::<Self>(line) else {
            return Err("no log of a search".to_owned());
        };
        if found.metrics != self.metrics {
            let names = |metrics: &[Metric]| {
                let names: Vec<String> = metrics.iter().map(Metric::to_string).collect();
                names.join(", ")
            };
            let (found, here) = (names(&found.metrics), names(&self.metrics));
            return Err(format!(
                "the log of another search: it has {found}, where {here} are wanted; take another file"
            ));
        }
        if found.search != self.search {
            return Err(
                "the log of another search: of another scenario, number of replications, catalog, \
                 set of parameters, prices or version; take another file"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

impl Line {
    fn outcome(&self, metrics: &[Metric]) -> Result<Outcome, String> {
        if let Some(failure) = &self.failure {
            return Ok(Err(failure.clone()));
        }
        let numbers = self.bits.as_deref().and_then(from_hex);
        let numbers = numbers.filter(|numbers| numbers.len() == metrics.len());
        let numbers = numbers.ok_or_else(|| {
            let (count, bits) = (metrics.len(), self.bits.as_deref().unwrap_or_default());
            format!("bits is {bits}: allowed is hex, 16 digits for each of {count} numbers")
        })?;
        let known = |number: f64| (!number.is_nan()).then_some(number);
        Ok(Ok(numbers.into_iter().map(known).collect()))
    }
}

#[cfg(test)]
mod tests {
    use foretoken::Deployment;
    use foretoken::workload::{LengthSpec, Synthetic};

    use super::*;

    const METRICS: [Metric; 2] = [Metric::Gpus, Metric::RequestsPerS];

    fn file(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("foretoken-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn scenario(requests: u32) -> Scenario {
        let lengths = LengthSpec::constant(100);
        let load = Synthetic::poisson(2.0, requests, lengths.clone(), lengths);
        Scenario::new(Deployment::new("m", "g", 1), load.expect("a valid load"))
    }

    fn open(path: &Path, metrics: &[Metric], requests: u32) -> Result<Journal, String> {
        let context = Context {
            scenario: &scenario(requests),
            replications: 1,
        };
        let environment = Environment::builtin();
        Journal::open(path, metrics.to_vec(), &context, &environment).map_err(|e| e.to_string())
    }

    #[test]
    fn outcomes_survive_the_file_to_the_bit() {
        let path = file("journal.jsonl");
        let settings = [Setting::new("gpu", "H100"), Setting::new("replicas", 2)];
        let outcome: Outcome = Ok(vec![Some(0.1 + 0.2), None]);
        let failure: Outcome = Err("it does not fit".to_owned());
        let journal = open(&path, &METRICS, 10).expect("a new file");
        for (share, outcome) in [(1.0, &outcome), (0.1, &failure)] {
            let kept = journal.remember(share, &settings, || Ok(outcome.clone()));
            assert_eq!(&kept.expect("written"), outcome);
        }
        let again = open(&path, &METRICS, 10).expect("a log");
        for (share, outcome) in [(1.0, &outcome), (0.1, &failure)] {
            let found = again.remember(share, &settings, || panic!("known"));
            assert_eq!(&found.expect("known"), outcome);
        }
        std::fs::remove_file(path).expect("it exists");
    }

    #[test]
    fn a_log_of_something_else_is_refused() {
        let path = file("other.jsonl");
        open(&path, &METRICS, 10).expect("a new file");
        let problem = open(&path, &METRICS, 11).expect_err("another scenario");
        assert!(
            problem.contains("line 1: the log of another search"),
            "{problem}"
        );
        let problem = open(&path, &METRICS[..1], 10).expect_err("other metrics");
        assert!(problem.contains("gpus, requests-per-s"), "{problem}");
        std::fs::write(&path, "{\"x\": 1}\n").expect("written");
        let problem = open(&path, &METRICS, 10).expect_err("no log");
        assert!(problem.contains("no log of a search"), "{problem}");
        std::fs::remove_file(path).expect("it exists");
    }
}

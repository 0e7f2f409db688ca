//! Files of inference-perf (kubernetes-sigs/inference-perf).
//!
//! `per_request_lifecycle_metrics.json` is a list of requests:
//!
//! | Key | Becomes |
//! |---|---|
//! | `start_time`, `end_time` | `sent`, `finished`, from seconds of a clock of its own |
//! | `info.input_tokens`, `info.output_tokens` | themselves |
//! | `info.output_token_times` | `first-token`: the first of them, from seconds of the same clock |
//! | `error` | `fate`: answered if null, else a failure with `error_msg` or `error_type` |
//! | `stage_id`, where it is there | `stage` |
//!
//! Other keys are ignored. Tokens that are missing are 0 where the request failed.
//!
//! `stage_N_lifecycle_metrics.json` has counts and rates and no requests: [`stage_report`] reads it. A
//! configuration describes a load: [`inference_perf_config`] makes it a [`WorkloadSpec`].

use std::sync::Arc;

use serde::Deserialize;

use super::super::columns::TimeUnit;
use super::super::document::Pattern;
use super::super::json::{self, Object};
use super::super::row::Fate;
use super::super::value::{self, TIME, Texts, WHOLE};
use super::{Part, PartRows, Row, Rows, Text, TraceError};
use crate::arrival::{ArrivalSpec, Stage};
use crate::error::WorkloadError;
use crate::length::LengthSpec;
use crate::quantity::{Rate, Seconds};
use crate::shared_prefix::{DEFAULT_PROMPT_INFLATION, SharedPrefixSpec};
use crate::spec::WorkloadSpec;
use crate::synthetic::SyntheticSpec;

/// Requests, and what tells a report of a stage.
const PATTERNS: &[Pattern] = &[&["*"], &["load_summary"]];

const REQUEST: &[&str; 5] = &["start_time", "end_time", "info", "error", "stage_id"];
const INFO: &[&str; 3] = &["input_tokens", "output_tokens", "output_token_times"];

pub(super) fn rows(text: Text) -> Box<dyn Rows> {
    let needed = "a list of requests, as in per_request_lifecycle_metrics.json";
    PartRows::boxed(text, PATTERNS, needed, |part, texts| match part.pattern {
        0 => row(&part, texts).map(Some),
        _ => Err(TraceError::format(
            "this is the report of a stage, which has counts and rates but no requests: needed is \
             per_request_lifecycle_metrics.json",
        )),
    })
}

fn row(part: &Part<'_>, texts: &mut Texts) -> Result<Row, TraceError> {
    let place = part.place;
    let request = Object::parse(part.text, REQUEST, place)?;
    let info = Object::parse(request.raw(2).unwrap_or("{}"), INFO, place)?;
    let failed = request.raw(3).is_some();
    let tokens = |index| match info.raw(index) {
        None if failed => Ok(0),
        _ => info.tokens(index),
    };
    let time = |raw: &str| value::time(raw, TimeUnit::Seconds);
    let mut row = Row::new(place, tokens(0)?, tokens(1)?);
    row.sent = Some(request.needed(0, TIME, time)?);
    row.finished = request.optional(1, TIME, time)?;
    let first = |raw: &str| {
        let times: Vec<&serde_json::value::RawValue> = serde_json::from_str(raw).ok()?;
        match times.first() {
            None => Some(None),
            Some(first) => time(first.get()).map(Some),
        }
    };
    row.first_token = info.optional(2, "a list of times", first)?.flatten();
    row.stage = request.optional(4, WHOLE, |raw| u32::try_from(value::whole(raw)?).ok())?;
    row.fate = match request.raw(3) {
        None => Fate::Answered,
        Some(error) => Fate::Failed {
            why: texts.keep(&reason(error)).unwrap_or_else(|| Arc::from("")),
        },
    };
    Ok(row)
}

/// What an error says: a text, or the message or the type in an object.
fn reason(raw: &str) -> String {
    if let Some(text) = json::text(raw) {
        return text.into_owned();
    }
    let keys = &["error_msg", "error_type"];
    let said = Object::parse(raw, keys, super::Place::Row(0)).ok();
    let said = said.and_then(|error| {
        let index = error.first(&[0, 1])?;
        json::text(error.raw(index)?).map(std::borrow::Cow::into_owned)
    });
    said.unwrap_or_else(|| raw.to_owned())
}

/// What inference-perf reports of a stage of its load.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StageReport {
    /// Requests sent.
    pub requests: u64,
    /// Of these, requests answered.
    pub answered: u64,
    /// Of these, requests that failed.
    pub failed: u64,
    /// Requests per second that were to be sent, if it is told.
    pub requested_rate: Option<f64>,
    /// Requests per second that were sent, if it is told.
    pub achieved_rate: Option<f64>,
    /// Mean length of the prompts of answered requests, in tokens, if it is told.
    pub input_tokens_mean: Option<f64>,
    /// Mean length of the answers, in tokens, if it is told.
    pub output_tokens_mean: Option<f64>,
}

/// Reads the report of a stage, `stage_N_lifecycle_metrics.json`.
///
/// ```
/// let text = r#"{
///     "load_summary": {"count": 60, "requested_rate": 2.0, "achieved_rate": 1.98},
///     "successes": {"count": 58, "prompt_len": {"mean": 512.5}, "output_len": {"mean": 99.0}},
///     "failures": {"count": 2}
/// }"#;
/// let report = foretoken_workload::trace::stage_report(text)?;
/// assert_eq!((report.requests, report.answered, report.failed), (60, 58, 2));
/// assert_eq!(report.input_tokens_mean, Some(512.5));
/// # Ok::<(), foretoken_workload::trace::TraceError>(())
/// ```
///
/// # Errors
/// [`TraceError::Format`] if it is none, saying where.
pub fn stage_report(text: &str) -> Result<StageReport, TraceError> {
    #[derive(Deserialize)]
    struct Report {
        load_summary: Load,
        successes: Successes,
        failures: Count,
    }
    #[derive(Deserialize)]
    struct Load {
        count: u64,
        requested_rate: Option<f64>,
        achieved_rate: Option<f64>,
    }
    #[derive(Deserialize)]
    struct Successes {
        count: u64,
        prompt_len: Option<Mean>,
        output_len: Option<Mean>,
    }
    #[derive(Deserialize)]
    struct Count {
        count: u64,
    }
    #[derive(Deserialize)]
    struct Mean {
        mean: Option<f64>,
    }

    let report: Report = serde_json::from_str(text)
        .map_err(|error| TraceError::format(format!("this is no report of a stage: {error}")))?;
    let mean = |lengths: Option<Mean>| lengths.and_then(|lengths| lengths.mean);
    Ok(StageReport {
        requests: report.load_summary.count,
        answered: report.successes.count,
        failed: report.failures.count,
        requested_rate: report.load_summary.requested_rate,
        achieved_rate: report.load_summary.achieved_rate,
        input_tokens_mean: mean(report.successes.prompt_len),
        output_tokens_mean: mean(report.successes.output_len),
    })
}

/// A configuration of inference-perf, as far as it describes a load.
#[derive(Deserialize)]
struct Config {
    load: Load,
    data: Data,
}

#[derive(Deserialize)]
struct Load {
    #[serde(rename = "type")]
    kind: Option<String>,
    stages: Vec<ConfigStage>,
}

#[derive(Deserialize)]
struct ConfigStage {
    rate: f64,
    duration: f64,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "type")]
    kind: String,
    input_distribution: Option<Lengths>,
    output_distribution: Option<Lengths>,
    shared_prefix: Option<Shared>,
}

/// Normal lengths, clipped: what inference-perf calls a distribution.
#[derive(Deserialize)]
struct Lengths {
    min: u32,
    max: u32,
    mean: f64,
    #[serde(alias = "std")]
    std_dev: f64,
}

/// Prompts with a shared prefix, with inference-perf's defaults.
#[derive(Deserialize)]
#[serde(default)]
struct Shared {
    #[serde(alias = "num_unique_system_prompts")]
    num_groups: u32,
    #[serde(alias = "num_users_per_system_prompt")]
    num_prompts_per_group: u32,
    system_prompt_len: u32,
    question_len: u32,
    output_len: u32,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            num_groups: 10,
            num_prompts_per_group: 10,
            system_prompt_len: 100,
            question_len: 50,
            output_len: 50,
        }
    }
}

/// The load that a configuration of inference-perf (YAML) describes.
///
/// `data.type` may be `shared_prefix` (with `load.type: poisson`), `random` or `synthetic`, the latter two with
/// `input_distribution` and `output_distribution`: normal, clipped to `min` and `max`. `load.type` may be `poisson`,
/// or, with one stage and without a shared prefix, `constant`, which is also what inference-perf takes if nothing is
/// said. Keys that do not describe the load are ignored.
///
/// ```
/// use foretoken_workload::WorkloadSpec;
///
/// let text = "
/// load: {type: poisson, stages: [{rate: 2, duration: 30}]}
/// data:
///   type: random
///   input_distribution: {min: 10, max: 900, mean: 500, std_dev: 100, total_count: 100}
///   output_distribution: {min: 1, max: 90, mean: 50, std_dev: 10, total_count: 100}
/// ";
/// let load = foretoken_workload::trace::inference_perf_config(text)?;
/// assert!(matches!(load, WorkloadSpec::Synthetic(_)));
/// # Ok::<(), foretoken_workload::trace::TraceError>(())
/// ```
///
/// # Errors
/// [`TraceError::Format`] that names what is missing, wrong or not supported.
pub fn inference_perf_config(text: &str) -> Result<WorkloadSpec, TraceError> {
    let config: Config = serde_saphyr::from_str(text).map_err(|error| {
        TraceError::format(format!("no configuration of inference-perf: {error}"))
    })?;
    let load = config.load;
    let kind = load.kind.as_deref().unwrap_or("constant");
    let shared = config.data.kind == "shared_prefix";
    let in_field = |field: String| {
        move |error: WorkloadError| TraceError::format(error.within(&field).to_string())
    };
    let mut stages = Vec::with_capacity(load.stages.len());
    for (index, stage) in load.stages.iter().enumerate() {
        let field = format!("load.stages[{index}]");
        stages.push(Stage::new(stage.rate, stage.duration).map_err(in_field(field))?);
    }
    let arrivals = match (kind, &*stages) {
        (_, []) => {
            return Err(TraceError::format(
                "load.stages is empty: needed is a stage",
            ));
        }
        ("poisson", _) => (
            ArrivalSpec::Stages {
                stages: stages.clone(),
            },
            None,
        ),
        ("constant", [stage]) if !shared => {
            let Stage {
                rate_rps: rate,
                duration_s,
            } = *stage;
            (ArrivalSpec::Constant { rate }, Some((duration_s, rate)))
        }
        ("constant", _) => {
            return Err(TraceError::format(
                "load.type is constant: with several stages or a shared prefix allowed is poisson",
            ));
        }
        (other, _) => {
            return Err(TraceError::format(format!(
                "load.type is {other:?}: allowed is poisson or constant"
            )));
        }
    };
    match config.data.kind.as_str() {
        "shared_prefix" => {
            let shared = config.data.shared_prefix.unwrap_or_default();
            Ok(WorkloadSpec::SharedPrefix(SharedPrefixSpec {
                num_groups: shared.num_groups,
                prompts_per_group: shared.num_prompts_per_group,
                system_prompt_tokens: shared.system_prompt_len,
                question_tokens: shared.question_len,
                output_tokens: shared.output_len,
                stages,
                prompt_tokens_mean_reported: None,
                prompt_inflation: DEFAULT_PROMPT_INFLATION,
                client: crate::client::ClientSpec::default(),
            }))
        }
        "random" | "synthetic" => {
            let lengths = |field: &str, lengths: Option<Lengths>| {
                let lengths = lengths.ok_or_else(|| {
                    TraceError::format(format!(
                        "data.{field} is missing: needed are min, max, mean, std_dev"
                    ))
                })?;
                let spec = LengthSpec::Normal {
                    mean: lengths.mean,
                    std: lengths.std_dev,
                    min: lengths.min,
                    max: lengths.max,
                };
                spec.build().map_err(in_field(format!("data.{field}")))?;
                Ok(spec)
            };
            let prompts = lengths("input_distribution", config.data.input_distribution)?;
            let outputs = lengths("output_distribution", config.data.output_distribution)?;
            let (arrivals, limit) = arrivals;
            let requests = limit.map(|(duration, rate)| requests(duration, rate));
            let mut spec =
                SyntheticSpec::new(arrivals, requests.unwrap_or(u32::MAX), prompts, outputs);
            spec.requests = requests;
            Ok(WorkloadSpec::Synthetic(spec))
        }
        other => Err(TraceError::format(format!(
            "data.type is {other:?}: allowed is shared_prefix, random or synthetic"
        ))),
    }
}

/// Requests that a stage of equal gaps sends.
fn requests(duration: Seconds, rate: Rate) -> u32 {
    crate::quantity::round_u32((duration.get() * rate.get()).floor())
}

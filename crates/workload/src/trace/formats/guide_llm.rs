//! Reports of `GuideLLM` (vllm-project/guidellm): JSON.
//!
//! `benchmarks[].requests.successful`, `.incomplete` and `.errored` are lists of requests:
//!
//! | Key | Becomes |
//! |---|---|
//! | `request_id` | `id` |
//! | `prompt_tokens`, `input_tokens` or `input_metrics.text_tokens` | `input-tokens` |
//! | `output_tokens` or `output_metrics.text_tokens` | `output-tokens` |
//! | `start_time`, `request_start_time` or `info.timings.request_start` | `sent`, from seconds since 1970 |
//! | `first_token_time`, `info.timings.first_iteration` or `first_token_iteration`; else `time_to_first_token_ms` after the start | `first-token` |
//! | `end_time`, `request_end_time` or `info.timings.request_end` | `finished` |
//! | `error`, `error_message` | why it failed |
//!
//! The list says the `fate` (incomplete requests were cut off: `timed-out`), the number of the benchmark is the
//! `stage`. Tokens that are missing are 0 where the request was not successful. `request_info` may stand for `info`.
//! Other keys are ignored. Rows come list by list, not in order of time.

use std::sync::Arc;

use super::super::columns::TimeUnit;
use super::super::document::Pattern;
use super::super::json::Object;
use super::super::row::{Fate, TraceTime};
use super::super::value::{self, TIME, TOKENS, Texts};
use super::{Part, PartRows, Row, Rows, Text, TraceError};

const PATTERNS: &[Pattern] = &[
    &["benchmarks", "*", "requests", "successful", "*"],
    &["benchmarks", "*", "requests", "incomplete", "*"],
    &["benchmarks", "*", "requests", "errored", "*"],
];

const SUCCESSFUL: usize = 0;
const INCOMPLETE: usize = 1;

const KEYS: &[&str; 17] = &[
    "request_id",
    "prompt_tokens",
    "input_tokens",
    "input_metrics",
    "output_tokens",
    "output_metrics",
    "start_time",
    "request_start_time",
    "end_time",
    "request_end_time",
    "first_token_time",
    "time_to_first_token_ms",
    "info",
    "request_info",
    "error",
    "error_message",
    "model",
];

const TIMINGS: &[&str; 4] = &[
    "request_start",
    "first_iteration",
    "first_token_iteration",
    "request_end",
];

pub(super) fn rows(text: Text) -> Box<dyn Rows> {
    let needed = "a GuideLLM report with benchmarks[].requests";
    PartRows::boxed(text, PATTERNS, needed, |part, texts| {
        row(&part, texts).map(Some)
    })
}

fn row(part: &Part<'_>, texts: &mut Texts) -> Result<Row, TraceError> {
    let place = part.place;
    let object = Object::parse(part.text, KEYS, place)?;
    let input = tokens(&object, &[1, 2], 3, part.pattern)?;
    let output = tokens(&object, &[4], 5, part.pattern)?;
    let mut row = Row::new(place, input, output);
    row.id = object.text(0)?.map(|id| Arc::from(&*id));
    row.model = object.text(16)?.and_then(|model| texts.keep(&model));
    row.stage = u32::try_from(part.document.index(1)).ok();

    let info = object.first(&[12, 13]).and_then(|index| object.raw(index));
    let info = Object::parse(info.unwrap_or("{}"), &["timings"], place)?;
    let timings = Object::parse(info.raw(0).unwrap_or("{}"), TIMINGS, place)?;
    let time = |raw: &str| value::time(raw, TimeUnit::Seconds);
    let either = |keys: &[usize], timing: &[usize]| match object.first(keys) {
        Some(key) => object.optional(key, TIME, time),
        None => match timings.first(timing) {
            Some(key) => timings.optional(key, TIME, time),
            None => Ok(None),
        },
    };
    row.sent = either(&[6, 7], &[0])?;
    row.finished = either(&[8, 9], &[3])?;
    row.first_token = either(&[10], &[1, 2])?;
    if let (None, Some(sent)) = (row.first_token, row.sent) {
        let after = |raw: &str| {
            let wait = value::nanos(raw, TimeUnit::Milliseconds)?;
            let first = sent.as_nanos().checked_add(wait)?;
            Some((wait > 0).then_some(TraceTime::from_nanos(first)))
        };
        row.first_token = object.optional(11, "milliseconds", after)?.flatten();
    }
    row.fate = match part.pattern {
        SUCCESSFUL => Fate::Answered,
        INCOMPLETE => Fate::TimedOut,
        _ => {
            let why = object.first(&[14, 15]).and_then(|index| object.raw(index));
            let why = why.map(|raw| super::super::json::text(raw).unwrap_or(raw.into()));
            Fate::Failed {
                why: why
                    .and_then(|why| texts.keep(&why))
                    .unwrap_or_else(|| Arc::from("")),
            }
        }
    };
    Ok(row)
}

/// The tokens that one of the `keys` tells, or `text_tokens` in the object of key `metrics`.
fn tokens(
    object: &Object<'_, 17>,
    keys: &[usize],
    metrics: usize,
    list: usize,
) -> Result<u64, TraceError> {
    if let Some(key) = object.first(keys) {
        return object.tokens(key);
    }
    if let Some(raw) = object.raw(metrics) {
        let metrics = Object::parse(raw, &["text_tokens", "total_tokens"], object.place())?;
        if let Some(key) = metrics.first(&[0, 1]) {
            return metrics.tokens(key);
        }
    }
    match (list, keys) {
        (SUCCESSFUL, [key, ..]) => Err(object.bad(*key, TOKENS)),
        _ => Ok(0),
    }
}

//! Spans of OpenTelemetry's semantic conventions for generative AI: OTLP as JSON, one document or one per line.
//!
//! Of `resourceSpans[].scopeSpans[].spans[]`:
//!
//! | Key or attribute | Becomes |
//! |---|---|
//! | `spanId` | `id` |
//! | `startTimeUnixNano`, `endTimeUnixNano` (text or number) | `sent`, `finished` |
//! | `gen_ai.usage.input_tokens`, once `gen_ai.usage.prompt_tokens` | `input-tokens` |
//! | `gen_ai.usage.output_tokens`, once `gen_ai.usage.completion_tokens` | `output-tokens` |
//! | `gen_ai.request.max_tokens` | `max-tokens` |
//! | `gen_ai.request.model`, else `gen_ai.response.model` | `model` |
//! | `gen_ai.conversation.id` | `session`; the prompt is taken to begin with what was said in it before |
//! | `gen_ai.latency.time_to_first_token` (vLLM) | `first-token`, from seconds after the start |
//! | `status` | `fate`: code 2 is a failure, with its message; 1 is answered |
//!
//! Only spans of requests to a model become rows: those with usage, and those that failed whose operation is `chat`,
//! `text_completion` or `generate_content`. Those of other operations (`execute_tool`, `invoke_agent`,
//! `embeddings`, …), and of other things than generative AI, are no requests and are passed over. A failed request
//! without usage has 0 tokens. `instrumentationLibrarySpans`, the old name of `scopeSpans`, is read too.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::super::columns::TimeUnit;
use super::super::document::Pattern;
use super::super::json::{self, Object, bare};
use super::super::row::{Fate, Place, Prefix, TraceTime};
use super::super::value::{self, TIME, TOKENS, Texts};
use super::{Part, PartRows, Row, Rows, Text, TraceError};

const PATTERNS: &[Pattern] = &[
    &["resourceSpans", "*", "scopeSpans", "*", "spans", "*"],
    &[
        "resourceSpans",
        "*",
        "instrumentationLibrarySpans",
        "*",
        "spans",
        "*",
    ],
];

const SPAN: &[&str; 5] = &[
    "spanId",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "attributes",
    "status",
];

pub(super) fn rows(text: Text) -> Box<dyn Rows> {
    let needed = "OTLP as JSON, with resourceSpans[].scopeSpans[].spans[]";
    PartRows::boxed(text, PATTERNS, needed, |part, texts| row(&part, texts))
}

/// The attributes that matter, as JSON values.
#[derive(Default)]
struct Attributes<'a> {
    input: Option<&'a str>,
    output: Option<&'a str>,
    max_tokens: Option<&'a str>,
    request_model: Option<&'a str>,
    response_model: Option<&'a str>,
    conversation: Option<&'a str>,
    first_token: Option<&'a str>,
    operation: Option<&'a str>,
}

fn row(part: &Part<'_>, texts: &mut Texts) -> Result<Option<Row>, TraceError> {
    let place = part.place;
    let span = Object::parse(part.text, SPAN, place)?;
    let attributes = Attributes::parse(span.raw(3).unwrap_or("[]"), place)?;
    let status = Object::parse(span.raw(4).unwrap_or("{}"), &["code", "message"], place)?;
    let failed = matches!(status.raw(0).map(bare), Some("2" | "STATUS_CODE_ERROR"));
    let operation = attributes.operation.map(bare);
    let other = !matches!(
        operation,
        None | Some("chat" | "text_completion" | "generate_content")
    );
    let used = attributes.input.is_some() || attributes.output.is_some();
    if other || !(used || operation.is_some()) {
        return Ok(None);
    }
    let tokens = |name, value: Option<&str>| match value {
        None if failed => Ok(0),
        value => parsed(
            place,
            name,
            value.unwrap_or("missing"),
            TOKENS,
            value::whole,
        ),
    };
    let mut row = Row::new(
        place,
        tokens("gen_ai.usage.input_tokens", attributes.input)?,
        tokens("gen_ai.usage.output_tokens", attributes.output)?,
    );
    let time = |raw| value::time(bare(raw), TimeUnit::Nanoseconds);
    let sent = span.needed(1, TIME, time)?;
    row.sent = Some(sent);
    row.finished = span.optional(2, TIME, time)?;
    row.id = span.text(0)?.map(|id| Arc::from(&*id));
    if let Some(raw) = attributes.max_tokens {
        let name = "gen_ai.request.max_tokens";
        row.max_tokens = Some(parsed(place, name, raw, TOKENS, value::whole)?);
    }
    let kept = |raw: Option<&str>, texts: &mut Texts| {
        let text = raw.and_then(json::text)?;
        texts.keep(&text)
    };
    row.model =
        kept(attributes.request_model, texts).or_else(|| kept(attributes.response_model, texts));
    row.session = kept(attributes.conversation, texts);
    if row.session.is_some() {
        row.prefix = Prefix::History;
    }
    if let Some(raw) = attributes.first_token {
        let after = |text: &str| {
            let wait = value::nanos(text, TimeUnit::Seconds)?;
            sent.as_nanos().checked_add(wait)
        };
        let name = "gen_ai.latency.time_to_first_token";
        let first = parsed(place, name, raw, "seconds", after)?;
        row.first_token = Some(TraceTime::from_nanos(first));
    }
    row.fate = match status.raw(0).map(bare) {
        _ if failed => Fate::Failed {
            why: kept(status.raw(1), texts).unwrap_or_else(|| Arc::from("")),
        },
        Some("1" | "STATUS_CODE_OK") => Fate::Answered,
        _ => Fate::Unknown,
    };
    Ok(Some(row))
}

/// What `parse` makes of the JSON `raw`, a number or a text of one.
fn parsed<T>(
    place: Place,
    name: &str,
    raw: &str,
    allowed: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, TraceError> {
    parse(bare(raw)).ok_or_else(|| TraceError::bad(place, name, raw, allowed))
}

impl<'a> Attributes<'a> {
    /// Those of a list of `{"key": …, "value": {"intValue": …}}`.
    fn parse(list: &'a str, place: Place) -> Result<Self, TraceError> {
        let list: Vec<&RawValue> = serde_json::from_str(list)
            .map_err(|_| TraceError::bad(place, "attributes", list, "a list of objects"))?;
        let mut attributes = Self::default();
        for attribute in list {
            let attribute = Object::parse(attribute.get(), &["key", "value"], place)?;
            let slot = match attribute.raw(0).map(bare) {
                Some("gen_ai.usage.input_tokens" | "gen_ai.usage.prompt_tokens") => {
                    &mut attributes.input
                }
                Some("gen_ai.usage.output_tokens" | "gen_ai.usage.completion_tokens") => {
                    &mut attributes.output
                }
                Some("gen_ai.request.max_tokens") => &mut attributes.max_tokens,
                Some("gen_ai.request.model") => &mut attributes.request_model,
                Some("gen_ai.response.model") => &mut attributes.response_model,
                Some("gen_ai.conversation.id") => &mut attributes.conversation,
                Some("gen_ai.latency.time_to_first_token") => &mut attributes.first_token,
                Some("gen_ai.operation.name") => &mut attributes.operation,
                _ => continue,
            };
            let value = Object::parse(
                attribute.raw(1).unwrap_or("{}"),
                &["stringValue", "intValue", "doubleValue"],
                place,
            )?;
            *slot = value.first(&[0, 1, 2]).and_then(|index| value.raw(index));
        }
        Ok(attributes)
    }
}

//! What format a trace is of, told from its content.

use super::columns::{Columns, Field};
use super::error::{TraceError, shortened};
use super::format::Format;
use super::formats::serve_gen;
use super::input::{Content, Source};

/// The format of `source`, as its content tells.
///
/// A Parquet file and a folder are what they are. JSON is told by the keys of its first object, CSV by the names of
/// its columns; with columns that were named by the user, both are tables.
pub(crate) fn format_of(source: &mut Source, columns: &Columns) -> Result<Format, TraceError> {
    let text = match &mut source.content {
        Content::Parquet(_) => return Ok(Format::Parquet),
        Content::Folder => return Ok(Format::ServeGen),
        Content::Text(text) => text,
    };
    if serve_gen::is_named_so(&source.path) {
        return Ok(Format::ServeGen);
    }
    let head = text.head()?;
    // Text never ends inside a character.
    let head = core::str::from_utf8(head)
        .unwrap_or_default()
        .trim_ascii_start();
    let by_user = *columns != Columns::default();
    let (format, found) = match head.as_bytes().first() {
        None => {
            return Err(TraceError::format(
                "the file is empty: there is no format to tell",
            ));
        }
        Some(b'{') if by_user => (Some(Format::Jsonl), String::new()),
        Some(b'{') => {
            let keys = keys(head, 1);
            (of_object(&keys), listed("an object with the keys", &keys))
        }
        Some(b'[') => {
            let keys = keys(head, 2);
            let found = listed("a list of objects with the keys", &keys);
            let has = |key| keys.contains(&key);
            let known = has("start_time") && (has("info") || has("end_time"));
            (known.then_some(Format::InferencePerf), found)
        }
        Some(_) if by_user => (Some(Format::Csv), String::new()),
        Some(_) => {
            let line = head.lines().next().unwrap_or_default();
            let columns: Vec<_> = line
                .split(',')
                .map(|name| name.trim().trim_matches('"'))
                .collect();
            let found = format!("the line {:?}", shortened(line));
            (of_table(&columns), found)
        }
    };
    format.ok_or_else(|| {
        TraceError::format(format!(
            "the format is not known: the file begins with {found}. Known are {}; for a table, name its columns",
            Format::known()
        ))
    })
}

fn of_object(keys: &[&str]) -> Option<Format> {
    let has = |key| keys.contains(&key);
    if has("resourceSpans") {
        Some(Format::OpenTelemetry)
    } else if has("benchmarks") {
        Some(Format::GuideLlm)
    } else if has("load_summary") {
        Some(Format::InferencePerf)
    } else if has("input_lens") || (has("total_input_tokens") && has("total_output_tokens")) {
        Some(Format::VllmBench)
    } else if has("input_length") && has("output_length") {
        Some(Format::Mooncake)
    } else {
        has_lengths(keys).then_some(Format::Jsonl)
    }
}

fn of_table(names: &[&str]) -> Option<Format> {
    let known: [(Format, &[&str]); 5] = [
        (
            Format::Azure,
            &["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
        ),
        (Format::BurstGpt, &["Request tokens", "Response tokens"]),
        (Format::Vidur, &["num_prefill_tokens", "num_decode_tokens"]),
        (Format::Splitwise, &["prompt_size", "token_size"]),
        (
            Format::Blis,
            &["arrival_time_us", "input_tokens", "output_tokens"],
        ),
    ];
    known
        .into_iter()
        .find(|(_, needed)| needed.iter().all(|name| names.contains(name)))
        .map(|(format, _)| format)
        .or_else(|| has_lengths(names).then_some(Format::Csv))
}

/// Whether the fields that every table needs are there.
fn has_lengths(names: &[&str]) -> bool {
    let columns = Columns::default();
    [Field::InputTokens, Field::OutputTokens]
        .iter()
        .all(|&field| names.iter().any(|name| columns.field(name) == Some(field)))
}

fn listed(what: &str, keys: &[&str]) -> String {
    format!("{what} {:?}", shortened(&keys.join(", ")))
}

/// The keys of the first object that is `depth` deep in JSON, as far as `text` goes.
fn keys(text: &str, depth: usize) -> Vec<&str> {
    let mut keys = Vec::new();
    let mut open = 0;
    let mut bytes = text.bytes().enumerate();
    let mut last = "";
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'{' | b'[' => open += 1,
            b'}' | b']' if open == depth => break,
            b'}' | b']' => open = open.saturating_sub(1),
            b':' if open == depth => keys.push(last),
            b'"' => {
                let mut end = at;
                while let Some((here, byte)) = bytes.next() {
                    match byte {
                        b'\\' => {
                            bytes.next();
                        }
                        b'"' => {
                            end = here;
                            break;
                        }
                        _ => {}
                    }
                }
                last = text.get(at + 1..end).unwrap_or_default();
            }
            _ => {}
        }
    }
    keys
}

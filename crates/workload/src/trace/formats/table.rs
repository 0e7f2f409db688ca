//! Tables of our own: CSV and JSONL with [`Columns`].
//!
//! The fields of a row are in columns of their names, or of those that [`Columns`] say. Other columns are ignored;
//! `input-tokens` and `output-tokens` are needed, and so is every column that was named. A field that is empty, or
//! null, is not known.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::columns::{Columns, Field, TimeUnit};
use super::super::json;
use super::super::row::Place;
use super::super::value::{self, TIME, TOKENS, Texts, WHOLE};
use super::{LineRows, Row, Rows, Table, TableRows, Text, TraceError};

/// The rows of a CSV file.
pub(super) fn csv(text: Text, columns: &Columns) -> Result<Box<dyn Rows>, TraceError> {
    let table = Table::new(text)?;
    let fields = fields_of(table.names(), columns)
        .map_err(|problem| TraceError::broken(Place::Line(1), problem))?;
    let unit = columns.time_unit();
    Ok(TableRows::boxed(table, move |record, texts| {
        let mut row = Row::new(record.place(), 0, 0);
        for &(index, field) in &fields {
            let text = record.get(index);
            if text.is_empty() && !is_needed(field) {
                continue;
            }
            set(&mut row, field, text, unit, texts)
                .ok_or_else(|| record.bad(index, allowed(field)))?;
        }
        Ok(row)
    }))
}

/// The rows of a JSONL file.
pub(super) fn jsonl(text: Text, columns: Columns) -> Box<dyn Rows> {
    let unit = columns.time_unit();
    LineRows::boxed(text, move |line, place, texts| {
        let mut row = Row::new(place, 0, 0);
        let mut missing = [Some(Field::InputTokens), Some(Field::OutputTokens)];
        json::each(line, place, |key, value| {
            let Some(field) = columns.field(key).filter(|_| value.get() != "null") else {
                return Ok(());
            };
            let text = match json::text(value.get()) {
                None if field == Field::Headers => Some(Cow::Borrowed(value.get())),
                text => text,
            };
            text.and_then(|text| set(&mut row, field, &text, unit, texts))
                .ok_or_else(|| TraceError::bad(place, key, value.get(), allowed(field)))?;
            missing
                .iter_mut()
                .filter(|one| **one == Some(field))
                .for_each(|one| *one = None);
            Ok(())
        })?;
        if let Some(field) = missing.into_iter().flatten().next() {
            let name = columns.name(field).unwrap_or(field.name());
            return Err(TraceError::bad(place, name, "missing", TOKENS));
        }
        Ok(row)
    })
}

const fn is_needed(field: Field) -> bool {
    matches!(field, Field::InputTokens | Field::OutputTokens)
}

/// Which of the columns called `names` is which field.
pub(super) fn fields_of(
    names: &[String],
    columns: &Columns,
) -> Result<Vec<(usize, Field)>, String> {
    let mut fields = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if let Some(field) = columns.field(name) {
            if let Some(&(other, _)) = fields.iter().find(|&&(_, other)| other == field) {
                let other: &String = &names[other];
                return Err(format!("columns {other:?} and {name:?} are both {field}"));
            }
            fields.push((index, field));
        }
    }
    for &field in Field::ALL {
        let wanted = is_needed(field) || columns.name(field).is_some();
        if wanted && !fields.iter().any(|&(_, other)| other == field) {
            let name = columns.name(field).unwrap_or(field.name());
            let there = super::super::error::shortened(&names.join(","));
            return Err(format!("there is no column {name:?}: there are {there}"));
        }
    }
    Ok(fields)
}

/// What a field may be.
pub(super) const fn allowed(field: Field) -> &'static str {
    match field {
        Field::Id | Field::Model | Field::Tenant | Field::Session => "text",
        Field::InputTokens | Field::OutputTokens | Field::MaxTokens => TOKENS,
        Field::Sent | Field::FirstToken | Field::Finished => TIME,
        Field::Timeout => "a span, from 0",
        Field::Turn | Field::Stage | Field::CacheSalt => WHOLE,
        Field::Class => "critical, standard, sheddable or batch",
        Field::Priority | Field::Objective => "a whole number",
        Field::Headers => "a JSON object of texts",
        Field::Prefix => {
            "history, group TOKENS NAME, blocks TOKENS ID;ID;… or segments CONTENT:OFFSET:LENGTH;…"
        }
        Field::Fate => "answered, timed-out, failed or failed WHY",
    }
}

/// Sets a field to what `text` says; nothing if that is not [`allowed`].
pub(super) fn set(
    row: &mut Row,
    field: Field,
    text: &str,
    unit: TimeUnit,
    texts: &mut Texts,
) -> Option<()> {
    let small = |text| u32::try_from(value::whole(text)?).ok();
    match field {
        Field::Id => row.id = Some(text).filter(|text| !text.is_empty()).map(Arc::from),
        Field::Sent => row.sent = Some(value::time(text, unit)?),
        Field::InputTokens => row.input_tokens = value::whole(text)?,
        Field::OutputTokens => row.output_tokens = value::whole(text)?,
        Field::MaxTokens => row.max_tokens = Some(value::whole(text)?),
        Field::Model => row.model = texts.keep(text),
        Field::Tenant => row.tenant = texts.keep(text),
        Field::Session => row.session = texts.keep(text),
        Field::Turn => row.turn = Some(small(text)?),
        Field::Class => row.class = Some(value::class(text)?),
        Field::Priority => row.priority = Some(value::signed(text)?),
        Field::Objective => row.objective = Some(value::signed(text)?),
        Field::Timeout => row.timeout = Some(value::span(text, unit)?),
        Field::Stage => row.stage = Some(small(text)?),
        Field::CacheSalt => row.cache_salt = Some(value::whole(text)?),
        Field::Headers => {
            let headers: BTreeMap<String, String> = serde_json::from_str(text).ok()?;
            row.headers = headers.into_iter().collect();
        }
        Field::Prefix => row.prefix = text.parse().ok()?,
        Field::Fate => row.fate = text.parse().ok()?,
        Field::FirstToken => row.first_token = Some(value::time(text, unit)?),
        Field::Finished => row.finished = Some(value::time(text, unit)?),
    }
    Some(())
}

//! BLIS `TraceV2` (inference-sim): CSV, with a header as YAML beside it.
//!
//! | Column | Becomes |
//! |---|---|
//! | `request_id` | `id` |
//! | `arrival_time_us` | `sent`, from microseconds, unless there is a time of sending |
//! | `send_time_us` | `sent`, from microseconds, where it is above 0 |
//! | `input_tokens`, `output_tokens` | themselves |
//! | `tenant_id`, else `client_id` | `tenant` |
//! | `session_id`, `round_index` | `session`, `turn` |
//! | `slo_class` | `class`; `background` is `batch`, nothing is none |
//! | `prefix_group`, `prefix_length` | `prefix`: a group, where both are given |
//! | `model` | `model` |
//! | `deadline_us` | `timeout`: an instant, less `arrival_time_us`; 0 is none |
//! | `first_chunk_time_us`, `last_chunk_time_us` | `first-token`, `finished`; 0 is none |
//! | `status`, `error_message` | `fate`: `ok`, `timeout`, or a failure |
//!
//! Only arrival and lengths are needed, and columns are found by their names; `streaming`, `num_chunks` and others
//! are ignored. `input_tokens` include the prefix. The header (`NAME.yaml`, `NAME.yml`, `NAME_header.yaml` or
//! `NAME.header.yaml` for `NAME.csv`) may be missing; if it gives a `time_unit`, that must be microseconds.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::super::columns::TimeUnit;
use super::super::csv::Fields;
use super::super::error::TraceError;
use super::super::row::{Fate, Prefix, TraceTime};
use super::super::value::{self, TIME, TOKENS, Texts, WHOLE};
use super::{Row, Rows, Source, Table, TableRows};
use crate::client::SloClass;

pub(super) fn rows(source: Source) -> Result<Box<dyn Rows>, TraceError> {
    check_header(&source.path)?;
    let table = Table::new(source.into_text()?)?;
    let columns = Columns {
        arrival: table.column("arrival_time_us")?,
        input: table.column("input_tokens")?,
        output: table.column("output_tokens")?,
        id: table.find("request_id")?,
        sent: table.find("send_time_us")?,
        tenant: table.find("tenant_id")?,
        client: table.find("client_id")?,
        session: table.find("session_id")?,
        round: table.find("round_index")?,
        class: table.find("slo_class")?,
        group: table.find("prefix_group")?,
        shared: table.find("prefix_length")?,
        model: table.find("model")?,
        deadline: table.find("deadline_us")?,
        first: table.find("first_chunk_time_us")?,
        last: table.find("last_chunk_time_us")?,
        status: table.find("status")?,
        error: table.find("error_message")?,
    };
    Ok(TableRows::boxed(table, move |fields, texts| {
        columns.row(fields, texts)
    }))
}

/// Where each column is.
struct Columns {
    arrival: usize,
    input: usize,
    output: usize,
    id: Option<usize>,
    sent: Option<usize>,
    tenant: Option<usize>,
    client: Option<usize>,
    session: Option<usize>,
    round: Option<usize>,
    class: Option<usize>,
    group: Option<usize>,
    shared: Option<usize>,
    model: Option<usize>,
    deadline: Option<usize>,
    first: Option<usize>,
    last: Option<usize>,
    status: Option<usize>,
    error: Option<usize>,
}

impl Columns {
    fn row(&self, fields: Fields<'_>, texts: &mut Texts) -> Result<Row, TraceError> {
        let text = |column: Option<usize>| column.map_or("", |index| fields.get(index).trim());
        let micros = |text: &str| value::nanos(text, TimeUnit::Microseconds);
        // An instant, where 0 and nothing stand for none.
        let instant = |column: Option<usize>| match column {
            Some(index) if !fields.get(index).trim().is_empty() => fields
                .parsed(index, TIME, micros)
                .map(|nanos| Some(nanos).filter(|&nanos| nanos != 0)),
            _ => Ok(None),
        };
        let count = |column: Option<usize>| match column {
            Some(index) if !fields.get(index).trim().is_empty() => {
                let number = |text: &str| u32::try_from(value::whole(text)?).ok();
                fields.parsed(index, WHOLE, number).map(Some)
            }
            _ => Ok(None),
        };
        let arrival = fields.parsed(self.arrival, TIME, micros)?;
        let mut row = Row::new(
            fields.place(),
            fields.parsed(self.input, TOKENS, value::whole)?,
            fields.parsed(self.output, TOKENS, value::whole)?,
        );
        let sent = instant(self.sent)?.unwrap_or(arrival);
        row.sent = Some(TraceTime::from_nanos(sent));
        row.id = Some(text(self.id))
            .filter(|id| !id.is_empty())
            .map(Arc::from);
        row.tenant = texts
            .keep(text(self.tenant))
            .or_else(|| texts.keep(text(self.client)));
        row.session = texts.keep(text(self.session));
        row.turn = count(self.round)?.filter(|_| row.session.is_some());
        row.model = texts.keep(text(self.model));
        row.class = self.class(fields)?;
        if let (Some(group), Some(tokens)) = (texts.keep(text(self.group)), count(self.shared)?)
            && tokens > 0
        {
            row.prefix = Prefix::Group { group, tokens };
        }
        if let (Some(index), Some(deadline)) = (self.deadline, instant(self.deadline)?) {
            let wait = deadline
                .checked_sub(arrival)
                .and_then(|wait| u64::try_from(wait).ok());
            row.timeout = Some(wait.ok_or_else(|| fields.bad(index, "0, or after the arrival"))?);
        }
        row.first_token = instant(self.first)?.map(TraceTime::from_nanos);
        row.finished = instant(self.last)?.map(TraceTime::from_nanos);
        row.fate = match (text(self.status), text(self.error)) {
            ("", "") => Fate::Unknown,
            ("ok" | "success", _) => Fate::Answered,
            ("timeout", _) => Fate::TimedOut,
            (why, "") | (_, why) => Fate::Failed {
                why: texts.keep(why).unwrap_or_else(|| Arc::from("")),
            },
        };
        Ok(row)
    }

    fn class(&self, fields: Fields<'_>) -> Result<Option<SloClass>, TraceError> {
        let Some(index) = self.class else {
            return Ok(None);
        };
        let allowed = "critical, standard, sheddable, batch, background or nothing";
        fields.parsed(index, allowed, |text| match text.trim() {
            "" => Some(None),
            "background" => Some(Some(SloClass::Batch)),
            other => value::class(other).map(Some),
        })
    }
}

/// What matters of the header.
#[derive(Deserialize)]
struct Header {
    time_unit: Option<String>,
}

/// The largest header that is read.
const MAX_HEADER: u64 = 1 << 20;

/// Checks what the header beside the trace at `path` says, if there is one.
fn check_header(path: &Path) -> Result<(), TraceError> {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else {
        return Ok(());
    };
    for ending in [".yaml", ".yml", "_header.yaml", ".header.yaml"] {
        let beside = path.with_file_name(format!("{stem}{ending}"));
        let is_header = |about: std::fs::Metadata| about.is_file() && about.len() <= MAX_HEADER;
        if !beside.metadata().is_ok_and(is_header) {
            continue;
        }
        let text = std::fs::read_to_string(&beside)
            .map_err(|error| TraceError::io(&error).in_file(&beside))?;
        let header: Header = serde_saphyr::from_str(&text).map_err(|error| {
            TraceError::format(format!("the header is no YAML: {error}")).in_file(&beside)
        })?;
        return match header.time_unit.as_deref() {
            None | Some("us" | "µs" | "microsecond" | "microseconds") => Ok(()),
            Some(unit) => Err(TraceError::format(format!(
                "time_unit is {unit:?}: allowed is microseconds"
            ))
            .in_file(&beside)),
        };
    }
    Ok(())
}

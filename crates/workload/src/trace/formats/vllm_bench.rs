//! Results of vLLM's `vllm bench serve --save-result --save-detailed`: a JSON object, or several one after the other
//! (`--append-result`).
//!
//! | Key | Becomes |
//! |---|---|
//! | `input_lens`, `output_lens` | `input-tokens`, `output-tokens` |
//! | `start_times` (newer versions) | `sent`, from seconds of a clock of its own; without it there are no times |
//! | `ttfts` | `first-token`, from seconds after the start; 0 if there was none |
//! | `itls` | `finished`: their sum after the first token, from seconds |
//! | `errors` | `fate`: answered if empty, else a failure |
//! | `model_id` | `model` |
//!
//! Other keys are ignored; texts that were generated are passed over. The lists run in parallel, so all but the gaps
//! between tokens, which are summed up, are held until the object ends: 64 bytes or so for each request, of which
//! one object may have 16 million.

use std::sync::Arc;

use super::super::columns::TimeUnit;
use super::super::document::{Document, Found, Pattern};
use super::super::json;
use super::super::row::{Fate, Place, TraceTime};
use super::super::value::{self, TIME, TOKENS, Texts};
use super::{Row, Rows, Text, TraceError, empty};

const PATTERNS: &[Pattern] = &[
    &["input_lens", "*"],
    &["output_lens", "*"],
    &["ttfts", "*"],
    &["itls", "*"],
    &["errors", "*"],
    &["start_times", "*"],
    &["model_id"],
];

/// The names of the lists, by the numbers of their patterns.
const LISTS: [&str; 6] = [
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "errors",
    "start_times",
];

/// Requests of one object.
const MAX_REQUESTS: usize = 1 << 24;

pub(super) fn rows(text: Text) -> Box<dyn Rows> {
    Box::new(Results {
        document: Document::new(text, PATTERNS),
        texts: Texts::default(),
        lists: Lists::default(),
        ready: Lists::default(),
        given: 0,
        objects: 0,
        rows: 0,
    })
}

struct Results {
    document: Document,
    texts: Texts,
    lists: Lists,
    /// The lists of the last object that has ended, and how many of its rows are given out.
    ready: Lists,
    given: usize,
    objects: u64,
    rows: u64,
}

/// The lists of one object. Times are nanoseconds.
#[derive(Default)]
struct Lists {
    input: Vec<u64>,
    output: Vec<u64>,
    first: Vec<i64>,
    gaps: Vec<i64>,
    errors: Vec<Option<Arc<str>>>,
    starts: Vec<i64>,
    model: Option<Arc<str>>,
}

impl Iterator for Results {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.given == self.ready.input.len() {
            let read = self.document.next().and_then(|found| match found {
                Some(Found::Part(list)) => self.part(list).map(|()| true),
                Some(Found::End) => self.end().map(|()| true),
                None if self.objects == 0 => Err(empty()),
                None => Ok(false),
            });
            match read {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        self.rows += 1;
        self.given += 1;
        Some(Ok(self.ready.row(self.given - 1, Place::Row(self.rows))))
    }
}

impl Results {
    /// Takes an element of list number `list`.
    fn part(&mut self, list: usize) -> Result<(), TraceError> {
        let raw = self.document.part();
        let place = self.document.place();
        let name = LISTS.get(list).copied().unwrap_or("model_id");
        let bad = |allowed| {
            let index = self.document.index(1);
            let problem = format!(
                "{name}[{index}] is {}: allowed is {allowed}",
                super::super::error::shortened(raw)
            );
            TraceError::broken(place, problem)
        };
        let seconds = |raw: &str| value::nanos(raw, TimeUnit::Seconds);
        let lists = &mut self.lists;
        let taken = match list {
            0 => {
                lists
                    .input
                    .push(value::whole(raw).ok_or_else(|| bad(TOKENS))?);
                lists.input.len()
            }
            1 => {
                lists
                    .output
                    .push(value::whole(raw).ok_or_else(|| bad(TOKENS))?);
                lists.output.len()
            }
            2 => {
                lists.first.push(seconds(raw).ok_or_else(|| bad(TIME))?);
                lists.first.len()
            }
            3 => {
                let gaps: Option<Vec<f64>> = serde_json::from_str(raw).ok();
                let sum = gaps.map(|gaps| gaps.iter().sum());
                let sum = sum.and_then(|sum| value::nanos_of(sum, TimeUnit::Seconds));
                lists
                    .gaps
                    .push(sum.ok_or_else(|| bad("a list of seconds"))?);
                lists.gaps.len()
            }
            4 => {
                let text = match raw {
                    "null" => Some("".into()),
                    _ => json::text(raw),
                };
                let text = text.ok_or_else(|| bad("text"))?;
                lists.errors.push(self.texts.keep(text.trim()));
                lists.errors.len()
            }
            5 => {
                lists.starts.push(seconds(raw).ok_or_else(|| bad(TIME))?);
                lists.starts.len()
            }
            _ => {
                lists.model = json::text(raw).and_then(|text| self.texts.keep(&text));
                0
            }
        };
        if taken > MAX_REQUESTS {
            let problem =
                format!("{name} has more than {MAX_REQUESTS} elements, which is too many");
            return Err(TraceError::broken(place, problem));
        }
        Ok(())
    }

    /// Makes the rows of an object that has ended.
    fn end(&mut self) -> Result<(), TraceError> {
        let lists = core::mem::take(&mut self.lists);
        self.objects += 1;
        let place = self.document.place();
        let count = lists.input.len();
        let lengths = [
            Some(lists.output.len()),
            Some(lists.first.len()).filter(|&len| len > 0),
            Some(lists.gaps.len()).filter(|&len| len > 0),
            Some(lists.errors.len()).filter(|&len| len > 0),
            Some(lists.starts.len()).filter(|&len| len > 0),
        ];
        if count == 0 && lengths[0] == Some(0) {
            let problem = "there is no list input_lens: needed are results of vllm bench serve \
                           --save-result --save-detailed";
            return Err(TraceError::broken(place, problem));
        }
        for (name, length) in LISTS[1..].iter().zip(lengths) {
            if let Some(length) = length.filter(|&length| length != count) {
                let problem = format!("{name} has {length} elements, but input_lens has {count}");
                return Err(TraceError::broken(place, problem));
            }
        }
        (self.ready, self.given) = (lists, 0);
        Ok(())
    }
}

impl Lists {
    fn row(&self, index: usize, place: Place) -> Row {
        let mut row = Row::new(place, self.input[index], self.output[index]);
        row.model.clone_from(&self.model);
        row.fate = match self.errors.get(index) {
            None => Fate::Unknown,
            Some(None) => Fate::Answered,
            Some(Some(why)) => Fate::Failed {
                why: Arc::clone(why),
            },
        };
        let Some(&start) = self.starts.get(index) else {
            return row;
        };
        row.sent = Some(TraceTime::from_nanos(start));
        let after =
            |start: i64, list: &[i64]| list.get(index).and_then(|&span| start.checked_add(span));
        let waited = self.first.get(index).is_some_and(|&wait| wait > 0);
        let first = after(start, &self.first).filter(|_| waited);
        row.first_token = first.map(TraceTime::from_nanos);
        row.finished = first
            .and_then(|first| after(first, &self.gaps))
            .map(TraceTime::from_nanos);
        row
    }
}

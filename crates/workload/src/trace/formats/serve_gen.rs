//! Clients of `ServeGen` (alibaba/ServeGen): not requests but a description of them.
//!
//! A client `N` is two files, `chunk-N-trace.csv` and `chunk-N-dataset.json`; a folder has many. Both are read as a
//! whole, and bounded: a million windows, a dataset of 64 MiB.
//!
//! The trace has a row for each window, with or without a line of names before them:
//!
//! | Column | Meaning |
//! |---|---|
//! | 1 | start of the window, in seconds from the trace's start; windows are in order |
//! | 2 | requests per second in it; 0 is a window without requests |
//! | 3 | coefficient of variation of the gaps between them |
//! | 4 | `Gamma`, `Weibull`, or `Poisson` (also `Exponential`), in any case |
//!
//! Further columns (fitted parameters) are ignored. A window lasts until the next one begins, the last one as long as
//! the one before it; one alone lasts 600 s.
//!
//! The dataset is an object with a key for each window, its start in seconds, whose value has `input_tokens` and
//! `output_tokens`: weights by lengths, as an object (`{"128": 0.25}`) or as text of a Python dictionary
//! (`"{128: 0.25}"`). The lengths of a request are drawn, independently, from the last window that begins at or before
//! its own; requests before the first draw from the first. Other keys are ignored.
//!
//! Rows are what is drawn: gaps of the pattern, anew in each window, from its start; clients are merged in order of
//! time. `tenant` is `client-N`. The same seed draws the same.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foretoken_des_kernel::{RngStreams, SimRng, SimTime};

use super::super::columns::TimeUnit;
use super::super::csv::Fields;
use super::super::json::{self, Object, bare};
use super::super::row::{Place, TraceTime};
use super::super::value;
use super::{Row, Rows, Source, Table, TraceError};
use crate::arrival::{ArrivalProcess, ArrivalSpec};
use crate::dist::Empirical;
use crate::quantity::{Positive, Rate, round_u64};

const TRACE: &str = "-trace.csv";
const DATASET: &str = "-dataset.json";

/// The largest dataset that is read.
const MAX_FILE: u64 = 64 << 20;

/// Windows of one client.
const MAX_WINDOWS: usize = 1_000_000;

/// Seconds of a window that is alone.
const ALONE: u64 = 600;

const NANOS: u64 = 1_000_000_000;

/// Whether a file is called as the trace of a client is.
pub(crate) fn is_named_so(path: &Path) -> bool {
    number_of(path).is_some()
}

/// The number of the client whose trace is called so.
fn number_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix("chunk-")?
        .strip_suffix(TRACE)?
        .parse()
        .ok()
}

pub(super) fn rows(source: Source, seed: u64) -> Result<Box<dyn Rows>, TraceError> {
    let path = source.path;
    let mut traces: Vec<(u32, PathBuf)> = Vec::new();
    if path.is_dir() {
        let entries = fs::read_dir(&path).map_err(|error| TraceError::io(&error))?;
        for entry in entries {
            let entry = entry.map_err(|error| TraceError::io(&error))?.path();
            traces.extend(number_of(&entry).map(|number| (number, entry)));
        }
        traces.sort();
    } else {
        let number = number_of(&path).ok_or_else(|| {
            TraceError::format("the trace of a ServeGen client is called chunk-N-trace.csv")
        })?;
        traces.push((number, path));
    }
    if traces.is_empty() {
        return Err(TraceError::format(
            "a folder without chunk-N-trace.csv: there is no ServeGen client in it",
        ));
    }
    let streams = RngStreams::new(seed, 0);
    let mut clients = Vec::with_capacity(traces.len());
    let mut next = BinaryHeap::with_capacity(traces.len());
    for (index, (number, path)) in traces.into_iter().enumerate() {
        let mut client = Client::read(number, &path, &streams)?;
        next.extend(client.next_arrival().map(|at| Reverse((at, index))));
        clients.push(client);
    }
    Ok(Box::new(Merged {
        clients,
        next,
        made: 0,
    }))
}

/// The requests of all clients, in order of time, and of clients at equal times.
struct Merged {
    clients: Vec<Client>,
    next: BinaryHeap<Reverse<(SimTime, usize)>>,
    made: u64,
}

impl Iterator for Merged {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((at, index)) = self.next.pop()?;
        let client = self.clients.get_mut(index)?;
        self.made += 1;
        let row = client.row(at, Place::Row(self.made));
        let later = client.next_arrival();
        self.next.extend(later.map(|at| Reverse((at, index))));
        Some(Ok(row))
    }
}

/// One client: what it sends, and how far it has come.
struct Client {
    name: Arc<str>,
    windows: Vec<Window>,
    lengths: Vec<Lengths>,
    /// Windows that were begun, and the process of the last of them.
    begun: usize,
    process: Option<Box<dyn ArrivalProcess>>,
    now: SimTime,
    arrivals: SimRng,
    inputs: SimRng,
    outputs: SimRng,
}

/// A window of the trace.
struct Window {
    start: SimTime,
    end: SimTime,
    gaps: Option<ArrivalSpec>,
}

/// Lengths from an instant on.
struct Lengths {
    start: u64,
    input: Empirical<u32>,
    output: Empirical<u32>,
}

impl Client {
    fn read(number: u32, path: &Path, streams: &RngStreams) -> Result<Self, TraceError> {
        let windows = windows(path).map_err(|error| error.in_file(path))?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default().replace(TRACE, DATASET);
        let dataset = path.with_file_name(name);
        let lengths = dataset_of(&dataset).map_err(|error| error.in_file(&dataset))?;
        let stream = |name| streams.stream(name, number.into());
        Ok(Self {
            name: Arc::from(format!("client-{number}")),
            windows,
            lengths,
            begun: 0,
            process: None,
            now: SimTime::ZERO,
            arrivals: stream("serve-gen-arrivals"),
            inputs: stream("serve-gen-inputs"),
            outputs: stream("serve-gen-outputs"),
        })
    }

    /// The arrival after the last one.
    fn next_arrival(&mut self) -> Option<SimTime> {
        loop {
            if let (Some(process), Some(index)) = (&mut self.process, self.begun.checked_sub(1))
                && let Some(at) = process.next_after(self.now, &mut self.arrivals)
                && at < self.windows.get(index)?.end
            {
                self.now = at;
                return Some(at);
            }
            let window = self.windows.get(self.begun)?;
            self.begun += 1;
            self.now = window.start;
            // What cannot be built was refused when it was read.
            self.process = window.gaps.as_ref().and_then(|gaps| gaps.build().ok());
        }
    }

    /// The request at `at`.
    fn row(&mut self, at: SimTime, place: Place) -> Row {
        let seconds = self
            .begun
            .checked_sub(1)
            .and_then(|index| self.windows.get(index))
            .map_or(0, |window| window.start.as_nanos() / NANOS);
        let after = self
            .lengths
            .partition_point(|lengths| lengths.start <= seconds);
        let lengths = &self.lengths[after.saturating_sub(1)];
        let input = *lengths.input.sample(&mut self.inputs);
        let output = *lengths.output.sample(&mut self.outputs);
        let mut row = Row::new(place, input.into(), output.into());
        row.sent = i64::try_from(at.as_nanos()).ok().map(TraceTime::from_nanos);
        row.tenant = Some(Arc::clone(&self.name));
        row
    }
}

/// The windows of the trace at `path`.
fn windows(path: &Path) -> Result<Vec<Window>, TraceError> {
    let mut table = Table::headless(Source::open(path)?.into_text()?);
    let mut windows: Vec<Window> = Vec::new();
    let mut first = true;
    while let Some(fields) = table.next()? {
        let heading = first && value::number(fields.get(0)).is_none();
        first = false;
        if heading {
            continue;
        }
        let window = window(fields)?;
        if let Some(last) = windows.last_mut() {
            if window.start <= last.start {
                let allowed = "a start after that of the window before";
                let start = fields.get(0);
                return Err(TraceError::bad(fields.place(), "column 1", start, allowed));
            }
            last.end = window.start;
        }
        if windows.len() == MAX_WINDOWS {
            let problem = "more than a million windows, which is too many";
            return Err(TraceError::broken(fields.place(), problem));
        }
        windows.push(window);
    }
    let lasts = match &*windows {
        [] => {
            return Err(TraceError::broken(
                Place::Line(1),
                "there is no window: needed is a row of start, rate, cv and pattern",
            ));
        }
        [_] => ALONE * NANOS,
        [.., before, last] => last.start.as_nanos() - before.start.as_nanos(),
    };
    if let Some(last) = windows.last_mut() {
        let end = last.start.as_nanos().saturating_add(lasts);
        last.end = SimTime::from_nanos(end);
    }
    Ok(windows)
}

/// A row of a trace.
fn window(fields: Fields<'_>) -> Result<Window, TraceError> {
    let bad = |index: usize, allowed: &str| {
        let column = format!("column {}", index + 1);
        TraceError::bad(fields.place(), &column, fields.get(index), allowed)
    };
    if fields.len() < 4 {
        return Err(TraceError::bad(
            fields.place(),
            "the number of fields",
            &fields.len().to_string(),
            "at least 4: start, rate, cv, pattern",
        ));
    }
    let start = value::nanos(fields.get(0), TimeUnit::Seconds)
        .and_then(|nanos| u64::try_from(nanos).ok())
        .ok_or_else(|| bad(0, "seconds, from 0"))?;
    let start = SimTime::from_nanos(start);
    let rate = value::number(fields.get(1)).ok_or_else(|| bad(1, "requests per second"))?;
    let gaps = if rate == 0.0 {
        None
    } else {
        let rate = Rate::new(rate).map_err(|_| bad(1, "0, or above 0 and at most 1e6"))?;
        let cv = || {
            let cv = value::number(fields.get(2)).and_then(|cv| Positive::new(cv).ok());
            cv.ok_or_else(|| bad(2, "a number above 0"))
        };
        let spec = match fields.get(3).trim().to_ascii_lowercase().as_str() {
            "gamma" => ArrivalSpec::Gamma { rate, cv: cv()? },
            "weibull" => ArrivalSpec::Weibull { rate, cv: cv()? },
            "poisson" | "exponential" => ArrivalSpec::Poisson { rate },
            _ => return Err(bad(3, "Gamma, Weibull or Poisson")),
        };
        spec.build().map_err(|_| bad(2, "0.01 to 100"))?;
        Some(spec)
    };
    Ok(Window {
        start,
        end: start,
        gaps,
    })
}

/// The lengths in the dataset at `path`, in order of time.
fn dataset_of(path: &Path) -> Result<Vec<Lengths>, TraceError> {
    let file = fs::File::open(path).map_err(|error| TraceError::io(&error))?;
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text);
    let read = read.map_err(|error| TraceError::io(&error))?;
    if read as u64 > MAX_FILE {
        return Err(TraceError::format("the dataset is larger than 64 MiB"));
    }
    let mut all = Vec::new();
    let mut element = 0;
    json::each(&text, Place::Row(1), |key, window| {
        element += 1;
        let place = Place::Row(element);
        let seconds =
            value::nanos(key, TimeUnit::Seconds).and_then(|nanos| u64::try_from(nanos).ok());
        let start = seconds.ok_or_else(|| {
            TraceError::bad(
                place,
                "the key of a window",
                key,
                "its start in seconds, from 0",
            )
        })?;
        let window = Object::parse(window.get(), &["input_tokens", "output_tokens"], place)?;
        all.push(Lengths {
            start: start / NANOS,
            input: weights(&window, 0)?,
            output: weights(&window, 1)?,
        });
        Ok(())
    })?;
    all.sort_by_key(|lengths| lengths.start);
    if all.is_empty() {
        return Err(TraceError::broken(
            Place::Row(1),
            "the dataset has no window",
        ));
    }
    Ok(all)
}

/// Lengths with weights: those of value `index` of a window.
fn weights(window: &Object<'_, 2>, index: usize) -> Result<Empirical<u32>, TraceError> {
    let allowed = "weights by lengths, with a finite weight above 0";
    let bad = || window.bad(index, allowed);
    let raw = window.raw(index).ok_or_else(bad)?;
    let mut weights: BTreeMap<u32, f64> = BTreeMap::new();
    let mut add = |length: &str, weight: &str| {
        let length = u32::try_from(value::whole(length)?).ok()?;
        let weight = value::number(weight).filter(|&weight| weight >= 0.0)?;
        *weights.entry(length).or_default() += weight;
        Some(())
    };
    if raw.starts_with('"') {
        let text = json::text(raw).ok_or_else(bad)?;
        let inside = text
            .trim()
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .ok_or_else(bad)?;
        for pair in inside.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (length, weight) = pair.split_once(':').ok_or_else(bad)?;
            let length = length.trim().trim_matches(['\'', '"']);
            add(length, weight).ok_or_else(bad)?;
        }
    } else {
        json::each(raw, window.place(), |length, weight| {
            add(length, bare(weight.get())).ok_or_else(bad)
        })?;
    }
    let sum: f64 = weights.values().sum();
    if !sum.is_finite() {
        return Err(bad());
    }
    // Weights are shares of 2^48, to the nearest: finer than any count of requests.
    let share = |weight: f64| round_u64(weight / sum * 281_474_976_710_656.0);
    let weights = weights
        .into_iter()
        .map(|(length, weight)| (length, share(weight)));
    Empirical::new(weights).map_err(|_| bad())
}
